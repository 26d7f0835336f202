//! What a setting of one value is: how it is called, read and printed.

use std::ops::RangeInclusive;

use forebay_process::{Error, ErrorKind, Result};
use toml::Value;

use crate::{config::Config, environment::Environment, settings::given::GivenValue};

/// What flags or the arguments of a call say: text that is not yet understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The file, or `none`.
    pub config: Option<String>,
    /// Where the data lie.
    pub origin: Option<String>,
    /// Tiers, the fastest first; the one word `none` for none at all, nothing to leave them to environment and file.
    pub tiers: Vec<String>,
    /// The policy.
    pub policy: Option<String>,
    /// Threads that copy.
    pub threads: Option<String>,
    /// Bytes of a block.
    pub block: Option<String>,
    /// Whether whole files follow.
    pub whole_file: Option<String>,
    /// Bytes fetched ahead.
    pub ahead: Option<String>,
    /// The staging area: a folder or `memory`.
    pub stage: Option<String>,
    /// The most that is staged at once.
    pub stage_quota: Option<String>,
    /// Bytes a second that staged writes take of the destination.
    pub bandwidth: Option<String>,
    /// Prefixes of the HDF5 files that plug-ins manage, with colons between.
    pub hdf5_paths: Option<String>,
    /// Which HDF5 plug-ins are switched on.
    pub hdf5_plugins: Option<String>,
    /// Whether an HDF5 file counts as closed once it is staged.
    pub delay_close: Option<String>,
    /// Where values read from HDF5 data sets are kept: a folder or `memory`.
    pub hdf5_cache: Option<String>,
    /// Whether data sets are brought near when they are opened.
    pub prestage: Option<String>,
}

/// A setting of one value.
pub(crate) struct Setting {
    /// The table of the file that it stands in.
    pub(crate) section: &'static str,
    /// Its name in that table.
    pub(crate) key: &'static str,
    /// Empty where no flag sets it.
    pub(crate) flag: &'static str,
    pub(crate) variable: &'static str,
    /// What the flag says.
    pub(crate) text: fn(&Overrides) -> Option<&String>,
    /// Puts a value that was given into a configuration.
    pub(crate) set: fn(&mut Config, GivenValue<'_>, &Environment<'_>) -> Result<()>,
    /// The value as TOML; nothing where it is not set and has no default.
    pub(crate) toml: fn(&Config) -> Option<String>,
    /// What it means that nothing is set.
    pub(crate) absent: &'static str,
}

impl Setting {
    /// The name of its value, such as `placement.threads`.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }
}

/// Puts what was understood into its place.
pub(crate) fn put<T>(into: &mut T, value: Result<T>) -> Result<()> {
    *into = value?;
    Ok(())
}

/// `text` as a string of TOML.
pub(crate) fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

const THREADS: RangeInclusive<u64> = 1..=1024;

/// A number of threads.
pub(crate) fn threads(given: GivenValue<'_>) -> Result<usize> {
    const POSSIBLE: &str = "from 1 to 1024 are possible";
    let count = given.count("threads").map_err(|error| match given {
        GivenValue::Text(_) => error.hint(POSSIBLE),
        GivenValue::Toml(_) => error,
    })?;
    let possible = usize::try_from(count).ok().filter(|_| THREADS.contains(&count));
    possible.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{count} threads")).hint(POSSIBLE))
}
