//! Where C libraries are looked for, and which of them are loaded.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::error::{Error, ErrorKind, Result};

/// Folders of the dynamic linker that no configuration names.
pub const SYSTEM_FOLDERS: [&str; 8] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/opt/homebrew/lib",
];

/// Returns the directories that the dynamic linker searches: those of `LD_LIBRARY_PATH`, `lib` of the environments that the variables
/// `prefixes` name, those of `ld.so.conf.d`, and `system`. An empty entry, which stands for the working directory, is left out.
pub fn linker_folders(prefixes: &[&str], system: &[&str]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()).collect();
    for prefix in prefixes {
        folders.extend(env::var_os(prefix).map(|prefix| Path::new(&prefix).join("lib")));
    }
    for file in entries(Path::new("/etc/ld.so.conf.d")) {
        let lines = fs::read_to_string(file).unwrap_or_default();
        folders.extend(lines.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    folders.extend(system.iter().map(PathBuf::from));
    folders.retain(|folder| folder.is_absolute());
    folders
}

/// What lies in `folder`, in falling order of names.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable_by(|left, right| right.cmp(left));
    paths
}

/// Files that this process has mapped.
pub fn mapped_files() -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.dedup();
    paths
}

/// Refuses a library that another user could have written.
pub fn check_owner(file: &File) -> Result<()> {
    let metadata = file.metadata().map_err(Error::from_io)?;
    let user = rustix::process::geteuid().as_raw();
    let what = if !metadata.is_file() {
        "is not a file"
    } else if metadata.uid() != 0 && metadata.uid() != user {
        "belongs neither to root nor to this user"
    } else if metadata.mode() & 0o002 != 0 {
        "can be written by anyone"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Denied, what))
}
