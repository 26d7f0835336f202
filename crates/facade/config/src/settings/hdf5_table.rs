//! The settings of the HDF5 plug-ins.

use std::{ops::RangeInclusive, path::PathBuf};

use forebay_process::{Error, ErrorKind, Result, size};
use toml::de::DeValue;

use crate::{
    config::{fast_place::FastPlace, hdf5_config::PrestageMode, tier::folder},
    environment::{Environment, literal},
    settings::{
        given::{GivenValue, wrong},
        setting::{Setting, put, quoted},
    },
};

/// Which HDF5 files are managed, and how.
pub(crate) const HDF5: [Setting; 14] = [
    Setting {
        section: "hdf5",
        key: "paths",
        flag: "--hdf5-paths",
        variable: "FOREBAY_HDF5_PATHS",
        text: |overrides| overrides.hdf5_paths.as_ref(),
        set: |config, given, environment| put(&mut config.hdf5.paths, prefixes(given, environment)),
        toml: |config| (!config.hdf5.paths.is_empty()).then(|| list(&config.hdf5.paths)),
        absent: "plug-ins pass every file through",
    },
    Setting {
        section: "hdf5",
        key: "plugins",
        flag: "--hdf5",
        variable: "FOREBAY_HDF5_PLUGINS",
        text: |overrides| overrides.hdf5_plugins.as_ref(),
        set: |config, given, _| put(&mut config.hdf5.plugins, given.text()?.parse()),
        toml: |config| Some(quoted(config.hdf5.plugins.word())),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "write",
        flag: "",
        variable: "FOREBAY_HDF5_WRITE",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.write, given.boolean()),
        toml: |config| Some(config.hdf5.write.to_string()),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "read",
        flag: "",
        variable: "FOREBAY_HDF5_READ",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.read, given.boolean()),
        toml: |config| Some(config.hdf5.read.to_string()),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "delay_close",
        flag: "--delay-close",
        variable: "FOREBAY_DELAY_CLOSE",
        text: |overrides| overrides.delay_close.as_ref(),
        set: |config, given, _| put(&mut config.hdf5.delay_close, given.boolean()),
        toml: |config| Some(config.hdf5.delay_close.to_string()),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "scope",
        flag: "",
        variable: "FOREBAY_HDF5_SCOPE",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.scope, given.text()?.parse()),
        toml: |config| Some(quoted(config.hdf5.scope.word())),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "cache",
        flag: "--hdf5-cache",
        variable: "FOREBAY_HDF5_CACHE",
        text: |overrides| overrides.hdf5_cache.as_ref(),
        set: |config, given, environment| {
            put(&mut config.hdf5.cache, FastPlace::parse_in(given.text()?, environment).map(Some))
        },
        toml: |config| config.hdf5.cache.as_ref().map(|place| quoted(&place.to_string())),
        absent: "the VOL connector keeps no values",
    },
    Setting {
        section: "hdf5",
        key: "cache_quota",
        flag: "",
        variable: "FOREBAY_HDF5_CACHE_QUOTA",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.cache_quota, given.amount().map(Some)),
        toml: |config| config.hdf5.cache_quota.map(|quota| quoted(&quota.to_string())),
        absent: "25% of the memory budget, or 80% of what is free on the disk",
    },
    Setting {
        section: "hdf5",
        key: "cache_policy",
        flag: "",
        variable: "FOREBAY_HDF5_CACHE_POLICY",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.cache_policy, given.text()?.parse()),
        toml: |config| Some(quoted(config.hdf5.cache_policy.word())),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "peers",
        flag: "",
        variable: "FOREBAY_HDF5_PEERS",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.peers, given.text()?.parse()),
        toml: |config| Some(quoted(config.hdf5.peers.word())),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "prestage",
        flag: "--prestage",
        variable: "FOREBAY_PRESTAGE",
        text: |overrides| overrides.prestage.as_ref(),
        set: |config, given, _| put(&mut config.hdf5.prestage, prestage(given)),
        toml: |config| Some(quoted(config.hdf5.prestage.word())),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "unit",
        flag: "",
        variable: "FOREBAY_HDF5_UNIT",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.unit, unit(given)),
        toml: |config| Some(quoted(&size::exact(config.hdf5.unit))),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "least",
        flag: "",
        variable: "FOREBAY_HDF5_LEAST",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.least, given.bytes()),
        toml: |config| Some(quoted(&size::exact(config.hdf5.least))),
        absent: "",
    },
    Setting {
        section: "hdf5",
        key: "clock_grain_ms",
        flag: "",
        variable: "FOREBAY_HDF5_CLOCK_GRAIN_MS",
        text: |_| None,
        set: |config, given, _| put(&mut config.hdf5.clock_grain_ms, given.count("milliseconds")),
        toml: |config| Some(config.hdf5.clock_grain_ms.to_string()),
        absent: "",
    },
];

/// Bytes of a unit: one of less would be a row of the cache's map for each few values, one of more takes all memory.
fn unit(given: GivenValue<'_>) -> Result<u64> {
    let bytes = given.bytes()?;
    if !UNITS.contains(&bytes) {
        let [least, most] = [UNITS.start(), UNITS.end()].map(|bytes| size::exact(*bytes));
        let what = format!("units of {} are not between {least} and {most}", size::exact(bytes));
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(bytes)
}

/// What a unit may have.
const UNITS: RangeInclusive<u64> = 1 << 10..=1 << 30;

/// Prefixes: a list, or text with colons between.
fn prefixes(given: GivenValue<'_>, environment: &Environment<'_>) -> Result<Vec<PathBuf>> {
    match given {
        GivenValue::Toml(DeValue::Array(items)) => {
            let texts = items.iter().map(|item| {
                let item = item.get_ref();
                item.as_str().ok_or_else(|| wrong(item, "a path in quotes"))
            });
            texts.map(|text| folder(text?, environment)).collect()
        }
        GivenValue::Toml(value) if !value.is_str() => Err(wrong(value, "a list of paths")),
        _ => {
            let texts = given.text()?.split(':').map(str::trim).filter(|text| !text.is_empty());
            texts.map(|text| folder(text, environment)).collect()
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    let quoted: Vec<String> = paths.iter().map(|path| quoted(&literal(&path.to_string_lossy()))).collect();
    format!("[{}]", quoted.join(", "))
}

/// A mode by its word; yes is the blocking one.
fn prestage(given: GivenValue<'_>) -> Result<PrestageMode> {
    let is_word = match given {
        GivenValue::Text(text) => PrestageMode::ALL.iter().any(|mode| mode.word() == text),
        GivenValue::Toml(value) => value.is_str(),
    };
    if is_word {
        return given.text()?.parse();
    }
    match given.boolean() {
        Ok(true) => Ok(PrestageMode::Blocking),
        Ok(false) => Ok(PrestageMode::Off),
        Err(_) => given.text()?.parse(),
    }
}
