//! From what Python says of a staging area to its settings.

use std::path::PathBuf;

use forebay::{
    Error, Settings,
    config::{Amount, FastPlace, Overrides},
    stage::{AreaPlace, AreaSettings},
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    error::raised,
    plain::{Plain, plain},
};

/// The word for an area in memory.
const MEMORY: &str = "memory";

/// Arguments of a call; what is missing is for the configuration to say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AreaArguments {
    path: Option<String>,
    quota: Option<Amount>,
    free_floor: Option<Amount>,
    drainers: Option<usize>,
    bandwidth: Option<u64>,
    memory: Option<Amount>,
    paused: Option<bool>,
}

/// Settings of an area as another process may be told them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AreaDescription {
    /// The folder; none for memory.
    folder: Option<PathBuf>,
    quota: u64,
    free_floor: u64,
    drainers: usize,
    bandwidth: Option<u64>,
    memory: u64,
    paused: bool,
}

impl AreaDescription {
    pub(crate) fn settings(self) -> AreaSettings {
        AreaSettings {
            place: self.folder.map_or(AreaPlace::Memory, AreaPlace::Folder),
            quota: self.quota,
            free_floor: self.free_floor,
            drainers: self.drainers,
            bandwidth: self.bandwidth,
            memory: self.memory,
            start_paused: self.paused,
        }
    }
}

impl From<AreaSettings> for AreaDescription {
    fn from(settings: AreaSettings) -> Self {
        let folder = match settings.place {
            AreaPlace::Folder(folder) => Some(folder),
            AreaPlace::Memory => None,
        };
        Self {
            folder,
            quota: settings.quota,
            free_floor: settings.free_floor,
            drainers: settings.drainers,
            bandwidth: settings.bandwidth,
            memory: settings.memory,
            paused: settings.start_paused,
        }
    }
}

/// The settings of the area that `given` asks for, and whether that is one; what it does not say comes from the
/// configuration. Where there is none, nothing fits into the one that is described.
#[pyfunction]
pub(crate) fn stage_settings<'py>(
    py: Python<'py>,
    given: Plain<AreaArguments>,
) -> PyResult<(Bound<'py, PyAny>, bool)> {
    let asked = asked_for(given.0).map_err(raised)?;
    let is_area = asked.is_some();
    let settings =
        asked.unwrap_or_else(|| AreaSettings { quota: 0, free_floor: 0, ..AreaSettings::memory() });
    Ok((plain(py, &AreaDescription::from(settings))?, is_area))
}

fn asked_for(given: AreaArguments) -> Result<Option<AreaSettings>, Error> {
    let mut stage = Settings::load(&Overrides::default())?.config.stage;
    if let Some(path) = given.path {
        stage.path = Some(match path.as_str() {
            MEMORY => FastPlace::Memory,
            path => FastPlace::Folder(forebay::Origins::new().absolute(path)?.into()),
        });
    }
    stage.quota = given.quota.unwrap_or(stage.quota);
    stage.free_floor = given.free_floor.or(stage.free_floor);
    stage.drainers = given.drainers.unwrap_or(stage.drainers);
    stage.bandwidth = given.bandwidth.or(stage.bandwidth);
    stage.memory = given.memory.unwrap_or(stage.memory);
    stage.paused = given.paused.unwrap_or(stage.paused);
    let named = [("drainers", stage.drainers == 0), ("bandwidth", stage.bandwidth == Some(0))];
    if let Some((name, _)) = named.into_iter().find(|(_, is_zero)| *is_zero) {
        return Err(Error::invalid(format!("{name}=0 would never bring anything to its destination")));
    }
    stage.area()
}
