//! The one MPI library of this process.

pub(crate) mod abi;
pub(crate) mod ffi;
pub(crate) mod find;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use forebay_process::{Error, ErrorKind, Result};

use crate::library::{
    abi::{MpiAbi, MpiHandle},
    ffi::LoadedMpi,
};

/// An MPI library, found at run time and loaded for as long as the process lives.
pub struct MpiLibrary {
    pub(crate) loaded: LoadedMpi,
    path: PathBuf,
    version: String,
}

/// Where it was found once, since a process can have one MPI only; a search that found none may be repeated.
static FOUND: Mutex<Option<&'static MpiLibrary>> = Mutex::new(None);

impl MpiLibrary {
    /// The library of this process: one that is loaded already, as mpi4py's, else the one that `FOREBAY_MPI_LIBRARY` names,
    /// else the first of the usual ones that loads.
    pub fn find() -> Result<&'static Self> {
        // A panic elsewhere leaves a whole library, or none.
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = *found {
            return Ok(library);
        }
        let library: &'static Self = Box::leak(Box::new(Self::search()?));
        *found = Some(library);
        Ok(library)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is: `Open MPI v4.1.4`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its binary interface.
    pub fn abi(&self) -> MpiAbi {
        self.loaded.abi
    }

    /// All ranks of the job, as a communicator of the library.
    pub fn comm_world(&self) -> MpiHandle {
        self.loaded.constants.comm_world
    }

    /// This process alone, as a communicator of the library.
    pub fn comm_self(&self) -> MpiHandle {
        self.loaded.constants.comm_self
    }

    /// No hints, as a handle of the library.
    pub fn info_null(&self) -> MpiHandle {
        self.loaded.constants.info_null
    }

    fn search() -> Result<Self> {
        let mut failures = String::new();
        let mut loaded = Vec::new();
        for path in find::loaded() {
            match Self::load(&path) {
                Ok(library) => loaded.push(library),
                Err(error) => failures.push_str(&format!("; {}: {error}", path.display())),
            }
        }
        // MPICH has its functions in two libraries, one for each binary interface: the one in use is initialised.
        let in_use = loaded.iter().position(|library| library.loaded.is_initialized().unwrap_or(false));
        if !loaded.is_empty() {
            return Ok(loaded.swap_remove(in_use.unwrap_or(0)));
        }
        if let Some(path) = find::named()? {
            let library = find::check_owner(&path).and_then(|()| Self::load(&path));
            return library.map_err(|error| error.at(path.display()));
        }
        for path in find::usual() {
            match find::check_owner(&path).and_then(|()| Self::load(&path)) {
                Ok(library) => return Ok(library),
                Err(error) => failures.push_str(&format!("; {}: {error}", path.display())),
            }
        }
        Err(Error::new(ErrorKind::NotFound, format!("no MPI library was found{failures}")).hint(find::REMEDY))
    }

    fn load(path: &Path) -> Result<Self> {
        let loaded = LoadedMpi::load(path)?;
        let version = loaded.version();
        Ok(Self { loaded, path: path.to_owned(), version })
    }
}

impl fmt::Debug for MpiLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpiLibrary")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
