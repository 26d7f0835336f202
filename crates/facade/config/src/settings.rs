//! The settings in force: flags over the environment over a file over defaults.

mod cache_vol;
mod file;
mod find;
mod given;
mod hdf5_table;
mod layers;
mod print;
pub(crate) mod setting;
mod stage_table;
pub(crate) mod table;
pub(crate) mod value_origin;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use forebay_process::{Error, Result};

use crate::{
    config::Config,
    environment::Environment,
    settings::{layers::Layers, setting::Overrides, value_origin::ValueOrigin},
};

/// The configuration in force, and where each value of it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is in force.
    pub config: Config,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// By a value's name, such as `placement.threads` or `tier.0.quota`; what is not there is a default.
    pub origins: BTreeMap<String, ValueOrigin>,
}

const CONFIG_VARIABLE: &str = "FOREBAY_CONFIG";

impl Settings {
    /// The settings of this process, under what `overrides` say.
    pub fn load(overrides: &Overrides) -> Result<Self> {
        let folder = env::current_dir().map_err(|error| Error::from_io(error).at("working directory"))?;
        Self::load_in(overrides, &Environment::of_process(folder))
    }

    /// As [`Settings::load`], in a given environment.
    pub fn load_in(overrides: &Overrides, environment: &Environment<'_>) -> Result<Self> {
        Self::layered(overrides, environment, None)
    }

    /// The settings that the HDF5 plug-ins work with: as [`Settings::load`], with the variables of HDF5's Cache VOL and the
    /// file in its format that `cache_vol` names, where a connector string does, below those of forebay and above the file.
    pub fn load_for_hdf5(overrides: &Overrides, cache_vol: Option<&Path>) -> Result<Self> {
        let folder = env::current_dir().map_err(|error| Error::from_io(error).at("working directory"))?;
        Self::load_for_hdf5_in(overrides, cache_vol, &Environment::of_process(folder))
    }

    /// As [`Settings::load_for_hdf5`], in a given environment.
    pub fn load_for_hdf5_in(
        overrides: &Overrides,
        cache_vol: Option<&Path>,
        environment: &Environment<'_>,
    ) -> Result<Self> {
        Self::layered(overrides, environment, Some(cache_vol))
    }

    /// `cache_vol` is there where Cache VOL's variables count, and then the file of its own, if there is one.
    fn layered(
        overrides: &Overrides,
        environment: &Environment<'_>,
        cache_vol: Option<Option<&Path>>,
    ) -> Result<Self> {
        let variable = environment.get(CONFIG_VARIABLE);
        let found = find::find(overrides.config.as_deref(), variable.as_deref(), environment)?;
        let mut layers = Layers::default();
        layers.add_flags(overrides, environment)?;
        layers.add_environment(environment)?;
        if let Some(path) = cache_vol.flatten() {
            cache_vol::add_file(path, environment, &mut layers)?;
        }
        if cache_vol.is_some() {
            cache_vol::add_environment(environment, &mut layers)?;
        }
        if let Some(text) = &found {
            file::read(text, environment, &mut layers)?;
        }
        if cache_vol.is_some() {
            cache_vol::finish(environment, &mut layers)?;
        }
        Ok(Self { config: layers.config, file: found.map(|text| text.path), origins: layers.origins })
    }

    /// Where the value called `name` comes from.
    pub fn origin_of(&self, name: &str) -> &ValueOrigin {
        self.origins.get(name).unwrap_or(&ValueOrigin::Default)
    }

    /// The settings as a file that can be read back, with where each value comes from.
    pub fn to_toml(&self) -> String {
        print::toml(&self.config, self.file.as_deref(), &self.origins)
    }
}
