//! Local heaps: the names of an old-style group, and of external files.

use bytes::Bytes;
use forebay_process::{Error, Result};

use super::{
    cursor::{MetadataCursor, text},
    metadata::Metadata,
};

/// A heap of NUL-terminated texts.
#[derive(Debug)]
pub(crate) struct LocalHeap(Bytes);

impl LocalHeap {
    pub(crate) fn read(file: &Metadata, address: u64) -> Result<Self> {
        Self::read_at(file, address).map_err(|error| error.at(format!("local heap at {address:#x}")))
    }

    fn read_at(file: &Metadata, address: u64) -> Result<Self> {
        let len = 8 + 2 * u64::from(file.sizes.length) + u64::from(file.sizes.offset);
        let bytes = file.read(address, len)?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.signature(b"HEAP")?;
        cursor.skip(4)?;
        let len = cursor.length()?;
        cursor.length()?;
        let at = cursor.some_address("its data")?;
        Ok(Self(file.read(at, len)?))
    }

    /// The text at `offset`; it counts each time, as many names may lie at one place.
    pub(crate) fn text(&self, file: &Metadata, offset: u64) -> Result<String> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..));
        let Some(bytes) = from else {
            return Err(Error::corrupt(format!("a name at {offset} of a local heap {} long", self.0.len())));
        };
        // The library takes a name that runs to the heap's end without a NUL as ending there.
        let found = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        file.spend(found.len() as u64)?;
        Ok(text(found))
    }
}
