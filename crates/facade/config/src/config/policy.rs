//! Policies by their names.

use std::str::FromStr;

use forebay_process::{Error, Result, suggest::unknown};
use forebay_tier::BuiltinPolicy;
use serde::{Deserialize, Serialize};

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
