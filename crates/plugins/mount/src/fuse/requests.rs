//! The requests of the kernel, each answered by one call of what is mounted.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use rustix::fs::AtFlags;

use crate::fuse::{
    attributes::{AttributeChanges, clipped},
    folder_entries::reply_entries,
    handles::OpenHandle,
    mounted_files::{Maker, MountSpace, MountedChanges, MountedFiles, OpenedFile},
};

/// How long the kernel caches names, sizes and times.
const BELIEVED: Duration = Duration::from_secs(1);

/// Answers the requests of the kernel by a file system.
#[derive(Debug)]
pub(crate) struct FuseRequests<V>(pub(crate) V);

impl<V: MountedFiles> FuseRequests<V> {
    /// The changes of what is mounted. The kernel asks for none of a mount that is read-only.
    fn changes(&self) -> Result<&dyn MountedChanges, Errno> {
        self.0.changes().ok_or(Errno::ENOSYS)
    }
}

impl<V: MountedFiles> Filesystem for FuseRequests<V> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.0.configure(config);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.0.find(parent, name));
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.0.forget(node, count);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(reply, self.0.attributes(node));
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
        let done = self.changes().and_then(|files| files.set_attributes(node, handle, changes));
        answer_attributes(reply, done);
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.0.link_target(node) {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let maker = maker(request, mode);
        answer_entry(reply, self.changes().and_then(|files| files.create_folder(parent, name, maker)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.changes().and_then(|files| files.remove(parent, name, AtFlags::empty())));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.changes().and_then(|files| files.remove(parent, name, AtFlags::REMOVEDIR)));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let maker = maker(request, 0o777);
        answer_entry(reply, self.changes().and_then(|files| files.create_link(parent, name, target, maker)));
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
        let (from, to) = ((parent, name), (new_parent, new_name));
        answer(reply, self.changes().and_then(|files| files.rename(from, to, flags)));
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.changes().and_then(|files| files.link(node, parent, name)));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let OpenedFile { file, flags, passthrough } = match self.0.open(node, flags, &reply) {
            Ok(opened) => opened,
            Err(errno) => return reply.error(errno),
        };
        let handle = self.0.handles().add(OpenHandle::File(file));
        match passthrough {
            Some(copy) => reply.opened_passthrough(handle, flags, &copy.id),
            None => reply.opened(handle, flags),
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
        let maker = maker(request, mode);
        match self.changes().and_then(|files| files.create_file(parent, name, maker, flags)) {
            Ok(made) => reply.created(&BELIEVED, &made.attributes, Generation(0), made.handle, made.flags),
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
        let read = match self.0.handles().get(handle).as_deref() {
            Some(OpenHandle::File(file)) => self.0.read(file, offset, size as usize),
            Some(OpenHandle::Folder(_)) => Err(Errno::EISDIR),
            None => Err(Errno::EBADF),
        };
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
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
        match self.changes().and_then(|files| files.write(handle, offset, bytes)) {
            Ok(()) => reply.written(clipped(bytes.len() as u64)),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.changes().map(MountedChanges::sync));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.changes().map(MountedChanges::sync));
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
        if let Some(OpenHandle::File(file)) = self.0.handles().remove(handle).as_deref() {
            self.0.close(file);
        }
        reply.ok();
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.list(node) {
            Ok(entries) => {
                reply.opened(self.0.handles().add(OpenHandle::Folder(entries)), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        match self.0.handles().get(handle).as_deref() {
            Some(OpenHandle::Folder(entries)) => reply_entries(entries, offset, reply),
            _ => reply.error(Errno::EBADF),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        drop(self.0.handles().remove(handle));
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.0.space() {
            Ok(MountSpace { unit, blocks, free_blocks, files, free_files }) => {
                reply.statfs(blocks, free_blocks, free_blocks, files, free_files, 4096, 255, clipped(unit));
            }
            Err(errno) => reply.error(errno),
        }
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn answer_entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn answer_attributes(reply: ReplyAttr, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.attr(&BELIEVED, &attributes),
        Err(errno) => reply.error(errno),
    }
}

fn maker(request: &Request, mode: u32) -> Maker {
    Maker { uid: request.uid(), gid: request.gid(), mode }
}
