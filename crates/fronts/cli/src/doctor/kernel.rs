//! What the kernel and its limits allow.

use std::{env, fs::File, io::ErrorKind};

use forebay::source::{MappingMode, mapping};
use rustix::process::{Resource, geteuid, getrlimit};
use serde::Serialize;

/// A set of a thousand files of a few fields has no room for its descriptors in less.
const ENOUGH_FILES: u64 = 4096;

/// What the kernel and its limits allow.
#[derive(Debug, Serialize)]
pub(super) struct KernelFacts {
    /// Whether files in the page cache are copied from mappings.
    pub(super) mapping: bool,
    pub(super) mapping_why: &'static str,
    /// Whether this user may mount by FUSE.
    pub(super) fuse: bool,
    pub(super) fuse_why: &'static str,
    /// How many files may be open; nothing for any number.
    pub(super) open_files: Option<u64>,
    /// How many a process may allow itself.
    pub(super) open_files_most: Option<u64>,
}

impl KernelFacts {
    pub(super) fn gather() -> Self {
        let (mapping, mapping_why) = mapped();
        let (fuse, fuse_why) = fuse();
        let files = getrlimit(Resource::Nofile);
        Self {
            mapping,
            mapping_why,
            fuse,
            fuse_why,
            open_files: files.current,
            open_files_most: files.maximum,
        }
    }

    /// What is too little, and what helps.
    pub(super) fn warnings(&self) -> Vec<(String, String)> {
        // The soft limit is raised to the hard one when files are read.
        let Some(files) = self.open_files_most.filter(|files| *files < ENOUGH_FILES) else {
            return Vec::new();
        };
        let remedy = format!("ask the administrator for a hard limit of {ENOUGH_FILES} or more");
        vec![(format!("only {files} files may be open at once: sets of many files are read slower"), remedy)]
    }
}

fn mapped() -> (bool, &'static str) {
    if env::var_os("FOREBAY_MAP").is_some_and(|value| value == "off") {
        return (false, "FOREBAY_MAP=off");
    }
    if getrlimit(Resource::As).current.is_some() {
        return (false, "the address space is limited (ulimit -v)");
    }
    match mapping() {
        MappingMode::ByCachestat => (true, "cachestat tells what is in the page cache"),
        MappingMode::ByTrying => (true, "no cachestat (Linux 6.5): the page cache is tried"),
        MappingMode::Off => (false, "the signal handler for vanished pages cannot be had here"),
    }
}

fn fuse() -> (bool, &'static str) {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Err(error) if error.kind() == ErrorKind::NotFound => return (false, "there is no /dev/fuse"),
        Err(_) => return (false, "/dev/fuse may not be opened"),
        Ok(_) => {}
    }
    if geteuid().is_root() {
        return (true, "/dev/fuse can be opened, and root may mount");
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let has_mounter = env::split_paths(&folders)
        .any(|folder| ["fusermount3", "fusermount"].iter().any(|name| folder.join(name).is_file()));
    if has_mounter { (true, "by fusermount") } else { (false, "no fusermount3: install the package fuse3") }
}
