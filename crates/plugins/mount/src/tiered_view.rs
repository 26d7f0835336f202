//! A folder as the tiers have it: names and attributes are the origin's, bytes come from the nearest place.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::SystemTime,
};

use forebay_process::{Error, ErrorKind};
use forebay_source::{ByteRange, Source, SourceExt, SourceId};
use forebay_tier::{SourceKey, Tiered};
use fuser::{Errno, FileAttr, INodeNo, ReplyOpen};
use rustix::fs::StatVfs;

use crate::{
    attributes::attributes,
    folder_entries::folder_entries,
    handles::{FolderEntry, Handles},
    node_version::NodeVersion,
    nodes::Nodes,
    open_nodes::{OpenNodes, OpenedVersion, OpenedWay, PassthroughCopy},
    origin_folder::stale_if_gone,
    read_full::read_full,
    shown_files::{ShownFile, ShownFiles},
    view_counters::ViewTally,
};

/// A folder, shown read-only through tiers.
#[derive(Debug)]
pub(crate) struct TieredView {
    files: Arc<ShownFiles>,
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
    /// The origin's file, whatever becomes of its name.
    plain: File,
    /// The same file through the tiers.
    source: Arc<dyn Source>,
    pub(crate) way: OpenedWay,
    /// True once the source could not be read: all that is read after that is the origin's file as it is.
    is_plain: AtomicBool,
}

impl TieredView {
    /// Shows `files` through `tiered`, or as they are.
    pub(crate) fn new(
        files: Arc<ShownFiles>,
        tiered: Option<Arc<Tiered>>,
        tally: Arc<ViewTally>,
    ) -> io::Result<Self> {
        Ok(Self {
            nodes: Nodes::new(files.folder.metadata(Path::new(""))?.dev()),
            files,
            passes_through: AtomicBool::new(false),
            tiered,
            open_nodes: OpenNodes::default(),
            handles: Handles::default(),
            tally,
        })
    }

    /// The path of a node below the folder, by a name that may be gone.
    fn below(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        self.nodes.path(node).ok_or(Errno::ESTALE)
    }

    pub(crate) fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let path = self.below(parent)?.join(name);
        let found = self.files.folder.metadata(&path)?;
        let mut shown = attributes(self.number(&found), &found)?;
        if found.is_file() {
            shown = self.open_nodes.look_up(NodeVersion::of(&found), shown);
        }
        self.nodes.look_up(shown.ino, &path);
        Ok(shown)
    }

    fn number(&self, found: &Metadata) -> INodeNo {
        self.nodes.number_of(found.dev(), found.ino())
    }

    /// The kernel has forgotten `count` lookups of `node`.
    pub(crate) fn forget_lookups(&self, node: INodeNo, count: u64) {
        if node != INodeNo::ROOT && self.nodes.forget(node, count) {
            self.open_nodes.forget(node);
        }
    }

    /// What the kernel is told of `node`; `ESTALE` where its name is gone or another file's, so that it is looked up again.
    pub(crate) fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        let metadata = |path: PathBuf| self.files.folder.metadata(&path).map_err(stale_if_gone);
        let found = match self.below(node).and_then(metadata) {
            Ok(found) => found,
            // Its name is gone, but a program has it open.
            Err(errno) => return self.open_nodes.opened_as(node).ok_or(errno),
        };
        let shown = attributes(node, &found)?;
        if self.open_nodes.is_known(node) {
            let shown = match found.is_file() {
                true => self.open_nodes.attributes_now(node, NodeVersion::of(&found), shown),
                false => self.open_nodes.opened_as(node),
            };
            return shown.ok_or(Errno::ESTALE);
        }
        // Folders are known by their names alone: some file systems number them differently from time to time.
        if found.is_dir() || self.number(&found) == node { Ok(shown) } else { Err(Errno::ESTALE) }
    }

    pub(crate) fn link_target(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        self.files.folder.link_target(&self.below(node)?).map_err(stale_if_gone)
    }

    pub(crate) fn list(&self, node: INodeNo) -> Result<Vec<FolderEntry>, Errno> {
        let folder = self.files.folder.folder(&self.below(node)?).map_err(stale_if_gone)?;
        folder_entries(folder, node, &self.nodes)
    }

    pub(crate) fn statvfs(&self) -> io::Result<StatVfs> {
        self.files.folder.statvfs()
    }

    /// Opens a file at the version that the kernel was told of; `reply` is what the kernel is asked by to read a copy.
    pub(crate) fn open_file(&self, node: INodeNo, reply: &ReplyOpen) -> Result<ViewFile, Errno> {
        let ShownFile { plain, found, source } = self.open_below(&self.below(node)?)?;
        let opened = OpenedVersion {
            version: NodeVersion::of(&found),
            attributes: attributes(node, &found)?,
            is_settled: source.id().version.is_settled(SystemTime::now()),
        };
        let way = self.open_nodes.open(node, opened, || self.passthrough_copy(source.id(), reply))?;
        self.tally.opens.fetch_add(1, Relaxed);
        if matches!(way, OpenedWay::Passthrough(_)) {
            self.tally.passthrough_opens.fetch_add(1, Relaxed);
        }
        Ok(ViewFile { node, plain, source, way, is_plain: AtomicBool::new(false) })
    }

    /// The file at `path`, its source through the tiers where they keep any of it.
    fn open_below(&self, path: &Path) -> Result<ShownFile, Errno> {
        let opened = self.files.open_below(path).map_err(|error| match error.kind() {
            // The name was good when the kernel was told of it: it looks it up again, and finds out.
            ErrorKind::NotFound | ErrorKind::Invalid => Errno::ESTALE,
            _ => errno_of(&error),
        })?;
        let tiered = self.tiered.as_ref().and_then(|tiered| tiered.over(Arc::clone(&opened.source)));
        Ok(ShownFile { source: tiered.unwrap_or(Arc::clone(&opened.source)), ..opened })
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

    /// Reads through the tiers; from the origin's file as it is now where that is an error, such as that of a changed file.
    pub(crate) fn read(&self, file: &ViewFile, offset: u64, len: u64) -> Result<bytes::Bytes, Errno> {
        let bytes = match file.fetch(offset, len) {
            Some(bytes) => bytes,
            None => {
                if !file.is_plain.swap(true, Relaxed) {
                    self.tally.fallbacks.fetch_add(1, Relaxed);
                }
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                read_full(&file.plain, offset, len)?.into()
            }
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
    /// The bytes of the version that was opened; nothing once they cannot be read.
    fn fetch(&self, offset: u64, len: u64) -> Option<bytes::Bytes> {
        if self.is_plain.load(Relaxed) {
            return None;
        }
        let end = offset.saturating_add(len).min(self.source.id().len);
        self.source.fetch_one(ByteRange { start: offset.min(end), end }).ok()
    }
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
