//! One tier, as a table or as a short word.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result, suggest::unknown};
use serde::{Deserialize, Serialize};

use crate::{
    config::amount::Amount,
    environment::{Environment, expand, literal},
};

/// What a memory tier takes by default: this share of the memory budget.
pub const MEMORY_QUOTA: Amount = Amount::Percent(25);
/// What a disk tier takes by default: this share of what is free there, its own copies counted as free.
pub const DISK_QUOTA: Amount = Amount::Percent(80);
/// What a disk tier leaves free by default: this share of the disk, within [`FREE_LIMITS`].
const FREE: Amount = Amount::Percent(5);
/// The least and the most a disk tier leaves free by default: a share alone would leave the last 100 GB of 2 TB unused.
const FREE_LIMITS: (u64, u64) = (1 << 30, 4 << 30);

/// The kinds of tiers.
pub(crate) const KINDS: [&str; 3] = ["memory", "disk", "peers"];

/// A place for copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum TierConfig {
    /// In the memory of this process.
    Memory {
        /// The most it holds; a share is one of the memory budget.
        #[serde(default = "memory_quota")]
        quota: Amount,
    },
    /// In a folder on a local disk.
    Disk(DiskConfig),
    /// In the memory of all ranks of the job, which read each other's.
    Peers {
        /// What each rank gives; a share is one of the memory budget.
        #[serde(default = "memory_quota")]
        quota: Amount,
    },
}

/// A folder for copies on a local disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskConfig {
    /// The folder, which is made when it is missing.
    pub path: PathBuf,
    /// The most it holds; a share is one of what is free there, the tier's own copies counted as free.
    #[serde(default = "disk_quota")]
    pub quota: Amount,
    /// Whether copies stay when the job has ended.
    #[serde(default)]
    pub keep: bool,
    /// What is left free on the disk; a share is one of its size. By default 5 %, at least 1 GiB and at most 4 GiB.
    #[serde(default)]
    pub free: Option<Amount>,
    /// Whether the folder may lie behind a network, where copies are no nearer and processes of other nodes may take it
    /// for their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub network: bool,
}

fn memory_quota() -> Amount {
    MEMORY_QUOTA
}

fn disk_quota() -> Amount {
    DISK_QUOTA
}

impl DiskConfig {
    /// A tier in the folder `path`, everything else by default.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), quota: DISK_QUOTA, keep: false, free: None, network: false }
    }

    /// The bytes to leave free on a disk of `disk_bytes`; of a small one, such as memory that a container may take, a quarter.
    pub fn free_bytes(&self, disk_bytes: u64) -> u64 {
        match self.free {
            Some(amount) => amount.of(disk_bytes),
            None => FREE.of(disk_bytes).clamp(FREE_LIMITS.0, FREE_LIMITS.1).min(disk_bytes / 4),
        }
    }

    /// The bytes it may hold on a disk of `disk_bytes` of which `free_bytes` are free or its own.
    pub fn quota_bytes(&self, disk_bytes: u64, free_bytes: u64) -> u64 {
        self.quota.of(free_bytes).min(free_bytes.saturating_sub(self.free_bytes(disk_bytes)))
    }
}

impl TierConfig {
    /// The tier that `word` names: `memory`, `memory:4GiB` (or `mem:4GiB`), `peers:8GiB`, `disk:/nvme/$USER:100GiB`, or a path for a
    /// disk tier; behind a disk tier `:keep` where copies stay, `:free=1GiB` and `:network`.
    pub fn parse(word: &str) -> Result<Self> {
        Self::parse_in(word, &Environment::of_process(PathBuf::new()))
    }

    pub(crate) fn parse_in(word: &str, environment: &Environment<'_>) -> Result<Self> {
        parse(word.trim(), environment).map_err(|error| error.at(format!("tier '{word}'")))
    }

    /// The folder of a disk tier.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Disk(disk) => Some(&disk.path),
            Self::Memory { .. } | Self::Peers { .. } => None,
        }
    }

    /// The word for the kind of tier.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::Disk(_) => "disk",
            Self::Peers { .. } => "peers",
        }
    }

    /// The most it holds.
    pub fn quota(&self) -> Amount {
        match self {
            Self::Memory { quota } | Self::Peers { quota } => *quota,
            Self::Disk(disk) => disk.quota,
        }
    }
}

impl fmt::Display for TierConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { quota } | Self::Peers { quota } => write!(f, "{}:{quota}", self.kind()),
            Self::Disk(disk) => {
                write!(f, "disk:{}:{}", literal(&disk.path.to_string_lossy()), disk.quota)?;
                if let Some(free) = disk.free {
                    write!(f, ":free={free}")?;
                }
                f.write_str(if disk.network { ":network" } else { "" })?;
                f.write_str(if disk.keep { ":keep" } else { "" })
            }
        }
    }
}

fn parse(word: &str, environment: &Environment<'_>) -> Result<TierConfig> {
    let (kind, rest) = match word.split_once(':') {
        Some((kind, rest)) if !is_path(kind) => (kind, Some(rest)),
        None if !is_path(word) => (word, None),
        _ => return disk(word, environment),
    };
    match (kind, rest) {
        ("memory" | "mem", None) => Ok(TierConfig::Memory { quota: MEMORY_QUOTA }),
        ("memory" | "mem", Some(quota)) => Ok(TierConfig::Memory { quota: quota.parse()? }),
        ("peers", None) => Ok(TierConfig::Peers { quota: MEMORY_QUOTA }),
        ("peers", Some(quota)) => Ok(TierConfig::Peers { quota: quota.parse()? }),
        ("disk", Some(rest)) => disk(rest, environment),
        ("disk", None) => Err(without_path()),
        _ => Err(unknown("kind", kind, &KINDS)),
    }
}

/// A path, perhaps a quota after a colon, and perhaps options after it.
fn disk(word: &str, environment: &Environment<'_>) -> Result<TierConfig> {
    let (word, options) = DiskWords::split(word)?;
    let (path, quota) = match word.rsplit_once(':') {
        // A colon further up belongs to the path.
        Some((path, quota)) if !quota.contains('/') => (path, quota.parse()?),
        _ => (word, DISK_QUOTA),
    };
    let DiskWords { keep, network, free } = options;
    Ok(TierConfig::Disk(DiskConfig { path: folder(path, environment)?, quota, keep, free, network }))
}

/// What may stand behind the path and the quota of a disk tier, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskWords {
    pub(crate) keep: bool,
    pub(crate) network: bool,
    pub(crate) free: Option<Amount>,
}

impl DiskWords {
    /// `word` without the options at its end, and the options.
    pub(crate) fn split(word: &str) -> Result<(&str, Self)> {
        let (mut word, mut options) = (word, Self::default());
        while let Some((rest, last)) = word.rsplit_once(':') {
            match last {
                "keep" => options.keep = true,
                "network" => options.network = true,
                _ => match last.strip_prefix("free=") {
                    Some(amount) => options.free = Some(amount.parse()?),
                    None => break,
                },
            }
            word = rest;
        }
        Ok((word, options))
    }
}

fn is_path(word: &str) -> bool {
    word.starts_with(['~', '$', '.']) || word.contains('/')
}

/// The error for a disk tier without a path.
pub(crate) fn without_path() -> Error {
    Error::new(ErrorKind::Invalid, "a disk tier needs a path").hint("such as disk:/nvme/$USER:100GiB")
}

/// The folder that `text` names.
pub(crate) fn folder(text: &str, environment: &Environment<'_>) -> Result<PathBuf> {
    if text.is_empty() {
        return Err(without_path());
    }
    let path = expand(text, environment)?;
    // The working directory of the moment must not decide where copies go.
    if !Path::new(&path).is_absolute() {
        return Err(Error::new(ErrorKind::Invalid, format!("'{path}' is not an absolute path"))
            .hint("begin it with '/', '~/' or a variable"));
    }
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(word: &str) -> Result<TierConfig> {
        let variable = |name: &str| (name == "USER").then(|| "ada".to_owned());
        TierConfig::parse_in(word, &Environment { variable: &variable, folder: PathBuf::new() })
    }

    fn disk_of(path: &str, quota: Amount) -> TierConfig {
        TierConfig::Disk(DiskConfig { quota, ..DiskConfig::at(path) })
    }

    #[test]
    fn a_tier_is_said_in_a_word() {
        for (word, tier) in [
            ("memory", TierConfig::Memory { quota: MEMORY_QUOTA }),
            ("memory:4GiB", TierConfig::Memory { quota: Amount::Bytes(4 << 30) }),
            ("memory:10%", TierConfig::Memory { quota: Amount::Percent(10) }),
            ("peers", TierConfig::Peers { quota: MEMORY_QUOTA }),
            ("peers:8GiB", TierConfig::Peers { quota: Amount::Bytes(8 << 30) }),
            ("disk:/nvme/$USER:100GiB", disk_of("/nvme/ada", Amount::Bytes(100 << 30))),
            ("disk:/nvme", disk_of("/nvme", DISK_QUOTA)),
            ("/nvme/${USER}", disk_of("/nvme/ada", DISK_QUOTA)),
            (" /nvme:50% ", disk_of("/nvme", Amount::Percent(50))),
            ("mem:1GiB", TierConfig::Memory { quota: Amount::Bytes(1 << 30) }),
            (
                "/nvme:1GiB:network:free=0",
                TierConfig::Disk(DiskConfig {
                    network: true,
                    quota: Amount::Bytes(1 << 30),
                    free: Some(Amount::Bytes(0)),
                    ..DiskConfig::at("/nvme")
                }),
            ),
            ("/a:b/c", disk_of("/a:b/c", DISK_QUOTA)),
            ("/nvme:keep", TierConfig::Disk(DiskConfig { keep: true, ..DiskConfig::at("/nvme") })),
            (
                "disk:/nvme:1GiB:keep",
                TierConfig::Disk(DiskConfig {
                    keep: true,
                    quota: Amount::Bytes(1 << 30),
                    ..DiskConfig::at("/nvme")
                }),
            ),
        ] {
            assert_eq!(parsed(word).unwrap(), tier, "{word}");
            assert_eq!(parsed(&tier.to_string()).unwrap(), tier, "{word}");
        }
    }

    #[test]
    fn a_word_that_is_no_tier_says_why() {
        for (word, why) in [
            ("dsik:/nvme", "tier 'dsik:/nvme': unknown kind 'dsik'; did you mean 'disk'?"),
            ("memroy", "did you mean 'memory'?"),
            ("disk", "a disk tier needs a path"),
            ("disk:", "a disk tier needs a path"),
            ("disk::1GiB", "a disk tier needs a path"),
            ("./cache", "'./cache' is not an absolute path"),
            ("disk:nvme", "'nvme' is not an absolute path"),
            ("/nvme/$NOBODY", "NOBODY"),
            ("memory:lots", "'lots' is no size"),
            ("", "unknown kind ''"),
        ] {
            let error = parsed(word).unwrap_err().to_string();
            assert!(error.contains(why), "{word}: {error}");
        }
    }

    #[test]
    fn a_disk_keeps_its_floor_whatever_the_quota() {
        let tier = DiskConfig::at("/nvme");
        assert_eq!(tier.free_bytes(10 << 30), 1 << 30, "the least");
        assert_eq!(tier.free_bytes(40 << 30), (40 << 30) / 100 * 5);
        assert_eq!(tier.free_bytes(1000 << 30), 4 << 30, "the most");
        assert_eq!(tier.free_bytes(64 << 20), 16 << 20, "of a small one a quarter");
        assert_eq!(tier.quota_bytes(10 << 30, 2 << 30), 1 << 30);
        assert_eq!(tier.quota_bytes(10 << 30, 1 << 20), 0);
        assert_eq!(DiskConfig { free: Some(Amount::Bytes(0)), ..tier }.quota_bytes(100, 100), 80);
    }

    #[test]
    fn a_dictionary_is_a_tier_as_well() {
        let tier: TierConfig =
            serde_json::from_str(r#"{"kind": "disk", "path": "/nvme", "quota": 1024, "keep": false}"#)
                .unwrap();
        let TierConfig::Disk(DiskConfig { quota, keep, .. }) = tier.clone() else { panic!("not a disk") };
        assert_eq!((quota, keep), (Amount::Bytes(1024), false));
        let json = serde_json::to_string(&tier).unwrap();
        assert_eq!(serde_json::from_str::<TierConfig>(&json).unwrap(), tier);
        for wrong in [r#"{"kind": "tape"}"#, r#"{"kind": "disk", "path": "/x", "quotta": 1}"#] {
            assert!(serde_json::from_str::<TierConfig>(wrong).is_err(), "{wrong}");
        }
    }
}
