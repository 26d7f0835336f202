//! A folder shown slowly: what is written, made, renamed and removed.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown},
    path::Path,
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use fuser::{Errno, FileAttr, FileHandle, INodeNo, RenameFlags};
use rustix::fs::{AtFlags, OFlags, RenameFlags as BelowFlags, futimens};

use crate::{
    fuse::{
        attributes::{AttributeChanges, attributes},
        handles::OpenHandle,
        mounted_files::{CreatedFile, Maker, MountedChanges},
        pinned_entry::PinnedEntry,
        tally::Counter,
    },
    slow::{
        open_file::{OpenFile, SlowFile},
        options::MountAccess,
        view::{OPENED, Slow, has},
    },
};

impl Slow {
    /// The error that a write gets for now, if any.
    pub(crate) fn check_writable(&self) -> Result<(), Errno> {
        match (self.access, self.refusal.load(Relaxed)) {
            (MountAccess::Writable { .. }, 0) => Ok(()),
            (MountAccess::Writable { .. }, errno) => Err(Errno::from_i32(errno.into())),
            (MountAccess::ReadOnly, _) => Err(Errno::EROFS),
        }
    }

    /// Takes a line of the control file.
    fn control(&self, line: &[u8]) -> Result<(), Errno> {
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
    fn change<T>(&self, counter: Counter, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let began = Instant::now();
        self.tally.add(counter, 1);
        let done = self.check_writable().and_then(|()| act());
        self.line.wait_for_names(began);
        done
    }

    /// Writes, and comes back when a file system of this pace would have.
    fn write_file(&self, open: &OpenFile, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
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
        self.tally.add(Counter::WriteRequests, 1);
        self.tally.add(Counter::BytesWritten, len);
        self.tally.add(Counter::Writes, operations);
        self.line.wait_for_bytes(began, operations, len);
        Ok(())
    }

    fn noted(&self, path: &Path, found: &Metadata) -> Result<FileAttr, Errno> {
        attributes(self.nodes.number(path, found), found)
    }

    /// `path` no longer names what was found there.
    fn is_gone(&self, path: &Path, found: &Metadata) {
        self.nodes.remove(self.nodes.number_of(found.dev(), found.ino()), path);
        if found.is_file() && found.nlink() == 1 {
            self.capacity.give_back(found.len());
        }
    }

    fn apply(&self, entry: &PinnedEntry, changes: AttributeChanges) -> Result<(), Errno> {
        if let Some(len) = changes.len {
            if !entry.found.is_file() {
                return Err(Errno::EINVAL);
            }
            self.truncate(&entry.reopen(OFlags::WRONLY)?, len)?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            entry.set_owner(changes.uid, changes.gid)?;
        }
        if let Some(mode) = changes.mode {
            entry.set_mode(mode)?;
        }
        if let Some(times) = changes.times() {
            entry.set_times(&times)?;
        }
        Ok(())
    }

    fn apply_open(&self, file: &File, changes: AttributeChanges) -> Result<(), Errno> {
        if let Some(len) = changes.len {
            self.truncate(file, len)?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            fchown(file, changes.uid, changes.gid)?;
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

impl MountedChanges for Slow {
    fn create_file(
        &self,
        parent: INodeNo,
        name: &OsStr,
        maker: Maker,
        flags: i32,
    ) -> Result<CreatedFile, Errno> {
        let path = self.child(parent, name)?;
        self.change(Counter::Creates, || {
            // Open for writing as well: whoever makes a file may write it, whatever its permissions are.
            let file = self.pinned(parent)?.create_file(name).map_err(|error| match error.kind() {
                // Made by others after the kernel had looked: it looks again, and checks the permissions of what it finds.
                io::ErrorKind::AlreadyExists if !has(flags, OFlags::EXCL) => Errno::ESTALE,
                _ => error.into(),
            })?;
            if is_root() {
                fchown(&file, Some(maker.uid), Some(maker.gid))?;
            }
            file.set_permissions(fs::Permissions::from_mode(maker.mode & 0o7777))?;
            let found = file.metadata()?;
            let node = self.nodes.number(&path, &found);
            let (attributes, open) = (attributes(node, &found)?, SlowFile::Below(OpenFile::new(node, file)));
            Ok(CreatedFile { attributes, handle: self.handles.add(OpenHandle::File(open)), flags: OPENED })
        })
    }

    fn create_folder(&self, parent: INodeNo, name: &OsStr, maker: Maker) -> Result<FileAttr, Errno> {
        let path = self.child(parent, name)?;
        self.change(Counter::Creates, || {
            let folder = self.pinned(parent)?;
            let made = folder.create_folder(name)?;
            give_to(&made, maker)?;
            made.set_mode(maker.mode)?;
            self.noted(&path, &folder.entry(name)?.found)
        })
    }

    fn create_link(
        &self,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        maker: Maker,
    ) -> Result<FileAttr, Errno> {
        let path = self.child(parent, name)?;
        self.change(Counter::Creates, || {
            let folder = self.pinned(parent)?;
            give_to(&folder.create_link(name, target)?, maker)?;
            self.noted(&path, &folder.entry(name)?.found)
        })
    }

    fn link(&self, node: INodeNo, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let path = self.child(parent, name)?;
        self.change(Counter::Creates, || {
            let folder = self.pinned(parent)?;
            self.pinned(node)?.link_to(&folder, name)?;
            self.noted(&path, &folder.entry(name)?.found)
        })
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let path = self.child(parent, name)?;
        self.change(Counter::Removes, || {
            let folder = self.pinned(parent)?;
            let found = folder.entry(name)?.found;
            folder.remove(name, flags)?;
            self.is_gone(&path, &found);
            Ok(())
        })
    }

    fn rename(
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
        self.change(Counter::Renames, || {
            let (source, target) = (self.pinned(parent)?, self.pinned(new_parent)?);
            let moved = source.entry(name)?.found;
            let replaced = target.entry(new_name).ok().map(|entry| entry.found);
            source.rename(name, (&target, new_name), flags)?;
            let is_same = |found: &Metadata| (found.dev(), found.ino()) == (moved.dev(), moved.ino());
            if let Some(found) = replaced.filter(|found| !is_same(found)) {
                self.is_gone(&to, &found);
            }
            self.nodes.rename(&from, &to, &moved);
            Ok(())
        })
    }

    fn set_attributes(
        &self,
        node: INodeNo,
        handle: Option<FileHandle>,
        changes: AttributeChanges,
    ) -> Result<FileAttr, Errno> {
        // A shell empties what it writes to.
        if let Some(attributes) = self.made_up(node) {
            return Ok(attributes);
        }
        let counter = if changes.len.is_some() { Counter::Truncates } else { Counter::Changes };
        self.change(counter, || {
            let open = handle.and_then(|handle| self.handles.get(handle));
            match open.as_deref() {
                Some(OpenHandle::File(SlowFile::Below(open))) => self.apply_open(&open.file, changes),
                _ => match (self.pinned(node), self.open_file_of(node)) {
                    (Ok(entry), _) => self.apply(&entry, changes),
                    (Err(_), Some(open)) => self.apply_open(&open.file, changes),
                    (Err(errno), None) => Err(errno),
                },
            }
        })?;
        self.attributes_of(node)
    }

    fn sync(&self) {
        // Nothing is forced to the disk below: what that takes is not what is emulated.
        let began = Instant::now();
        self.tally.add(Counter::Fsyncs, 1);
        self.line.wait_for_sync(began);
    }

    fn write(&self, handle: FileHandle, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        match self.handles.get(handle).as_deref() {
            Some(OpenHandle::File(SlowFile::Below(open))) => self.write_file(open, offset, bytes),
            Some(OpenHandle::File(SlowFile::Control)) => self.control(bytes),
            _ => Err(Errno::EBADF),
        }
    }
}

/// Gives what was just made to its maker.
fn give_to(made: &PinnedEntry, maker: Maker) -> io::Result<()> {
    if is_root() { made.set_owner(Some(maker.uid), Some(maker.gid)) } else { Ok(()) }
}

/// True where this process may give files to others.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::symlink,
        path::PathBuf,
        sync::Arc,
        time::{Duration, SystemTime},
    };

    use fuser::{OpenFlags, TimeOrNow};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        fuse::{mounted_files::MountedFiles, tally::MountTally},
        slow::options::{MountUsers, SlowMountOptions},
    };

    const ROOT: INodeNo = INodeNo::ROOT;
    const MAKER: Maker = Maker { uid: 0, gid: 0, mode: 0o644 };

    /// A directory `shown` that can be written to, and others beside it.
    struct Place {
        around: TempDir,
        slow: Slow,
    }

    impl Place {
        fn for_users(users: MountUsers) -> Self {
            let around = TempDir::new().unwrap();
            fs::create_dir_all(around.path().join("shown/deep")).unwrap();
            fs::write(around.path().join("shown/f"), "shown").unwrap();
            fs::write(around.path().join("shown/deep/g"), "shown").unwrap();
            fs::create_dir(around.path().join("private")).unwrap();
            fs::write(around.path().join("private/g"), "secret").unwrap();
            fs::set_permissions(around.path().join("private/g"), fs::Permissions::from_mode(0o600)).unwrap();
            let access = MountAccess::Writable { capacity: None };
            let options = SlowMountOptions { access, users, ..SlowMountOptions::default() };
            let slow = Slow::new(&around.path().join("shown"), options, Arc::new(MountTally::new())).unwrap();
            Self { around, slow }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.around.path().join(name)
        }

        fn node(&self, parent: INodeNo, name: &str) -> INodeNo {
            self.slow.find(parent, OsStr::new(name)).unwrap().ino
        }

        /// Puts a link to `target` where the kernel has found something else.
        fn swap(&self, name: &str, target: &str) {
            fs::rename(self.path(name), self.path("moved")).unwrap();
            symlink(self.path(target), self.path(name)).unwrap();
        }

        /// Everything that can be seen of `private`.
        fn private(&self) -> (Vec<PathBuf>, Vec<u8>, u32, SystemTime) {
            let entries = fs::read_dir(self.path("private")).unwrap();
            let found = fs::metadata(self.path("private/g")).unwrap();
            let bytes = fs::read(self.path("private/g")).unwrap();
            let names = entries.map(|entry| entry.unwrap().path()).collect();
            (names, bytes, found.mode(), found.modified().unwrap())
        }
    }

    fn is_stale<T>(done: Result<T, Errno>) -> bool {
        done.err().map(|errno| errno.code()) == Some(Errno::ESTALE.code())
    }

    fn all_changes() -> [AttributeChanges; 3] {
        let none = AttributeChanges::default();
        let time = TimeOrNow::SpecificTime(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        [
            AttributeChanges { mode: Some(0o666), ..none },
            AttributeChanges { len: Some(1), ..none },
            AttributeChanges { mtime: Some(time), ..none },
        ]
    }

    #[test]
    fn a_file_that_became_a_link_is_neither_opened_nor_changed() {
        let place = Place::for_users(MountUsers::Owner);
        let node = place.node(ROOT, "f");
        let before = place.private();
        place.swap("shown/f", "private/g");
        for flags in [OFlags::RDONLY, OFlags::WRONLY | OFlags::TRUNC, OFlags::RDWR] {
            let flags = OpenFlags(flags.bits().cast_signed());
            assert!(is_stale(place.slow.open_file(node, flags)), "{flags:?}");
        }
        for changes in all_changes() {
            assert!(is_stale(place.slow.set_attributes(node, None, changes)), "{changes:?}");
        }
        assert!(is_stale(place.slow.link(node, ROOT, OsStr::new("h"))));
        assert!(is_stale(place.slow.attributes(node)));
        assert_eq!(place.private(), before);
        // The link is shown as a link, and its own attributes can be changed.
        let link = place.node(ROOT, "f");
        assert_eq!(place.slow.pinned(link).unwrap().link_target().unwrap(), place.path("private/g"));
        let [mode, len, time] = all_changes();
        assert!(place.slow.set_attributes(link, None, mode).is_err());
        assert!(place.slow.set_attributes(link, None, len).is_err());
        place.slow.set_attributes(link, None, time).unwrap();
        place.slow.link(link, ROOT, OsStr::new("h")).unwrap();
        let found = fs::symlink_metadata(place.path("shown/h")).unwrap();
        assert_eq!((found.is_symlink(), found.mtime()), (true, 1));
        assert_eq!(place.private(), before);
    }

    #[test]
    fn no_name_is_made_moved_or_removed_in_a_directory_that_became_a_link() {
        for users in [MountUsers::Owner, MountUsers::Everyone] {
            let place = Place::for_users(users);
            let (slow, deep) = (&place.slow, place.node(ROOT, "deep"));
            let file = place.node(deep, "g");
            let before = place.private();
            place.swap("shown/deep", "private");
            let [g, new] = ["g", "new"].map(OsStr::new);
            assert!(is_stale(slow.find(deep, g)));
            assert!(is_stale(slow.list(deep)));
            assert!(is_stale(slow.open_file(file, OpenFlags(0))));
            assert!(is_stale(slow.create_file(deep, new, MAKER, 0)));
            assert!(is_stale(slow.create_folder(deep, new, MAKER)));
            assert!(is_stale(slow.create_link(deep, new, Path::new("f"), MAKER)));
            assert!(is_stale(slow.link(place.node(ROOT, "f"), deep, new)));
            assert!(is_stale(slow.remove(deep, g, AtFlags::empty())));
            assert!(is_stale(slow.rename((deep, g), (ROOT, new), RenameFlags::empty())));
            assert!(is_stale(slow.rename((ROOT, OsStr::new("f")), (deep, g), RenameFlags::empty())));
            assert_eq!(place.private(), before);
        }
    }

    #[test]
    fn a_file_is_not_created_through_a_link_that_was_put_in_its_place() {
        let place = Place::for_users(MountUsers::Owner);
        let before = place.private();
        for target in ["private/g", "private/missing"] {
            symlink(place.path(target), place.path("shown/new")).unwrap();
            let flags = OFlags::TRUNC.bits().cast_signed();
            assert!(is_stale(place.slow.create_file(ROOT, OsStr::new("new"), MAKER, flags)));
            assert!(place.slow.create_folder(ROOT, OsStr::new("new"), MAKER).is_err());
            assert!(place.slow.create_link(ROOT, OsStr::new("new"), Path::new("f"), MAKER).is_err());
            fs::remove_file(place.path("shown/new")).unwrap();
        }
        assert_eq!(place.private(), before);
    }

    #[test]
    fn another_file_or_directory_of_the_same_name_is_looked_up_before_others_may_use_it() {
        for users in [MountUsers::Owner, MountUsers::Everyone] {
            let place = Place::for_users(users);
            let (slow, deep, file) = (&place.slow, place.node(ROOT, "deep"), place.node(ROOT, "f"));
            fs::rename(place.path("shown/f"), place.path("moved")).unwrap();
            fs::rename(place.path("shown/deep"), place.path("moved.deep")).unwrap();
            fs::rename(place.path("private/g"), place.path("shown/f")).unwrap();
            fs::rename(place.path("private"), place.path("shown/deep")).unwrap();
            assert!(is_stale(slow.open_file(file, OpenFlags(0))));
            assert!(is_stale(slow.attributes(file)));
            let made = slow.create_file(deep, OsStr::new("new"), MAKER, 0);
            assert_eq!(is_stale(made), users == MountUsers::Everyone);
            assert!(slow.open_file(place.node(ROOT, "f"), OpenFlags(0)).is_ok());
            assert!(slow.create_file(place.node(ROOT, "deep"), OsStr::new("newer"), MAKER, 0).is_ok());
        }
    }

    #[test]
    fn a_name_does_not_lead_out_of_its_directory() {
        let place = Place::for_users(MountUsers::Owner);
        for name in ["..", "../private", "deep/g"] {
            assert!(place.slow.find(ROOT, OsStr::new(name)).is_err(), "{name}");
            assert!(place.slow.create_file(ROOT, OsStr::new(name), MAKER, 0).is_err(), "{name}");
        }
    }
}
