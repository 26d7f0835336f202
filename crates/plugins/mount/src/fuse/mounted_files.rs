//! The file systems that can be mounted, as the requests of the kernel need them.

use std::{
    ffi::OsStr,
    fmt,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use fuser::{
    BackingId, Errno, FileAttr, FileHandle, FopenFlags, INodeNo, KernelConfig, OpenFlags, RenameFlags,
    ReplyOpen,
};
use rustix::fs::AtFlags;

use crate::fuse::{
    attributes::AttributeChanges,
    handles::{FolderEntry, Handles},
};

/// Names, attributes and bytes of a file system that can be mounted.
pub(crate) trait MountedFiles: fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: fmt::Debug + Send + Sync;

    /// Asks the kernel for what the file system has use for; called once, before all else.
    fn configure(&mut self, kernel: &mut KernelConfig);

    /// All that is open.
    fn handles(&self) -> &Handles<Self::File>;

    /// Looks `name` up in the directory `parent`.
    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno>;

    /// Notes that the kernel has forgotten `count` lookups of `node`.
    fn forget(&self, _node: INodeNo, _count: u64) {}

    /// The attributes of `node`.
    fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno>;

    /// The path that the link `node` leads to.
    fn link_target(&self, node: INodeNo) -> Result<PathBuf, Errno>;

    /// The entries of the directory `node`.
    fn list(&self, node: INodeNo) -> Result<Vec<FolderEntry>, Errno>;

    /// Opens a file; `reply` can have the kernel read another file in its place.
    fn open(
        &self,
        node: INodeNo,
        flags: OpenFlags,
        reply: &ReplyOpen,
    ) -> Result<OpenedFile<Self::File>, Errno>;

    /// Reads at most `len` bytes from `offset` on, fewer only at the end of the file.
    fn read(&self, file: &Self::File, offset: u64, len: usize) -> Result<Bytes, Errno>;

    /// Notes that a file was closed.
    fn close(&self, _file: &Self::File) {}

    /// How large the file system is.
    fn space(&self) -> Result<MountSpace, Errno>;

    /// Its changes, if it knows any: one that does not is mounted read-only.
    fn changes(&self) -> Option<&dyn MountedChanges>;
}

/// Changes of a file system that can be mounted for writing.
pub(crate) trait MountedChanges {
    /// Changes length, permissions, owner or times.
    fn set_attributes(
        &self,
        node: INodeNo,
        handle: Option<FileHandle>,
        changes: AttributeChanges,
    ) -> Result<FileAttr, Errno>;

    /// Makes a file and opens it; fails with `flags` of `O_EXCL` if it is there.
    fn create_file(
        &self,
        parent: INodeNo,
        name: &OsStr,
        maker: Maker,
        flags: i32,
    ) -> Result<CreatedFile, Errno>;

    /// Makes a directory.
    fn create_folder(&self, parent: INodeNo, name: &OsStr, maker: Maker) -> Result<FileAttr, Errno>;

    /// Makes a symbolic link to `target`.
    fn create_link(
        &self,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        maker: Maker,
    ) -> Result<FileAttr, Errno>;

    /// Gives a file another name besides.
    fn link(&self, node: INodeNo, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno>;

    /// Removes the name of a file, or with `AtFlags::REMOVEDIR` that of an empty directory.
    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Result<(), Errno>;

    /// Renames the entry `from` to `to`, each a directory and a name in it.
    fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), flags: RenameFlags)
    -> Result<(), Errno>;

    /// Writes all of `bytes` to an open file.
    fn write(&self, handle: FileHandle, offset: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Waits until what was written is safe.
    fn sync(&self);
}

/// A file that was opened, and how the kernel reads it.
#[derive(Debug)]
pub(crate) struct OpenedFile<F> {
    pub(crate) file: F,
    pub(crate) flags: FopenFlags,
    /// The file that the kernel reads by itself, without requests.
    pub(crate) passthrough: Option<Arc<PassthroughCopy>>,
}

/// A whole copy that the kernel reads by itself.
#[derive(Debug)]
pub(crate) struct PassthroughCopy {
    pub(crate) id: BackingId,
    /// The tier does not evict the copy as long as this is open.
    pub(crate) _lease: OwnedFd,
}

/// A file that was made and opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreatedFile {
    pub(crate) attributes: FileAttr,
    pub(crate) handle: FileHandle,
    pub(crate) flags: FopenFlags,
}

/// User and permissions of what is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
}

/// How large a file system is, and how full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MountSpace {
    /// Bytes of a block.
    pub(crate) unit: u64,
    pub(crate) blocks: u64,
    pub(crate) free_blocks: u64,
    pub(crate) files: u64,
    pub(crate) free_files: u64,
}
