//! The first 64 bytes of `md.idx`: by them a folder is known.

use forebay_process::Result;
use forebay_source::{ByteRange, SourceExt};

use crate::Found;
use forebay_container::ByteOrder;

/// What stands at the start of `md.idx`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// 4 or 5.
    pub(super) version: u8,
    /// Rises when BP5 changes.
    pub(super) minor: u8,
    pub(super) order: ByteOrder,
    /// BP5: true where axes are in Fortran's order.
    pub(super) is_column_major: bool,
}

impl Head {
    /// Its length.
    pub(super) const LEN: u64 = 64;

    /// The head of the folder that was found, if it is one of ADIOS2's.
    pub(super) fn of(found: &Found<'_>) -> Result<Option<Self>> {
        if found.file.is_some() {
            return Ok(None);
        }
        let Some(table) = found.inside("md.idx")? else { return Ok(None) };
        if table.id().len < Self::LEN {
            return Ok(None);
        }
        let bytes = table.fetch_one(ByteRange::at(0, Self::LEN))?;
        Ok(Self::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        // Versions write different words into the first 32 bytes, this one all of them; then their own number in digits.
        let is_known = bytes[..32].windows(5).any(|word| word == b"ADIOS");
        let order = match bytes[36] {
            0 => ByteOrder::Little,
            1 => ByteOrder::Big,
            _ => return None,
        };
        let version = bytes[37];
        let (minor, is_column_major) = (bytes[38], bytes[40] == b'y');
        (is_known && matches!(version, 4 | 5)).then_some(Self { version, minor, order, is_column_major })
    }
}
