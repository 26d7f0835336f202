//! `HDF5_PLUGIN_PATH`: our folders before what HDF5 would have searched.
//!
//! A variable that is set replaces HDF5's own folder, and keeps netCDF4 from naming its own. So where it was not set, both are
//! written behind ours.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use forebay_libhdf5::python_packages;

use crate::variables::plugins::PluginFolder;

/// The folder that HDF5 searches unless its build names another.
const DEFAULT: &str = "/usr/local/hdf5/lib/plugin";

/// The search path of plug-ins with `ours` first; `before` is what it was, and nothing where it was not set.
pub(crate) fn with(ours: &[PathBuf], before: Option<&OsStr>) -> OsString {
    let others = match before {
        Some(before) => env::split_paths(before).collect(),
        None => defaults(),
    };
    // A shell that has our lines already gets no second ones; what was switched off goes.
    let others =
        others.into_iter().filter(|path| !path.as_os_str().is_empty() && !PluginFolder::is_one(path));
    let mut joined = OsString::new();
    for path in ours.iter().cloned().chain(others) {
        if !joined.is_empty() {
            joined.push(":");
        }
        joined.push(path);
    }
    joined
}

/// What would have been searched: HDF5's own folder, those of other builds, and netCDF4's.
fn defaults() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(DEFAULT)];
    let mut add = |path: PathBuf| {
        if path.is_dir() && !folders.contains(&path) {
            folders.push(path);
        }
    };
    if let Some(prefix) = env::var_os("CONDA_PREFIX") {
        add(Path::new(&prefix).join("lib/hdf5/plugin"));
    }
    for packages in python_packages::searched() {
        add(packages.join("netCDF4/plugins"));
    }
    folders
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn ours_come_first_and_nothing_is_lost() {
        let ours = [PathBuf::from("/package/hdf5/vfd")];
        assert_eq!(with(&ours, Some(OsStr::new("/a:/b"))), "/package/hdf5/vfd:/a:/b");
        assert_eq!(with(&ours, Some(OsStr::new(""))), "/package/hdf5/vfd");
        let unset = with(&ours, None).into_string().unwrap();
        assert!(unset.starts_with("/package/hdf5/vfd:/usr/local/hdf5/lib/plugin"), "{unset}");
    }

    #[test]
    fn what_was_switched_on_before_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [vfd, vol] = ["vfd", "vol"].map(|name| folder.path().join(name));
        for path in [&vfd, &vol] {
            fs::create_dir(path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            fs::write(path.join(format!("libforebay_{name}.so")), "").unwrap();
        }
        let before = env::join_paths([&vol, &vfd, &PathBuf::from("/a")]).unwrap();
        let path = with(std::slice::from_ref(&vfd), Some(&before));
        assert_eq!(path, env::join_paths([&vfd, &PathBuf::from("/a")]).unwrap());
    }
}
