//! A libhdf5 found at run time, its identifiers closed when they go, its errors in its own words.

use std::{
    ffi::{CString, c_int},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay::{Error, ErrorKind, Result, format::libhdf5_paths};

use crate::hdf5_ffi::{Hdf5Functions, Hdf5Id};

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
    /// The VOL connector that the environment names, once it is loaded.
    pub(crate) connector: Option<String>,
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
        for folder in filter_folders(path) {
            // Where it cannot be added, its filters are missing: an error says so when one is needed.
            let _ = c_path(&folder).and_then(|folder| functions.add_plugin_folder(&folder));
        }
        let connector =
            named_connector().filter(|name| c_name(name).is_ok_and(|name| functions.has_connector(&name)));
        Ok(Self { functions, version, connector })
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
            Some(said) if said.contains("truncated file") || said.contains("signature") => ErrorKind::Corrupt,
            _ => ErrorKind::Io,
        };
        let what =
            if kind == ErrorKind::Full { format!("{what}: no space is left") } else { what.to_owned() };
        match said {
            Some(said) => Error::new(kind, format!("{what}: {said}")),
            None => Error::new(kind, what),
        }
    }

    /// Refuses a negative answer to `what`.
    pub(crate) fn check(&self, answer: c_int, what: &str) -> Result<()> {
        if answer < 0 { Err(self.error(what)) } else { Ok(()) }
    }

    /// Takes over an identifier that the library has made.
    pub(crate) fn own(&self, id: Hdf5Id, close: CloseFunction, what: &str) -> Result<OpenId<'_>> {
        if id < 0 { Err(self.error(what)) } else { Ok(OpenId { id, library: self, close }) }
    }

    /// A new property list of the class that the library keeps in the variable `class`.
    pub(crate) fn list(&self, class: &str) -> Result<OpenId<'_>> {
        let class = self.functions.constant(class)?;
        self.own(self.functions.list_create(class), Hdf5Functions::list_close, "no property list")
    }
}

/// What closes an identifier.
type CloseFunction = fn(&Hdf5Functions, Hdf5Id) -> c_int;

/// An identifier, closed when it goes.
pub(crate) struct OpenId<'a> {
    pub(crate) id: Hdf5Id,
    library: &'a RuntimeHdf5,
    close: CloseFunction,
}

impl OpenId<'_> {
    /// Closes it and says whether that went well: a file's last bytes are written by then.
    pub(crate) fn close(self, what: &str) -> Result<()> {
        let (library, answer) = (self.library, (self.close)(&self.library.functions, self.id));
        std::mem::forget(self);
        library.check(answer, what)
    }

    /// Leaves it open: another owner closes it.
    pub(crate) fn leave(self) -> Hdf5Id {
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

/// Folders of the Python package hdf5plugin, with its filters: beside a libhdf5 that h5py brought along, and in the virtual
/// environment that is in use.
fn filter_folders(libhdf5: &Path) -> Vec<PathBuf> {
    let mut packages: Vec<PathBuf> =
        libhdf5.parent().and_then(Path::parent).map(Path::to_owned).into_iter().collect();
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV") {
        let versions = fs::read_dir(Path::new(&environment).join("lib")).into_iter().flatten().flatten();
        packages.extend(versions.map(|version| version.path().join("site-packages")));
    }
    let mut folders: Vec<PathBuf> = packages.iter().map(|folder| folder.join("hdf5plugin/plugins")).collect();
    folders.dedup();
    folders.retain(|folder| folder.is_dir());
    folders
}

/// The first word of `HDF5_VOL_CONNECTOR`; what follows are the connector's settings.
fn named_connector() -> Option<String> {
    let setting = std::env::var("HDF5_VOL_CONNECTOR").ok()?;
    setting.split_whitespace().next().map(str::to_owned)
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
