//! Folders of installed Python packages, those of the running interpreter and of the active environment first.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use forebay_process::c_library::{entries, mapped_files};

/// The folders that there are, each once: those of `PYTHONPATH` first.
pub fn searched() -> Vec<PathBuf> {
    let named = env::var_os("PYTHONPATH").unwrap_or_default();
    present(env::split_paths(&named).filter(|path| path.is_absolute()).chain(installed()))
}

/// The folders that packages are installed in, each once.
pub(crate) fn folders() -> Vec<PathBuf> {
    present(installed())
}

fn present(folders: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in folders {
        if path.is_dir() && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

fn installed() -> impl Iterator<Item = PathBuf> {
    // A program of `/env/bin/python` runs in that environment although it is not activated: it is known by its modules.
    let loaded = mapped_files().into_iter().filter_map(|file| packages_of(&file));
    let pythons = prefixes().into_iter().flat_map(|prefix| entries(&prefix.join("lib")));
    let pythons = pythons.filter(|python| {
        python.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
    });
    loaded.chain(pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name))))
}

/// Where Pythons are installed.
fn prefixes() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> = active.filter(|path| path.is_absolute()).collect();
    prefixes.extend(searched_python());
    prefixes.extend(env::var_os("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(["/usr/local".into(), "/usr".into()]);
    prefixes
}

/// Where the `python3` of the search path was installed, by its own name and by what that links to.
fn searched_python() -> Vec<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut pythons =
        env::split_paths(&folders).filter(|folder| folder.is_absolute()).map(|folder| folder.join("python3"));
    let Some(python) = pythons.find(|python| python.exists()) else { return Vec::new() };
    let real = fs::canonicalize(&python).unwrap_or_else(|_| python.clone());
    [python, real].iter().filter_map(|path| Some(path.parent()?.parent()?.to_owned())).collect()
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
        assert_eq!(
            packages_of(Path::new("/usr/lib/python3/dist-packages/x.so")),
            Some("/usr/lib/python3/dist-packages".into())
        );
        assert_eq!(packages_of(Path::new("/usr/lib/libc.so.6")), None);
        assert!(searched().iter().all(|folder| folder.is_dir()));
    }
}
