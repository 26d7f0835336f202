//! Every libhdf5 that programs of this machine may use.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use forebay_process::Result;

use crate::{
    find::{OFF, SETTING, WHEELS, distinct, is_libhdf5, setting},
    python_packages,
};

/// What builds of the library have in their names.
const BUILDS: [&str; 3] = ["_serial", "_openmpi", "_mpich"];
/// Folders of systems that have one; below each, builds lie in folders of their own.
const SYSTEM: [&str; 6] = [
    "/usr/local/lib",
    "/usr/local/hdf5/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
];

/// The libraries that are found, each once; the one that the user names alone, and none where the user wants none.
pub fn found() -> Result<Vec<PathBuf>> {
    if env::var_os(SETTING).is_some_and(|value| value == OFF) {
        return Ok(Vec::new());
    }
    Ok(setting()?.map_or_else(search, |path| vec![path]))
}

fn search() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for packages in python_packages::searched() {
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
    distinct(folders.iter().flat_map(|folder| libraries_in(folder)).collect())
}

fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| is_libhdf5(path, &BUILDS)).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_c_library_itself_is_looked_at() {
        for name in
            ["libhdf5.so.310", "libhdf5_serial.so.103", "libhdf5-9e18f0c6.so.320.0.0", "libhdf5_mpich.so.103"]
        {
            assert!(is_libhdf5(&Path::new("/usr/lib").join(name), &BUILDS), "{name}");
        }
        for name in
            ["libhdf5_hl.so.310", "libhdf5_cpp.so", "libhdf5_serial_hl.so.100", "libhdf5.a", "libhdf5hl.so"]
        {
            assert!(!is_libhdf5(&Path::new("/usr/lib").join(name), &BUILDS), "{name}");
        }
    }
}
