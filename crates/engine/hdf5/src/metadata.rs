//! The metadata of an HDF5 file: bytes by address, within an allowance.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    sync::Arc,
};

use bytes::Bytes;
use forebay_container::{Dtype, Heap, SourceIndex, Values};
use forebay_process::{Error, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use crate::{
    cursor::FieldSizes,
    global_heap::{Collections, HeapReader},
};

/// Small reads are served from pages this long. A file of 100,000 chunks under a version 1 B-tree is described in
/// 15.7 ms by pages of 4 KiB, 12.8 ms by 16 KiB, 25 ms by 64 KiB.
const PAGE_LEN: u64 = 16 << 10;
/// Bytes of pages kept: a walk over a file goes back to a few groups and heaps only.
const MOST_PAGE_BYTES: u64 = 16 << 20;

/// How long pages are where requests ought to bring `request_bytes`: far away longer ones, as metadata lies together
/// and each page is a request, but not as long as requests for values, as much of a page may be values.
fn page_len(request_bytes: u64) -> u64 {
    (request_bytes / 4).clamp(PAGE_LEN, 1 << 20)
}

/// The metadata of an HDF5 file.
#[derive(Debug)]
pub struct Metadata {
    source: Arc<dyn Source>,
    /// Where extents into this file say they point.
    pub(crate) index: SourceIndex,
    /// What addresses count from: the length of the user block.
    pub(crate) base: u64,
    pub(crate) sizes: FieldSizes,
    page_len: u64,
    pages: RefCell<HashMap<u64, Bytes>>,
    /// Bytes of metadata that may still be read.
    allowance: Cell<u64>,
    /// Messages that several objects share, by the header they stand in and their kind.
    pub(crate) committed: RefCell<HashMap<(u64, u16), Bytes>>,
    /// Bytes of variable-length attribute values that may still be read.
    attribute_allowance: Cell<u64>,
    /// Heaps of variable-length values: many attributes lie in the same one.
    collections: RefCell<Collections>,
    /// Bytes that types which several objects share may still take in memory.
    type_allowance: Cell<u64>,
}

/// Structures may point to each other and be read more than once, but a file whose metadata comes to many times its
/// length has laid them over each other to waste the time and memory of its readers.
const MOST_REREADS: u64 = 32;
/// Small files are allowed this much on top.
const LEAST_ALLOWANCE: u64 = 16 << 20;

/// What types that objects share may come to in memory, where each object has its own copy. A member takes some 100 bytes
/// there; in a true file every variable of the type has values of it, at least a byte per member.
const TYPE_BYTES_PER_BYTE: u64 = 64;
const LEAST_TYPE_BYTES: u64 = 128 << 20;

impl Metadata {
    /// The metadata in `source`, which extents will call `index`; addresses count from `base`.
    pub(crate) fn new(source: Arc<dyn Source>, index: SourceIndex, base: u64) -> Self {
        let file_len = source.id().len;
        let times =
            |factor: u64, least: u64| Cell::new(file_len.saturating_mul(factor).saturating_add(least));
        Self {
            attribute_allowance: times(2, LEAST_ALLOWANCE),
            allowance: times(MOST_REREADS, LEAST_ALLOWANCE),
            collections: RefCell::default(),
            type_allowance: times(TYPE_BYTES_PER_BYTE, LEAST_TYPE_BYTES),
            committed: RefCell::default(),
            page_len: page_len(source.request_bytes()),
            source,
            index,
            base,
            sizes: FieldSizes { offset: 8, length: 8 },
            pages: RefCell::default(),
        }
    }

    /// Bytes that could be at `address` and after it.
    pub(crate) fn left_at(&self, address: u64) -> u64 {
        (self.source.id().len - self.base).saturating_sub(address)
    }

    /// The stored bytes at `address` as a range of the source; checked against its end.
    pub(crate) fn range(&self, address: u64, len: u64) -> Result<ByteRange> {
        let start =
            address.checked_add(self.base).ok_or_else(|| Error::corrupt("an address beyond 64 bits"))?;
        ByteRange::checked(start, len, self.source.id().len)
    }

    /// `len` bytes of metadata at `address`.
    pub(crate) fn read(&self, address: u64, len: u64) -> Result<Bytes> {
        let range = self.range(address, len)?;
        // Even a structure without bytes costs a look.
        self.spend(len.max(16))?;
        let page_len = self.page_len;
        let first = range.start / page_len;
        let fits_one_page = range.end <= (first + 1) * page_len;
        if !fits_one_page {
            return self.source.fetch_one(range);
        }
        if let Some(page) = self.pages.borrow().get(&first) {
            return Ok(range.cut(page, first * page_len));
        }
        let page_range =
            ByteRange { start: first * page_len, end: ((first + 1) * page_len).min(self.source.id().len) };
        let page = self.source.fetch_one(page_range)?;
        let mut pages = self.pages.borrow_mut();
        if pages.len() as u64 >= MOST_PAGE_BYTES / page_len {
            pages.clear();
        }
        pages.insert(first, page.clone());
        Ok(range.cut(&page, first * page_len))
    }

    /// Counts `len` bytes of metadata that are read, or kept once more though they stand in the file once.
    pub(crate) fn spend(&self, len: u64) -> Result<()> {
        let Some(left) = self.allowance.get().checked_sub(len) else {
            return Err(Error::corrupt(
                "metadata structures overlap: together they are many times longer than the file",
            ));
        };
        self.allowance.set(left);
        Ok(())
    }

    /// Counts the memory of a type that other objects have, too; `parse` gives the type.
    pub(crate) fn shared_type(&self, parse: impl FnOnce() -> Result<Dtype>) -> Result<Dtype> {
        let refusal = || Error::corrupt("a type that is shared far more often than the file has values for");
        let left = self.type_allowance.get();
        if left == 0 {
            return Err(refusal());
        }
        let dtype = parse()?;
        let left = left.checked_sub(dtype.memory_len());
        self.type_allowance.set(left.unwrap_or(0));
        left.map(|_| dtype).ok_or_else(refusal)
    }

    /// The values of an attribute of `dtype`, which has a variable-length part.
    pub(crate) fn resolve(&self, dtype: &Dtype, stored: &[u8]) -> Result<Values> {
        let reader = HeapReader::new(&*self.source, self.heap(), self.attribute_allowance.get());
        let mut reader = reader.with_collections(self.collections.take());
        let values = reader.resolve(dtype, stored);
        let (collections, left) = reader.finish();
        self.collections.replace(collections);
        self.attribute_allowance.set(left);
        values
    }

    /// Object `index` of the heap at `address`; it counts each time it is asked for.
    pub(crate) fn heap_object(&self, address: u64, index: u32) -> Result<Bytes> {
        let mut reader =
            HeapReader::new(&*self.source, self.heap(), 0).with_collections(self.collections.take());
        let object = reader.whole_object(address, index);
        self.collections.replace(reader.finish().0);
        let object = object?;
        self.spend(object.len() as u64)?;
        Ok(object)
    }

    /// Gives back the memory of pages and heaps read so far.
    pub(crate) fn forget_pages(&self) {
        *self.pages.borrow_mut() = HashMap::new();
        *self.collections.borrow_mut() = Collections::default();
    }

    /// Up to `most` bytes at `address`, fewer at the end of the file.
    pub(crate) fn read_up_to(&self, address: u64, most: u64) -> Result<Bytes> {
        self.read(address, most.min(self.left_at(address)))
    }

    /// How this file's variable-length values are found.
    pub(crate) fn heap(&self) -> Heap {
        Heap {
            offset_len: self.sizes.offset,
            length_len: self.sizes.length,
            base: self.base,
            source: self.index,
        }
    }

    /// The source it is read from.
    pub(crate) fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use forebay_process::ErrorKind;
    use forebay_source::{Locator, MemoryOrigin, Origin};

    use super::*;

    #[test]
    fn metadata_that_comes_to_many_times_the_file_is_corrupt() {
        let bytes = &include_bytes!("../../../../fuzz/corpus/hdf5/seed_plain_latest")[..];
        let origin = MemoryOrigin::default().with("a.h5", bytes);
        let file = Metadata::new(origin.open(&Locator::new("a.h5")).unwrap(), SourceIndex(0), 0);
        let len = bytes.len() as u64;
        let reads = (0..).find_map(|count: u64| file.read(0, len).err().map(|error| (count, error)));
        let (count, error) = reads.unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let most = len * MOST_REREADS + LEAST_ALLOWANCE;
        assert!((most - 4 * len..=most).contains(&(count * len)), "{count} reads of {len} bytes");
    }
}
