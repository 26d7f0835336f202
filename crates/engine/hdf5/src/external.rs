//! External storage: an array whose values lie in other, raw files.

use forebay_process::{Error, Result};

use super::{cursor::MetadataCursor, local_heap::LocalHeap, metadata::Metadata};

/// A stretch of a raw file.
#[derive(Clone, Debug)]
pub(crate) struct ExternalSegment {
    pub(crate) file: String,
    pub(crate) offset: u64,
    /// `None` goes on to the end of the array.
    pub(crate) len: Option<u64>,
}

/// The segments of an external files message, in the order the array runs through them.
pub(crate) fn segments(file: &Metadata, body: &[u8]) -> Result<Vec<ExternalSegment>> {
    let mut cursor = MetadataCursor::new(body, file.sizes);
    cursor.version(1, "an external files message")?;
    cursor.skip(3)?;
    let _allocated = cursor.u16()?;
    let used = cursor.u16()?;
    let heap = LocalHeap::read(file, cursor.some_address("the names of external files")?)?;
    (0..used)
        .map(|_| {
            let name = heap.text(file, cursor.length()?)?;
            let offset = cursor.length()?;
            let len = cursor.optional_length()?;
            if name.is_empty() {
                return Err(Error::corrupt("an external file without a name"));
            }
            Ok(ExternalSegment { file: name, offset, len })
        })
        .collect()
}
