//! A folder as the tiers have it: names and attributes are the origin's, bytes come from the nearest place.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use forebay_source::{ByteRange, Error, ErrorKind, Locator, Origin, Source, SourceExt, SourceId};
use forebay_tier::{SourceKey, Tiered};
use fuser::{Errno, FileAttr, INodeNo, ReplyOpen};

use crate::{
    attributes::attributes,
    folder_entries::folder_entries,
    handles::{FolderEntry, Handles},
    nodes::Nodes,
    open_nodes::{NodeVersion, OpenNodes, OpenedWay, PassthroughCopy},
    read_full::read_full,
    view_counters::ViewTally,
};

/// How often a file is looked at that changes between being asked for its times and being opened.
const LOOKS: usize = 8;

/// A folder, shown read-only through tiers.
#[derive(Debug)]
pub(crate) struct TieredView {
    pub(crate) folder: PathBuf,
    /// The tiers where there are some, else the files themselves.
    origin: Arc<dyn Origin>,
    tiered: Option<Arc<Tiered>>,
    nodes: Nodes,
    open_nodes: OpenNodes,
    pub(crate) handles: Handles<ViewHandle>,
    pub(crate) tally: Arc<ViewTally>,
    /// Whether the kernel may read copies by itself.
    pub(crate) passes_through: AtomicBool,
}

/// Something open.
#[derive(Debug)]
pub(crate) enum ViewHandle {
    /// A file.
    File(ViewFile),
    /// The entries of a folder, as they were when it was opened.
    Folder(Vec<FolderEntry>),
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct ViewFile {
    node: INodeNo,
    path: PathBuf,
    source: Arc<dyn Source>,
    pub(crate) way: OpenedWay,
    /// The origin's file, once the source could not be read: all that is read after that comes from it.
    plain: OnceLock<File>,
}

impl TieredView {
    pub(crate) fn new(
        folder: PathBuf,
        origin: Arc<dyn Origin>,
        tiered: Option<Arc<Tiered>>,
        tally: Arc<ViewTally>,
    ) -> io::Result<Self> {
        Ok(Self {
            nodes: Nodes::new(fs::metadata(&folder)?.dev()),
            folder,
            origin,
            passes_through: AtomicBool::new(false),
            tiered,
            open_nodes: OpenNodes::default(),
            handles: Handles::default(),
            tally,
        })
    }

    /// The path at the origin of a node.
    pub(crate) fn below(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        let path = self.nodes.path(node).ok_or(Errno::ENOENT)?;
        Ok(if path.as_os_str().is_empty() { self.folder.clone() } else { self.folder.join(path) })
    }

    pub(crate) fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let path = self.nodes.path(parent).ok_or(Errno::ENOENT)?.join(name);
        let found = fs::symlink_metadata(self.folder.join(&path))?;
        let node = self.nodes.number_of(found.dev(), found.ino());
        if !found.is_file() {
            let told = attributes(node, &found)?;
            self.nodes.look_up(node, &path);
            return Ok(told);
        }
        let version = NodeVersion::of(&found);
        let node = self.open_nodes.number(node, version);
        let told = attributes(node, &found)?;
        self.nodes.look_up(node, &path);
        Ok(self.open_nodes.tell(node, version, told))
    }

    /// The kernel has forgotten `count` lookups of `node`.
    pub(crate) fn forget_lookups(&self, node: INodeNo, count: u64) {
        if node != INodeNo::ROOT && self.nodes.forget(node, count) {
            self.open_nodes.forget(node);
        }
    }

    pub(crate) fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        let found = self.below(node).and_then(|path| Ok(fs::symlink_metadata(path)?));
        match found {
            Ok(found) if found.is_file() => {
                Ok(self.open_nodes.tell(node, NodeVersion::of(&found), attributes(node, &found)?))
            }
            Ok(found) => attributes(node, &found),
            // Its name is gone, but somebody has it open.
            Err(errno) => self.open_nodes.opened_as(node).ok_or(errno),
        }
    }

    pub(crate) fn list(&self, node: INodeNo) -> Result<Vec<FolderEntry>, Errno> {
        folder_entries(&self.below(node)?, node, &self.nodes)
    }

    /// Opens a file at the version that the kernel was told of; `reply` is what the kernel is asked by to read a copy.
    pub(crate) fn open_file(&self, node: INodeNo, reply: &ReplyOpen) -> Result<ViewFile, Errno> {
        // By a name that may be gone: the kernel looks it up again, and finds that out.
        let path = self.below(node).map_err(|_| Errno::ESTALE)?;
        let (found, source) = self.source_at(&path)?;
        let version = NodeVersion::of(&found);
        let find = || self.passthrough_copy(source.id(), reply);
        let way = self.open_nodes.open(node, (version, attributes(node, &found)?), find)?;
        self.tally.opens.fetch_add(1, Relaxed);
        if matches!(way, OpenedWay::Passthrough(_)) {
            self.tally.passthrough_opens.fetch_add(1, Relaxed);
        }
        Ok(ViewFile { node, path, source, way, plain: OnceLock::new() })
    }

    /// The file at `path` and what is known of it, of one version.
    fn source_at(&self, path: &Path) -> Result<(fs::Metadata, Arc<dyn Source>), Errno> {
        for _ in 0..LOOKS {
            let found = fs::symlink_metadata(path).map_err(stale_if_gone)?;
            let source = self.origin.open(&Locator::from_path(path)).map_err(|error| errno_of(&error))?;
            if is_of(source.id(), &found) {
                return Ok((found, source));
            }
        }
        Err(Errno::ESTALE)
    }

    /// The whole copy of a source on a disk tier, for the kernel to read by itself.
    fn passthrough_copy(&self, id: &SourceId, reply: &ReplyOpen) -> Option<PassthroughCopy> {
        if !self.passes_through.load(Relaxed) {
            return None;
        }
        let lease = self.tiered.as_ref()?.whole_copy(SourceKey::of(id))?.descriptor()?;
        match reply.open_backing(&lease) {
            Ok(id) => Some(PassthroughCopy { id, _lease: lease }),
            Err(error) => {
                // Only root may have the kernel do so, and not on every file system.
                if error.kind() == io::ErrorKind::PermissionDenied {
                    self.passes_through.store(false, Relaxed);
                }
                None
            }
        }
    }

    /// Reads through the tiers; from the origin as it is now where that is an error, such as that of a changed file.
    pub(crate) fn read(&self, file: &ViewFile, offset: u64, len: u64) -> Result<bytes::Bytes, Errno> {
        let bytes = match file.plain.get() {
            Some(plain) => read_plain(plain, offset, len)?,
            None => match file.fetch(offset, len) {
                Ok(bytes) => bytes,
                Err(_) => {
                    self.tally.fallbacks.fetch_add(1, Relaxed);
                    read_plain(file.plain()?, offset, len)?
                }
            },
        };
        self.tally.reads.fetch_add(1, Relaxed);
        self.tally.bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes)
    }

    pub(crate) fn close(&self, file: &ViewFile) {
        self.open_nodes.close(file.node);
    }
}

impl ViewFile {
    fn fetch(&self, offset: u64, len: u64) -> forebay_source::Result<bytes::Bytes> {
        let end = offset.saturating_add(len).min(self.source.id().len);
        let range = ByteRange { start: offset.min(end), end };
        self.source.fetch_one(range)
    }

    fn plain(&self) -> io::Result<&File> {
        let file = File::open(&self.path)?;
        Ok(self.plain.get_or_init(|| file))
    }
}

fn read_plain(file: &File, offset: u64, len: u64) -> io::Result<bytes::Bytes> {
    read_full(file, offset, usize::try_from(len).unwrap_or(usize::MAX)).map(Into::into)
}

/// An error of a name that was good when the kernel was told of it.
fn stale_if_gone(error: io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Errno::ESTALE,
        _ => error.into(),
    }
}

/// True when `id` is of the file that was `found`.
fn is_of(id: &SourceId, found: &fs::Metadata) -> bool {
    let changed_ns = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    id.len == found.len()
        && id.version.file.is_none_or(|file| file.inode == found.ino() && file.changed_ns == changed_ns)
}

/// What a program is answered for an error of the origin.
pub(crate) fn errno_of(error: &Error) -> Errno {
    if let Some(errno) = error.raw_os_error() {
        return Errno::from_i32(errno);
    }
    match error.kind() {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::Denied => Errno::EACCES,
        ErrorKind::Unavailable => Errno::EAGAIN,
        _ => Errno::EIO,
    }
}
