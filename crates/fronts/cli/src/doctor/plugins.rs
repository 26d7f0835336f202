//! The HDF5 plug-ins, and what each libhdf5 of this machine says to them.

use std::{env, ffi::OsString, path::PathBuf};

use forebay::{Result, Settings, config::Overrides};
use forebay_launch::{LaunchVariables, LibraryTrial, Plugin, PluginFolder, try_libraries};
use serde::Serialize;

/// What came of the plug-ins.
#[derive(Debug, Serialize)]
pub(super) struct PluginFacts {
    /// Where they lie.
    pub(super) folder: Option<PathBuf>,
    /// Why they were not tried.
    pub(super) why: Option<String>,
    pub(super) libraries: Vec<LibraryTrial>,
}

impl PluginFacts {
    /// Tries both plug-ins that are there; `program` starts this command.
    pub(super) fn gather(program: &[OsString], overrides: &Overrides) -> Self {
        let folder = PluginFolder::find();
        let tried =
            folder.as_ref().map_err(Clone::clone).and_then(|folder| tried(program, overrides, folder));
        Self {
            folder: folder.ok().map(|folder| folder.path().to_owned()),
            why: tried.as_ref().err().map(ToString::to_string),
            libraries: tried.unwrap_or_default(),
        }
    }
}

fn tried(program: &[OsString], overrides: &Overrides, folder: &PluginFolder) -> Result<Vec<LibraryTrial>> {
    // All that there are, whatever is switched on.
    let there = [Plugin::Vfd, Plugin::Vol].map(|plugin| folder.of(plugin).is_ok());
    let plugins = match there {
        [true, true] => "both",
        [true, false] => "vfd",
        _ => "vol",
    };
    let overrides = Overrides { hdf5_plugins: Some(plugins.to_owned()), ..overrides.clone() };
    let settings = Settings::load_for_hdf5(&overrides, None)?;
    let variables = LaunchVariables::for_hdf5(&settings, &overrides, folder, &|name| env::var_os(name))?;
    try_libraries(program, &variables.set)
}
