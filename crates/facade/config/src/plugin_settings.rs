//! What the plug-ins are told: the settings of all of forebay, as the table `[hdf5]` and its variables have them.

use std::{ffi::OsString, path::PathBuf};

use forebay_process::{Error, Result};

use crate::{
    config::Config,
    config::hdf5_config::PrestageMode,
    environment::Environment,
    info_text,
    managed_paths::ManagedPaths,
    settings::{Settings, setting::Overrides},
};

/// The settings of both plug-ins.
#[derive(Clone, Debug, Default)]
pub struct PluginSettings {
    /// Files under these are managed (`FOREBAY_HDF5_PATHS`, separated by colons); with none, everything passes through.
    pub managed: ManagedPaths,
    /// Data sets are read ahead as a whole when they are opened (`FOREBAY_PRESTAGE`).
    pub prestage: bool,
    /// All that is configured: `hdf5`, `stage`, tiers.
    pub config: Config,
}

impl PluginSettings {
    /// From the environment of the process, and the configuration file that it names.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(|name| std::env::var_os(name), None)
    }

    /// From variables that `get` knows, and the configuration file that they name; `named` is the settings file of a connector
    /// string that is not in the variables.
    pub fn from_variables(get: impl Fn(&str) -> Option<OsString>, named: Option<PathBuf>) -> Result<Self> {
        let folder =
            std::env::current_dir().map_err(|error| Error::from_io(error).at("working directory"))?;
        let variable = |name: &str| get(name)?.into_string().ok();
        let environment = Environment { variable: &variable, folder };
        let file = variable("HDF5_VOL_CONNECTOR").as_deref().and_then(info_text::named_file).or(named);
        let settings = Settings::load_for_hdf5_in(&Overrides::default(), file.as_deref(), &environment)?;
        Ok(Self::from_config(settings.config))
    }

    /// The settings of `config`; relative paths start at the working directory of now.
    pub fn from_config(config: Config) -> Self {
        Self {
            managed: ManagedPaths::new(config.hdf5.paths.iter().cloned()),
            prestage: config.hdf5.prestage != PrestageMode::Off,
            config,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::fast_place::FastPlace;

    fn of(variables: &[(&str, &str)]) -> Result<PluginSettings> {
        let get = |name: &str| {
            variables.iter().find(|(given, _)| *given == name).map(|(_, value)| OsString::from(value))
        };
        PluginSettings::from_variables(get, None)
    }

    #[test]
    fn an_empty_environment_manages_nothing() {
        let settings = of(&[("FOREBAY_HDF5_PATHS", "")]).expect("valid");
        assert!(settings.managed.is_empty() && !settings.prestage);
        assert!(settings.config.stage.path.is_none() && !settings.config.hdf5.delay_close);
    }

    #[test]
    fn a_settings_file_that_the_connector_string_names_says_where_writes_are_staged() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cache.cfg");
        let text =
            format!("HDF5_CACHE_STORAGE_PATH {}\nHDF5_CACHE_STORAGE_TYPE SSD\n", folder.path().display());
        std::fs::write(&file, text).expect("written");
        let connector = format!("forebay config={};under_vol=0;under_info={{}}", file.display());
        let settings = of(&[("HDF5_VOL_CONNECTOR", &connector), ("HDF5_CACHE_WR", "yes")]).expect("valid");
        assert_eq!(settings.config.stage.path, Some(FastPlace::Folder(folder.path().to_owned())));
    }

    #[test]
    fn each_variable_is_taken_and_nonsense_is_named() {
        let settings = of(&[
            ("FOREBAY_HDF5_PATHS", "/lustre/a:/lustre/b"),
            ("FOREBAY_STAGE", "memory"),
            ("FOREBAY_DELAY_CLOSE", "1"),
            ("FOREBAY_PRESTAGE", "1"),
        ])
        .expect("valid");
        assert!(settings.managed.find(Path::new("/lustre/b/x.h5")).is_some() && settings.prestage);
        assert_eq!(settings.config.stage.path, Some(FastPlace::Memory));
        assert!(settings.config.hdf5.delay_close);
        let error = of(&[("FOREBAY_DELAY_CLOSE", "maybe")]).expect_err("nonsense");
        assert!(error.to_string().contains("FOREBAY_DELAY_CLOSE"), "{error}");
    }
}
