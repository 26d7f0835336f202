//! Bytes of an index, read one after another: nothing is trusted, and every mistake has its place.

use forebay_source::{Error, Result};

use forebay_container::ByteOrder;

/// A place in some bytes, and the order of the numbers there.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl<'a> Cursor<'a> {
    /// The start of `bytes`.
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, at: 0, order }
    }

    /// `len` bytes from `start` on of `bytes`; places are counted from the start of all.
    pub(super) fn part(bytes: &'a [u8], start: u64, len: u64, order: ByteOrder) -> Result<Self> {
        let mut cursor = Self::new(bytes, order);
        cursor.take(start)?;
        cursor.inner(len)
    }

    /// Bytes that were passed, counted from the start of all.
    pub(super) fn position(&self) -> u64 {
        self.at as u64
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        match end.and_then(|end| self.bytes.get(self.at..end).map(|bytes| (bytes, end))) {
            Some((bytes, end)) => {
                self.at = end;
                Ok(bytes)
            }
            None => {
                let what = format!("{len} bytes wanted at {:#x}, {} there", self.at, self.left());
                Err(Error::corrupt(what))
            }
        }
    }

    /// The next `len` bytes, as a cursor of their own.
    pub(super) fn inner(&mut self, len: u64) -> Result<Self> {
        let start = self.at;
        self.take(len)?;
        Ok(Self { bytes: &self.bytes[..self.at], at: start, order: self.order })
    }

    /// An unsigned number `len` bytes long, of at most 8.
    fn number(&mut self, len: u64) -> Result<u64> {
        Ok(number(self.take(len)?, self.order))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u64> {
        self.number(2)
    }

    pub(super) fn u32(&mut self) -> Result<u64> {
        self.number(4)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.number(8)
    }

    /// A text whose length stands before it in two bytes.
    pub(super) fn text(&mut self) -> Result<String> {
        let len = self.u16()?;
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }
}

/// The unsigned number in `bytes`, of which there are at most 8.
pub(super) fn number(bytes: &[u8], order: ByteOrder) -> u64 {
    let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, join),
        ByteOrder::Big => bytes.iter().fold(0, join),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_either_order_and_not_past_the_end() {
        let bytes = [1, 2, 0, 3, 1, 0, b'x'];
        let mut cursor = Cursor::new(&bytes, ByteOrder::Little);
        assert_eq!((cursor.u8().unwrap(), cursor.u16().unwrap()), (1, 2));
        assert_eq!(cursor.clone().u8().unwrap(), 3);
        let error = cursor.clone().u64().unwrap_err().to_string();
        assert!(error.contains("8 bytes wanted at 0x3, 4 there"), "{error}");
        cursor.u8().unwrap();
        assert_eq!(cursor.text().unwrap(), "x");
        assert_eq!(Cursor::new(&bytes[1..], ByteOrder::Big).u16().unwrap(), 0x200);
    }

    #[test]
    fn a_part_ends_where_it_ends() {
        let bytes = [0, 1, 2, 3];
        let mut part = Cursor::part(&bytes, 1, 2, ByteOrder::Little).unwrap();
        assert_eq!((part.position(), part.u16().unwrap(), part.left()), (1, 0x201, 0));
        assert!(part.u8().is_err());
        assert!(Cursor::part(&bytes, 3, 2, ByteOrder::Little).is_err());
        assert!(Cursor::part(&bytes, u64::MAX, 2, ByteOrder::Little).is_err());
    }
}
