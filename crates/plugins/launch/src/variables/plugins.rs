//! Where the libraries lie that other programs load: three folders, `vfd`, `vol` and `preload`, each with one library.
//!
//! HDF5 loads every library of a folder when it looks for one plug-in, so a plug-in that is not switched on must not lie
//! beside one that is.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result};

/// The variable that names the folder in which `vfd` and `vol` lie.
pub const PLUGINS_VARIABLE: &str = "FOREBAY_PLUGINS";

/// A library that other programs load: a plug-in of HDF5, or the one that is preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// The virtual file driver.
    Vfd,
    /// The VOL connector.
    Vol,
    /// The library with the hooks of file calls, which is no plug-in of HDF5.
    Preload,
}

impl Plugin {
    /// Its folder below that of the plug-ins.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Vfd => "vfd",
            Self::Vol => "vol",
            Self::Preload => "preload",
        }
    }

    /// The name of its library.
    pub fn file(self) -> &'static str {
        match self {
            Self::Vfd => "libforebay_vfd.so",
            Self::Vol => "libforebay_vol.so",
            Self::Preload => "libforebay_preload.so",
        }
    }
}

/// The folder that holds the plug-ins: the one that `FOREBAY_PLUGINS` names, or one beside the package or the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFolder {
    path: PathBuf,
}

impl PluginFolder {
    /// The folder of this process.
    pub fn find() -> Result<Self> {
        let named = env::var_os(PLUGINS_VARIABLE).filter(|value| !value.is_empty());
        if let Some(named) = named {
            return Self::named(Path::new(&named));
        }
        let candidates = candidates();
        let found = candidates.iter().find(|path| is_plugin_folder(path));
        found.map(|path| Self { path: path.clone() }).ok_or_else(|| {
            let looked: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
            let what = format!("the HDF5 plug-ins are in none of {}", looked.join(", "));
            let remedy = format!(
                "the Python package has them: `pip install forebay` and use its command, or set {PLUGINS_VARIABLE} to its \
                 folder forebay/hdf5, or to what `scripts/plugins.sh` built"
            );
            Error::new(ErrorKind::NotFound, what).hint(remedy)
        })
    }

    fn named(path: &Path) -> Result<Self> {
        let invalid = |what: String, remedy: &str| {
            Err(Error::new(ErrorKind::Invalid, what).at(PLUGINS_VARIABLE).hint(remedy))
        };
        // What lies in the working directory is never loaded.
        if !path.is_absolute() {
            let what = format!("'{}' is not an absolute path", path.display());
            return invalid(what, "begin it with '/'");
        }
        if !is_plugin_folder(path) {
            let what =
                format!("no {} and no {} in {}", entry(Plugin::Vfd), entry(Plugin::Vol), path.display());
            return invalid(what, "`scripts/plugins.sh FOLDER` makes such a folder");
        }
        Ok(Self { path: path.to_owned() })
    }

    /// The folder at `path`, whatever is in it.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The folder that holds `vfd` and `vol`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The library to preload.
    pub fn preload(&self) -> Result<PathBuf> {
        Ok(self.of(Plugin::Preload)?.join(Plugin::Preload.file()))
    }

    /// The folder, for HDF5's search path, in which `plugin` lies.
    pub fn of(&self, plugin: Plugin) -> Result<PathBuf> {
        let folder = self.path.join(plugin.folder());
        let library = folder.join(plugin.file());
        match fs::metadata(&library) {
            Ok(found) if found.is_file() => Ok(folder),
            Ok(_) => Err(Error::new(ErrorKind::Invalid, "is not a file").at(library.display())),
            Err(error) => {
                let hint = match plugin {
                    Plugin::Preload => "build it by scripts/plugins.sh",
                    _ => "build it, or switch it off by --hdf5=",
                };
                Err(Error::from_io(error).at(library.display()).hint(hint))
            }
        }
    }

    /// True for the folder of one of the plug-ins, wherever it lies.
    pub(crate) fn is_one(path: &Path) -> bool {
        [Plugin::Vfd, Plugin::Vol].iter().any(|plugin| path.join(plugin.file()).is_file())
    }
}

fn entry(plugin: Plugin) -> String {
    format!("{}/{}", plugin.folder(), plugin.file())
}

fn is_plugin_folder(path: &Path) -> bool {
    [Plugin::Vfd, Plugin::Vol, Plugin::Preload].iter().any(|plugin| path.join(entry(*plugin)).is_file())
}

/// Folders to look into: beside the library of the Python package, beside the command, and in `lib` of where it is installed.
fn candidates() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(package) = package_folder() {
        folders.push(package.join("hdf5"));
    }
    let command = env::current_exe().ok();
    if let Some(folder) = command.as_deref().and_then(Path::parent) {
        folders.push(folder.join("hdf5"));
        folders.extend(folder.parent().map(|prefix| prefix.join("lib/forebay/hdf5")));
    }
    folders
}

/// The folder of the Python package, where this process has loaded its library.
fn package_folder() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_ours = |path: &&Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("_forebay.") && name.contains(".so")
    };
    paths
        .filter(|path| path.parent().is_some_and(|folder| folder.ends_with("forebay")))
        .find(is_ours)?
        .parent()
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_named_has_to_hold_a_plugin_and_to_be_absolute() {
        let folder = tempfile::tempdir().unwrap();
        let error = PluginFolder::named(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("no vfd/libforebay_vfd.so") && error.contains("scripts/plugins.sh"),
            "{error}"
        );
        assert!(PluginFolder::named(Path::new("hdf5")).unwrap_err().to_string().contains("absolute"));
        fs::create_dir(folder.path().join("vfd")).unwrap();
        fs::write(folder.path().join("vfd/libforebay_vfd.so"), "").unwrap();
        let found = PluginFolder::named(folder.path()).unwrap();
        assert_eq!(found.of(Plugin::Vfd).unwrap(), folder.path().join("vfd"));
        let error = found.of(Plugin::Vol).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("vol/libforebay_vol.so"), "{error}");
        assert!(PluginFolder::is_one(&folder.path().join("vfd")) && !PluginFolder::is_one(folder.path()));
    }

    #[test]
    fn without_plugins_the_places_and_the_remedy_are_named() {
        let candidates = candidates();
        assert!(candidates.iter().any(|path| path.ends_with("lib/forebay/hdf5")), "{candidates:?}");
        assert_eq!(package_folder(), None, "this is no Python");
    }
}
