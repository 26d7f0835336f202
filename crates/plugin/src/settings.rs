//! What a plug-in is told by its environment.

use std::{ffi::OsString, path::PathBuf};

use forebay_source::{Error, Result, size};

use crate::ManagedPaths;

/// Where something is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastPlace {
    /// Below this folder.
    Folder(PathBuf),
    /// In the memory of the process.
    Memory,
}

/// The settings of both plug-ins.
#[derive(Clone, Debug, Default)]
pub struct PluginSettings {
    /// Files under these are managed (`FOREBAY_HDF5_PATHS`, separated by colons); with none, everything passes through.
    pub managed: ManagedPaths,
    /// Where writes are staged (`FOREBAY_STAGE`: a folder, or `memory`); `None`: they go straight to their files.
    pub stage: Option<FastPlace>,
    /// How many bytes may be staged (`FOREBAY_STAGE_QUOTA`).
    pub stage_quota: Option<u64>,
    /// Closing a file waits until it is staged, not until it is drained (`FOREBAY_DELAY_CLOSE=1`).
    pub delay_close: bool,
    /// Data sets are read ahead as a whole when they are opened (`FOREBAY_PRESTAGE=1`).
    pub prestage: bool,
    /// Where the VOL connector keeps what it has read (`FOREBAY_HDF5_CACHE`: a folder, or `memory`).
    pub cache: Option<FastPlace>,
}

impl PluginSettings {
    /// From the environment of the process.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// From variables that `get` knows.
    pub fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let paths = get("FOREBAY_HDF5_PATHS").unwrap_or_default();
        let quota = get("FOREBAY_STAGE_QUOTA").map(|value| bytes("FOREBAY_STAGE_QUOTA", &value));
        Ok(Self {
            managed: ManagedPaths::new(std::env::split_paths(&paths)),
            stage: get("FOREBAY_STAGE").map(place),
            stage_quota: quota.transpose()?,
            delay_close: is_on("FOREBAY_DELAY_CLOSE", get("FOREBAY_DELAY_CLOSE"))?,
            prestage: is_on("FOREBAY_PRESTAGE", get("FOREBAY_PRESTAGE"))?,
            cache: get("FOREBAY_HDF5_CACHE").map(place),
        })
    }
}

fn place(value: OsString) -> FastPlace {
    if value.eq_ignore_ascii_case("memory") { FastPlace::Memory } else { FastPlace::Folder(value.into()) }
}

fn bytes(name: &str, value: &OsString) -> Result<u64> {
    let text = value.to_str().unwrap_or_default();
    size::parse(text).map_err(|what| Error::invalid(what).at(name))
}

fn is_on(name: &str, value: Option<OsString>) -> Result<bool> {
    match value.as_ref().map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase()).as_deref() {
        None | Some("0" | "no" | "off" | "false") => Ok(false),
        Some("1" | "yes" | "on" | "true") => Ok(true),
        Some(other) => {
            Err(Error::invalid(format!("{other:?} is neither yes nor no")).at(name).hint("use 1 or 0"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<PluginSettings> {
        PluginSettings::from_variables(|name| {
            variables.iter().find(|(given, _)| *given == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn an_empty_environment_manages_nothing() {
        let settings = of(&[("FOREBAY_HDF5_PATHS", "")]).expect("valid");
        assert!(settings.managed.is_empty() && settings.stage.is_none() && !settings.delay_close);
    }

    #[test]
    fn each_variable_is_taken_and_nonsense_is_named() {
        let settings = of(&[
            ("FOREBAY_HDF5_PATHS", "/lustre/a:/lustre/b"),
            ("FOREBAY_STAGE", "Memory"),
            ("FOREBAY_STAGE_QUOTA", "2MiB"),
            ("FOREBAY_DELAY_CLOSE", "yes"),
            ("FOREBAY_HDF5_CACHE", "/nvme"),
        ])
        .expect("valid");
        assert!(settings.managed.find(Path::new("/lustre/b/x.h5")).is_some());
        assert_eq!((settings.stage, settings.stage_quota), (Some(FastPlace::Memory), Some(2 << 20)));
        assert!(settings.delay_close && !settings.prestage);
        assert_eq!(settings.cache, Some(FastPlace::Folder("/nvme".into())));
        let error = of(&[("FOREBAY_DELAY_CLOSE", "maybe")]).expect_err("nonsense");
        assert!(error.to_string().contains("FOREBAY_DELAY_CLOSE"), "{error}");
        assert!(of(&[("FOREBAY_STAGE_QUOTA", "much")]).is_err());
    }
}
