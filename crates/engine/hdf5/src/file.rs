//! An HDF5 file that is open: its superblock, its root group, and the messages its objects share.

use std::{ops::Deref, sync::Arc};

use forebay_container::SourceIndex;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use crate::{
    cursor::{FieldSizes, MetadataCursor, text},
    header::ObjectHeader,
    message,
    metadata::Metadata,
    shared::SharedMessages,
};

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// An HDF5 file that is open for its metadata.
#[derive(Debug)]
pub struct File {
    metadata: Metadata,
    pub(crate) root: u64,
    /// True when a writer in SWMR mode has the file open, or had when it ended without closing it.
    pub(crate) swmr: bool,
    pub(crate) shared: SharedMessages,
}

/// A file is read as its metadata is; only headers need to know what objects share.
impl Deref for File {
    type Target = Metadata;

    fn deref(&self) -> &Metadata {
        &self.metadata
    }
}

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
        let metadata = Metadata::new(source, index, at);
        let mut file = Self { metadata, root: 0, swmr: false, shared: SharedMessages::default() };
        file.read_superblock().map_err(|error| error.at("superblock"))?;
        Ok(file)
    }

    /// The object header at `address`, with what its shared messages stand for.
    pub(crate) fn header(&self, address: u64) -> Result<ObjectHeader> {
        let place = |error: Error| error.at(format!("object header at {address:#x}"));
        let header = ObjectHeader::read(self, address).map_err(place)?;
        self.shared.resolve_all(self, header, address).map_err(place)
    }

    fn read_superblock(&mut self) -> Result<()> {
        let bytes = self.read_up_to(0, 256)?;
        let mut cursor = MetadataCursor::new(&bytes, self.sizes);
        cursor.skip(8)?;
        match cursor.u8()? {
            version @ (0 | 1) => self.read_old_superblock(cursor, version),
            version @ (2 | 3) => self.read_new_superblock(cursor, version),
            version => Err(Error::unsupported(format!("version {version}, which this build does not know"))),
        }
    }

    fn read_old_superblock(&mut self, mut cursor: MetadataCursor<'_>, version: u8) -> Result<()> {
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

    fn read_new_superblock(&mut self, mut cursor: MetadataCursor<'_>, version: u8) -> Result<()> {
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
        let header = self.header(extension).map_err(|error| error.at("superblock extension"))?;
        if header.has(message::DRIVER_INFO) {
            return Err(Error::unsupported("a file of a family or multi-file driver")
                .hint("join the parts with `h5repart` or `h5repack` first"));
        }
        self.refuse_cache_image(&header)?;
        self.shared = SharedMessages::read(self, &header)?;
        Ok(())
    }

    /// Metadata that libhdf5 keeps in a cache image is not written to its own place, where old bytes may lie.
    fn refuse_cache_image(&self, header: &ObjectHeader) -> Result<()> {
        let Some(message) = header.find(message::CACHE_IMAGE) else { return Ok(()) };
        let mut cursor = MetadataCursor::new(&message.body, self.sizes);
        cursor.version(0, "a metadata cache image message")?;
        match (cursor.address()?, cursor.length()?) {
            (None, _) | (_, 0) => Ok(()),
            _ => Err(Error::unsupported("its metadata lies in a metadata cache image")
                .hint("write it anew with `h5repack IN OUT`")),
        }
    }

    fn set_sizes(&mut self, cursor: &mut MetadataCursor<'_>) -> Result<()> {
        let sizes = FieldSizes { offset: cursor.u8()?, length: cursor.u8()? };
        let known = |size| matches!(size, 2 | 4 | 8 | 16 | 32);
        if !known(sizes.offset) || !known(sizes.length) {
            return Err(Error::corrupt(format!(
                "addresses of {} and lengths of {} bytes",
                sizes.offset, sizes.length
            )));
        }
        self.metadata.sizes = sizes;
        cursor.sizes = sizes;
        // Version 0 and 1 have a reserved byte here; versions 2 and 3 have the flags, read by the caller.
        Ok(())
    }

    fn refuse_driver(&self, at: u64) -> Result<()> {
        let block = self.read(at, 16)?;
        let name = text(&block[8..]);
        Err(Error::unsupported(format!("a file of the multi-file driver '{name}'"))
            .hint("join the parts with `h5repart` or `h5repack` first"))
    }

    /// The library refuses a file that is shorter than it says; so do we, before any value is missed.
    ///
    /// The end counts from where the file started when it was written: a user block may have been cut off since.
    fn check_end(&self, base: Option<u64>, end: u64) -> Result<()> {
        let end = end.saturating_sub(base.unwrap_or(0)).saturating_add(self.base);
        let len = self.source().id().len;
        if end <= len {
            return Ok(());
        }
        Err(Error::corrupt(format!("the file is truncated: it should have {end} bytes and has {len}"))
            .hint("copy it again from its source"))
    }
}
