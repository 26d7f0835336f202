//! The settings of one value each: a row of the table says how a setting is called, read and printed.

use std::ops::RangeInclusive;

use forebay_source::{Error, ErrorKind, Result, size};
use toml::Value;

use crate::{
    config::Config,
    environment::{Environment, expand, literal},
    given::GivenValue,
};

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
}

/// A setting of one value.
pub(crate) struct Setting {
    /// The table of the file that it stands in.
    pub(crate) section: &'static str,
    /// Its name in that table.
    pub(crate) key: &'static str,
    pub(crate) flag: &'static str,
    pub(crate) variable: &'static str,
    /// What the flag says.
    pub(crate) text: fn(&Overrides) -> Option<&String>,
    /// Puts a value that was given into a configuration.
    pub(crate) set: fn(&mut Config, GivenValue<'_>, &Environment<'_>) -> Result<()>,
    /// The value as TOML; nothing where it is not set and has no default.
    pub(crate) toml: fn(&Config) -> Option<String>,
}

impl Setting {
    /// The name of its value, such as `placement.threads`.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }
}

/// All settings of one value, in the order they are printed.
pub(crate) const TABLE: [Setting; 6] = [
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
    },
    Setting {
        section: "placement",
        key: "policy",
        flag: "--policy",
        variable: "FOREBAY_POLICY",
        text: |overrides| overrides.policy.as_ref(),
        set: |config, given, _| put(&mut config.placement.policy, given.text()?.parse()),
        toml: |config| Some(quoted(config.placement.policy.word())),
    },
    Setting {
        section: "placement",
        key: "threads",
        flag: "--placement-threads",
        variable: "FOREBAY_PLACEMENT_THREADS",
        text: |overrides| overrides.threads.as_ref(),
        set: |config, given, _| put(&mut config.placement.threads, threads(given)),
        toml: |config| Some(config.placement.threads.to_string()),
    },
    Setting {
        section: "placement",
        key: "block",
        flag: "--block",
        variable: "FOREBAY_BLOCK",
        text: |overrides| overrides.block.as_ref(),
        set: |config, given, _| put(&mut config.placement.block, block(given.bytes()?)),
        toml: |config| Some(quoted(&size::exact(config.placement.block))),
    },
    Setting {
        section: "placement",
        key: "whole_file",
        flag: "--whole-file",
        variable: "FOREBAY_WHOLE_FILE",
        text: |overrides| overrides.whole_file.as_ref(),
        set: |config, given, _| put(&mut config.placement.whole_file, given.boolean()),
        toml: |config| Some(config.placement.whole_file.to_string()),
    },
    Setting {
        section: "placement",
        key: "ahead",
        flag: "--ahead",
        variable: "FOREBAY_AHEAD",
        text: |overrides| overrides.ahead.as_ref(),
        set: |config, given, _| put(&mut config.placement.ahead, given.bytes()),
        toml: |config| Some(quoted(&size::exact(config.placement.ahead))),
    },
];

fn put<T>(into: &mut T, value: Result<T>) -> Result<()> {
    *into = value?;
    Ok(())
}

/// The settings of the table `section` of the file.
pub(crate) fn of_section(section: &str) -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().filter(move |setting| setting.section == section)
}

/// `text` as a string of TOML.
pub(crate) fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// A block is at least a page, and no longer than is sensible to fetch for a byte.
const BLOCKS: RangeInclusive<u64> = (4 << 10)..=(1 << 30);
const THREADS: RangeInclusive<u64> = 1..=1024;

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

fn threads(given: GivenValue<'_>) -> Result<usize> {
    const POSSIBLE: &str = "from 1 to 1024 are possible";
    let count = given.count("threads").map_err(|error| match given {
        GivenValue::Text(_) => error.hint(POSSIBLE),
        GivenValue::Toml(_) => error,
    })?;
    let possible = usize::try_from(count).ok().filter(|_| THREADS.contains(&count));
    possible.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{count} threads")).hint(POSSIBLE))
}

/// `bytes`, if a block may be so long.
fn block(bytes: u64) -> Result<u64> {
    if BLOCKS.contains(&bytes) && bytes.is_power_of_two() {
        return Ok(bytes);
    }
    Err(Error::new(ErrorKind::Invalid, format!("blocks of {bytes} bytes"))
        .hint("a block is a power of two, from 4KiB to 1GiB"))
}
