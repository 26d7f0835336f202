//! From what Python says of a staging area to its settings.

use std::{env, path::PathBuf};

use forebay::{
    Error, size,
    stage::{AreaPlace, AreaSettings},
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{misread, raised};

/// The word for an area in memory.
const MEMORY: &str = "memory";

/// Arguments of a call; what is missing is for the configuration to say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AreaArguments {
    path: Option<String>,
    quota: Option<u64>,
    free: Option<u64>,
    drainers: Option<usize>,
    bandwidth: Option<u64>,
    memory: Option<u64>,
    paused: bool,
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

/// The settings (JSON) of the area that `given` (JSON) asks for; what it does not say comes from the environment.
#[pyfunction]
pub(crate) fn stage_settings(given: &str) -> PyResult<String> {
    let given: AreaArguments = serde_json::from_str(given).map_err(|error| misread(&error))?;
    let described = described(given).map_err(raised)?;
    serde_json::to_string(&described).map_err(|error| misread(&error))
}

fn described(given: AreaArguments) -> Result<AreaDescription, Error> {
    let place = given.path.or_else(|| env::var("FOREBAY_STAGE").ok().filter(|place| !place.is_empty()));
    let folder = match place.as_deref() {
        None | Some(MEMORY) => None,
        Some(path) => Some(PathBuf::from(forebay::Origins::new().absolute(path)?)),
    };
    let defaults = folder.clone().map_or_else(AreaSettings::memory, AreaSettings::folder);
    let quota = match env::var("FOREBAY_STAGE_QUOTA") {
        Ok(text) => {
            Some(size::parse(&text).map_err(|error| Error::invalid(error).at("FOREBAY_STAGE_QUOTA"))?)
        }
        Err(_) => None,
    };
    Ok(AreaDescription {
        folder,
        quota: given.quota.or(quota).unwrap_or(defaults.quota),
        free_floor: given.free.unwrap_or(defaults.free_floor),
        drainers: given.drainers.unwrap_or(defaults.drainers).max(1),
        bandwidth: given.bandwidth.or(defaults.bandwidth),
        memory: given.memory.unwrap_or(defaults.memory),
        paused: given.paused,
    })
}
