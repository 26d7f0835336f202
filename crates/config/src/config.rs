//! The configuration: where the data lie, which tiers hold copies, and how copies are placed.

use std::str::FromStr;

use forebay_source::{Error, Locator, Result};
use forebay_tier::{AHEAD_BYTES, BLOCK_BYTES, BuiltinPolicy, THREADS};
use serde::{Deserialize, Serialize};

use crate::{names::spelled_out, suggest::unknown, tier::TierConfig};

/// The configuration, as plain data.
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
    /// `paths`, of which relative ones lie under the origin, if there is one.
    pub fn place(&self, paths: &[String]) -> Vec<String> {
        let Some(origin) = &self.path else { return paths.to_vec() };
        // A variable that is not set is an error later, when the files are looked for.
        let paths = paths.iter().map(|path| spelled_out(path).unwrap_or_else(|_| path.clone()));
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
    pub policy: PolicyName,
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
            policy: PolicyName::Auto,
            threads: THREADS,
            block: BLOCK_BYTES,
            whole_file: true,
            ahead: AHEAD_BYTES,
        }
    }
}

/// The name of a policy: which copies are made, and which leave when a tier is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
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

impl PolicyName {
    /// All policies.
    pub const ALL: [Self; 7] =
        [Self::Auto, Self::FirstFit, Self::Clairvoyant, Self::Lru, Self::Lfu, Self::Fifo, Self::Lifo];

    /// The policy that it names: clairvoyant, where no future is known, keeps what came first.
    pub fn builtin(self) -> BuiltinPolicy {
        match self {
            Self::Auto | Self::Clairvoyant => BuiltinPolicy::Clairvoyant,
            Self::FirstFit => BuiltinPolicy::FirstFit,
            Self::Lru => BuiltinPolicy::Lru,
            Self::Lfu => BuiltinPolicy::Lfu,
            Self::Fifo => BuiltinPolicy::Fifo,
            Self::Lifo => BuiltinPolicy::Lifo,
        }
    }

    /// What the policy is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            named => named.builtin().word(),
        }
    }
}

impl FromStr for PolicyName {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|policy| policy.word() == word);
        found.ok_or_else(|| unknown("policy", word, &Self::ALL.map(Self::word)))
    }
}
