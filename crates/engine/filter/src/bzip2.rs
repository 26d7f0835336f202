//! Filter 307: a bzip2 stream.

use bzip2::{Decompress, Status};
use forebay_process::{Error, Result};

use crate::error::{ended_early, too_long};

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut decompress = Decompress::new(false);
    let mut len = 0;
    loop {
        let taken = usize::try_from(decompress.total_in()).map_err(|_| too_long())?;
        let rest = input.get(taken..).ok_or_else(ended_early)?;
        let status = decompress
            .decompress(rest, &mut out[len..])
            .map_err(|error| Error::corrupt("stream is not bzip2 or is damaged").because(error))?;
        let total = usize::try_from(decompress.total_out()).map_err(|_| too_long())?;
        if matches!(status, Status::StreamEnd) {
            return Ok(total);
        }
        if total == len && decompress.total_in() == taken as u64 {
            return Err(if len == out.len() { too_long() } else { ended_early() });
        }
        len = total.min(out.len());
    }
}
