//! The dataspace message: the shape of an array.

use forebay_process::{Error, Result};

use super::super::cursor::MetadataCursor;

/// The shape of an array, or that it has no elements at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dataspace {
    pub(crate) shape: Vec<u64>,
    pub(crate) max_shape: Vec<Option<u64>>,
    /// No elements and no shape either.
    pub(crate) is_null: bool,
}

const MOST_DIMENSIONS: u8 = 32;

impl Dataspace {
    pub(crate) fn parse(mut cursor: MetadataCursor<'_>) -> Result<Self> {
        let version = cursor.u8()?;
        let ndim = cursor.u8()?;
        let flags = cursor.u8()?;
        let kind = cursor.u8()?;
        match version {
            1 => cursor.skip(4)?,
            2 => {}
            _ => return Err(Error::unsupported(format!("a dataspace message of version {version}"))),
        }
        if ndim > MOST_DIMENSIONS {
            return Err(Error::corrupt(format!("an array of {ndim} dimensions")));
        }
        let is_null = version == 2 && kind == 2;
        let shape = (0..ndim).map(|_| cursor.length()).collect::<Result<Vec<_>>>()?;
        let max_shape = if flags & 1 != 0 {
            (0..ndim).map(|_| cursor.optional_length()).collect::<Result<Vec<_>>>()?
        } else {
            shape.iter().copied().map(Some).collect()
        };
        Ok(Self { shape, max_shape, is_null })
    }
}
