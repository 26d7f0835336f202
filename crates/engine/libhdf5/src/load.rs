//! Loads a libhdf5 by its path: as a copy of its own, for the libraries loaded after it, or for itself alone.

#![expect(unsafe_code, reason = "loading a library runs its initialisers")]

use std::{ffi::c_int, fs::File, path::Path};

use forebay_process::{Error, Result, c_library::check_owner};
use libc::{RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL, RTLD_NODELETE, RTLD_NOW};

use crate::{handle::LibraryHandle, library::Hdf5Library};

/// glibc's flag that makes a library prefer its own symbols to those the program has by the same names.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_SYMBOLS_FIRST: c_int = 8;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const OWN_SYMBOLS_FIRST: c_int = 0;

impl Hdf5Library {
    /// Loads the library at `path`, which is absolute, as a copy of its own.
    ///
    /// The builds that wheels bring along are not thread safe, and the program we run in may call the very same file
    /// through h5py from another thread: no lock of ours could keep that away. So the library is loaded a second
    /// time, from memory, with state of its own; its dependencies, which have no state, are shared.
    pub fn load_copy(path: &Path) -> Result<Self> {
        let place = |error: Error| error.at(path.display());
        let path = std::fs::canonicalize(path).map_err(|error| place(Error::from_io(error)))?;
        let file = File::open(&path).map_err(|error| place(Error::from_io(error)))?;
        check_owner(&file).map_err(place)?;
        let original = open(&path, RTLD_LAZY | RTLD_LOCAL).map_err(|why| place(refused(&why)))?;
        let (library, original) = own_copy(file, original).map_err(place)?;
        Self::loaded(library, original, path).map_err(place)
    }

    /// Loads the library at `path` for good. Its symbols are seen by libraries loaded later, as those of a linked libhdf5 are:
    /// plug-ins rely on that. It is never unloaded, as a parallel build leaves MPI a function to call at its end.
    pub fn load_global(path: &Path) -> Result<Self> {
        Self::loaded(open_with_neighbours(path)?, None, path.to_owned())
    }

    /// Loads the library at `path` for good, as any program that uses it does, or says why it cannot be loaded; whoever owns it.
    pub fn load_alone(path: &Path) -> std::result::Result<Self, String> {
        // SAFETY: the library's initialisers run, as in any program that uses it.
        let library = unsafe { LibraryHandle::open(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) }?;
        Self::loaded(library, None, path.to_owned()).map_err(|error| error.to_string())
    }
}

/// A second instance of the library in `file`; `original` keeps its dependencies loaded.
#[cfg(target_os = "linux")]
fn own_copy(mut file: File, original: LibraryHandle) -> Result<(LibraryHandle, Option<LibraryHandle>)> {
    use std::os::fd::AsRawFd;

    let errno = |errno: rustix::io::Errno| Error::from_io(errno.into());
    let memory = rustix::fs::memfd_create("libhdf5", rustix::fs::MemfdFlags::CLOEXEC).map_err(errno)?;
    let mut memory = File::from(memory);
    std::io::copy(&mut file, &mut memory).map_err(Error::from_io)?;
    // The process's number makes the name one that no other loaded library has.
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    let flags = RTLD_NOW | RTLD_LOCAL | OWN_SYMBOLS_FIRST;
    let library = open(Path::new(&path), flags).map_err(|why| refused(&why))?;
    Ok((library, Some(original)))
}

/// Elsewhere the library's own path is all there is.
#[cfg(not(target_os = "linux"))]
fn own_copy(_file: File, original: LibraryHandle) -> Result<(LibraryHandle, Option<LibraryHandle>)> {
    let _ = OWN_SYMBOLS_FIRST;
    Ok((original, None))
}

/// Loads the library at `path`. What it needs and the linker does not find is loaded first, where it lies in the same folder: so
/// do the libraries that a wheel brings along, which an extension module of the wheel loads in their order.
fn open_with_neighbours(path: &Path) -> Result<LibraryHandle> {
    let mut missing = Vec::new();
    loop {
        let file = File::open(path).map_err(Error::from_io)?;
        check_owner(&file)?;
        let why = match open(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) {
            Ok(library) => return Ok(library),
            Err(why) => why,
        };
        let name = missing_library(&why).map(str::to_owned).filter(|name| !missing.contains(name));
        let beside = name.as_ref().map(|name| path.with_file_name(name)).filter(|beside| beside.is_file());
        let (Some(name), Some(beside)) = (name, beside) else { return Err(refused(&why)) };
        open_with_neighbours(&beside).map_err(|error| error.at(beside.display()))?;
        missing.push(name);
    }
}

/// The name of the library that glibc's linker has not found, by what it says.
fn missing_library(why: &str) -> Option<&str> {
    let (name, _) = why.split_once(": cannot open shared object file")?;
    (!name.contains('/')).then_some(name)
}

/// Opens a library whose owner was checked.
fn open(path: &Path, flags: c_int) -> std::result::Result<LibraryHandle, String> {
    // SAFETY: the file is root's or the user's own, so its initialisers are code the user trusts already.
    unsafe { LibraryHandle::open(path, flags) }
}

fn refused(why: &str) -> Error {
    Error::invalid(format!("is not a library that can be loaded: {why}"))
}
