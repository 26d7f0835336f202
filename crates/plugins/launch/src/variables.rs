//! The variables by which a program gets the HDF5 plug-ins and the library that is preloaded.

mod plugin_path;
pub(crate) mod plugins;

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use forebay_config::{Overrides, Settings};
use forebay_process::{Error, ErrorKind, Result};

use crate::variables::plugins::{Plugin, PluginFolder};

/// The name of the driver and of the connector.
const NAME: &str = "forebay";
const DRIVER: &str = "HDF5_DRIVER";
const CONNECTOR: &str = "HDF5_VOL_CONNECTOR";
const PLUGIN_PATH: &str = "HDF5_PLUGIN_PATH";
const PRELOAD: &str = "HDF5_PLUGIN_PRELOAD";
/// What the dynamic linker loads before other libraries.
const LIBRARIES: &str = "LD_PRELOAD";
/// Keeps PyTables and b2h5py from reading the chunks of Blosc2 out of the file by themselves, beside HDF5: the driver, which would not
/// know of it, may have newer ones staged. The connector does know.
const BLOSC2_BY_FILTER: &str = "BLOSC2_FILTER";

/// Variables of a program's environment, in the order they are printed, and what the user ought to know of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchVariables {
    /// Names and values.
    pub set: Vec<(String, OsString)>,
    /// What will not do what it seems to.
    pub warnings: Vec<String>,
}

impl LaunchVariables {
    /// The variables for the HDF5 plug-ins that `settings` switch on; `overrides` are the flags that gave the settings, which
    /// a program has to be told. `before` is the environment as it is.
    pub fn for_hdf5(
        settings: &Settings,
        overrides: &Overrides,
        plugins: &PluginFolder,
        before: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let hdf5 = &settings.config.hdf5;
        let mut variables = Self::default();
        if before(PRELOAD).is_some_and(|value| value == "::") {
            let error = Error::new(ErrorKind::Invalid, "'::' keeps HDF5 from loading plug-ins").at(PRELOAD);
            return Err(error.hint("unset it"));
        }
        let mut folders = Vec::new();
        let mut named = Vec::new();
        for (is_on, plugin, name) in
            [(hdf5.has_driver(), Plugin::Vfd, DRIVER), (hdf5.has_connector(), Plugin::Vol, CONNECTOR)]
        {
            if is_on {
                folders.push(plugins.of(plugin)?);
                named.push((name.to_owned(), value_of(name, before(name).as_deref())?));
            }
        }
        variables.add(PLUGIN_PATH, plugin_path::with(&folders, before(PLUGIN_PATH).as_deref()));
        variables.set.extend(named);
        if hdf5.has_driver() && !hdf5.has_connector() && before(BLOSC2_BY_FILTER).is_none() {
            variables.add(BLOSC2_BY_FILTER, "1");
        }
        variables.add_settings(settings, overrides);
        if hdf5.paths.is_empty() {
            let what = "no paths are configured, so the plug-ins pass every file through";
            variables.warnings.push(format!("{what}; name folders by --hdf5-paths or FOREBAY_HDF5_PATHS"));
        }
        if !hdf5.has_driver() && settings.config.stage.path.is_some() {
            let what = "without the driver only writes of MPI-IO programs are staged";
            variables.warnings.push(format!("{what}; --hdf5=both stages all"));
        }
        Ok(variables)
    }

    /// The variables for files under the origin on tiers: the library of `preload` is loaded before others, and the HDF5 plug-ins
    /// besides where `plugins` are given. The tiers of `settings` are those that processes share.
    pub fn for_run(
        settings: &Settings,
        overrides: &Overrides,
        plugins: Option<&PluginFolder>,
        preload: Option<&Path>,
        before: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let mut settings = settings.clone();
        let origin = settings.config.origin.path.clone().unwrap_or_default();
        let mut told = Overrides {
            origin: Some(escaped(&origin)),
            tiers: settings.config.tiers.iter().map(ToString::to_string).collect(),
            ..overrides.clone()
        };
        if settings.config.hdf5.paths.is_empty() {
            settings.config.hdf5.paths = vec![origin.clone().into()];
            told.hdf5_paths = plugins.map(|_| escaped(&origin));
        }
        let mut variables = match plugins {
            Some(plugins) => Self::for_hdf5(&settings, &told, plugins, before)?,
            None => {
                let mut variables = Self::default();
                variables.add_settings(&settings, &told);
                variables
            }
        };
        // The driver's own reads pass through the hooks: with tiers of its own each byte would be looked for twice.
        if plugins.is_some() && !settings.config.tiers.is_empty() && settings.config.hdf5.cache.is_none() {
            variables.add("FOREBAY_HDF5_READ", "false");
        }
        if settings.file.is_none() && told.config.is_none() {
            // A file in a folder that the program goes to must not decide for it.
            variables.add("FOREBAY_CONFIG", "none");
        }
        if let Some(library) = preload {
            variables.add(LIBRARIES, preloaded(library, before(LIBRARIES)));
        }
        Ok(variables)
    }

    pub(crate) fn add(&mut self, name: &str, value: impl Into<OsString>) {
        self.set.push((name.to_owned(), value.into()));
    }

    /// What flags say, and the file that was found: the program may be started in another folder.
    fn add_settings(&mut self, settings: &Settings, overrides: &Overrides) {
        if let Some(file) = &settings.file {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            self.add("FOREBAY_CONFIG", file);
        } else if let Some(named) = &overrides.config {
            self.add("FOREBAY_CONFIG", named);
        }
        for (name, text) in overrides.variables() {
            self.add(name, text);
        }
    }

    /// The lines by which a shell sets the variables.
    pub fn shell_lines(&self) -> Vec<String> {
        self.set.iter().map(|(name, value)| format!("export {name}={}", quoted(value))).collect()
    }
}

/// `LD_PRELOAD` with `library` behind what the user has there: libraries of sanitizers must be the first.
fn preloaded(library: &Path, before: Option<OsString>) -> OsString {
    let before = before.unwrap_or_default();
    let text = before.to_string_lossy();
    let mut all: Vec<&str> = text.split([':', ' ', '\t', '\n']).filter(|path| !path.is_empty()).collect();
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    // Of a run around this one.
    all.retain(|path| Path::new(path).file_name().is_none_or(|file| file.to_string_lossy() != name));
    let mut joined = OsString::from(all.join(":"));
    if !joined.is_empty() {
        joined.push(":");
    }
    joined.push(library);
    joined
}

/// `path` as a variable has it, in which names after dollars are written out.
pub(crate) fn escaped(path: &str) -> String {
    path.replace('$', "$$")
}

/// The value for `name`, a driver or connector: ours, unless the user has one already.
fn value_of(name: &str, before: Option<&OsStr>) -> Result<OsString> {
    let text = before.map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    let word = text.split_whitespace().next().unwrap_or_default();
    let is_default =
        word.is_empty() || (name == DRIVER && word == "sec2") || (name == CONNECTOR && word == "native");
    if is_default {
        return Ok(NAME.into());
    }
    if word == NAME {
        return Ok(text.into());
    }
    let error = Error::new(ErrorKind::Invalid, format!("is set to '{text}' already")).at(name);
    Err(if name == CONNECTOR {
        error.hint("unset it, leave the connector out by --hdf5=vfd, or stack them: HDF5_VOL_CONNECTOR='forebay under_vol=NUMBER;under_info={…}'")
    } else {
        error.hint("unset it, or leave the driver out by --hdf5=vol")
    })
}

/// `value` as a word of a POSIX shell.
fn quoted(value: &OsStr) -> String {
    let text = value.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:,+=%@".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_config::Environment;

    use super::*;

    /// The variables where `text` is the configuration and `before` the environment.
    fn variables(text: &str, overrides: &Overrides, before: &[(&str, &str)]) -> Result<LaunchVariables> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("forebay.toml"), text).unwrap();
        let root = folder.path().join("plugins");
        for name in ["vfd", "vol"] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join(format!("libforebay_{name}.so")), "").unwrap();
        }
        let variable = |_: &str| None;
        let environment = Environment { variable: &variable, folder: folder.path().to_owned() };
        let settings = Settings::load_for_hdf5_in(overrides, None, &environment).unwrap();
        let plugins = PluginFolder::at(root);
        let before = |name: &str| {
            before.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        LaunchVariables::for_hdf5(&settings, overrides, &plugins, &before)
    }

    fn get(variables: &LaunchVariables, name: &str) -> Option<String> {
        let found = variables.set.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_staging_area_that_nothing_would_use_is_told() {
        let flags = Overrides { hdf5_plugins: Some("vol".to_owned()), ..Overrides::default() };
        let text = "[hdf5]\npaths = \"/x\"\n[stage]\npath = \"memory\"";
        let warnings = variables(text, &flags, &[]).unwrap().warnings;
        assert!(warnings.len() == 1 && warnings[0].contains("--hdf5=both"), "{warnings:?}");
    }

    #[test]
    fn the_driver_comes_by_default_and_the_connector_with_a_cache() {
        let plain = variables("[hdf5]\npaths = \"/x\"", &Overrides::default(), &[]).unwrap();
        assert_eq!(get(&plain, DRIVER).as_deref(), Some("forebay"));
        assert_eq!((get(&plain, CONNECTOR), plain.warnings.len()), (None, 0));
        let path = get(&plain, PLUGIN_PATH).unwrap();
        assert!(path.contains("plugins/vfd:") && !path.contains("plugins/vol"), "{path}");
        assert!(get(&plain, "FOREBAY_CONFIG").unwrap().ends_with("forebay.toml"));
        assert_eq!(get(&plain, BLOSC2_BY_FILTER).as_deref(), Some("1"));
        let both = variables("[hdf5]\ncache = \"memory\"", &Overrides::default(), &[]).unwrap();
        assert_eq!(get(&both, BLOSC2_BY_FILTER), None);
        assert_eq!(get(&both, CONNECTOR).as_deref(), Some("forebay"));
        assert!(both.warnings[0].contains("pass every file through"), "{:?}", both.warnings);
        let flags = Overrides { hdf5_plugins: Some("vol".to_owned()), ..Overrides::default() };
        let vol = variables("", &flags, &[]).unwrap();
        assert_eq!((get(&vol, DRIVER), get(&vol, CONNECTOR).as_deref()), (None, Some("forebay")));
    }

    #[test]
    fn flags_reach_the_program_as_variables() {
        let flags = Overrides {
            stage: Some("/nvme/my stage".to_owned()),
            hdf5_paths: Some("/lustre".to_owned()),
            tiers: vec!["memory:1GiB".to_owned(), "/nvme/t".to_owned()],
            ..Overrides::default()
        };
        let found = variables("", &flags, &[]).unwrap();
        assert_eq!(get(&found, "FOREBAY_STAGE").as_deref(), Some("/nvme/my stage"));
        assert_eq!(get(&found, "FOREBAY_TIERS").as_deref(), Some("memory:1GiB,/nvme/t"));
        let lines = found.shell_lines();
        assert!(lines.contains(&"export FOREBAY_STAGE='/nvme/my stage'".to_owned()), "{lines:?}");
        assert!(lines.contains(&"export FOREBAY_HDF5_PATHS=/lustre".to_owned()), "{lines:?}");
    }

    #[test]
    fn what_the_user_has_set_is_not_replaced_unseen() {
        let of = |before: &[(&str, &str)]| variables("", &Overrides::default(), before);
        assert!(of(&[(DRIVER, "sec2")]).is_ok());
        assert!(of(&[(CONNECTOR, "async under_vol=0;under_info={}")]).is_ok(), "it is not switched on");
        let error = of(&[(DRIVER, "core")]).unwrap_err().to_string();
        assert!(
            error.contains("HDF5_DRIVER: is set to 'core' already") && error.contains("--hdf5=vol"),
            "{error}"
        );
        let error = of(&[(PRELOAD, "::")]).unwrap_err().to_string();
        assert!(error.contains("keeps HDF5 from loading plug-ins"), "{error}");
        let flags = Overrides { hdf5_plugins: Some("both".to_owned()), ..Overrides::default() };
        let stacked = "forebay under_vol=512;under_info={}";
        let found = variables("", &flags, &[(CONNECTOR, stacked)]).unwrap();
        assert_eq!(get(&found, CONNECTOR).as_deref(), Some(stacked));
    }

    #[test]
    fn a_preloaded_library_comes_behind_those_of_the_user_and_once() {
        let library = Path::new("/package/preload/libforebay_preload.so");
        let of = |before: &str| preloaded(library, Some(before.into())).into_string().unwrap();
        assert_eq!(preloaded(library, None), library.as_os_str());
        assert_eq!(of("libasan.so:/a/b.so /c.so"), format!("libasan.so:/a/b.so:/c.so:{}", library.display()));
        assert_eq!(of("/other/libforebay_preload.so:/a.so"), format!("/a.so:{}", library.display()));
    }

    #[test]
    fn values_are_words_of_a_shell() {
        for (value, word) in
            [("/a/b:c", "/a/b:c"), ("", "''"), ("a b", "'a b'"), ("it's $x", "'it'\\''s $x'")]
        {
            assert_eq!(quoted(OsStr::new(value)), word);
        }
    }
}
