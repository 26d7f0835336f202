//! The first bytes of a file, taken apart.

use forebay::{
    Error, ErrorKind, Result,
    source::SourceExt,
    source::{ByteRange, Source},
};

/// How every file begins.
pub(crate) const MAGIC: &[u8; 8] = b"DETFRAME";
/// Bytes of the header.
pub(crate) const HEADER_LEN: u64 = 32;
/// Bytes of the stamp before each raw frame.
pub(crate) const STAMP_LEN: u64 = 8;
/// Bytes of what the table says of each packed frame.
pub(crate) const ENTRY_LEN: u64 = 16;

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) is_packed: bool,
    pub(crate) frame_count: u64,
    pub(crate) height: u64,
    pub(crate) width: u64,
}

impl Header {
    /// The header of `file`. A file that claims more than it is long is refused here, so that nobody makes room for it.
    pub(crate) fn read(file: &dyn Source) -> Result<Self> {
        let file_len = file.id().len;
        let bytes = file.fetch_one(ByteRange::checked(0, HEADER_LEN, file_len)?)?;
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, what);
        let number = |at: usize, len: usize| {
            bytes[at..at + len].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        if number(8, 4) != 1 {
            let error = Error::new(ErrorKind::Unsupported, format!("version {}", number(8, 4)));
            return Err(error.at("offset 0x8").hint("version 1 is read"));
        }
        if number(12, 4) > 1 {
            return Err(corrupt(format!("packing {}", number(12, 4)))
                .at("offset 0xc")
                .hint("restore the file"));
        }
        let header = Self {
            is_packed: number(12, 4) == 1,
            frame_count: number(16, 8),
            height: number(24, 4),
            width: number(28, 4),
        };
        let each = if header.is_packed { ENTRY_LEN } else { header.record_len() };
        let claimed = header.frame_count.checked_mul(each).and_then(|len| len.checked_add(HEADER_LEN));
        if claimed.is_none_or(|claimed| claimed > file_len) {
            let what = format!("{} frames of {each} bytes in a file of {file_len}", header.frame_count);
            return Err(corrupt(what).at("offset 0x10").hint("restore the file"));
        }
        Ok(header)
    }

    /// Bytes of one frame: two 32-bit numbers and a factor of two always fit.
    pub(crate) fn frame_len(&self) -> u64 {
        (self.height * self.width).saturating_mul(2)
    }

    /// Bytes of a raw frame and its stamp.
    pub(crate) fn record_len(&self) -> u64 {
        self.frame_len().saturating_add(STAMP_LEN)
    }
}
