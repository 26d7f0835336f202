//! Folders of installed Python packages, those of the running interpreter and of the active environment first.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The folders that there are, each once.
pub(crate) fn folders() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        if path.is_dir() && !found.contains(&path) {
            found.push(path);
        }
    };
    env::split_paths(&env::var_os("PYTHONPATH").unwrap_or_default())
        .filter(|path| path.is_absolute())
        .for_each(&mut add);
    mapped().iter().filter_map(|file| packages_of(file)).for_each(&mut add);
    for prefix in prefixes() {
        let lib = prefix.join("lib");
        for entry in fs::read_dir(&lib).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("python3") {
                for packages in ["site-packages", "dist-packages"] {
                    add(entry.path().join(packages));
                }
            }
        }
    }
    found
}

/// Where Pythons are installed.
fn prefixes() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> = active.filter(|path| path.is_absolute()).collect();
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut pythons =
        env::split_paths(&folders).filter(|path| path.is_absolute()).map(|path| path.join("python3"));
    if let Some(python) = pythons.find(|python| python.exists()) {
        let real = fs::canonicalize(&python).unwrap_or_else(|_| python.clone());
        prefixes.extend([python, real].iter().filter_map(|path| Some(path.parent()?.parent()?.to_owned())));
    }
    prefixes.extend(env::var_os("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(["/usr/local".into(), "/usr".into()]);
    prefixes
}

/// Files that this process has mapped: a Python that is not activated is known by its modules.
fn mapped() -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<PathBuf> =
        maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..]))).collect();
    paths.dedup();
    paths
}

/// The folder of packages that `file` belongs to.
fn packages_of(file: &Path) -> Option<PathBuf> {
    let mut above = file.ancestors().skip(1);
    above
        .find(|folder| folder.ends_with("site-packages") || folder.ends_with("dist-packages"))
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_tells_where_packages_are_installed() {
        let module = Path::new("/env/lib/python3.11/site-packages/numpy/core/_umath.so");
        assert_eq!(packages_of(module), Some("/env/lib/python3.11/site-packages".into()));
        assert_eq!(packages_of(Path::new("/usr/lib/libc.so.6")), None);
        assert!(folders().iter().all(|folder| folder.is_dir()));
    }
}
