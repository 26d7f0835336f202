//! A folder shown slowly: what is found and read. `changes` has what is written.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    time::Instant,
};

use fuser::{Errno, FileAttr, FileType, INodeNo, OpenAccMode, OpenFlags};
use rustix::fs::OFlags;

use crate::{
    attributes::{attributes, made_up},
    capacity::MountCapacity,
    counters::MountTally,
    folder_entries::folder_entries,
    handles::{FolderEntry, Handles, OpenFile, OpenHandle},
    nodes::Nodes,
    pace::{Pace, PacedLine},
    read_full::read_full,
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

/// Whether a mount can be written to at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    Writable,
}

/// A folder, shown slowly.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) folder: PathBuf,
    pub(crate) access: Access,
    /// The errno that every write gets for now, or 0.
    pub(crate) refusal: AtomicU8,
    pub(crate) line: PacedLine,
    pub(crate) capacity: MountCapacity,
    pub(crate) nodes: Nodes,
    pub(crate) handles: Handles<OpenHandle>,
    pub(crate) tally: Arc<MountTally>,
}

impl Slow {
    /// Shows `folder`; with a capacity, what lies in it is counted first.
    pub(crate) fn new(
        folder: PathBuf,
        pace: Pace,
        access: Access,
        capacity: Option<u64>,
        tally: Arc<MountTally>,
    ) -> io::Result<Self> {
        Ok(Self {
            nodes: Nodes::new(fs::metadata(&folder)?.dev()),
            capacity: MountCapacity::new(&folder, capacity)?,
            folder,
            access,
            refusal: AtomicU8::new(0),
            line: PacedLine::new(pace),
            handles: Handles::default(),
            tally,
        })
    }

    /// The path below of a path on the mount.
    pub(crate) fn join(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.folder.clone() } else { self.folder.join(path) }
    }

    /// The path below of a node.
    pub(crate) fn below(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        Ok(self.join(&self.nodes.path(node).ok_or(Errno::ENOENT)?))
    }

    /// The path on the mount of a name in a folder.
    pub(crate) fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        Ok(self.nodes.path(parent).ok_or(Errno::ENOENT)?.join(name))
    }

    pub(crate) fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        if let Some(attributes) = self.made_up(node) {
            return Ok(attributes);
        }
        let found = match self.below(node) {
            Ok(path) => fs::symlink_metadata(path)?,
            // Its last name is gone, but somebody has it open.
            Err(errno) => self.handles.file_of(node).ok_or(errno)?.file.metadata()?,
        };
        attributes(node, &found)
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

    pub(crate) fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let special = match (parent, name.as_bytes()) {
            (INodeNo::ROOT, name) if name == HIDDEN.as_bytes() => Some(HIDDEN_NODE),
            (HIDDEN_NODE, b"counters.json") => Some(COUNTERS_NODE),
            (HIDDEN_NODE, b"reset.json") => Some(RESET_NODE),
            (HIDDEN_NODE, b"control") if self.access == Access::Writable => Some(CONTROL_NODE),
            _ => None,
        };
        if let Some(node) = special {
            return self.attributes(node);
        }
        let path = self.child(parent, name)?;
        let found = fs::symlink_metadata(self.folder.join(&path))?;
        attributes(self.nodes.number(&path, &found), &found)
    }

    pub(crate) fn open_file(&self, node: INodeNo, flags: OpenFlags) -> Result<OpenHandle, Errno> {
        match node {
            COUNTERS_NODE => return Ok(OpenHandle::Text(self.tally.recent().json())),
            RESET_NODE => return Ok(OpenHandle::Text(self.tally.take().json())),
            CONTROL_NODE => return Ok(OpenHandle::Control),
            _ => {}
        }
        let began = Instant::now();
        self.tally.opens.fetch_add(1, Relaxed);
        let opened = self.below(node).and_then(|path| self.open_below(&path, flags));
        self.line.wait_for_names(began);
        Ok(OpenHandle::File(OpenFile::new(node, opened?)))
    }

    fn open_below(&self, path: &Path, flags: OpenFlags) -> Result<File, Errno> {
        let mode = flags.acc_mode();
        let (reads, writes) = (mode != OpenAccMode::O_WRONLY, mode != OpenAccMode::O_RDONLY);
        if writes {
            self.check_writable()?;
        }
        let file = File::options().read(reads).write(writes).open(path)?;
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
        self.tally.requests.fetch_add(1, Relaxed);
        self.tally.bytes.fetch_add(bytes.len() as u64, Relaxed);
        self.tally.reads.fetch_add(operations, Relaxed);
        self.line.wait_for_bytes(began, operations, bytes.len() as u64);
        Ok(bytes)
    }

    pub(crate) fn list(&self, node: INodeNo) -> Result<Vec<FolderEntry>, Errno> {
        if node == HIDDEN_NODE {
            return Ok(Vec::new());
        }
        self.tally.lists.fetch_add(1, Relaxed);
        folder_entries(File::open(self.below(node)?)?.into(), node, &self.nodes)
    }
}

/// True when `flags`, as the kernel hands them on, have all of `wanted`.
pub(crate) fn has(flags: i32, wanted: OFlags) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()).contains(wanted)
}
