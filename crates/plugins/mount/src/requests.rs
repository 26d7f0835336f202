//! The requests of the kernel, each answered by one call.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use rustix::fs::AtFlags;

use crate::{
    attributes::{AttributeChanges, clipped},
    changes::Maker,
    folder_entries::reply_entries,
    handles::OpenHandle,
    slow::Slow,
    slow_options::MountAccess,
};

/// How long the kernel caches names, sizes and times.
const BELIEVED: Duration = Duration::from_secs(1);

/// Past the page cache, so that each read and write of a program arrives here; writers of one file do not wait for
/// each other, as clients of a parallel file system do not.
const OPENED: FopenFlags = FopenFlags::FOPEN_DIRECT_IO
    .union(FopenFlags::FOPEN_NOFLUSH)
    .union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

impl Filesystem for Slow {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Of use where the kernel has them: many lookups at once in one folder, mapping a file whose reads
        // bypass the page cache, and opening and emptying a file by one request.
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
        ] {
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

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        len: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = AttributeChanges { mode, uid, gid, len, atime, mtime };
        match self.set_attributes(node, handle, changes) {
            Ok(attributes) => reply.attr(&BELIEVED, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        let target = self.pinned(node).and_then(|entry| Ok(entry.link_target()?));
        match target {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        match self.create_folder(parent, name, maker(request, mode)) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, AtFlags::REMOVEDIR));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        match self.create_link(parent, name, target, maker(request, 0o777)) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(reply, Slow::rename(self, (parent, name), (new_parent, new_name), flags));
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match Slow::link(self, node, parent, name) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(node, flags) {
            Ok(open) => reply.opened(self.handles.add(open), OPENED),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_file(parent, name, maker(request, mode), flags) {
            Ok((attributes, open)) => {
                reply.created(&BELIEVED, &attributes, Generation(0), self.handles.add(open), OPENED);
            }
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
            OpenHandle::Control => reply.data(&[]),
            OpenHandle::Text(text) => reply.data(part(text, offset, size as usize)),
            OpenHandle::File(open) => match self.read_file(open, offset, size as usize) {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(error.into()),
            },
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let open = self.handles.get(handle);
        let done = match open.as_deref() {
            Some(OpenHandle::File(open)) => self.write_file(open, offset, bytes),
            Some(OpenHandle::Control) => self.control(bytes),
            _ => Err(Errno::EBADF),
        };
        match done {
            Ok(()) => reply.written(clipped(bytes.len() as u64)),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync();
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync();
        reply.ok();
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
        drop(self.handles.remove(handle));
        reply.ok();
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(node) {
            Ok(entries) => reply.opened(self.handles.add(OpenHandle::Folder(entries)), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let open = self.handles.get(handle);
        match open.as_deref() {
            Some(OpenHandle::Folder(entries)) => reply_entries(entries, offset, reply),
            _ => reply.error(Errno::EBADF),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        drop(self.handles.remove(handle));
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let found = match self.folder.statvfs() {
            Ok(found) => found,
            Err(error) => return reply.error(error.into()),
        };
        let unit = found.f_frsize.max(1);
        let (blocks, free) = match (self.access, self.capacity.left()) {
            // Nothing is free where nothing can be written.
            (MountAccess::ReadOnly, _) => (found.f_blocks, 0),
            (MountAccess::Writable { .. }, None) => (found.f_blocks, found.f_bavail),
            (MountAccess::Writable { .. }, Some((limit, left))) => (limit / unit, left / unit),
        };
        reply.statfs(blocks, free, free, found.f_files, found.f_ffree, 4096, 255, clipped(unit));
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn maker(request: &Request, mode: u32) -> Maker {
    Maker { uid: request.uid(), gid: request.gid(), mode }
}

fn part(text: &[u8], offset: u64, len: usize) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    &text[start..start.saturating_add(len).min(text.len())]
}
