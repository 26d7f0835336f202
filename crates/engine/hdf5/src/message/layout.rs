//! The layout message: how an array's values lie in the file.

use forebay_process::{Error, Result};

use super::super::cursor::MetadataCursor;

/// How an array's values lie in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataLayout {
    /// In the message itself, `len` bytes from `at` of its body.
    Compact { at: usize, len: usize },
    /// In one piece; nowhere when nothing was written.
    Contiguous { address: Option<u64> },
    /// In chunks.
    Chunked(ChunkedLayout),
    /// In other variables, listed in a heap object.
    Virtual { heap: Option<u64>, index: u32 },
}

/// An array in chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkedLayout {
    /// Elements per dimension, sometimes followed by the element's length.
    pub(crate) sizes: Vec<u64>,
    pub(crate) index: Index,
    pub(crate) address: Option<u64>,
    /// Chunks that reach past the border of the array were not filtered.
    pub(crate) edges_unfiltered: bool,
}

/// How the chunks of an array are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    TreeV1,
    Single { filtered: Option<(u64, u32)> },
    Implicit,
    FixedArray,
    ExtensibleArray,
    TreeV2,
}

const MOST_DIMENSIONS: usize = 33;

pub(crate) fn parse(mut cursor: MetadataCursor<'_>) -> Result<DataLayout> {
    match cursor.u8()? {
        1 | 2 => parse_old(cursor),
        3 => parse_3(cursor),
        4 | 5 => parse_4(cursor),
        version => Err(Error::unsupported(format!("a layout message of version {version}"))),
    }
}

fn parse_old(mut cursor: MetadataCursor<'_>) -> Result<DataLayout> {
    let ndim = usize::from(cursor.u8()?);
    let class = cursor.u8()?;
    cursor.skip(5)?;
    let address = if class == 0 { None } else { cursor.address()? };
    let sizes = sizes(&mut cursor, ndim, 4)?;
    match class {
        0 => {
            let len = cursor.u32()? as usize;
            compact(&mut cursor, len)
        }
        1 => Ok(DataLayout::Contiguous { address }),
        2 => Ok(chunked(sizes, Index::TreeV1, address)),
        _ => Err(Error::corrupt(format!("layout class {class}"))),
    }
}

fn parse_3(mut cursor: MetadataCursor<'_>) -> Result<DataLayout> {
    match cursor.u8()? {
        0 => {
            let len = cursor.u16()?.into();
            compact(&mut cursor, len)
        }
        1 => Ok(DataLayout::Contiguous { address: cursor.address()? }),
        2 => {
            let ndim = usize::from(cursor.u8()?);
            let address = cursor.address()?;
            Ok(chunked(sizes(&mut cursor, ndim, 4)?, Index::TreeV1, address))
        }
        class => Err(Error::corrupt(format!("layout class {class}"))),
    }
}

fn parse_4(mut cursor: MetadataCursor<'_>) -> Result<DataLayout> {
    match cursor.u8()? {
        0 => {
            let len = cursor.u16()?.into();
            compact(&mut cursor, len)
        }
        1 => Ok(DataLayout::Contiguous { address: cursor.address()? }),
        2 => parse_4_chunked(cursor),
        3 => Ok(DataLayout::Virtual { heap: cursor.address()?, index: cursor.u32()? }),
        class => Err(Error::corrupt(format!("layout class {class}"))),
    }
}

fn parse_4_chunked(mut cursor: MetadataCursor<'_>) -> Result<DataLayout> {
    let flags = cursor.u8()?;
    let ndim = usize::from(cursor.u8()?);
    let size_len = usize::from(cursor.u8()?);
    if size_len == 0 || size_len > 8 {
        return Err(Error::corrupt(format!("chunk sizes of {size_len} bytes")));
    }
    let sizes = sizes(&mut cursor, ndim, size_len)?;
    let index = match cursor.u8()? {
        1 if flags & 2 != 0 => Index::Single { filtered: Some((cursor.length()?, cursor.u32()?)) },
        1 => Index::Single { filtered: None },
        2 => Index::Implicit,
        3 => {
            cursor.skip(1)?;
            Index::FixedArray
        }
        4 => {
            cursor.skip(5)?;
            Index::ExtensibleArray
        }
        5 => {
            cursor.skip(6)?;
            Index::TreeV2
        }
        kind => return Err(Error::unsupported(format!("a chunk index of kind {kind}"))),
    };
    let address = cursor.address()?;
    Ok(DataLayout::Chunked(ChunkedLayout { sizes, index, address, edges_unfiltered: flags & 1 != 0 }))
}

fn sizes(cursor: &mut MetadataCursor<'_>, ndim: usize, len: usize) -> Result<Vec<u64>> {
    if ndim > MOST_DIMENSIONS {
        return Err(Error::corrupt(format!("a layout of {ndim} dimensions")));
    }
    (0..ndim).map(|_| cursor.uint(len)).collect()
}

fn compact(cursor: &mut MetadataCursor<'_>, len: usize) -> Result<DataLayout> {
    let at = cursor.position();
    cursor.skip(len)?;
    Ok(DataLayout::Compact { at, len })
}

fn chunked(sizes: Vec<u64>, index: Index, address: Option<u64>) -> DataLayout {
    DataLayout::Chunked(ChunkedLayout { sizes, index, address, edges_unfiltered: false })
}

#[cfg(test)]
mod tests {
    use super::{super::super::cursor::FieldSizes, *};

    /// Libraries before 1.6 wrote versions 1 and 2; nothing that can be installed today does.
    fn old(class: u8, body: &[u8]) -> DataLayout {
        let parsed = |version: u8| {
            let head = [version, 3, class, 0, 0, 0, 0, 0];
            parse(MetadataCursor::new(&[&head, body].concat(), FieldSizes { offset: 4, length: 4 })).unwrap()
        };
        assert_eq!(parsed(1), parsed(2));
        parsed(1)
    }

    const SIZES: [u8; 12] = [2, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0];

    #[test]
    fn old_messages_give_the_same_layouts_as_new_ones() {
        let address = 0x1234u32.to_le_bytes();
        assert_eq!(
            old(1, &[&address[..], &SIZES].concat()),
            DataLayout::Contiguous { address: Some(0x1234) }
        );
        let chunked = old(2, &[&address[..], &SIZES].concat());
        assert_eq!(chunked, super::chunked(vec![2, 5, 8], Index::TreeV1, Some(0x1234)));
        let compact = old(0, &[&SIZES[..], &[4, 0, 0, 0], b"data"].concat());
        assert_eq!(compact, DataLayout::Compact { at: 24, len: 4 });
    }

    #[test]
    fn an_undefined_address_is_no_address() {
        let body = [&[0xff; 4][..], &SIZES].concat();
        assert_eq!(old(1, &body), DataLayout::Contiguous { address: None });
    }

    #[test]
    fn a_version_from_the_future_is_unsupported() {
        let error = parse(MetadataCursor::new(&[6, 1], FieldSizes { offset: 8, length: 8 })).unwrap_err();
        assert_eq!(error.kind(), forebay_process::ErrorKind::Unsupported);
    }
}
