//! The calls of a run, as changes of files and directories that are known by their inodes.

use std::{
    collections::HashMap,
    ffi::OsString,
    os::{fd::BorrowedFd, unix::ffi::OsStrExt},
    path::Path,
};

use forebay_scratch::disk::{Call, Watch};
use rustix::{
    fs::{AtFlags, CWD, OFlags, Stat},
    io::Errno,
};

pub(crate) type Inode = u64;

/// One change that a call has made.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A directory has a new name in it, which leads to a new file, directory or link.
    Create {
        directory: Inode,
        name: OsString,
        inode: Inode,
        kind: Kind,
        mode: u32,
        modified_ns: i128,
    },
    Write {
        inode: Inode,
        offset: u64,
        bytes: Vec<u8>,
        modified_ns: i128,
    },
    SetLen {
        inode: Inode,
        len: u64,
        modified_ns: i128,
    },
    SetMode {
        inode: Inode,
        mode: u32,
    },
    Rename {
        directory: Inode,
        from: OsString,
        to: OsString,
        inode: Inode,
    },
    Unlink {
        directory: Inode,
        name: OsString,
        inode: Inode,
    },
    /// What was changed of this file, or of the names in this directory, is on the disk.
    Sync {
        inode: Inode,
    },
    /// All changes so far are on the disk.
    SyncAll,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link(Vec<u8>),
}

/// What a rebuilt file stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Original {
    pub(crate) inode: Inode,
    pub(crate) born_ns: u64,
}

/// A call that is to fail, counted from the first one on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) at: usize,
    pub(crate) errno: Errno,
}

/// Records the changes of a thread's calls, and lets one of them fail.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) changes: Vec<Change>,
    /// Calls that were made, those included that change nothing.
    pub(crate) calls: usize,
    pub(crate) failure: Option<Failure>,
    /// The call that was made to fail.
    pub(crate) failed: Option<String>,
    /// The changes that were made before it.
    pub(crate) failed_behind: usize,
    /// Whether the process is killed: none of its calls does anything any more.
    pub(crate) is_dead: bool,
    pub(crate) boot: Option<String>,
    /// What the files of a rebuilt world stand for, by their inodes.
    pub(crate) originals: HashMap<Inode, Original>,
    /// The births of files as they were reported.
    pub(crate) births: HashMap<Inode, u64>,
    /// What the name of a call led to before it.
    pub(crate) before: Option<Stat>,
}

impl Recorder {
    fn original(&self, inode: Inode) -> Inode {
        self.originals.get(&inode).map_or(inode, |original| original.inode)
    }

    fn inode_of(&self, file: BorrowedFd<'_>) -> Inode {
        self.original(rustix::fs::fstat(file).unwrap().st_ino)
    }

    /// The directory that `name` is in, and its name there.
    fn place(&self, directory: BorrowedFd<'_>, name: &Path) -> (Inode, OsString) {
        let above = name.parent().filter(|above| !above.as_os_str().is_empty());
        let stat = match above {
            Some(above) => rustix::fs::statat(directory, above, AtFlags::empty()).unwrap(),
            None => rustix::fs::fstat(directory).unwrap(),
        };
        (self.original(stat.st_ino), name.file_name().unwrap_or_default().to_owned())
    }

    fn created(&mut self, directory: BorrowedFd<'_>, name: &Path, kind: Kind) {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let (directory, name) = self.place(directory, name);
        let inode = stat.st_ino;
        // A number that a removed file of a rebuilt world had is this file's own now.
        self.originals.remove(&inode);
        self.changes.push(Change::Create {
            directory,
            name,
            inode,
            kind,
            mode: stat.st_mode & 0o7777,
            modified_ns: modified_ns(&stat),
        });
    }
}

fn modified_ns(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

impl Watch for Recorder {
    fn before(&mut self, call: &Call<'_>) -> rustix::io::Result<()> {
        if self.is_dead {
            return Err(Errno::IO);
        }
        let number = self.calls;
        self.calls += 1;
        if let Some(failure) = self.failure.filter(|failure| failure.at == number) {
            self.failed = Some(format!("{call:?}"));
            self.failed_behind = self.changes.len();
            return Err(failure.errno);
        }
        let look = |directory: BorrowedFd<'_>, name: &Path| {
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()
        };
        self.before = match *call {
            Call::Open { directory, name, flags, .. } if flags.contains(OFlags::CREATE) => {
                look(directory, name)
            }
            Call::Rename { from_directory, from, .. } => look(from_directory, from),
            Call::Link { directory, from, .. } => look(directory, from),
            Call::Remove { directory, name, .. } => look(directory, name),
            _ => None,
        };
        Ok(())
    }

    fn after(&mut self, call: &Call<'_>, made: Option<BorrowedFd<'_>>) {
        let before = self.before.take();
        match *call {
            Call::Open { directory, name, flags, .. }
                if flags.contains(OFlags::CREATE) && before.is_none() && made.is_some() =>
            {
                self.created(directory, name, Kind::File);
            }
            Call::MakeDirectory { directory, name } => self.created(directory, name, Kind::Directory),
            Call::Symlink { target, directory, name } => {
                self.created(directory, name, Kind::Link(target.as_os_str().as_bytes().to_vec()));
            }
            Call::Write { file, offset, parts } => {
                let modified_ns = modified_ns(&rustix::fs::fstat(file).unwrap());
                let inode = self.inode_of(file);
                self.changes.push(Change::Write { inode, offset, bytes: parts.concat(), modified_ns });
            }
            Call::SetLen { file, len } => {
                let modified_ns = modified_ns(&rustix::fs::fstat(file).unwrap());
                let inode = self.inode_of(file);
                self.changes.push(Change::SetLen { inode, len, modified_ns });
            }
            Call::SetMode { file, mode } => {
                let inode = self.inode_of(file);
                self.changes.push(Change::SetMode { inode, mode: mode.bits() });
            }
            Call::Sync { file } => {
                let inode = self.inode_of(file);
                self.changes.push(Change::Sync { inode });
            }
            Call::SyncFileSystem { .. } => self.changes.push(Change::SyncAll),
            Call::Rename { from_directory, from, to_directory, to } => {
                let inode = self.original(before.unwrap().st_ino);
                let (directory, from) = self.place(from_directory, from);
                let (other, to) = self.place(to_directory, to);
                assert_eq!(directory, other, "staging renames within a directory");
                self.changes.push(Change::Rename { directory, from, to, inode });
            }
            Call::Remove { directory, name, .. } => {
                let inode = self.original(before.unwrap().st_ino);
                let (directory, name) = self.place(directory, name);
                self.changes.push(Change::Unlink { directory, name, inode });
            }
            Call::Link { .. } => panic!("staging makes no hard links on this file system"),
            _ => {}
        }
    }

    fn identity_of(&mut self, inode: u64, born_ns: u64) -> (u64, u64) {
        match self.originals.get(&inode) {
            Some(original) => (original.inode, original.born_ns),
            None => {
                self.births.insert(inode, born_ns);
                (inode, born_ns)
            }
        }
    }

    fn boot(&self) -> Option<String> {
        self.boot.clone()
    }
}

/// The inode of what is at `path`.
pub(crate) fn inode_at(path: &Path) -> Inode {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).unwrap().st_ino
}
