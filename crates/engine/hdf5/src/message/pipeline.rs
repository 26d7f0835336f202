//! The filter pipeline message: what was done to a chunk before it was written.

use forebay_process::{Error, Result};

use super::super::cursor::{MetadataCursor, text};
use forebay_container::Filter;

/// More filters than the mask of a chunk has bits for cannot be.
const MOST_FILTERS: u8 = 32;

pub(crate) fn parse(mut cursor: MetadataCursor<'_>) -> Result<Vec<Filter>> {
    let version = cursor.u8()?;
    let count = cursor.u8()?;
    match version {
        1 => cursor.skip(6)?,
        2 => {}
        _ => return Err(Error::unsupported(format!("a filter message of version {version}"))),
    }
    if count > MOST_FILTERS {
        return Err(Error::corrupt(format!("{count} filters")));
    }
    (0..count).map(|_| parse_one(&mut cursor, version)).collect()
}

fn parse_one(cursor: &mut MetadataCursor<'_>, version: u8) -> Result<Filter> {
    let id = cursor.u16()?;
    let has_name = version == 1 || id >= 256;
    let name_len = if has_name { usize::from(cursor.u16()?) } else { 0 };
    // Whether the writer may leave the filter out says nothing of a chunk: its mask does.
    cursor.skip(2)?;
    let count = cursor.u16()?;
    let name = cursor.take(name_len)?;
    if version == 1 {
        cursor.skip(name_len.next_multiple_of(8) - name_len)?;
    }
    let client_values = (0..count).map(|_| cursor.u32()).collect::<Result<Vec<_>>>()?;
    if version == 1 && count % 2 == 1 {
        cursor.skip(4)?;
    }
    let name = text(name.split(|byte| *byte == 0).next().unwrap_or_default());
    Ok(Filter::from_hdf5(id.into(), &name, client_values))
}
