//! The tree of the workspace, for tests of its structure.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new("../../..").canonicalize().expect("the workspace")
}

/// The directory of each crate.
pub(crate) fn crate_directories() -> Vec<PathBuf> {
    let entries = |directory: PathBuf| {
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path())
    };
    let shelves = entries(root().join("crates")).filter(|path| path.is_dir());
    let crates = shelves.flat_map(entries).chain([root().join("python")]);
    crates.filter(|path| path.join("Cargo.toml").is_file()).collect()
}
