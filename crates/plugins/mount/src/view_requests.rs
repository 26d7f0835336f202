//! The requests of the kernel to a folder that is shown through tiers, each answered by one call.

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt, sync::atomic::Ordering::Relaxed, time::Duration};

use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, Request,
};

use crate::{
    attributes::clipped,
    folder_entries::reply_entries,
    open_nodes::OpenedWay,
    tiered_view::{TieredView, ViewHandle},
};

/// How long the kernel caches names, sizes and times; each open asks the origin.
const BELIEVED: Duration = Duration::from_secs(1);

/// The disk of a tier may itself be a file system over another, such as an overlay.
const STACK_DEPTH: u32 = 2;

impl Filesystem for TieredView {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Of use where the kernel has them: many lookups at once in one folder.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let can = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok();
        self.passes_through.store(can && config.set_max_stack_depth(STACK_DEPTH).is_ok(), Relaxed);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.forget_lookups(node, count);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Ok(attributes) => reply.attr(&BELIEVED, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.link_target(node) {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let file = match self.open_file(node, &reply) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let copy = match &file.way {
            OpenedWay::Passthrough(copy) => Some(std::sync::Arc::clone(copy)),
            OpenedWay::Requests { .. } => None,
        };
        let keeps_cache = matches!(file.way, OpenedWay::Requests { keeps_cache: true });
        let handle = self.handles.add(ViewHandle::File(file));
        let flags = if keeps_cache { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        match copy {
            Some(copy) => reply.opened_passthrough(handle, FopenFlags::empty(), &copy.id),
            None => reply.opened(handle, flags | FopenFlags::FOPEN_NOFLUSH),
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
        let open = self.handles.get(handle);
        let Some(ViewHandle::File(file)) = open.as_deref() else { return reply.error(Errno::EBADF) };
        match TieredView::read(self, file, offset, size.into()) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
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
        if let Some(ViewHandle::File(file)) = self.handles.remove(handle).as_deref() {
            self.close(file);
        }
        reply.ok();
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(node) {
            Ok(entries) => reply.opened(self.handles.add(ViewHandle::Folder(entries)), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let open = self.handles.get(handle);
        match open.as_deref() {
            Some(ViewHandle::Folder(entries)) => reply_entries(entries, offset, reply),
            _ => reply.error(Errno::EBADF),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        drop(self.handles.remove(handle));
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.statvfs() {
            // Nothing is free where nothing can be written.
            Ok(found) => {
                let unit = clipped(found.f_frsize.max(1));
                reply.statfs(found.f_blocks, 0, 0, found.f_files, 0, 4096, 255, unit);
            }
            Err(error) => reply.error(error.into()),
        }
    }
}
