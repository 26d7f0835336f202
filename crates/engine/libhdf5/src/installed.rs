//! Every libhdf5 that programs of this machine may use.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result};

use crate::site_packages;

/// What names the one library to look at: a path, or `off` for none.
const SETTING: &str = "FOREBAY_LIBHDF5";
/// Wheels that bring a libhdf5 along.
const WHEELS: [&str; 4] = ["h5py.libs", "netcdf4.libs", "netCDF4.libs", "tables.libs"];
/// Folders of systems that have one; below each, builds lie in folders of their own.
const SYSTEM: [&str; 6] = [
    "/usr/local/lib",
    "/usr/local/hdf5/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
];

/// The libraries that are found, each once.
pub(crate) fn found() -> Result<Vec<PathBuf>> {
    match env::var_os(SETTING).filter(|value| !value.is_empty()) {
        None => Ok(search()),
        Some(value) if value == "off" => Ok(Vec::new()),
        Some(value) if Path::new(&value).is_absolute() => Ok(vec![value.into()]),
        Some(value) => {
            let what = format!("'{}' is not an absolute path", Path::new(&value).display());
            Err(Error::new(ErrorKind::Invalid, what).at(SETTING))
        }
    }
}

fn search() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for packages in site_packages::folders() {
        folders.extend(WHEELS.map(|wheel| packages.join(wheel)));
    }
    let linker = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(env::split_paths(&linker).filter(|path| path.is_absolute()));
    let homes = ["HDF5_ROOT", "HDF5_HOME", "HDF5_DIR", "CONDA_PREFIX"].into_iter().filter_map(env::var_os);
    folders.extend(homes.map(|home| Path::new(&home).join("lib")).filter(|path| path.is_absolute()));
    for folder in SYSTEM.map(PathBuf::from) {
        folders.extend(["hdf5/serial", "hdf5/openmpi", "hdf5/mpich"].map(|build| folder.join(build)));
        folders.push(folder);
    }
    let mut seen = Vec::new();
    let mut libraries = Vec::new();
    for path in folders.iter().flat_map(|folder| libraries_in(folder)) {
        let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if !seen.contains(&real) {
            seen.push(real);
            libraries.push(path);
        }
    }
    libraries
}

fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| is_libhdf5(path)).collect();
    found.sort();
    found
}

/// True for the C library itself, parallel builds too, and not for what is built on it.
fn is_libhdf5(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(rest) = name.strip_prefix("libhdf5") else { return false };
    let builds = ["_serial", "_openmpi", "_mpich"];
    let rest = builds.iter().find_map(|build| rest.strip_prefix(build)).unwrap_or(rest);
    rest.starts_with(['.', '-']) && rest.contains(".so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_c_library_itself_is_looked_at() {
        for name in
            ["libhdf5.so.310", "libhdf5_serial.so.103", "libhdf5-9e18f0c6.so.320.0.0", "libhdf5_mpich.so.103"]
        {
            assert!(is_libhdf5(&Path::new("/usr/lib").join(name)), "{name}");
        }
        for name in
            ["libhdf5_hl.so.310", "libhdf5_cpp.so", "libhdf5_serial_hl.so.100", "libhdf5.a", "libhdf5hl.so"]
        {
            assert!(!is_libhdf5(&Path::new("/usr/lib").join(name)), "{name}");
        }
    }
}
