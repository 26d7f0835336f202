//! The fill value messages: what an element that was never written reads as.

use forebay_process::{Error, Result};

use super::super::{
    cursor::{FieldSizes, MetadataCursor},
    header::ObjectHeader,
};

/// The stored bytes of the fill value; empty means zeros.
pub(crate) fn parse(header: &ObjectHeader, sizes: FieldSizes) -> Result<Vec<u8>> {
    if let Some(message) = header.find(super::FILL) {
        return parse_new(MetadataCursor::new(&message.body, sizes));
    }
    let Some(message) = header.find(super::OLD_FILL) else { return Ok(Vec::new()) };
    let mut cursor = MetadataCursor::new(&message.body, sizes);
    let len = cursor.u32()? as usize;
    Ok(cursor.take(len)?.to_vec())
}

/// The writer asked that the fill value never be given out: h5py then reads zeros.
const NEVER: u8 = 1;

fn parse_new(mut cursor: MetadataCursor<'_>) -> Result<Vec<u8>> {
    let (is_defined, when) = match cursor.u8()? {
        version @ (1 | 2) => {
            cursor.skip(1)?;
            let when = cursor.u8()?;
            (cursor.u8()? != 0 || version == 1, when)
        }
        3 => {
            let flags = cursor.u8()?;
            (flags & 0x20 != 0, flags >> 2 & 3)
        }
        version => return Err(Error::unsupported(format!("a fill value message of version {version}"))),
    };
    if !is_defined || when == NEVER || cursor.left() < 4 {
        return Ok(Vec::new());
    }
    // Version 1 says "undefined" by a length of -1.
    match cursor.u32()? {
        u32::MAX => Ok(Vec::new()),
        len => Ok(cursor.take(len as usize)?.to_vec()),
    }
}
