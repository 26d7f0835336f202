//! The journal of an item: what it is, where it goes and how far it is.
//!
//! ```text
//! "FBSTAGE\0" | version u32 | length u32 | CRC32C u32 | postcard
//! ```
//!
//! It is rewritten as a whole under another name and renamed, so that a reader sees one state or the next.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::host_name;
use serde::{Deserialize, Serialize};

use crate::{
    area::status::{ItemKind, ItemState},
    create::{
        attributes::NewMode,
        destination::{Destination, TEMPORARY_MARK},
        image_manifest::ImageSums,
    },
    on_disk::{journal_v4::JournalV4, stamp::FileStamp},
};

const MAGIC: &[u8; 8] = b"FBSTAGE\0";
const VERSION: u32 = 5;
/// The version before, which is still read.
const VERSION_4: u32 = 4;
const HEAD_LEN: usize = 20;

/// The journal of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) kind: ItemKind,
    pub(crate) state: ItemState,
    pub(crate) destination: Vec<u8>,
    pub(crate) pid: u32,
    pub(crate) created_ns: u64,
    /// When it was sealed, of a new file: versions for one destination are published in this order.
    pub(crate) sealed_ns: u64,
    /// The machine it was written on.
    pub(crate) host: String,
    /// Which start of the machine it was written in: what was not synced then is not trusted later.
    pub(crate) boot: String,
    pub(crate) priority: i32,
    pub(crate) latest: Option<Vec<u8>>,
    /// The mode of a new file, as it is given to `open(2)`, where its directory has a default access list.
    pub(crate) requested_mode: u32,
    /// The mode of a new file where its directory has none: the umask of its process has been applied.
    pub(crate) mode: u32,
    pub(crate) read_back: bool,
    /// Of an update, whether several processes write to the destination beside the log, as ranks do by MPI-IO.
    pub(crate) is_shared: bool,
    /// Whether programs wrote the image of a new file by descriptors of their own, which earlier versions of forebay did.
    pub(crate) is_program_image: bool,
    /// Whether the destination's name is taken by an empty file from the opening on.
    pub(crate) is_exclusive: bool,
    /// That file, once it is there.
    pub(crate) claim: Option<FileStamp>,
    /// The identity of the directory that the destination is in.
    pub(crate) directory: Option<FileStamp>,
    /// The number of the redo log, of an update.
    pub(crate) log: u64,
    /// What the destination may be, of a new file: anything else was changed by others.
    pub(crate) expected: Vec<Option<FileStamp>>,
    /// The file name in the destination's folder under which a new file is put together.
    pub(crate) temporary: Option<Vec<u8>>,
    /// The stamp of that file when it was about to be published.
    pub(crate) published: Option<FileStamp>,
    /// Bytes that went straight to that file.
    pub(crate) passed: Vec<(u64, u64)>,
    /// What the image holds, once it is sealed.
    pub(crate) image: Option<ImageSums>,
    pub(crate) error: Option<String>,
}

impl Journal {
    /// The journal of a new item.
    pub(crate) fn new(kind: ItemKind, destination: &Path, boot: String) -> Self {
        Self {
            kind,
            state: ItemState::Open,
            destination: bytes_of(destination),
            pid: std::process::id(),
            created_ns: crate::on_disk::stamp::now_ns(),
            sealed_ns: 0,
            host: host_name(),
            boot,
            priority: 0,
            latest: None,
            requested_mode: 0o600,
            mode: 0o600,
            read_back: false,
            is_shared: false,
            is_program_image: false,
            is_exclusive: false,
            claim: None,
            directory: None,
            log: 0,
            expected: Vec::new(),
            temporary: None,
            published: None,
            passed: Vec::new(),
            image: None,
            error: None,
        }
    }

    pub(crate) fn destination(&self) -> PathBuf {
        path_of(&self.destination)
    }

    pub(crate) fn set_destination(&mut self, destination: &Path) {
        self.destination = bytes_of(destination);
    }

    /// Its place among others for the same destination.
    pub(crate) fn order_ns(&self) -> u64 {
        if self.sealed_ns == 0 { self.created_ns } else { self.sealed_ns }
    }

    /// Returns whether the new file has its place.
    pub(crate) fn is_published(&self, destination: &Destination) -> Result<bool> {
        let (Some(published), Some(now)) = (self.published, destination.stamp()?) else { return Ok(false) };
        Ok(published.is_surely_same_file(&now))
    }

    /// The mode of a new file.
    pub(crate) fn new_mode(&self) -> NewMode {
        NewMode { requested: self.requested_mode, masked: self.mode }
    }

    pub(crate) fn latest(&self) -> Option<PathBuf> {
        self.latest.as_deref().map(path_of)
    }

    pub(crate) fn set_latest(&mut self, latest: Option<&Path>) {
        self.latest = latest.map(bytes_of);
    }

    /// The name beside the destination under which the new file is put together.
    pub(crate) fn temporary(&self) -> Option<&OsStr> {
        self.temporary.as_deref().map(OsStr::from_bytes)
    }

    pub(crate) fn set_temporary(&mut self, name: Option<&OsStr>) {
        self.temporary = name.map(|name| name.as_bytes().to_vec());
    }

    /// The bytes of the journal.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let body = postcard::to_stdvec(self)
            .map_err(|error| Error::new(ErrorKind::Bug, "journal cannot be encoded").because(error))?;
        let len =
            u32::try_from(body.len()).map_err(|_| Error::new(ErrorKind::Full, "journal is too long"))?;
        let mut bytes = Vec::with_capacity(HEAD_LEN + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// The journal that `bytes` are, checked: nothing in it is trusted beyond what this looks at.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let head = bytes.get(..HEAD_LEN).ok_or_else(|| Error::corrupt("journal is too short"))?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != *MAGIC {
            return Err(Error::corrupt("is not a journal"));
        }
        let version = number(8);
        if version != VERSION && version != VERSION_4 {
            return Err(Error::unsupported(format!(
                "expected a journal of version {VERSION}, got {version}"
            ))
            .hint("recover with the forebay that wrote it"));
        }
        let body = &bytes[HEAD_LEN..];
        if usize::try_from(number(12)) != Ok(body.len()) {
            return Err(Error::corrupt("journal has another length than it says"));
        }
        if !cfg!(fuzzing) && number(16) != crc32c::crc32c(body) {
            return Err(Error::corrupt("journal has a bad checksum"));
        }
        let decoded = match version {
            VERSION_4 => postcard::from_bytes(body).map(|journal: JournalV4| journal.into()),
            _ => postcard::from_bytes(body),
        };
        let journal: Self =
            decoded.map_err(|error| Error::corrupt("journal cannot be decoded").because(error))?;
        journal.check()?;
        Ok(journal)
    }

    fn check(&self) -> Result<()> {
        let is_path = |path: &[u8]| path.starts_with(b"/") && !path.contains(&0) && path.len() < 4096;
        if !is_path(&self.destination) || self.destination().file_name().is_none() {
            return Err(Error::corrupt("journal names no destination"));
        }
        if self.latest.as_deref().is_some_and(|latest| !is_path(latest)) {
            return Err(Error::corrupt("journal names no path for the latest file"));
        }
        // Only names that this crate makes: a journal never leads to the removal of another file.
        let is_temporary = |name: &[u8]| {
            let mark = TEMPORARY_MARK.as_bytes();
            !name.contains(&b'/')
                && !name.contains(&0)
                && name.starts_with(b".")
                && name.windows(mark.len()).any(|part| part == mark)
        };
        if self.temporary.as_deref().is_some_and(|name| !is_temporary(name)) {
            return Err(Error::corrupt("journal names a temporary file that is not ours"));
        }
        let ranges = self.passed.iter().chain(self.image.iter().flat_map(|image| &image.held));
        let limit = u64::try_from(i64::MAX).unwrap_or(u64::MAX);
        if ranges.clone().any(|(start, end)| start >= end || *end > limit) {
            return Err(Error::corrupt("journal has a range that ends before it begins"));
        }
        if let Some(image) = &self.image {
            let is_ordered = image.sums.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let most = limit >> 20;
            if !is_ordered || image.len > limit || image.sums.last().is_some_and(|last| last.0 >= most) {
                return Err(Error::corrupt("journal has checksums of blocks that no file has"));
            }
        }
        Ok(())
    }
}

impl From<JournalV4> for Journal {
    fn from(old: JournalV4) -> Self {
        Self {
            kind: old.kind,
            state: old.state,
            destination: old.destination,
            pid: old.pid,
            created_ns: old.created_ns,
            sealed_ns: old.sealed_ns,
            host: old.host,
            boot: old.boot,
            priority: old.priority,
            latest: old.latest,
            // The umask is part of it: a default list may take more of it, and gives nothing back.
            requested_mode: old.mode,
            mode: old.mode,
            read_back: old.read_back,
            is_shared: old.kind == ItemKind::Update && old.is_shared,
            is_program_image: old.kind == ItemKind::Create && old.is_shared,
            is_exclusive: false,
            claim: None,
            directory: None,
            log: old.log,
            expected: old.expected,
            temporary: old.temporary,
            published: old.published,
            passed: old.passed,
            image: old.image,
            error: old.error,
        }
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mut journal = Journal::new(ItemKind::Create, Path::new("/data/a.h5"), "boot".to_owned());
        journal.set_temporary(Some(OsStr::new(".a.h5.forebay-0123")));
        journal.image = Some(ImageSums { len: 10, held: vec![(0, 10)], sums: vec![(0, 7)] });
        journal
    }

    #[test]
    fn a_journal_is_read_as_it_was_written_and_any_changed_byte_is_noticed() {
        let written = journal();
        let bytes = written.encode().unwrap();
        assert_eq!(Journal::decode(&bytes).unwrap(), written);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert!(Journal::decode(&changed).is_err(), "byte {at}");
            assert!(Journal::decode(&bytes[..at]).is_err());
        }
    }

    #[test]
    fn a_journal_leads_to_no_file_that_is_not_ours() {
        for name in ["../../etc/passwd", "a.h5", ".profile", "x/.a.forebay-1"] {
            let mut hostile = journal();
            hostile.set_temporary(Some(OsStr::new(name)));
            let error = Journal::decode(&hostile.encode().unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}");
        }
        let mut hostile = journal();
        hostile.destination = b"a.h5".to_vec();
        assert!(Journal::decode(&hostile.encode().unwrap()).is_err());
    }
}
