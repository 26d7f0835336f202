//! A folder shown slowly: what is written, made, renamed and removed.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown},
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use fuser::{Errno, FileAttr, FileHandle, INodeNo, RenameFlags};
use rustix::fs::{AtFlags, CWD, OFlags, RenameFlags as BelowFlags, futimens, utimensat};

use crate::{
    attributes::{AttributeChanges, attributes},
    handles::{OpenFile, OpenHandle},
    slow::{Access, Slow, has},
};

/// Who makes a file, and with which permissions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
}

impl Slow {
    /// The error that a write gets for now, if any.
    pub(crate) fn check_writable(&self) -> Result<(), Errno> {
        match (self.access, self.refusal.load(Relaxed)) {
            (Access::Writable, 0) => Ok(()),
            (Access::Writable, errno) => Err(Errno::from_i32(errno.into())),
            (Access::ReadOnly, _) => Err(Errno::EROFS),
        }
    }

    /// Takes a line of the control file.
    pub(crate) fn control(&self, line: &[u8]) -> Result<(), Errno> {
        let errno = match line.trim_ascii() {
            b"normal" => 0,
            b"read-only" => rustix::io::Errno::ROFS.raw_os_error(),
            b"full" => rustix::io::Errno::NOSPC.raw_os_error(),
            _ => return Err(Errno::EINVAL),
        };
        self.refusal.store(u8::try_from(errno).map_err(|_| Errno::EINVAL)?, Relaxed);
        Ok(())
    }

    /// Does what changes names or lengths, counts it, and comes back when a file system of this pace would have.
    fn change<T>(&self, counter: &AtomicU64, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let began = Instant::now();
        counter.fetch_add(1, Relaxed);
        let done = self.check_writable().and_then(|()| act());
        self.line.wait_for_names(began);
        done
    }

    /// Writes, and comes back when a file system of this pace would have.
    pub(crate) fn write_file(&self, open: &OpenFile, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let (began, len) = (Instant::now(), bytes.len() as u64);
        self.check_writable()?;
        let is_rest = open.writes.is_rest(offset, len);
        let file = &open.file;
        self.capacity.change(
            || file.metadata().map(|found| found.len()),
            |before| before.max(offset.saturating_add(len)),
            || file.write_all_at(bytes, offset),
        )?;
        let operations = self.line.operations(len, is_rest);
        self.tally.write_requests.fetch_add(1, Relaxed);
        self.tally.bytes_written.fetch_add(len, Relaxed);
        self.tally.writes.fetch_add(operations, Relaxed);
        self.line.wait_for_bytes(began, operations, len);
        Ok(())
    }

    /// Waits as an fsync would. Nothing is forced to the disk below: what that takes is not what is emulated.
    pub(crate) fn sync(&self) {
        let began = Instant::now();
        self.tally.fsyncs.fetch_add(1, Relaxed);
        self.line.wait_for_sync(began);
    }

    pub(crate) fn create_file(
        &self,
        parent: INodeNo,
        name: &OsStr,
        maker: Maker,
        flags: i32,
    ) -> Result<(FileAttr, OpenHandle), Errno> {
        let path = self.child(parent, name)?;
        self.change(&self.tally.creates, || {
            let below = self.folder.join(&path);
            let mut options = File::options();
            // Written to anyway: whoever makes a file has it open for that, whatever its permissions are.
            options.read(true).write(true).mode(maker.mode & 0o7777);
            let file = match options.create_new(true).open(&below) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !has(flags, OFlags::EXCL) => {
                    options.create_new(false).open(&below)?
                }
                made => {
                    let file = made?;
                    give_to(&below, maker)?;
                    // Ours is another umask than that of the program.
                    file.set_permissions(fs::Permissions::from_mode(maker.mode & 0o7777))?;
                    file
                }
            };
            if has(flags, OFlags::TRUNC) {
                self.truncate(&file, 0)?;
            }
            let found = file.metadata()?;
            let node = self.nodes.number(&path, &found);
            Ok((attributes(node, &found)?, OpenHandle::File(OpenFile::new(node, file))))
        })
    }

    pub(crate) fn create_folder(
        &self,
        parent: INodeNo,
        name: &OsStr,
        maker: Maker,
    ) -> Result<FileAttr, Errno> {
        let path = self.child(parent, name)?;
        self.change(&self.tally.creates, || {
            let below = self.folder.join(&path);
            fs::DirBuilder::new().mode(maker.mode & 0o7777).create(&below)?;
            give_to(&below, maker)?;
            fs::set_permissions(&below, fs::Permissions::from_mode(maker.mode & 0o7777))?;
            self.noted(&path, &fs::symlink_metadata(&below)?)
        })
    }

    pub(crate) fn create_link(
        &self,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        maker: Maker,
    ) -> Result<FileAttr, Errno> {
        let path = self.child(parent, name)?;
        self.change(&self.tally.creates, || {
            let below = self.folder.join(&path);
            std::os::unix::fs::symlink(target, &below)?;
            give_to(&below, maker)?;
            self.noted(&path, &fs::symlink_metadata(&below)?)
        })
    }

    /// Gives a file another name besides.
    pub(crate) fn link(&self, node: INodeNo, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let (from, path) = (self.below(node)?, self.child(parent, name)?);
        self.change(&self.tally.creates, || {
            let below = self.folder.join(&path);
            fs::hard_link(from, &below)?;
            self.noted(&path, &fs::symlink_metadata(&below)?)
        })
    }

    fn noted(&self, path: &Path, found: &Metadata) -> Result<FileAttr, Errno> {
        attributes(self.nodes.number(path, found), found)
    }

    /// Removes a name by `remove`: that of a file, or that of an empty folder.
    pub(crate) fn remove(
        &self,
        parent: INodeNo,
        name: &OsStr,
        remove: fn(&Path) -> io::Result<()>,
    ) -> Result<(), Errno> {
        let path = self.child(parent, name)?;
        self.change(&self.tally.removes, || {
            let below = self.folder.join(&path);
            let found = fs::symlink_metadata(&below)?;
            remove(&below)?;
            self.is_gone(&path, &found);
            Ok(())
        })
    }

    /// `path` no longer names what was found there.
    fn is_gone(&self, path: &Path, found: &Metadata) {
        self.nodes.remove(self.nodes.number_of(found.dev(), found.ino()), path);
        if found.is_file() && found.nlink() == 1 {
            self.capacity.give_back(found.len());
        }
    }

    pub(crate) fn rename(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (from, to) = (self.child(parent, name)?, self.child(new_parent, new_name)?);
        let flags = match flags {
            none if none.is_empty() => BelowFlags::empty(),
            RenameFlags::RENAME_NOREPLACE => BelowFlags::NOREPLACE,
            _ => return Err(Errno::EINVAL),
        };
        self.change(&self.tally.renames, || {
            let (source, target) = (self.folder.join(&from), self.folder.join(&to));
            let moved = fs::symlink_metadata(&source)?;
            let replaced = fs::symlink_metadata(&target).ok();
            rustix::fs::renameat_with(CWD, &source, CWD, &target, flags).map_err(io::Error::from)?;
            let is_same = |found: &Metadata| (found.dev(), found.ino()) == (moved.dev(), moved.ino());
            if let Some(found) = replaced.filter(|found| !is_same(found)) {
                self.is_gone(&to, &found);
            }
            self.nodes.rename(&from, &to, &moved);
            Ok(())
        })
    }

    /// Changes length, permissions, owner or times.
    pub(crate) fn set_attributes(
        &self,
        node: INodeNo,
        handle: Option<FileHandle>,
        changes: AttributeChanges,
    ) -> Result<FileAttr, Errno> {
        // A shell empties what it writes to.
        if let Some(attributes) = self.made_up(node) {
            return Ok(attributes);
        }
        let counter = if changes.len.is_some() { &self.tally.truncates } else { &self.tally.changes };
        self.change(counter, || {
            let open = handle.and_then(|handle| self.handles.get(handle));
            match open.as_deref() {
                Some(OpenHandle::File(open)) => self.apply_open(&open.file, changes),
                _ => match (self.below(node), self.handles.file_of(node)) {
                    (Ok(path), _) => self.apply(&path, changes),
                    (Err(_), Some(open)) => self.apply_open(&open.file, changes),
                    (Err(errno), None) => Err(errno),
                },
            }
        })?;
        self.attributes(node)
    }

    fn apply(&self, path: &Path, changes: AttributeChanges) -> Result<(), Errno> {
        if let Some(len) = changes.len {
            self.truncate(&File::options().write(true).open(path)?, len)?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            lchown(path, changes.uid, changes.gid)?;
        }
        if let Some(mode) = changes.mode {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
        }
        if let Some(times) = changes.times() {
            utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
        }
        Ok(())
    }

    fn apply_open(&self, file: &File, changes: AttributeChanges) -> Result<(), Errno> {
        if let Some(len) = changes.len {
            self.truncate(file, len)?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            std::os::unix::fs::fchown(file, changes.uid, changes.gid)?;
        }
        if let Some(mode) = changes.mode {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
        }
        if let Some(times) = changes.times() {
            futimens(file, &times).map_err(io::Error::from)?;
        }
        Ok(())
    }

    pub(crate) fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        let current = || file.metadata().map(|found| found.len());
        self.capacity.change(current, |_| len, || file.set_len(len))
    }
}

/// Makes what was just made belong to its maker: only root makes files for others.
fn give_to(path: &Path, maker: Maker) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        lchown(path, Some(maker.uid), Some(maker.gid))?;
    }
    Ok(())
}
