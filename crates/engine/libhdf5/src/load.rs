//! Loads a libhdf5 as a copy of its own.
//!
//! The builds that wheels bring along are not thread safe, and the program we run in may call the very same file
//! through h5py from another thread: no lock of ours could keep that away. So the library is loaded a second
//! time, from memory, with state of its own; its dependencies, which have no state, are shared.

#![expect(unsafe_code, reason = "loading a library runs its initialisers")]

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use forebay_process::{Error, Result, c_library::check_owner};
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

/// glibc's flag that makes a library prefer its own symbols to those the program has by the same names.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_SYMBOLS_FIRST: std::ffi::c_int = 8;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const OWN_SYMBOLS_FIRST: std::ffi::c_int = 0;

/// A library, loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) library: Library,
    /// What was loaded by its own path, for the sake of what it depends on.
    _original: Option<Library>,
    pub(super) path: PathBuf,
}

/// Loads the library at `path`, which is absolute.
pub(super) fn load(path: &Path) -> Result<Loaded> {
    let place = |error: Error| error.at(path.display());
    let path = std::fs::canonicalize(path).map_err(|error| place(Error::from_io(error)))?;
    let file = File::open(&path).map_err(|error| place(Error::from_io(error)))?;
    check_owner(&file).map_err(place)?;
    let original = open(&path, RTLD_LAZY | RTLD_LOCAL).map_err(place)?;
    let (library, original) = own_copy(file, original).map_err(place)?;
    Ok(Loaded { library, _original: original, path })
}

/// A second instance of the library in `file`; `original` keeps its dependencies loaded.
#[cfg(target_os = "linux")]
fn own_copy(mut file: File, original: Library) -> Result<(Library, Option<Library>)> {
    use std::os::fd::AsRawFd;

    let errno = |errno: rustix::io::Errno| Error::from_io(errno.into());
    let memory = rustix::fs::memfd_create("libhdf5", rustix::fs::MemfdFlags::CLOEXEC).map_err(errno)?;
    let mut memory = File::from(memory);
    std::io::copy(&mut file, &mut memory).map_err(Error::from_io)?;
    // The process's number makes the name one that no other loaded library has.
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    let library = open(Path::new(&path), RTLD_NOW | RTLD_LOCAL | OWN_SYMBOLS_FIRST)?;
    Ok((library, Some(original)))
}

/// Elsewhere the library's own path is all there is.
#[cfg(not(target_os = "linux"))]
fn own_copy(_file: File, original: Library) -> Result<(Library, Option<Library>)> {
    let _ = (RTLD_NOW, OWN_SYMBOLS_FIRST);
    Ok((original, None))
}

fn open(path: &Path, flags: std::ffi::c_int) -> Result<Library> {
    // SAFETY: the file is root's or the user's own, so its initialisers are code the user trusts already.
    let opened = unsafe { Library::open(Some(path), flags) };
    opened.map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(String::new, |why| format!(": {why}"));
        Error::invalid(format!("is not a library that can be loaded{why}"))
    })
}
