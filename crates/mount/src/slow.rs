//! A folder shown as a slow file system, by its requests.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    io,
    num::NonZeroU64,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use forebay_source::Throttle;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, Request,
};

use crate::{
    counters::MountTally,
    handles::{FolderEntry, Handles, OpenHandle, ReadTail},
    nodes::Nodes,
};

/// How slow a mount is; by default not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// How long each read waits before its bytes begin to come.
    pub latency: Duration,
    /// How long each open waits.
    pub open_latency: Duration,
    /// How fast bytes come, for all readers together.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// The folder on every mount that no listing shows.
const HIDDEN: &str = ".forebay-slow";
/// Where on a mount its counters stand, as JSON.
pub const COUNTERS_FILE: &str = ".forebay-slow/counters.json";
/// What sets the counters back when it is opened, and gives what they were.
pub const RESET_FILE: &str = ".forebay-slow/reset.json";

const HIDDEN_NODE: INodeNo = INodeNo(2);
const COUNTERS_NODE: INodeNo = INodeNo(3);
const RESET_NODE: INodeNo = INodeNo(4);

/// How long the kernel caches names, sizes and times.
const BELIEVED: Duration = Duration::from_secs(1);

/// A folder, shown slowly.
#[derive(Debug)]
pub(crate) struct Slow {
    folder: PathBuf,
    pace: Pace,
    throttle: Throttle,
    nodes: Nodes,
    handles: Handles,
    tally: Arc<MountTally>,
}

impl Slow {
    pub(crate) fn new(folder: PathBuf, pace: Pace, tally: Arc<MountTally>) -> Self {
        let throttle = Throttle::new(pace.bytes_per_second);
        Self { folder, pace, throttle, nodes: Nodes::new(), handles: Handles::default(), tally }
    }

    /// The path below of a node.
    fn below(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        let path = self.nodes.path(node).ok_or(Errno::ENOENT)?;
        Ok(if path.as_os_str().is_empty() { self.folder.clone() } else { self.folder.join(path) })
    }

    fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        match hidden(node) {
            Some(attributes) => Ok(attributes),
            None => attributes(node, &fs::symlink_metadata(self.below(node)?)?),
        }
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let special = match (parent, name.as_bytes()) {
            (INodeNo::ROOT, name) if name == HIDDEN.as_bytes() => Some(HIDDEN_NODE),
            (HIDDEN_NODE, b"counters.json") => Some(COUNTERS_NODE),
            (HIDDEN_NODE, b"reset.json") => Some(RESET_NODE),
            _ => None,
        };
        if let Some(node) = special {
            return self.attributes(node);
        }
        let path = self.nodes.path(parent).ok_or(Errno::ENOENT)?.join(name);
        // What is not there gets no number.
        let found = fs::symlink_metadata(self.folder.join(&path))?;
        attributes(self.nodes.number(&path), &found)
    }

    fn open_file(&self, node: INodeNo) -> Result<OpenHandle, Errno> {
        match node {
            COUNTERS_NODE => return Ok(OpenHandle::Text(self.tally.recent().json())),
            RESET_NODE => return Ok(OpenHandle::Text(self.tally.take().json())),
            _ => {}
        }
        let began = Instant::now();
        self.tally.opens.fetch_add(1, Relaxed);
        let opened = File::open(self.below(node)?);
        sleep_until(began + self.pace.open_latency);
        Ok(OpenHandle::File(ReadTail::default(), opened?))
    }

    /// Reads, and comes back when a file system of this pace would have.
    fn read_file(&self, file: &File, is_rest: bool, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let began = Instant::now();
        let bytes = read_full(file, offset, len)?;
        self.tally.requests.fetch_add(1, Relaxed);
        self.tally.bytes.fetch_add(bytes.len() as u64, Relaxed);
        let latency = if is_rest { Duration::ZERO } else { self.pace.latency };
        if !is_rest {
            self.tally.reads.fetch_add(1, Relaxed);
        }
        sleep_until(self.throttle.pass(began + latency, bytes.len() as u64));
        Ok(bytes)
    }

    fn list(&self, node: INodeNo) -> Result<Vec<FolderEntry>, Errno> {
        if node == HIDDEN_NODE {
            return Ok(Vec::new());
        }
        self.tally.lists.fetch_add(1, Relaxed);
        let path = self.nodes.path(node).ok_or(Errno::ENOENT)?;
        let parent = path.parent().map_or(INodeNo::ROOT, |parent| self.nodes.number(parent));
        let dot = |name: &str, node| FolderEntry { node, kind: FileType::Directory, name: name.into() };
        let mut entries = vec![dot(".", node), dot("..", parent)];
        for found in fs::read_dir(self.below(node)?)? {
            let found = found?;
            let Some(kind) = FileType::from_std(found.file_type()?) else { continue };
            let name = found.file_name();
            entries.push(FolderEntry { node: self.nodes.number(&path.join(&name)), kind, name });
        }
        Ok(entries)
    }
}

impl Filesystem for Slow {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Of use where the kernel has them: many lookups at once in one folder, and mapping a file whose reads
        // bypass the page cache.
        for wanted in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            let _ = config.add_capabilities(wanted);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.tally.lookups.fetch_add(1, Relaxed);
        match self.find(parent, name) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.tally.stats.fetch_add(1, Relaxed);
        match self.attributes(node) {
            Ok(attributes) => reply.attr(&BELIEVED, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        let target = self.below(node).and_then(|path| Ok(fs::read_link(path)?));
        match target {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Past the page cache, so that each read of a program arrives here.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH;
        match self.open_file(node) {
            Ok(open) => reply.opened(self.handles.add(open), flags),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(open) = self.handles.get(handle) else { return reply.error(Errno::EBADF) };
        match &*open {
            OpenHandle::Folder(_) => reply.error(Errno::EISDIR),
            OpenHandle::Text(text) => reply.data(part(text, offset, size as usize)),
            OpenHandle::File(tail, file) => {
                let is_rest = tail.is_rest(offset, u64::from(size));
                match self.read_file(file, is_rest, offset, size as usize) {
                    Ok(bytes) => reply.data(&bytes),
                    Err(error) => reply.error(error.into()),
                }
            }
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.remove(handle);
        reply.ok();
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(node) {
            Ok(entries) => reply.opened(self.handles.add(OpenHandle::Folder(entries)), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let open = self.handles.get(handle);
        let Some(OpenHandle::Folder(entries)) = open.as_deref() else { return reply.error(Errno::EBADF) };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, entry) in entries.iter().enumerate().skip(start) {
            if reply.add(entry.node, index as u64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.handles.remove(handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::statvfs(&self.folder) {
            // Nothing is free where nothing can be written.
            Ok(found) => {
                reply.statfs(found.f_blocks, 0, 0, found.f_files, 0, 4096, 255, clipped(found.f_frsize))
            }
            Err(errno) => reply.error(io::Error::from(errno).into()),
        }
    }
}

fn sleep_until(end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

/// The bytes of a range, fewer only where the file ends.
fn read_full(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn part(text: &[u8], offset: u64, len: usize) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    &text[start..start.saturating_add(len).min(text.len())]
}

/// The attributes of what exists on the mount only.
fn hidden(node: INodeNo) -> Option<FileAttr> {
    let (kind, perm) = match node {
        HIDDEN_NODE => (FileType::Directory, 0o555),
        COUNTERS_NODE | RESET_NODE => (FileType::RegularFile, 0o444),
        _ => return None,
    };
    let now = SystemTime::now();
    let (atime, mtime, ctime, crtime) = (now, now, now, now);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // No length, as files of /proc have none: it is known once the file is open.
    let (size, blocks, nlink, rdev, blksize, flags) = (0, 0, 1, 0, 4096, 0);
    Some(FileAttr {
        ino: node,
        size,
        blocks,
        atime,
        mtime,
        ctime,
        crtime,
        kind,
        perm,
        nlink,
        uid,
        gid,
        rdev,
        blksize,
        flags,
    })
}

fn attributes(node: INodeNo, found: &Metadata) -> Result<FileAttr, Errno> {
    let kind = FileType::from_std(found.file_type()).ok_or(Errno::EIO)?;
    Ok(FileAttr {
        ino: node,
        size: found.size(),
        blocks: found.blocks(),
        atime: moment(found.atime(), found.atime_nsec()),
        mtime: moment(found.mtime(), found.mtime_nsec()),
        ctime: moment(found.ctime(), found.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind,
        perm: u16::try_from(found.mode() & 0o7777).unwrap_or(0o444),
        nlink: clipped(found.nlink()),
        uid: found.uid(),
        gid: found.gid(),
        rdev: clipped(found.rdev()),
        blksize: clipped(found.blksize()),
        flags: 0,
    })
}

fn moment(seconds: i64, nanos: i64) -> SystemTime {
    let nanos = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    moment.and_then(|moment| moment.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

fn clipped(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
