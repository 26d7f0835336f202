//! A folder shown slowly: what is found and read. `changes` has what is written.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
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
    origin_folder::{OriginFolder, stale_if_gone},
    pace::PacedLine,
    pinned_entry::PinnedEntry,
    read_full::read_full,
    slow_options::{MountAccess, MountUsers, SlowMountOptions},
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
    pub(crate) handles: Handles<OpenHandle>,
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

    pub(crate) fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        if let Some(attributes) = self.made_up(node) {
            return Ok(attributes);
        }
        let found = match self.pinned(node) {
            Ok(entry) => entry.found,
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
            (HIDDEN_NODE, b"control") if self.access != MountAccess::ReadOnly => Some(CONTROL_NODE),
            _ => None,
        };
        if let Some(node) = special {
            return self.attributes(node);
        }
        let path = self.child(parent, name)?;
        let found = self.pinned(parent)?.entry(name)?.found;
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
        let opened = self.pinned(node).and_then(|entry| self.open_entry(&entry, flags));
        self.line.wait_for_names(began);
        Ok(OpenHandle::File(OpenFile::new(node, opened?)))
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
        let folder = self.pinned(node)?.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?;
        folder_entries(folder.into(), node, &self.nodes)
    }
}

/// True when `flags`, as the kernel hands them on, have all of `wanted`.
pub(crate) fn has(flags: i32, wanted: OFlags) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()).contains(wanted)
}
