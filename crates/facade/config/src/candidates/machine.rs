//! What is asked of a machine, so that tests can make one up.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access, statvfs};

/// How large a file system is, and how much of it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// All of it.
    pub disk_bytes: u64,
    /// What is free for this user.
    pub free_bytes: u64,
}

/// A machine whose folders are looked at.
pub trait Machine {
    /// The text of the file at `path`.
    fn read(&self, path: &Path) -> Option<String>;
    /// `path` without links, if it exists.
    fn real(&self, path: &Path) -> Option<PathBuf>;
    /// The names in the folder at `path`.
    fn entries(&self, path: &Path) -> Vec<String>;
    /// True when `path` is a folder, or leads to one.
    fn is_folder(&self, path: &Path) -> bool;
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
    /// The capacity of the file system of `path`.
    fn capacity(&self, path: &Path) -> Option<Capacity>;
    /// True when this user may make files in the folder at `path`.
    fn may_write(&self, path: &Path) -> bool;
}

/// The machine this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn read(&self, path: &Path) -> Option<String> {
        // One strange name among the mounts must not hide the others.
        fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        fs::canonicalize(path).ok()
    }

    fn entries(&self, path: &Path) -> Vec<String> {
        let listed = fs::read_dir(path).into_iter().flatten().flatten();
        listed.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn capacity(&self, path: &Path) -> Option<Capacity> {
        let found = statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Capacity { disk_bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) })
    }

    fn may_write(&self, path: &Path) -> bool {
        access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    }
}
