//! Reads a classic header from front to back: big-endian numbers, names and lists.

use forebay_filter::{ByteCursor, ByteOrder, escaped_text};
use forebay_process::{Error, ErrorKind};

/// Why reading a header stopped.
#[derive(Debug)]
pub(super) enum HeaderStop {
    /// The header goes on: at least this many bytes of the file are needed.
    Short(u64),
    /// The header breaks its format.
    Bad(Error),
}

/// What reading a part of a header gives.
pub(super) type HeaderResult<T> = Result<T, HeaderStop>;

/// The error for bytes that break the format.
pub(super) fn corrupt(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, what).hint("the file is damaged; restore it from its source")
}

/// Which of the classic formats: how wide its counts and offsets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    /// CDF-1: counts and offsets of 32 bits.
    Classic,
    /// CDF-2: counts of 32 bits, offsets of 64.
    Offset64,
    /// CDF-5: counts and offsets of 64 bits.
    Data64,
}

/// A place in the first bytes of a file.
#[derive(Debug)]
pub(super) struct HeaderCursor<'a> {
    bytes: ByteCursor<'a>,
    flavour: Flavour,
}

impl<'a> HeaderCursor<'a> {
    /// Stands after the four letters that say which of the formats it is.
    pub(super) fn new(bytes: &'a [u8]) -> HeaderResult<Self> {
        let flavour = match bytes.get(..4) {
            None => return Err(HeaderStop::Short(4)),
            Some([b'C', b'D', b'F', 1]) => Flavour::Classic,
            Some([b'C', b'D', b'F', 2]) => Flavour::Offset64,
            Some([b'C', b'D', b'F', 5]) => Flavour::Data64,
            Some(other) => {
                return Err(HeaderStop::Bad(corrupt(format!(
                    "'CDF' and 1, 2 or 5 expected, found {other:02x?}"
                ))));
            }
        };
        let mut bytes = ByteCursor::new(bytes, ByteOrder::Big);
        bytes.skip(4).map_err(HeaderStop::Bad)?;
        Ok(Self { bytes, flavour })
    }

    /// Bytes passed so far.
    pub(super) fn at(&self) -> u64 {
        self.bytes.position() as u64
    }

    /// An error at this place.
    pub(super) fn bad(&self, what: impl Into<String>) -> HeaderStop {
        HeaderStop::Bad(corrupt(what).at(format!("header at {:#x}", self.at())))
    }

    /// Passes `len` bytes.
    pub(super) fn take(&mut self, len: u64) -> HeaderResult<&'a [u8]> {
        let Some(end) = self.at().checked_add(len) else {
            return Err(self.bad(format!("{len} bytes, more than any file has")));
        };
        self.bytes.take(len).map_err(|_| HeaderStop::Short(end))
    }

    /// Passes `len` bytes and what fills up the last four of them.
    pub(super) fn padded(&mut self, len: u64) -> HeaderResult<&'a [u8]> {
        let bytes = self.take(len)?;
        self.take((4 - len % 4) % 4)?;
        Ok(bytes)
    }

    /// A number of 32 bits.
    pub(super) fn word(&mut self) -> HeaderResult<u32> {
        self.bytes.u32().map_err(|_| HeaderStop::Short(self.at() + 4))
    }

    fn double_word(&mut self) -> HeaderResult<u64> {
        self.bytes.u64().map_err(|_| HeaderStop::Short(self.at() + 8))
    }

    /// A count or a length.
    pub(super) fn count(&mut self) -> HeaderResult<u64> {
        match self.flavour {
            Flavour::Data64 => self.double_word(),
            Flavour::Classic | Flavour::Offset64 => Ok(self.word()?.into()),
        }
    }

    /// How many records there are; `None` where the file's length tells it.
    pub(super) fn record_count(&mut self) -> HeaderResult<Option<u64>> {
        let unknown = match self.flavour {
            Flavour::Data64 => u64::MAX,
            Flavour::Classic | Flavour::Offset64 => u32::MAX.into(),
        };
        Ok(Some(self.count()?).filter(|count| *count != unknown))
    }

    /// A place in the file.
    pub(super) fn offset(&mut self) -> HeaderResult<u64> {
        match self.flavour {
            Flavour::Classic => Ok(self.word()?.into()),
            Flavour::Offset64 | Flavour::Data64 => self.double_word(),
        }
    }

    /// A name, which a NUL ends as it does in the C library; bytes that are not UTF-8 are shown as `\xNN`.
    pub(super) fn name(&mut self) -> HeaderResult<String> {
        let len = self.count()?;
        let bytes = self.padded(len)?.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(escaped_text(bytes))
    }

    /// The start of a list whose items are announced by `tag`: how many there are.
    pub(super) fn list(&mut self, tag: u32, what: &str) -> HeaderResult<u64> {
        let (found, count) = (self.word()?, self.count()?);
        if found == tag || (found == 0 && count == 0) {
            return Ok(count);
        }
        Err(self.bad(format!("a list of {what} is marked {tag:#x}, here is {found:#x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_goes_on_says_how_much_is_needed() {
        let mut cursor = HeaderCursor::new(b"CDF\x01\0\0").unwrap();
        assert!(matches!(cursor.word(), Err(HeaderStop::Short(8))));
        let mut cursor = HeaderCursor::new(b"CDF\x05").unwrap();
        assert!(matches!(cursor.take(u64::MAX), Err(HeaderStop::Bad(_))));
    }

    #[test]
    fn a_nul_ends_a_name() {
        let mut cursor = HeaderCursor::new(b"CDF\x01\0\0\0\x03yy\0\0").unwrap();
        assert_eq!(cursor.name().unwrap(), "yy");
    }

    #[test]
    fn names_are_padded_to_four_bytes_and_lists_are_marked() {
        let mut cursor =
            HeaderCursor::new(b"CDF\x01\0\0\0\x03abc\0\0\0\0\x0a\0\0\0\x02\0\0\0\0\0\0\0\x01").unwrap();
        assert_eq!(cursor.name().unwrap(), "abc");
        assert_eq!(cursor.list(10, "dimensions").unwrap(), 2);
        assert!(matches!(cursor.list(12, "attributes"), Err(HeaderStop::Bad(_))));
    }
}
