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

use bytes::Bytes;
use forebay_process::{Error, ErrorKind};
use forebay_source::{ByteRange, Source, SourceExt, SourceId};
use forebay_tier::{SourceKey, Tiered};
use fuser::{Errno, FileAttr, FopenFlags, INodeNo, InitFlags, KernelConfig, OpenFlags, ReplyOpen};

use crate::{
    fuse::{
        attributes::attributes,
        folder_entries::folder_entries,
        handles::{FolderEntry, Handles},
        mounted_files::{MountSpace, MountedChanges, MountedFiles, OpenedFile, PassthroughCopy},
        nodes::Nodes,
        origin_folder::stale_if_gone,
        read_full::read_full,
        tally::{Counter, MountTally},
    },
    tiered::{
        node_version::NodeVersion,
        open_nodes::{OpenNodes, OpenedVersion, OpenedWay},
        shown_files::{ShownFile, ShownFiles},
    },
};

/// The disk of a tier may itself be a file system over another, such as an overlay.
const STACK_DEPTH: u32 = 2;

/// A folder, shown read-only through tiers.
#[derive(Debug)]
pub(crate) struct TieredView {
    files: Arc<ShownFiles>,
    tiered: Option<Arc<Tiered>>,
    nodes: Nodes,
    open_nodes: OpenNodes,
    handles: Handles<ViewFile>,
    tally: Arc<MountTally>,
    /// Whether the kernel may read copies by itself.
    passes_through: AtomicBool,
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct ViewFile {
    node: INodeNo,
    /// The origin's file, whatever becomes of its name.
    plain: File,
    /// The same file through the tiers.
    source: Arc<dyn Source>,
    /// The copy that the kernel reads by itself, held as long as the file is open.
    _copy: Option<Arc<PassthroughCopy>>,
    /// True once the source could not be read: all that is read after that is the origin's file as it is.
    is_plain: AtomicBool,
}

impl TieredView {
    /// Shows `files` through `tiered`, or as they are.
    pub(crate) fn new(
        files: Arc<ShownFiles>,
        tiered: Option<Arc<Tiered>>,
        tally: Arc<MountTally>,
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

    fn number(&self, found: &Metadata) -> INodeNo {
        self.nodes.number_of(found.dev(), found.ino())
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
}

impl MountedFiles for TieredView {
    type File = ViewFile;

    fn configure(&mut self, kernel: &mut KernelConfig) {
        // Of use where the kernel has them: many lookups at once in one folder.
        let _ = kernel.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let can = kernel.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok();
        self.passes_through.store(can && kernel.set_max_stack_depth(STACK_DEPTH).is_ok(), Relaxed);
    }

    fn handles(&self) -> &Handles<ViewFile> {
        &self.handles
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let path = self.below(parent)?.join(name);
        let found = self.files.folder.metadata(&path)?;
        let mut shown = attributes(self.number(&found), &found)?;
        if found.is_file() {
            shown = self.open_nodes.look_up(NodeVersion::of(&found), shown);
        }
        self.nodes.look_up(shown.ino, &path);
        Ok(shown)
    }

    fn forget(&self, node: INodeNo, count: u64) {
        if node != INodeNo::ROOT && self.nodes.forget(node, count) {
            self.open_nodes.forget(node);
        }
    }

    fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        // `ESTALE` where its name is gone or another file's, so that it is looked up again.
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

    fn link_target(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        self.files.folder.link_target(&self.below(node)?).map_err(stale_if_gone)
    }

    fn list(&self, node: INodeNo) -> Result<Vec<FolderEntry>, Errno> {
        let folder = self.files.folder.folder(&self.below(node)?).map_err(stale_if_gone)?;
        folder_entries(folder, node, &self.nodes)
    }

    fn open(&self, node: INodeNo, _: OpenFlags, reply: &ReplyOpen) -> Result<OpenedFile<ViewFile>, Errno> {
        // At the version that the kernel was told of.
        let ShownFile { plain, found, source } = self.open_below(&self.below(node)?)?;
        let opened = OpenedVersion {
            version: NodeVersion::of(&found),
            attributes: attributes(node, &found)?,
            is_settled: source.id().version.is_settled(SystemTime::now()),
        };
        let way = self.open_nodes.open(node, opened, || self.passthrough_copy(source.id(), reply))?;
        self.tally.add(Counter::Opens, 1);
        let (passthrough, flags) = match way {
            OpenedWay::Passthrough(copy) => {
                self.tally.add(Counter::PassthroughOpens, 1);
                (Some(copy), FopenFlags::empty())
            }
            OpenedWay::Requests { keeps_cache: true } => {
                (None, FopenFlags::FOPEN_NOFLUSH | FopenFlags::FOPEN_KEEP_CACHE)
            }
            OpenedWay::Requests { keeps_cache: false } => (None, FopenFlags::FOPEN_NOFLUSH),
        };
        let copy = passthrough.clone();
        let file = ViewFile { node, plain, source, _copy: copy, is_plain: AtomicBool::new(false) };
        Ok(OpenedFile { file, flags, passthrough })
    }

    fn read(&self, file: &ViewFile, offset: u64, len: usize) -> Result<Bytes, Errno> {
        // From the origin's file as it is now where the source is an error, such as that of a changed file.
        let bytes = match file.fetch(offset, len as u64) {
            Some(bytes) => bytes,
            None => {
                if !file.is_plain.swap(true, Relaxed) {
                    self.tally.add(Counter::Fallbacks, 1);
                }
                read_full(&file.plain, offset, len)?.into()
            }
        };
        self.tally.add(Counter::Reads, 1);
        self.tally.add(Counter::Bytes, bytes.len() as u64);
        Ok(bytes)
    }

    fn close(&self, file: &ViewFile) {
        self.open_nodes.close(file.node);
    }

    fn space(&self) -> Result<MountSpace, Errno> {
        let found = self.files.folder.statvfs()?;
        let unit = found.f_frsize.max(1);
        // Nothing is free where nothing can be written.
        Ok(MountSpace { unit, blocks: found.f_blocks, free_blocks: 0, files: found.f_files, free_files: 0 })
    }

    fn changes(&self) -> Option<&dyn MountedChanges> {
        None
    }
}

impl ViewFile {
    /// The bytes of the version that was opened; nothing once they cannot be read.
    fn fetch(&self, offset: u64, len: u64) -> Option<Bytes> {
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
