//! The settings of one value each: a row of the table says how a setting is called, read and printed.

use std::ops::RangeInclusive;

use forebay_process::{Error, ErrorKind, Result, size};

use crate::{
    environment::{Environment, expand, literal},
    settings::{
        hdf5_table::HDF5,
        setting::{Overrides, Setting, put, quoted, threads},
        stage_table::STAGE,
    },
};

/// The variable for tiers, with commas between.
pub(crate) const TIERS_VARIABLE: &str = "FOREBAY_TIERS";

/// Where the data lie, and how copies are placed.
const PLACEMENT: [Setting; 6] = [
    Setting {
        section: "origin",
        key: "path",
        flag: "--origin",
        variable: "FOREBAY_ORIGIN",
        text: |overrides| overrides.origin.as_ref(),
        set: |config, given, environment| {
            put(&mut config.origin.path, origin(given.text()?, environment).map(Some))
        },
        toml: |config| config.origin.path.as_ref().map(|path| quoted(&literal(path))),
        absent: "paths stand for themselves",
    },
    Setting {
        section: "placement",
        key: "policy",
        flag: "--policy",
        variable: "FOREBAY_POLICY",
        text: |overrides| overrides.policy.as_ref(),
        set: |config, given, _| put(&mut config.placement.policy, given.text()?.parse()),
        toml: |config| Some(quoted(config.placement.policy.word())),
        absent: "",
    },
    Setting {
        section: "placement",
        key: "threads",
        flag: "--placement-threads",
        variable: "FOREBAY_PLACEMENT_THREADS",
        text: |overrides| overrides.threads.as_ref(),
        set: |config, given, _| put(&mut config.placement.threads, threads(given)),
        toml: |config| Some(config.placement.threads.to_string()),
        absent: "",
    },
    Setting {
        section: "placement",
        key: "block",
        flag: "--block",
        variable: "FOREBAY_BLOCK",
        text: |overrides| overrides.block.as_ref(),
        set: |config, given, _| put(&mut config.placement.block, block(given.bytes()?)),
        toml: |config| Some(quoted(&size::exact(config.placement.block))),
        absent: "",
    },
    Setting {
        section: "placement",
        key: "whole_file",
        flag: "--whole-file",
        variable: "FOREBAY_WHOLE_FILE",
        text: |overrides| overrides.whole_file.as_ref(),
        set: |config, given, _| put(&mut config.placement.whole_file, given.boolean()),
        toml: |config| Some(config.placement.whole_file.to_string()),
        absent: "",
    },
    Setting {
        section: "placement",
        key: "ahead",
        flag: "--ahead",
        variable: "FOREBAY_AHEAD",
        text: |overrides| overrides.ahead.as_ref(),
        set: |config, given, _| put(&mut config.placement.ahead, given.bytes()),
        toml: |config| Some(quoted(&size::exact(config.placement.ahead))),
        absent: "",
    },
];

/// All settings of one value, in the order they are printed.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    PLACEMENT.iter().chain(&STAGE).chain(&HDF5)
}

impl Overrides {
    /// The variables that say the same to another program, but for the file.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let given = |setting: &'static Setting| Some((setting.variable, (setting.text)(self)?.clone()));
        let mut variables: Vec<_> = all().filter_map(given).collect();
        if !self.tiers.is_empty() {
            variables.push((TIERS_VARIABLE, self.tiers.join(",")));
        }
        variables
    }
}

/// The variables of the environment that settings of one value are read from.
pub fn variables() -> impl Iterator<Item = &'static str> {
    all().map(|setting| setting.variable)
}

/// The setting called `name`, such as `stage.path`.
pub(crate) fn named(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name() == name)
}

/// The settings of the table `section` of the file.
pub(crate) fn of_section(section: &str) -> impl Iterator<Item = &'static Setting> {
    all().filter(move |setting| setting.section == section)
}

/// A block is at least a page, and no longer than is sensible to fetch for a byte.
const BLOCKS: RangeInclusive<u64> = (4 << 10)..=(1 << 30);

/// A folder or an address.
fn origin(text: &str, environment: &Environment<'_>) -> Result<String> {
    let path = expand(text, environment)?;
    if path.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "no path"));
    }
    if path.contains("://") {
        return Ok(path);
    }
    Ok(environment.folder.join(path).to_string_lossy().into_owned())
}

/// `bytes`, if a block may be so long.
fn block(bytes: u64) -> Result<u64> {
    if BLOCKS.contains(&bytes) && bytes.is_power_of_two() {
        return Ok(bytes);
    }
    Err(Error::new(ErrorKind::Invalid, format!("blocks of {bytes} bytes"))
        .hint("a block is a power of two, from 4KiB to 1GiB"))
}
