//! An HDF5 file as metadata: its superblock, and reads by address.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    sync::Arc,
};

use bytes::Bytes;
use forebay_source::{ByteRange, Error, ErrorKind, Result, Source, SourceExt};

use super::{
    cursor::{Cursor, Sizes},
    header::Header,
    shared::SharedMessages,
};
use crate::global_heap::{Collections, HeapReader};
use forebay_container::{Dtype, Heap, SourceIndex, Values};

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

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

/// An HDF5 file as metadata.
#[derive(Debug)]
pub struct File {
    source: Arc<dyn Source>,
    /// Where extents into this file say they point.
    pub(crate) index: SourceIndex,
    /// What addresses count from: the length of the user block.
    pub(crate) base: u64,
    pub(crate) sizes: Sizes,
    pub(crate) root: u64,
    /// True when a writer in SWMR mode has the file open, or had when it ended without closing it.
    pub(crate) swmr: bool,
    pub(crate) shared: SharedMessages,
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
/// length has laid them over each other to waste the time and memory of whoever reads it.
const MOST_REREADS: u64 = 32;
/// Small files are allowed this much on top.
const LEAST_ALLOWANCE: u64 = 16 << 20;

/// What types that objects share may come to in memory, where each object has its own copy. A member takes some 100 bytes
/// there; in a true file every variable of the type has values of it, at least a byte per member.
const TYPE_BYTES_PER_BYTE: u64 = 64;
const LEAST_TYPE_BYTES: u64 = 128 << 20;

/// Status flags of a superblock: a writer has the file open, and lets readers follow it (SWMR).
const OPEN_FOR_WRITING: u8 = 0x01;
const SWMR: u8 = 0x04;
/// All flags that libhdf5 knows; it refuses a file with others, of whatever version.
const KNOWN_FLAGS: u32 = 0x07;

fn check_known(flags: u32) -> Result<()> {
    if flags & !KNOWN_FLAGS == 0 { Ok(()) } else { Err(Error::corrupt(format!("status flags {flags:#x}"))) }
}

/// True for a file that a SWMR writer has open. One that any other writer has open, or left so, is refused as libhdf5
/// refuses it: what has reached the disk may be half of a change.
fn is_swmr(flags: u8) -> Result<bool> {
    match (flags & OPEN_FOR_WRITING != 0, flags & SWMR != 0) {
        (true, true) => Ok(true),
        (false, false) => Ok(false),
        _ => Err(Error::new(
            ErrorKind::Unavailable,
            "a writer has the file open for writing, or ended without closing it",
        )
        .hint("close it where it is written; if its writer is gone, `h5clear -s FILE` clears the mark")),
    }
}

/// The places where a superblock may begin in a file of `file_len` bytes: its start, or 512 and its doublings behind a user
/// block.
fn superblock_places(file_len: u64) -> impl Iterator<Item = u64> {
    let is_inside = move |at: &u64| at.checked_add(8).is_some_and(|end| end <= file_len);
    std::iter::once(0)
        .chain(std::iter::successors(Some(512_u64), |at| at.checked_mul(2)))
        .take_while(is_inside)
}

/// Where the superblock begins, if it begins in `head`, the first bytes of a file.
pub fn superblock_in(head: &[u8]) -> Option<u64> {
    let is_there = |at: &u64| {
        usize::try_from(*at)
            .ok()
            .and_then(|at| head.get(at..))
            .is_some_and(|rest| rest.starts_with(SIGNATURE))
    };
    superblock_places(head.len() as u64).find(is_there)
}

/// Finds the superblock of a file whose first bytes, `head`, are known.
pub fn find_superblock(source: &dyn Source, head: &[u8]) -> Result<Option<u64>> {
    if let Some(at) = superblock_in(head) {
        return Ok(Some(at));
    }
    // Hardly any file has a user block; where one is looked for, all places are asked for at once.
    let is_unknown = |at: &u64| at + 8 > head.len() as u64;
    let places: Vec<u64> = superblock_places(source.id().len).filter(is_unknown).collect();
    let ranges: Vec<_> = places.iter().map(|at| ByteRange::at(*at, 8)).collect();
    let read = source.fetch(&ranges)?;
    Ok(read.iter().position(|bytes| bytes[..] == SIGNATURE[..]).map(|found| places[found]))
}

impl File {
    /// Opens the file in `source`, which extents will call `index`.
    pub fn open(source: Arc<dyn Source>, index: SourceIndex) -> Result<Self> {
        let head = source.fetch_one(ByteRange::at(0, source.id().len.min(8)))?;
        let at = find_superblock(&*source, &head)?.ok_or_else(|| Error::corrupt("no HDF5 signature"))?;
        Self::open_at(source, index, at)
    }

    /// As [`open`](Self::open), where the superblock is known to begin `at`.
    pub fn open_at(source: Arc<dyn Source>, index: SourceIndex, at: u64) -> Result<Self> {
        let allowance = source.id().len.saturating_mul(MOST_REREADS).saturating_add(LEAST_ALLOWANCE);
        let mut file = Self {
            attribute_allowance: Cell::new(source.id().len.saturating_mul(2).saturating_add(LEAST_ALLOWANCE)),
            allowance: Cell::new(allowance),
            collections: RefCell::default(),
            type_allowance: Cell::new(
                source.id().len.saturating_mul(TYPE_BYTES_PER_BYTE).saturating_add(LEAST_TYPE_BYTES),
            ),
            committed: RefCell::default(),
            page_len: page_len(source.request_bytes()),
            source,
            index,
            base: at,
            sizes: Sizes { offset: 8, length: 8 },
            root: 0,
            swmr: false,
            shared: SharedMessages::default(),
            pages: RefCell::default(),
        };
        file.read_superblock().map_err(|error| error.at("superblock"))?;
        Ok(file)
    }

    fn read_superblock(&mut self) -> Result<()> {
        let most = (self.source.id().len - self.base).min(256);
        let bytes = self.read(0, most)?;
        let mut cursor = Cursor::new(&bytes, self.sizes);
        cursor.skip(8)?;
        match cursor.u8()? {
            version @ (0 | 1) => self.read_old_superblock(cursor, version),
            version @ (2 | 3) => self.read_new_superblock(cursor, version),
            version => Err(Error::unsupported(format!("version {version}, which this build does not know"))),
        }
    }

    fn read_old_superblock(&mut self, mut cursor: Cursor<'_>, version: u8) -> Result<()> {
        cursor.skip(4)?;
        self.set_sizes(&mut cursor)?;
        cursor.skip(1 + 2 + 2)?;
        check_known(cursor.u32()?)?;
        if version == 1 {
            cursor.skip(4)?;
        }
        let base = cursor.address()?;
        let _free_space = cursor.address()?;
        let end = cursor.some_address("the end of the file")?;
        if let Some(driver) = cursor.address()? {
            self.refuse_driver(driver)?;
        }
        let _name = cursor.length()?;
        self.root = cursor.some_address("the root group")?;
        self.check_end(base, end)
    }

    fn read_new_superblock(&mut self, mut cursor: Cursor<'_>, version: u8) -> Result<()> {
        self.set_sizes(&mut cursor)?;
        let flags = cursor.u8()?;
        let base = cursor.address()?;
        let extension = cursor.address()?;
        let end = cursor.some_address("the end of the file")?;
        self.root = cursor.some_address("the root group")?;
        cursor.checksum("the superblock")?;
        check_known(flags.into())?;
        if version == 3 {
            self.swmr = is_swmr(flags)?;
        }
        self.check_end(base, end)?;
        let Some(extension) = extension else { return Ok(()) };
        let header = Header::read(self, extension).map_err(|error| error.at("superblock extension"))?;
        if header.has(super::message::DRIVER_INFO) {
            return Err(Error::unsupported("a file of a family or multi-file driver")
                .hint("join the parts with `h5repart` or `h5repack` first"));
        }
        self.refuse_cache_image(&header)?;
        self.shared = SharedMessages::read(self, &header)?;
        Ok(())
    }

    /// Metadata that libhdf5 keeps in a cache image is not written to its own place, where old bytes may lie.
    fn refuse_cache_image(&self, header: &Header) -> Result<()> {
        let Some(message) = header.find(super::message::CACHE_IMAGE) else { return Ok(()) };
        let mut cursor = Cursor::new(&message.body, self.sizes);
        cursor.version(0, "a metadata cache image message")?;
        match (cursor.address()?, cursor.length()?) {
            (None, _) | (_, 0) => Ok(()),
            _ => Err(Error::unsupported("its metadata lies in a metadata cache image")
                .hint("write it anew with `h5repack IN OUT`")),
        }
    }

    fn set_sizes(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let sizes = Sizes { offset: cursor.u8()?, length: cursor.u8()? };
        let known = |size| matches!(size, 2 | 4 | 8 | 16 | 32);
        if !known(sizes.offset) || !known(sizes.length) {
            return Err(Error::corrupt(format!(
                "addresses of {} and lengths of {} bytes",
                sizes.offset, sizes.length
            )));
        }
        self.sizes = sizes;
        cursor.sizes = sizes;
        // Version 0 and 1 have a reserved byte here; versions 2 and 3 have the flags, read by the caller.
        Ok(())
    }

    fn refuse_driver(&self, at: u64) -> Result<()> {
        let block = self.read(at, 16)?;
        let name = super::cursor::text(&block[8..]);
        Err(Error::unsupported(format!("a file of the multi-file driver '{name}'"))
            .hint("join the parts with `h5repart` or `h5repack` first"))
    }

    /// The library refuses a file that is shorter than it says; so do we, before any value is missed.
    ///
    /// The end counts from where the file started when it was written: a user block may have been cut off since.
    fn check_end(&self, base: Option<u64>, end: u64) -> Result<()> {
        let end = end.saturating_sub(base.unwrap_or(0)).saturating_add(self.base);
        let len = self.source.id().len;
        if end <= len {
            return Ok(());
        }
        Err(Error::corrupt(format!("the file is truncated: it should have {end} bytes and has {len}"))
            .hint("copy it again from its source"))
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
            return Err(Error::corrupt("metadata that comes to many times the file's length"));
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
        let reader = HeapReader::new(&*self.source, self.attribute_allowance.get());
        let mut reader = reader.with_collections(self.collections.take());
        let values = reader.resolve(dtype, stored);
        let (collections, left) = reader.finish();
        self.collections.replace(collections);
        self.attribute_allowance.set(left);
        values
    }

    /// Object `index` of the heap at `address`; it counts each time it is asked for.
    pub(crate) fn heap_object(&self, address: u64, index: u32) -> Result<Bytes> {
        let mut reader = HeapReader::new(&*self.source, 0).with_collections(self.collections.take());
        let object = reader.whole_object(self.heap(), address, index);
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

    /// The locator, for messages.
    pub(crate) fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, MemoryOrigin, Origin};

    use super::*;

    #[test]
    fn metadata_that_comes_to_many_times_the_file_is_corrupt() {
        let bytes = &include_bytes!("../../../fuzz/corpus/hdf5/seed_plain_latest")[..];
        let origin = MemoryOrigin::default().with("a.h5", bytes);
        let file = File::open(origin.open(&Locator::new("a.h5")).unwrap(), SourceIndex(0)).unwrap();
        let len = bytes.len() as u64;
        let reads = (0..).find_map(|count: u64| file.read(0, len).err().map(|error| (count, error)));
        let (count, error) = reads.unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let most = len * MOST_REREADS + LEAST_ALLOWANCE;
        assert!((most - 4 * len..=most).contains(&(count * len)), "{count} reads of {len} bytes");
    }
}
