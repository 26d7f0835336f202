//! Markers of msgpack, which frames of Blosc 2 describe themselves in.

use forebay_process::{Error, Result};

use crate::byte_cursor::ByteCursor;

/// Passes over a msgpack marker that must stand here.
pub(crate) fn expect(cursor: &mut ByteCursor<'_>, marker: u8) -> Result<()> {
    let found = cursor.u8()?;
    if found != marker {
        return Err(Error::corrupt(format!("frame has {found:#04x} where {marker:#04x} belongs")));
    }
    Ok(())
}
