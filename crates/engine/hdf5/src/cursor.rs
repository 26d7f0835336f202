//! Reads numbers from metadata bytes, checked at every step.

use std::ops::{Deref, DerefMut};

pub(crate) use forebay_filter::escaped_text as text;
use forebay_filter::{ByteCursor, ByteOrder};
use forebay_process::{Error, Result};

/// How many bytes a file uses for addresses and for lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldSizes {
    pub(crate) offset: u8,
    pub(crate) length: u8,
}

/// A place in HDF5's metadata, where addresses and lengths are as long as the file says.
#[derive(Clone, Debug)]
pub(crate) struct MetadataCursor<'a> {
    bytes: ByteCursor<'a>,
    pub(crate) sizes: FieldSizes,
}

impl<'a> Deref for MetadataCursor<'a> {
    type Target = ByteCursor<'a>;

    fn deref(&self) -> &ByteCursor<'a> {
        &self.bytes
    }
}

impl DerefMut for MetadataCursor<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bytes
    }
}

impl<'a> MetadataCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], sizes: FieldSizes) -> Self {
        Self { bytes: ByteCursor::new(bytes, ByteOrder::Little), sizes }
    }

    /// A length.
    pub(crate) fn length(&mut self) -> Result<u64> {
        let len = usize::from(self.sizes.length);
        self.uint(len)
    }

    /// A length, `None` when it is the format's "undefined".
    pub(crate) fn optional_length(&mut self) -> Result<Option<u64>> {
        let len = usize::from(self.sizes.length);
        self.defined(len)
    }

    /// An address, `None` when it is the format's "undefined".
    pub(crate) fn address(&mut self) -> Result<Option<u64>> {
        let len = usize::from(self.sizes.offset);
        self.defined(len)
    }

    fn defined(&mut self, len: usize) -> Result<Option<u64>> {
        let undefined = self.rest().get(..len).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0xff));
        if undefined {
            self.skip(len)?;
            return Ok(None);
        }
        self.uint(len).map(Some)
    }

    /// An address that must be there.
    pub(crate) fn some_address(&mut self, what: &str) -> Result<u64> {
        self.address()?.ok_or_else(|| Error::corrupt(format!("the address of {what} is undefined")))
    }

    /// Passes the four letters that mark a structure.
    pub(crate) fn signature(&mut self, wanted: &[u8; 4]) -> Result<()> {
        let found = self.take(4)?;
        if found == wanted {
            return Ok(());
        }
        let wanted = String::from_utf8_lossy(wanted);
        Err(Error::corrupt(format!("'{wanted}' expected, found {:02x?}", found)))
    }

    /// Passes a version byte that must be `wanted`.
    pub(crate) fn version(&mut self, wanted: u8, what: &str) -> Result<()> {
        match self.u8()? {
            version if version == wanted => Ok(()),
            version => Err(Error::unsupported(format!(
                "{what} of version {version}, which this build does not know"
            ))),
        }
    }

    /// Passes a checksum over everything before it.
    pub(crate) fn checksum(&mut self, what: &str) -> Result<()> {
        let sum = lookup3(self.passed());
        if self.u32()? == sum || cfg!(fuzzing) {
            return Ok(());
        }
        Err(Error::corrupt(format!("bad checksum of {what}"))
            .hint("the file is damaged; restore it from its source"))
    }
}

/// Jenkins's lookup3 hash, the checksum of HDF5's metadata.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(0));
    let [mut a, mut b, mut c] = [start; 3];
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let part = |from: usize| word(&rest[from.min(rest.len())..(from + 4).min(rest.len())]);
    a = a.wrapping_add(part(0));
    b = b.wrapping_add(part(4));
    c = c.wrapping_add(part(8));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// Bytes that hold every number up to `limit`.
pub(crate) fn bytes_for(limit: u64) -> usize {
    (limit.max(1).ilog2() / 8 + 1) as usize
}

#[cfg(test)]
mod tests {
    use forebay_process::ErrorKind;

    use super::*;

    const SIZES: FieldSizes = FieldSizes { offset: 4, length: 8 };

    #[test]
    fn the_hash_agrees_with_its_published_values() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn an_address_of_ones_is_undefined_and_a_short_one_corrupt() {
        assert_eq!(MetadataCursor::new(&[0xff; 4], SIZES).address().unwrap(), None);
        assert_eq!(MetadataCursor::new(&[1, 2, 0, 0], SIZES).address().unwrap(), Some(0x201));
        assert_eq!(MetadataCursor::new(&[1, 2], SIZES).address().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
