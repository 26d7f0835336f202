//! Where a libhdf5 may lie on this machine.

use std::{
    cmp::Reverse,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use forebay_process::{
    Error, ErrorKind, Result,
    c_library::{SYSTEM_FOLDERS, entries, linker_folders, mapped_files},
};

use crate::python_packages;

/// Wheels that bring a libhdf5 along, in the order they are looked into.
pub(crate) const WHEELS: [&str; 4] = ["h5py.libs", "netcdf4.libs", "netCDF4.libs", "tables.libs"];

/// What builds that need no MPI have in their names.
const SERIAL_BUILDS: [&str; 1] = ["_serial"];

/// What tells where the library lies: a path, or [`OFF`].
pub const SETTING: &str = "FOREBAY_LIBHDF5";
/// The setting that forbids any library.
pub const OFF: &str = "off";
/// What helps where there is none.
pub const REMEDY: &str = "install libhdf5 (Debian 12: package libhdf5-103-1) or `pip install h5py`, or set FOREBAY_LIBHDF5 to the path of one";

/// Paths to try, the best first, and whether the user named it: then it is the only one.
#[derive(Debug, PartialEq, Eq)]
pub enum Candidates {
    /// The one that the user names.
    Named(PathBuf),
    /// Those that are found.
    Found(Vec<PathBuf>),
}

/// The libraries to try.
pub fn candidates() -> Result<Candidates> {
    match setting()? {
        Some(path) => Ok(Candidates::Named(path)),
        None => Ok(Candidates::Found(search())),
    }
}

/// Paths to try, the best first: the one that `FOREBAY_LIBHDF5` names, or those that are found.
pub fn paths() -> Result<Vec<PathBuf>> {
    match candidates()? {
        Candidates::Named(path) => Ok(vec![path]),
        Candidates::Found(paths) => Ok(paths),
    }
}

/// What `load` makes of the first of `paths` that it takes, or why it takes none.
pub fn first_usable<T>(paths: &[PathBuf], load: impl Fn(&Path) -> Result<T>) -> Result<T> {
    let mut failures = String::new();
    for path in paths {
        match load(path) {
            Ok(library) => return Ok(library),
            Err(error) => failures = format!("{failures} ({error})"),
        }
    }
    Err(Error::new(ErrorKind::Unsupported, format!("no libhdf5 was found{failures}")).hint(REMEDY))
}

/// The path the user named, or an error where the user wants no library.
pub fn setting() -> Result<Option<PathBuf>> {
    parse_setting(env::var_os(SETTING))
}

fn parse_setting(value: Option<OsString>) -> Result<Option<PathBuf>> {
    match value {
        None => Ok(None),
        Some(value) if value.is_empty() => Ok(None),
        Some(value) if value == OFF => {
            Err(Error::new(ErrorKind::Unsupported, format!("{SETTING}={OFF} forbids libhdf5")).hint(REMEDY))
        }
        // A relative path would load whatever lies in the working directory.
        Some(value) if !Path::new(&value).is_absolute() => {
            let what = format!("'{}' is not an absolute path", value.display());
            Err(Error::new(ErrorKind::Invalid, what).at(SETTING))
        }
        Some(value) => Ok(Some(value.into())),
    }
}

fn search() -> Vec<PathBuf> {
    let mut found = mapped_files();
    // The one of an imported h5py, for example.
    found.retain(|path| is_libhdf5(path, &SERIAL_BUILDS));
    for packages in python_packages::folders() {
        found.extend(WHEELS.iter().flat_map(|wheel| libraries_in(&packages.join(wheel))));
    }
    for folder in linker_folders(&["CONDA_PREFIX"], &SYSTEM_FOLDERS) {
        found.extend(libraries_in(&folder));
        found.extend(libraries_in(&folder.join("hdf5/serial")));
    }
    found.retain(|path| path.is_absolute());
    distinct(found)
}

/// `paths` without those that lead to a file which an earlier one leads to.
pub(crate) fn distinct(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    paths.retain(|path| {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let is_new = !seen.contains(&real);
        seen.push(real);
        is_new
    });
    paths
}

/// The libhdf5s in `folder`, the highest version first.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = entries(folder);
    found.retain(|path| is_libhdf5(path, &SERIAL_BUILDS));
    found.sort_by_cached_key(|path| Reverse((version(&name(path)), name(path))));
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The number after `.so.`, which rises with the library's version.
fn version(name: &str) -> Vec<u64> {
    let (_, numbers) = name.split_once(".so.").unwrap_or_default();
    numbers.split('.').map_while(|number| number.parse().ok()).collect()
}

/// True for the C library itself, in the usual build or one of `builds`, and not for what is built on it.
pub(crate) fn is_libhdf5(path: &Path, builds: &[&str]) -> bool {
    let name = name(path);
    let Some(rest) = name.strip_prefix("libhdf5") else { return false };
    let rest = builds.iter().find_map(|build| rest.strip_prefix(build)).unwrap_or(rest);
    rest.starts_with(['.', '-']) && (rest.contains(".so") || rest.ends_with(".dylib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_c_library_itself_is_taken() {
        for name in
            ["libhdf5.so.310", "libhdf5_serial.so.103", "libhdf5-9e18f0c6.so.320.0.0", "libhdf5.310.dylib"]
        {
            assert!(is_libhdf5(&Path::new("/usr/lib").join(name), &SERIAL_BUILDS), "{name}");
        }
        for name in ["libhdf5_hl.so.310", "libhdf5_serial_hl.so.100", "libhdf5_openmpi.so.103", "libhdf5.a"] {
            assert!(!is_libhdf5(&Path::new("/usr/lib").join(name), &SERIAL_BUILDS), "{name}");
        }
    }

    #[test]
    fn the_newest_of_a_folder_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["libhdf5.so.103", "libhdf5.so.310", "libhdf5.so", "libhdf5.so.310.5.1", "libhdf5_hl.so.400"]
        {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        let names: Vec<String> = libraries_in(folder.path()).iter().map(|path| super::name(path)).collect();
        assert_eq!(names, ["libhdf5.so.310.5.1", "libhdf5.so.310", "libhdf5.so.103", "libhdf5.so"]);
    }

    #[test]
    fn a_relative_path_is_refused_and_off_names_the_packages() {
        let error = parse_setting(Some("libhdf5.so".into())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let error = parse_setting(Some(OFF.into())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("libhdf5-103-1"), "{error}");
        assert_eq!(parse_setting(Some("".into())).unwrap(), None);
    }
}
