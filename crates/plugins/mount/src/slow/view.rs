//! A folder shown slowly: what is found and read. `changes` has what is written.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU8},
    time::Instant,
};

use bytes::Bytes;
use fuser::{
    Errno, FileAttr, FileType, FopenFlags, INodeNo, InitFlags, KernelConfig, OpenAccMode, OpenFlags,
    ReplyOpen,
};
use rustix::fs::OFlags;

use crate::{
    fuse::{
        attributes::{attributes, made_up},
        folder_entries::folder_entries,
        handles::{FolderEntry, Handles},
        mounted_files::{MountSpace, MountedChanges, MountedFiles, OpenedFile},
        nodes::Nodes,
        origin_folder::{OriginFolder, stale_if_gone},
        pinned_entry::PinnedEntry,
        read_full::read_full,
        tally::{Counter, MountTally},
    },
    slow::{
        capacity::MountCapacity,
        counters::MountCounters,
        open_file::{OpenFile, SlowFile},
        options::{MountAccess, MountUsers, SlowMountOptions},
        pace::PacedLine,
    },
};

/// The folder on every mount that no listing shows.
const HIDDEN: &str = ".forebay-slow";
/// Where on a mount its counters stand, as JSON.
pub const COUNTERS_FILE: &str = ".forebay-slow/counters.json";
/// What sets the counters back when it is opened, and gives what they were.
pub const RESET_FILE: &str = ".forebay-slow/reset.json";
/// What a mount that can be written to is told by a line: `read-only`, `full` or `normal`.
pub const CONTROL_FILE: &str = ".forebay-slow/control";

const HIDDEN_NODE: INodeNo = INodeNo(2);
const COUNTERS_NODE: INodeNo = INodeNo(3);
const RESET_NODE: INodeNo = INodeNo(4);
const CONTROL_NODE: INodeNo = INodeNo(5);

/// Past the page cache, so that each read and write of a program arrives here; writers of one file do not wait for
/// each other, as clients of a parallel file system do not.
pub(crate) const OPENED: FopenFlags = FopenFlags::FOPEN_DIRECT_IO
    .union(FopenFlags::FOPEN_NOFLUSH)
    .union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// A folder, shown slowly.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) folder: OriginFolder,
    pub(crate) access: MountAccess,
    users: MountUsers,
    /// The errno that every write gets for now, or 0.
    pub(crate) refusal: AtomicU8,
    pub(crate) line: PacedLine,
    pub(crate) capacity: MountCapacity,
    pub(crate) nodes: Nodes,
    pub(crate) handles: Handles<SlowFile>,
    pub(crate) tally: Arc<MountTally>,
}

impl Slow {
    /// Shows the directory at `path`; with a capacity, what lies in it is counted first.
    pub(crate) fn new(path: &Path, options: SlowMountOptions, tally: Arc<MountTally>) -> io::Result<Self> {
        let SlowMountOptions { pace, access, users } = options;
        let folder = OriginFolder::open(path)?;
        let capacity = match access {
            MountAccess::ReadOnly => None,
            MountAccess::Writable { capacity } => capacity,
        };
        Ok(Self {
            nodes: Nodes::new(folder.metadata(Path::new(""))?.dev()),
            capacity: MountCapacity::new(&folder, capacity)?,
            folder,
            access,
            users,
            refusal: AtomicU8::new(0),
            line: PacedLine::new(pace),
            handles: Handles::default(),
            tally,
        })
    }

    /// Holds what `node` stands for; `ESTALE` where its name is gone or another file's by now, so that the kernel looks it up again
    /// and checks the permissions of what it finds.
    pub(crate) fn pinned(&self, node: INodeNo) -> Result<PinnedEntry, Errno> {
        let path = self.nodes.path(node).ok_or(Errno::ENOENT)?;
        let entry = self.folder.pin(&path).map_err(stale_if_gone)?;
        if self.is_node(node, &entry.found) { Ok(entry) } else { Err(Errno::ESTALE) }
    }

    fn is_node(&self, node: INodeNo, found: &Metadata) -> bool {
        // Some file systems number directories differently from time to time. Where all requests come from one user, a directory is
        // whatever has its name.
        let is_by_name = found.is_dir() && self.users == MountUsers::Owner;
        node == INodeNo::ROOT || is_by_name || self.nodes.number_of(found.dev(), found.ino()) == node
    }

    /// The path on the mount of a name in a folder.
    pub(crate) fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        // The kernel asks for no such name, which would lead out of the directory.
        if name == ".." || name.as_bytes().contains(&b'/') {
            return Err(Errno::EINVAL);
        }
        Ok(self.nodes.path(parent).ok_or(Errno::ENOENT)?.join(name))
    }

    pub(crate) fn attributes_of(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        if let Some(attributes) = self.made_up(node) {
            return Ok(attributes);
        }
        let found = match self.pinned(node) {
            Ok(entry) => entry.found,
            // Its last name is gone, but somebody has it open.
            Err(errno) => self.open_file_of(node).ok_or(errno)?.file.metadata()?,
        };
        attributes(node, &found)
    }

    /// A file that is open and has this number.
    pub(crate) fn open_file_of(&self, node: INodeNo) -> Option<Arc<OpenFile>> {
        self.handles.find_file(|file| match file {
            SlowFile::Below(open) if open.node == node => Some(Arc::clone(open)),
            _ => None,
        })
    }

    /// The attributes of what exists on the mount only.
    pub(crate) fn made_up(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, perm) = match node {
            HIDDEN_NODE => (FileType::Directory, 0o555),
            COUNTERS_NODE | RESET_NODE => (FileType::RegularFile, 0o444),
            CONTROL_NODE => (FileType::RegularFile, 0o200),
            _ => return None,
        };
        Some(made_up(node, kind, perm))
    }

    pub(crate) fn open_file(&self, node: INodeNo, flags: OpenFlags) -> Result<SlowFile, Errno> {
        match node {
            COUNTERS_NODE => return Ok(SlowFile::Text(MountCounters::new(&self.tally.recent()).json())),
            RESET_NODE => return Ok(SlowFile::Text(MountCounters::new(&self.tally.take()).json())),
            CONTROL_NODE => return Ok(SlowFile::Control),
            _ => {}
        }
        let began = Instant::now();
        self.tally.add(Counter::Opens, 1);
        let opened = self.pinned(node).and_then(|entry| self.open_entry(&entry, flags));
        self.line.wait_for_names(began);
        Ok(SlowFile::Below(OpenFile::new(node, opened?)))
    }

    fn open_entry(&self, entry: &PinnedEntry, flags: OpenFlags) -> Result<File, Errno> {
        let mode = flags.acc_mode();
        let writes = mode != OpenAccMode::O_RDONLY;
        if writes {
            self.check_writable()?;
        }
        // The kernel opens pipes and devices by itself.
        if !entry.found.is_file() {
            return Err(Errno::ESTALE);
        }
        let file = entry.reopen(match mode {
            OpenAccMode::O_RDONLY => OFlags::RDONLY,
            OpenAccMode::O_WRONLY => OFlags::WRONLY,
            OpenAccMode::O_RDWR => OFlags::RDWR,
        })?;
        if writes && has(flags.0, OFlags::TRUNC) {
            self.truncate(&file, 0)?;
        }
        Ok(file)
    }

    /// Reads, and comes back when a file system of this pace would have.
    pub(crate) fn read_file(&self, open: &OpenFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let began = Instant::now();
        let is_rest = open.reads.is_rest(offset, len as u64);
        let bytes = read_full(&open.file, offset, len)?;
        let operations = self.line.operations(bytes.len() as u64, is_rest);
        self.tally.add(Counter::Requests, 1);
        self.tally.add(Counter::Bytes, bytes.len() as u64);
        self.tally.add(Counter::Reads, operations);
        self.line.wait_for_bytes(began, operations, bytes.len() as u64);
        Ok(bytes)
    }
}

impl MountedFiles for Slow {
    type File = SlowFile;

    fn configure(&mut self, kernel: &mut KernelConfig) {
        // Of use where the kernel has them: many lookups at once in one folder, mapping a file whose reads
        // bypass the page cache, and opening and emptying a file by one request.
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
        ] {
            let _ = kernel.add_capabilities(wanted);
        }
    }

    fn handles(&self) -> &Handles<SlowFile> {
        &self.handles
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        self.tally.add(Counter::Lookups, 1);
        let special = match (parent, name.as_bytes()) {
            (INodeNo::ROOT, name) if name == HIDDEN.as_bytes() => Some(HIDDEN_NODE),
            (HIDDEN_NODE, b"counters.json") => Some(COUNTERS_NODE),
            (HIDDEN_NODE, b"reset.json") => Some(RESET_NODE),
            (HIDDEN_NODE, b"control") if self.access != MountAccess::ReadOnly => Some(CONTROL_NODE),
            _ => None,
        };
        if let Some(node) = special {
            return self.attributes_of(node);
        }
        let path = self.child(parent, name)?;
        let found = self.pinned(parent)?.entry(name)?.found;
        attributes(self.nodes.number(&path, &found), &found)
    }

    fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        self.tally.add(Counter::Stats, 1);
        self.attributes_of(node)
    }

    fn link_target(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        Ok(self.pinned(node)?.link_target()?)
    }

    fn list(&self, node: INodeNo) -> Result<Vec<FolderEntry>, Errno> {
        if node == HIDDEN_NODE {
            return Ok(Vec::new());
        }
        self.tally.add(Counter::Lists, 1);
        let folder = self.pinned(node)?.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?;
        folder_entries(folder.into(), node, &self.nodes)
    }

    fn open(&self, node: INodeNo, flags: OpenFlags, _: &ReplyOpen) -> Result<OpenedFile<SlowFile>, Errno> {
        Ok(OpenedFile { file: self.open_file(node, flags)?, flags: OPENED, passthrough: None })
    }

    fn read(&self, file: &SlowFile, offset: u64, len: usize) -> Result<Bytes, Errno> {
        match file {
            SlowFile::Control => Ok(Bytes::new()),
            SlowFile::Text(text) => Ok(Bytes::copy_from_slice(part(text, offset, len))),
            SlowFile::Below(open) => Ok(self.read_file(open, offset, len)?.into()),
        }
    }

    fn space(&self) -> Result<MountSpace, Errno> {
        let found = self.folder.statvfs()?;
        let unit = found.f_frsize.max(1);
        let (blocks, free_blocks) = match (self.access, self.capacity.left()) {
            // Nothing is free where nothing can be written.
            (MountAccess::ReadOnly, _) => (found.f_blocks, 0),
            (MountAccess::Writable { .. }, None) => (found.f_blocks, found.f_bavail),
            (MountAccess::Writable { .. }, Some((limit, left))) => (limit / unit, left / unit),
        };
        Ok(MountSpace { unit, blocks, free_blocks, files: found.f_files, free_files: found.f_ffree })
    }

    fn changes(&self) -> Option<&dyn MountedChanges> {
        Some(self)
    }
}

fn part(text: &[u8], offset: u64, len: usize) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    &text[start..start.saturating_add(len).min(text.len())]
}

/// True when `flags`, as the kernel hands them on, have all of `wanted`.
pub(crate) fn has(flags: i32, wanted: OFlags) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()).contains(wanted)
}
