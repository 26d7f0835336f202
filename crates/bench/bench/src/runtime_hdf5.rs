//! A libhdf5 found at run time, its errors in its own words.

mod parallel_calls;

use std::{
    ffi::{CString, c_int},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay::{Error, ErrorKind, Result};
use forebay_libhdf5::{Hdf5Calls, Hdf5Library, OpenId, find, hdf5_types::hid_t, open_id::CloseCall};

/// A libhdf5, ready to be called by one thread at a time.
#[derive(Debug)]
pub(crate) struct RuntimeHdf5 {
    pub(crate) calls: Hdf5Calls,
    /// Major, minor, release.
    pub(crate) version: [u32; 3],
    /// The VOL connector that the environment names, once it is loaded.
    pub(crate) connector: Option<String>,
}

impl RuntimeHdf5 {
    /// The library that `FOREBAY_LIBHDF5` names, or the first that is found and new enough.
    pub(crate) fn find() -> Result<Self> {
        find::first_usable(&find::paths()?, Self::load)
    }

    fn load(path: &Path) -> Result<Self> {
        let place = |error: Error| error.at(path.display());
        let library = Hdf5Library::load_global(path).map_err(place)?;
        let version = library.version();
        let calls = Hdf5Calls::new(library).map_err(place)?;
        calls.start().map_err(|error| place(with_named_plugins(error)))?;
        for folder in filter_folders(path) {
            // Where it cannot be added, its filters are missing: an error says so when one is needed.
            let _ = c_path(&folder).and_then(|folder| calls.add_plugin_folder(&folder));
        }
        let connector =
            named_connector().filter(|name| c_name(name).is_ok_and(|name| calls.has_connector(&name)));
        Ok(Self { calls, version, connector })
    }

    /// Version and path, for reports.
    pub(crate) fn describe(&self) -> String {
        let [major, minor, release] = self.version;
        format!("libhdf5 {major}.{minor}.{release} at {}", self.calls.library().path().display())
    }

    /// The error for what the library refused, in its own words.
    pub(crate) fn error(&self, what: &str) -> Error {
        let said = self.calls.last_error();
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
    pub(crate) fn own(&self, id: hid_t, close: CloseCall, what: &str) -> Result<OpenId<'_>> {
        OpenId::new(&self.calls, id, close).ok_or_else(|| self.error(what))
    }

    /// A new property list of the class that the library keeps in the variable `class`.
    pub(crate) fn list(&self, class: &str) -> Result<OpenId<'_>> {
        let class = self.calls.constant(class)?;
        self.own(self.calls.list_create(class), Hdf5Calls::list_close, "no property list")
    }
}

/// The error for a library that does not start, with what of the environment it may not find.
fn with_named_plugins(error: Error) -> Error {
    let names = ["HDF5_VOL_CONNECTOR", "HDF5_DRIVER"];
    let set: Vec<String> =
        names.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?))).collect();
    match set.is_empty() {
        true => error,
        false => error.hint(format!("{}: is it in HDF5_PLUGIN_PATH?", set.join(", "))),
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
