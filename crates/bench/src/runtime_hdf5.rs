//! A libhdf5 found at run time, its identifiers closed when they go, its errors in its own words.

use std::{
    ffi::{CString, c_int},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use forebay::{Error, ErrorKind, Result, format::libhdf5_paths};

use crate::hdf5_ffi::{Hdf5Functions, Hid};

/// What helps where there is none.
const REMEDY: &str = "install libhdf5 (Debian 12: package libhdf5-103-1) or `pip install h5py`, or set FOREBAY_LIBHDF5 to the path of one";

/// Identifiers are 64 bits wide from this version on.
const OLDEST: [u32; 3] = [1, 10, 0];

/// A libhdf5, ready to be called by one thread at a time.
#[derive(Debug)]
pub(crate) struct RuntimeHdf5 {
    pub(crate) functions: Hdf5Functions,
    /// Major, minor, release.
    pub(crate) version: [u32; 3],
}

impl RuntimeHdf5 {
    /// The library that `FOREBAY_LIBHDF5` names, or the first that is found and new enough.
    pub(crate) fn find() -> Result<Self> {
        let mut failures = String::new();
        for path in libhdf5_paths()? {
            match Self::load(&path) {
                Ok(library) => return Ok(library),
                Err(error) => failures = format!("{failures} ({error})"),
            }
        }
        Err(Error::unsupported(format!("no libhdf5 was found{failures}")).hint(REMEDY))
    }

    fn load(path: &Path) -> Result<Self> {
        let place = |error: Error| error.at(path.display());
        let functions = Hdf5Functions::load(path).map_err(place)?;
        let version = functions.version().map_err(place)?;
        if version < OLDEST {
            let [major, minor, release] = version;
            let what = format!("is version {major}.{minor}.{release}, older than 1.10");
            return Err(place(Error::unsupported(what)));
        }
        Ok(Self { functions, version })
    }

    /// Version and path, for reports.
    pub(crate) fn describe(&self) -> String {
        let [major, minor, release] = self.version;
        format!("libhdf5 {major}.{minor}.{release} at {}", self.functions.path().display())
    }

    /// The error for what the library refused, in its own words.
    pub(crate) fn error(&self, what: &str) -> Error {
        let said = self.functions.last_error();
        let kind = match &said {
            Some(said) if said.contains("errno = 28") || said.contains("errno = 122") => ErrorKind::Full,
            Some(said) if said.contains("errno = 13") => ErrorKind::Denied,
            Some(said) if said.contains("errno = 2,") => ErrorKind::NotFound,
            // A filter or driver that this build lacks is nobody's fault and nothing is broken.
            Some(said) if said.contains("filter") || said.contains("plugin") => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        let error = Error::new(kind, what);
        match said {
            Some(said) => error.because(Error::new(kind, said)),
            None => error,
        }
    }

    /// Refuses a negative answer to `what`.
    pub(crate) fn check(&self, answer: c_int, what: &str) -> Result<()> {
        if answer < 0 { Err(self.error(what)) } else { Ok(()) }
    }

    /// Takes over an identifier that the library has made.
    pub(crate) fn own(&self, id: Hid, close: Close, what: &str) -> Result<OpenId<'_>> {
        if id < 0 { Err(self.error(what)) } else { Ok(OpenId { id, library: self, close }) }
    }

    /// A new property list of the class that the library keeps in the variable `class`.
    pub(crate) fn list(&self, class: &str) -> Result<OpenId<'_>> {
        let class = self.functions.constant(class)?;
        self.own(self.functions.list_create(class), Hdf5Functions::list_close, "no property list")
    }
}

/// What closes an identifier.
type Close = fn(&Hdf5Functions, Hid) -> c_int;

/// An identifier, closed when it goes.
pub(crate) struct OpenId<'a> {
    pub(crate) id: Hid,
    library: &'a RuntimeHdf5,
    close: Close,
}

impl OpenId<'_> {
    /// Closes it and says whether that went well: a file's last bytes are written by then.
    pub(crate) fn close(self, what: &str) -> Result<()> {
        let (library, answer) = (self.library, (self.close)(&self.library.functions, self.id));
        std::mem::forget(self);
        library.check(answer, what)
    }

    /// Leaves it open: another owner closes it.
    pub(crate) fn leave(self) -> Hid {
        let id = self.id;
        std::mem::forget(self);
        id
    }
}

impl Drop for OpenId<'_> {
    fn drop(&mut self) {
        (self.close)(&self.library.functions, self.id);
    }
}

/// `path` as C has it.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid("a name with a NUL in it").at(path.display()))
}

/// `name` as C has it.
pub(crate) fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Error::invalid(format!("a name with a NUL in it: {name:?}")))
}
