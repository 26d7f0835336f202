//! What the user wants of tiers and placement: flags over the environment over a file over defaults.
//!
//! ```text
//! flags ──────┐
//! environment ┼─► Layer, Layer, Layer ─► Settings: a Config, and where each value of it comes from
//! file ───────┘
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `find` | which file is read, and whether it may be trusted |
//! | `file` | from TOML to a layer, with the line of every value |
//! | `layer` | values somebody told, and which of them win |
//! | `tier`, `amount` | one tier, as a table or a short word; bytes, or a share of something |
//! | `words` | names that are not known, and the nearest that is |
//! | `paths` | variables and `~` in paths |
//! | `print` | settings as a file that can be read back |

mod amount;
mod file;
mod find;
mod layer;
mod paths;
mod print;
mod tier;
mod words;

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use forebay_source::{Error, Locator, Result};
use forebay_tier::{AHEAD_BYTES, BLOCK_BYTES, Standard, THREADS};
use serde::{Deserialize, Serialize};

pub use self::words::nearest;
pub use self::{
    amount::Amount,
    layer::Overrides,
    tier::{DISK_QUOTA, DiskTier, MEMORY_QUOTA, TierConfig},
};
use self::{layer::Layer, words::unknown};

pub(crate) use self::paths::expand as expand_path;

/// What is configured; plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the data lie.
    pub origin: OriginConfig,
    /// The places for copies, the fastest first; none by default.
    #[serde(rename = "tier")]
    pub tiers: Vec<TierConfig>,
    /// What is copied, and when.
    pub placement: PlacementConfig,
}

/// Where the data lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OriginConfig {
    /// A folder, or an address such as `s3://bucket/prefix`; by default paths stand for themselves.
    pub path: Option<String>,
}

impl OriginConfig {
    /// `paths`, of which relative ones lie under the origin, if one is told.
    pub fn place(&self, paths: &[String]) -> Vec<String> {
        let Some(origin) = &self.path else { return paths.to_vec() };
        // A variable that is not set is told when the files are looked for.
        let paths = paths.iter().map(|path| crate::names::spelled_out(path).unwrap_or_else(|_| path.clone()));
        let is_whole = |path: &str| path.starts_with('/') || Locator::new(path).is_url();
        let under = |path: String| format!("{}/{path}", origin.trim_end_matches('/'));
        paths.map(|path| if is_whole(&path) { path } else { under(path) }).collect()
    }
}

/// What is copied to the tiers, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlacementConfig {
    /// What is kept where.
    pub policy: Policy,
    /// Threads that copy.
    pub threads: usize,
    /// Bytes of a block, a power of two.
    pub block: u64,
    /// Whether the rest of a file follows a part of it that was read.
    pub whole_file: bool,
    /// Bytes that are fetched ahead of their use beyond what the tiers keep.
    pub ahead: u64,
}

impl Default for PlacementConfig {
    fn default() -> Self {
        Self {
            policy: Policy::Auto,
            threads: THREADS,
            block: BLOCK_BYTES,
            whole_file: true,
            ahead: AHEAD_BYTES,
        }
    }
}

/// Which copies are made and which leave when a tier is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Clairvoyant where the order of samples is known, else first-fit.
    #[default]
    Auto,
    /// Fill from the top down, and never give anything up.
    FirstFit,
    /// Keep what is used soonest, by the order of samples.
    Clairvoyant,
    /// Give up what was used longest ago.
    Lru,
    /// Give up what was used least often.
    Lfu,
    /// Give up what came first.
    Fifo,
    /// Give up what came last.
    Lifo,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 7] =
        [Self::Auto, Self::FirstFit, Self::Clairvoyant, Self::Lru, Self::Lfu, Self::Fifo, Self::Lifo];

    /// The policy that it stands for: clairvoyant, where no future is known, keeps what came first.
    pub fn standard(self) -> Standard {
        match self {
            Self::Auto | Self::Clairvoyant => Standard::Clairvoyant,
            Self::FirstFit => Standard::FirstFit,
            Self::Lru => Standard::Lru,
            Self::Lfu => Standard::Lfu,
            Self::Fifo => Standard::Fifo,
            Self::Lifo => Standard::Lifo,
        }
    }

    /// What the policy is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            told => told.standard().word(),
        }
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|policy| policy.word() == word);
        found.ok_or_else(|| unknown("policy", word, &Self::ALL.map(Self::word)))
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The command line, or an argument of a call.
    Flag(&'static str),
    /// A variable of the environment.
    Variable(&'static str),
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Whence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Variable(name) => write!(f, "environment {name}"),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The configuration in force, and where each value of it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is in force.
    pub config: Config,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// By a value's name, such as `placement.threads` or `tier.0.quota`; what is not there is a default.
    pub whences: BTreeMap<String, Whence>,
}

impl Settings {
    /// The settings of this process, under what `overrides` say.
    pub fn load(overrides: &Overrides) -> Result<Self> {
        let folder =
            std::env::current_dir().map_err(|error| Error::from_io(error).at("working directory"))?;
        Self::load_in(overrides, &Surroundings { variable: &|name| std::env::var(name).ok(), folder })
    }

    /// As [`Settings::load`], in given surroundings.
    pub fn load_in(overrides: &Overrides, surroundings: &Surroundings<'_>) -> Result<Self> {
        let environment = Overrides::of_environment(surroundings);
        let file = find::find(overrides.config.as_deref(), environment.config.as_deref(), surroundings)?;
        let told = Layer::of_flags(overrides, surroundings)?
            .over(Layer::of_environment(&environment, surroundings)?);
        let (told, path) = match file {
            Some(file) => (told.over(file::read(&file, surroundings)?), Some(file.path)),
            None => (told, None),
        };
        Ok(told.settle(path))
    }

    /// Where the value called `name` comes from.
    pub fn whence(&self, name: &str) -> &Whence {
        self.whences.get(name).unwrap_or(&Whence::Default)
    }

    /// The settings as a file that can be read back, with where each value comes from.
    pub fn to_toml(&self) -> String {
        print::toml(self)
    }
}

/// What a configuration is read in.
pub struct Surroundings<'a> {
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The working directory.
    pub folder: PathBuf,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Surroundings<'_> {
    /// A variable that is set and not empty.
    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }
}
