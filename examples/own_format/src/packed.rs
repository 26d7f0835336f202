//! Frames that have to be unpacked: their reader.

use forebay::{
    Array, Error, ErrorKind, Result, Values,
    format::{ReadRequest, Reader},
    source::{ByteRange, Source, SourceExt},
};

use crate::header::{ENTRY_LEN, HEADER_LEN, Header};

/// What the description calls the reader.
pub(crate) const READER: &str = "detector-frames";

/// Unpacks frames: each is a list of runs, a count (1 byte) and the 16-bit value that is repeated.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackedFrames;

impl Reader for PackedFrames {
    fn name(&self) -> &str {
        READER
    }

    /// Many threads call at once: there is nothing here that they share.
    fn read(&self, wanted: &ReadRequest<'_>) -> Result<Array> {
        // By forebay's own source: it knows remote files and tiers, and that the file is still the one described.
        let file = wanted.opened.source(wanted.opaque.source)?;
        let header = Header::read(file)?;
        let [frames, rows, columns] = wanted.selection.spans() else {
            return Err(Error::new(ErrorKind::Bug, "frames have three axes"));
        };
        let mut bytes = Vec::new();
        for step in 0..frames.count {
            let number = frames.start + step * frames.step;
            let frame = frame(file, &header, number).map_err(|error| error.at(format!("frame {number}")))?;
            for row in 0..rows.count {
                for column in 0..columns.count {
                    let (y, x) = (rows.start + row * rows.step, columns.start + column * columns.step);
                    let at = usize::try_from(y * header.width + x).unwrap_or(usize::MAX);
                    bytes.extend(frame.get(at).copied().unwrap_or_default().to_ne_bytes());
                }
            }
        }
        let shape = wanted.selection.shape();
        Ok(Array { dtype: wanted.variable.dtype.clone(), shape, values: Values::Fixed(bytes) })
    }
}

/// The counts of frame `number`.
fn frame(file: &dyn Source, header: &Header, number: u64) -> Result<Vec<u16>> {
    let at = HEADER_LEN + number.saturating_mul(ENTRY_LEN);
    let entry = file.fetch_one(ByteRange::checked(at, ENTRY_LEN, file.id().len)?)?;
    let (offset, len) = entry.split_at(8);
    let [offset, len] =
        [offset, len].map(|half| half.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)));
    let place = |error: Error| error.at(format!("{len} bytes at {offset:#x}"));
    let runs = file.fetch_one(ByteRange::checked(offset, len, file.id().len).map_err(place)?)?;
    unpack(&runs, header.height * header.width).map_err(place)
}

/// The values of `runs`, which are `wanted`: what a file says is compared before room is made for it.
fn unpack(runs: &[u8], wanted: u64) -> Result<Vec<u16>> {
    let corrupt = |what: String| Error::new(ErrorKind::Corrupt, what).hint("restore the file");
    let held: u64 = runs.chunks(3).map(|run| u64::from(run[0])).sum();
    if !runs.len().is_multiple_of(3) || held != wanted {
        return Err(corrupt(format!(
            "{} bytes of runs give {held} values where {wanted} belong",
            runs.len()
        )));
    }
    let repeated = |run: &[u8]| std::iter::repeat_n(u16::from_le_bytes([run[1], run[2]]), run[0].into());
    Ok(runs.chunks_exact(3).flat_map(repeated).collect())
}

/// The runs of `values`.
pub(crate) fn pack(values: &[u16]) -> Vec<u8> {
    let same = values.chunk_by(|one, next| one == next).flat_map(|same| same.chunks(usize::from(u8::MAX)));
    let run = |same: &[u16]| {
        let [low, high] = same[0].to_le_bytes();
        [u8::try_from(same.len()).unwrap_or(u8::MAX), low, high]
    };
    same.flat_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let values: Vec<u16> = (0..2000).map(|at| at / 700 * 300).collect();
        assert_eq!(unpack(&pack(&values), 2000).unwrap(), values);
        assert_eq!(unpack(&pack(&values), 1999).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(unpack(&[1, 2], 1).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
