//! What is said of streams that cannot be decoded.

use std::fmt;

use forebay_process::{Error, Result};

/// The error for a filter, or a kind of stream, that cannot be undone.
pub(crate) fn unsupported(what: impl Into<String>) -> Error {
    Error::unsupported(what).hint("rewrite the variable with h5repack or h5py using gzip, zstd, lz4 or blosc")
}

/// The error for a stream that holds less than it says.
pub(crate) fn ended_early() -> Error {
    Error::corrupt("stream ends early")
}

/// The error for an output that is too short.
pub(crate) fn too_long() -> Error {
    Error::corrupt("decodes to more bytes than the chunk holds").because(TooLong)
}

/// True when `error` says that the output was too short for what a filter gives: more room might mend it.
pub fn is_too_long(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<TooLong>())
}

/// Copies all of `input` to the front of `out`.
pub(crate) fn copy_whole(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let front = out.get_mut(..input.len()).ok_or_else(too_long)?;
    front.copy_from_slice(input);
    Ok(input.len())
}

/// The cause that tells [`too_long`] from other errors.
#[derive(Debug)]
struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room is left")
    }
}

impl std::error::Error for TooLong {}
