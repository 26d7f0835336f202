//! Values somebody told, and which of them win.

use std::{collections::BTreeMap, path::PathBuf};

use forebay_source::{Error, ErrorKind, Result};

use super::{
    Config, OriginConfig, PlacementConfig, Policy, Settings, Surroundings, TierConfig, Whence, paths::expand,
    words::unknown,
};
use crate::size;

/// What stands for no file and for no tiers.
pub(super) const NONE: &str = "none";
/// Cache blocks are at least a page, and no longer than is sensible to fetch for a byte.
const BLOCKS: std::ops::RangeInclusive<u64> = (4 << 10)..=(1 << 30);
const THREADS: std::ops::RangeInclusive<usize> = 1..=1024;

/// What flags say, or the environment: text that is not yet understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The file, or `none`.
    pub config: Option<String>,
    /// Where the data lie.
    pub origin: Option<String>,
    /// Tiers, the fastest first; the one word `none` for none at all, nothing for what others say.
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

/// What the values are called by one who tells them.
struct Names {
    whence: fn(&'static str) -> Whence,
    origin: &'static str,
    tiers: &'static str,
    policy: &'static str,
    threads: &'static str,
    block: &'static str,
    whole_file: &'static str,
    ahead: &'static str,
}

const FLAGS: Names = Names {
    whence: Whence::Flag,
    origin: "--origin",
    tiers: "--tier",
    policy: "--policy",
    threads: "--placement-threads",
    block: "--block",
    whole_file: "--whole-file",
    ahead: "--ahead",
};

const VARIABLES: Names = Names {
    whence: Whence::Variable,
    origin: "FOREBAY_ORIGIN",
    tiers: "FOREBAY_TIERS",
    policy: "FOREBAY_POLICY",
    threads: "FOREBAY_PLACEMENT_THREADS",
    block: "FOREBAY_BLOCK",
    whole_file: "FOREBAY_WHOLE_FILE",
    ahead: "FOREBAY_AHEAD",
};

impl Overrides {
    /// What the environment says.
    pub(super) fn of_environment(surroundings: &Surroundings<'_>) -> Self {
        let get = |name: &str| surroundings.get(name);
        let tiers = get(VARIABLES.tiers).unwrap_or_default();
        let words = tiers.split(',').map(str::trim).filter(|word| !word.is_empty());
        Self {
            config: get("FOREBAY_CONFIG"),
            origin: get(VARIABLES.origin),
            tiers: words.map(str::to_owned).collect(),
            policy: get(VARIABLES.policy),
            threads: get(VARIABLES.threads),
            block: get(VARIABLES.block),
            whole_file: get(VARIABLES.whole_file),
            ahead: get(VARIABLES.ahead),
        }
    }
}

/// A value, and who told it.
#[derive(Clone, Debug)]
pub(super) struct Told<T> {
    pub(super) value: T,
    pub(super) whence: Whence,
}

/// A tier, and who told what of it.
#[derive(Clone, Debug)]
pub(super) struct ToldTier {
    pub(super) tier: TierConfig,
    pub(super) whences: BTreeMap<&'static str, Whence>,
}

/// What one of flags, environment and file tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub(super) origin: Option<Told<String>>,
    pub(super) tiers: Option<Vec<ToldTier>>,
    pub(super) policy: Option<Told<Policy>>,
    pub(super) threads: Option<Told<usize>>,
    pub(super) block: Option<Told<u64>>,
    pub(super) whole_file: Option<Told<bool>>,
    pub(super) ahead: Option<Told<u64>>,
}

impl Layer {
    pub(super) fn of_flags(overrides: &Overrides, surroundings: &Surroundings<'_>) -> Result<Self> {
        Self::of(overrides, &FLAGS, surroundings)
    }

    pub(super) fn of_environment(overrides: &Overrides, surroundings: &Surroundings<'_>) -> Result<Self> {
        Self::of(overrides, &VARIABLES, surroundings)
    }

    fn of(overrides: &Overrides, names: &Names, surroundings: &Surroundings<'_>) -> Result<Self> {
        let (from, whence) = (overrides, names.whence);
        Ok(Self {
            origin: told(&from.origin, whence, names.origin, |text| origin(text, surroundings))?,
            tiers: tiers(overrides, names, surroundings)?,
            policy: told(&from.policy, whence, names.policy, str::parse)?,
            threads: told(&from.threads, whence, names.threads, threads)?,
            block: told(&from.block, whence, names.block, |text| block(bytes(text)?))?,
            whole_file: told(&from.whole_file, whence, names.whole_file, boolean)?,
            ahead: told(&from.ahead, whence, names.ahead, bytes)?,
        })
    }

    /// These values, and where there is none, those of `below`.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            origin: self.origin.or(below.origin),
            tiers: self.tiers.or(below.tiers),
            policy: self.policy.or(below.policy),
            threads: self.threads.or(below.threads),
            block: self.block.or(below.block),
            whole_file: self.whole_file.or(below.whole_file),
            ahead: self.ahead.or(below.ahead),
        }
    }

    /// These values, and where there is none, the defaults.
    pub(super) fn settle(self, file: Option<PathBuf>) -> Settings {
        let mut whences = BTreeMap::new();
        let mut tiers = Vec::new();
        for (index, told) in self.tiers.into_iter().flatten().enumerate() {
            let named = told.whences.into_iter().map(|(key, whence)| (format!("tier.{index}.{key}"), whence));
            whences.extend(named);
            tiers.push(told.tier);
        }
        let mut from = Noted { whences: &mut whences };
        let default = PlacementConfig::default();
        let origin = OriginConfig { path: from.take("origin.path", self.origin) };
        let placement = PlacementConfig {
            policy: from.take("placement.policy", self.policy).unwrap_or(default.policy),
            threads: from.take("placement.threads", self.threads).unwrap_or(default.threads),
            block: from.take("placement.block", self.block).unwrap_or(default.block),
            whole_file: from.take("placement.whole_file", self.whole_file).unwrap_or(default.whole_file),
            ahead: from.take("placement.ahead", self.ahead).unwrap_or(default.ahead),
        };
        Settings { config: Config { origin, tiers, placement }, file, whences }
    }
}

/// Takes values, and notes where they come from.
struct Noted<'a> {
    whences: &'a mut BTreeMap<String, Whence>,
}

impl Noted<'_> {
    fn take<T>(&mut self, name: &str, told: Option<Told<T>>) -> Option<T> {
        let Told { value, whence } = told?;
        self.whences.insert(name.to_owned(), whence);
        Some(value)
    }
}

fn told<T>(
    text: &Option<String>,
    whence: fn(&'static str) -> Whence,
    name: &'static str,
    read: impl Fn(&str) -> Result<T>,
) -> Result<Option<Told<T>>> {
    let Some(text) = text else { return Ok(None) };
    let value = read(text.trim()).map_err(|error| error.at(name))?;
    Ok(Some(Told { value, whence: whence(name) }))
}

fn tiers(
    overrides: &Overrides,
    names: &Names,
    surroundings: &Surroundings<'_>,
) -> Result<Option<Vec<ToldTier>>> {
    match overrides.tiers.as_slice() {
        [] => return Ok(None),
        [only] if only == NONE => return Ok(Some(Vec::new())),
        _ => {}
    }
    let one = |word: &String| {
        let tier = TierConfig::parse_in(word, surroundings).map_err(|error| error.at(names.tiers))?;
        let mut keys = vec!["kind"];
        keys.extend(matches!(tier, TierConfig::Disk(_)).then_some("path"));
        keys.extend(has_quota(word).then_some("quota"));
        let whences = keys.into_iter().map(|key| (key, (names.whence)(names.tiers))).collect();
        Ok(ToldTier { tier, whences })
    };
    overrides.tiers.iter().map(one).collect::<Result<_>>().map(Some)
}

/// True where the short word of a tier ends with a quota.
fn has_quota(word: &str) -> bool {
    word.rsplit_once(':').is_some_and(|(_, last)| last.parse::<super::Amount>().is_ok())
}

/// A folder or an address.
pub(super) fn origin(text: &str, surroundings: &Surroundings<'_>) -> Result<String> {
    let path = expand(text, surroundings)?;
    if path.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "no path"));
    }
    if path.contains("://") {
        return Ok(path);
    }
    Ok(surroundings.folder.join(path).to_string_lossy().into_owned())
}

fn threads(text: &str) -> Result<usize> {
    let bad = || Error::new(ErrorKind::Invalid, format!("'{text}' is no number of threads"));
    thread_count(text.parse().map_err(|_| bad().hint("from 1 to 1024 are possible"))?)
}

/// `count`, if so many threads are possible.
pub(super) fn thread_count(count: usize) -> Result<usize> {
    if THREADS.contains(&count) {
        return Ok(count);
    }
    Err(Error::new(ErrorKind::Invalid, format!("{count} threads")).hint("from 1 to 1024 are possible"))
}

fn bytes(text: &str) -> Result<u64> {
    size::parse(text).map_err(|what| Error::new(ErrorKind::Invalid, what))
}

/// `bytes`, if a block may be so long.
pub(super) fn block(bytes: u64) -> Result<u64> {
    if BLOCKS.contains(&bytes) && bytes.is_power_of_two() {
        return Ok(bytes);
    }
    Err(Error::new(ErrorKind::Invalid, format!("blocks of {bytes} bytes"))
        .hint("a block is a power of two, from 4KiB to 1GiB"))
}

fn boolean(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(unknown("answer", text, &["true", "false"])),
    }
}
