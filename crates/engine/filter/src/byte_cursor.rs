//! Reading numbers and runs of bytes, bounds-checked: bytes may lie about how many they are.

use std::fmt::Display;

use forebay_process::{Error, Result};

use crate::ByteOrder;

/// A place in some bytes, moved forward by what is read; an error names the offset.
#[derive(Clone, Debug)]
pub struct ByteCursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl<'a> ByteCursor<'a> {
    /// The start of `bytes`, whose numbers are stored in `order`.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, at: 0, order }
    }

    /// `len` bytes from `start` on of `bytes`; offsets are counted from the start of `bytes`.
    pub fn part(bytes: &'a [u8], start: u64, len: u64, order: ByteOrder) -> Result<Self> {
        let mut cursor = Self::new(bytes, order);
        cursor.take(start)?;
        cursor.inner(len)
    }

    /// Bytes that were passed.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// True when none are left.
    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// What was read so far.
    pub fn passed(&self) -> &'a [u8] {
        &self.bytes[..self.at]
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: impl TryInto<usize> + Copy + Display) -> Result<&'a [u8]> {
        let taken = len.try_into().ok().and_then(|len| self.rest().get(..len));
        let taken = taken.ok_or_else(|| self.ended(&len))?;
        self.at += taken.len();
        Ok(taken)
    }

    /// Passes `len` bytes.
    pub fn skip(&mut self, len: impl TryInto<usize> + Copy + Display) -> Result<()> {
        self.take(len).map(drop)
    }

    /// The next `len` bytes, as a cursor of their own.
    pub fn inner(&mut self, len: impl TryInto<usize> + Copy + Display) -> Result<Self> {
        let start = self.at;
        self.take(len)?;
        Ok(Self { bytes: &self.bytes[..self.at], at: start, order: self.order })
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = *self.rest().first_chunk().ok_or_else(|| self.ended(&N))?;
        self.at += N;
        Ok(taken)
    }

    /// A byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of 16 bits.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(if self.order == ByteOrder::Big { u16::from_be_bytes } else { u16::from_le_bytes })
    }

    /// A number of 32 bits.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(if self.order == ByteOrder::Big { u32::from_be_bytes } else { u32::from_le_bytes })
    }

    /// A number of 64 bits.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(if self.order == ByteOrder::Big { u64::from_be_bytes } else { u64::from_le_bytes })
    }

    /// A number `len` bytes long, which is less than 2^64.
    pub fn uint(&mut self, len: usize) -> Result<u64> {
        let bytes = self.take(len)?;
        let spare = len.saturating_sub(8);
        let (high, low) = match self.order {
            ByteOrder::Big => bytes.split_at(spare),
            ByteOrder::Little => {
                let (low, high) = bytes.split_at(len - spare);
                (high, low)
            }
        };
        if high.iter().any(|byte| *byte != 0) {
            return Err(Error::corrupt("a number larger than 64 bits"));
        }
        Ok(uint(low, self.order))
    }

    /// Bytes up to a NUL, which is passed too.
    pub fn until_nul(&mut self) -> Result<&'a [u8]> {
        let len = self.rest().iter().position(|byte| *byte == 0);
        let len = len.ok_or_else(|| Error::corrupt("a name without an end"))?;
        let name = self.take(len)?;
        self.at += 1;
        Ok(name)
    }

    #[cold]
    fn ended(&self, len: &dyn Display) -> Error {
        Error::corrupt(format!("{len} bytes wanted at {:#x}, {} there", self.at, self.left()))
    }
}

/// The unsigned number in `bytes`, of which there are at most 8.
pub fn uint(bytes: &[u8], order: ByteOrder) -> u64 {
    let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, join),
        ByteOrder::Big => bytes.iter().fold(0, join),
    }
}

/// Text as a file gives it; bytes that are not UTF-8 are shown as `\xNN`.
pub fn escaped_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_past_the_end_is_an_error_and_moves_nothing() {
        let mut cursor = ByteCursor::new(&[1, 2, 3], ByteOrder::Big);
        assert_eq!(cursor.u16().unwrap(), 0x0102);
        assert!(cursor.u32().is_err() && cursor.take(2).is_err() && cursor.take(u64::MAX).is_err());
        assert_eq!((cursor.rest(), cursor.passed()), (&[3][..], &[1, 2][..]));
        let error = cursor.u64().unwrap_err().to_string();
        assert!(error.contains("8 bytes wanted at 0x2, 1 there"), "{error}");
        assert_eq!(cursor.u8().unwrap(), 3);
        assert!(cursor.is_empty());
    }

    #[test]
    fn numbers_of_any_length_are_read_in_either_order() {
        let bytes = [1, 2, 0, 3];
        assert_eq!(ByteCursor::new(&bytes, ByteOrder::Little).uint(3).unwrap(), 0x201);
        assert_eq!(ByteCursor::new(&bytes, ByteOrder::Big).uint(3).unwrap(), 0x1_0200);
        let long = [7, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(ByteCursor::new(&long, ByteOrder::Little).uint(10).unwrap(), 7);
        assert!(ByteCursor::new(&long, ByteOrder::Big).uint(10).is_err());
    }

    #[test]
    fn a_part_ends_where_it_ends() {
        let bytes = [0, 1, 2, 3];
        let mut part = ByteCursor::part(&bytes, 1, 2, ByteOrder::Little).unwrap();
        assert_eq!((part.position(), part.u16().unwrap(), part.left()), (1, 0x201, 0));
        assert!(part.u8().is_err());
        assert!(ByteCursor::part(&bytes, 3, 2, ByteOrder::Little).is_err());
        assert!(ByteCursor::part(&bytes, u64::MAX, 2, ByteOrder::Little).is_err());
    }

    #[test]
    fn a_name_ends_at_a_nul_and_keeps_bytes_that_are_not_utf8_visible() {
        assert_eq!(escaped_text(b"caf\xe9 \xc3\xa9"), "caf\\xe9 é");
        let mut cursor = ByteCursor::new(b"ab\0c", ByteOrder::Big);
        assert_eq!((cursor.until_nul().unwrap(), cursor.rest()), (&b"ab"[..], &b"c"[..]));
        assert!(cursor.until_nul().is_err());
    }
}
