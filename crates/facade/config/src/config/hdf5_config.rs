//! What the HDF5 plug-ins do: which files they manage, and how.

use std::{path::PathBuf, str::FromStr};

use forebay_process::{Error, Result, suggest::unknown};
use serde::{Deserialize, Serialize};

use crate::config::{amount::Amount, fast_place::FastPlace, policy::PolicyName};

/// What the HDF5 plug-ins do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hdf5Config {
    /// Folders and files whose names begin so are managed; all others pass through. None by default.
    pub paths: Vec<PathBuf>,
    /// Which plug-ins `forebay hdf5-env` and `forebay run` switch on.
    pub plugins: PluginChoice,
    /// Whether writes are staged, where there is a staging area.
    pub write: bool,
    /// Whether reads come through tiers and the cache.
    pub read: bool,
    /// Whether flush and close return once all is staged and journalled, and not only when it is in the file.
    pub delay_close: bool,
    /// Who sees what is staged.
    pub scope: StageScope,
    /// Where the VOL connector keeps values of data sets that were read; without a place it keeps none.
    pub cache: Option<FastPlace>,
    /// The most that it keeps; by default 25 % of the memory budget, or 80 % of what is free on the disk.
    pub cache_quota: Option<Amount>,
    /// What leaves when it is full.
    pub cache_policy: PolicyName,
    /// Whether ranks of an MPI job read what others of them have cached.
    pub peers: PeerReads,
    /// Whether data sets are brought near when they are opened.
    pub prestage: PrestageMode,
    /// Bytes of a data set that are read, kept and evicted at once, about.
    pub unit: u64,
    /// Data sets of fewer bytes are not kept.
    pub least: u64,
    /// A file that was changed less than this many milliseconds ago is not kept.
    pub clock_grain_ms: u64,
}

/// Requests of 1 MiB hide most of a parallel file system's latency, and are what the byte tiers ask for as well.
const UNIT_BYTES: u64 = 1 << 20;
/// Two files of a disk tier for less than this cost more than they save.
const LEAST_BYTES: u64 = 64 << 10;
/// The times of a file are drawn from a coarse clock, and within one tick another write could leave the same: two seconds on FAT
/// and old NFS, 4 ms on ext4.
const CLOCK_GRAIN_MS: u64 = 2000;

impl Default for Hdf5Config {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            plugins: PluginChoice::Auto,
            write: true,
            read: true,
            delay_close: false,
            scope: StageScope::Local,
            cache: None,
            cache_quota: None,
            cache_policy: PolicyName::Lru,
            peers: PeerReads::Auto,
            prestage: PrestageMode::Off,
            unit: UNIT_BYTES,
            least: LEAST_BYTES,
            clock_grain_ms: CLOCK_GRAIN_MS,
        }
    }
}

impl Hdf5Config {
    /// Whether the virtual file driver is switched on.
    pub fn has_driver(&self) -> bool {
        self.plugins != PluginChoice::Vol
    }

    /// Whether the VOL connector is switched on: by default where it has something to do.
    pub fn has_connector(&self) -> bool {
        match self.plugins {
            PluginChoice::Vfd => false,
            PluginChoice::Vol | PluginChoice::Both => true,
            PluginChoice::Auto => self.cache.is_some() || self.prestage != PrestageMode::Off,
        }
    }
}

/// A choice of words, one for each variant.
macro_rules! words {
    ($name:ident, $what:literal, $($variant:ident = $word:literal),+) => {
        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// What it is called.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(word: &str) -> Result<Self> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(unknown($what, word, &[$($word),+])),
                }
            }
        }
    };
}

/// Which plug-ins a program gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginChoice {
    /// The driver, and the connector where a cache or prestaging is configured.
    #[default]
    Auto,
    /// The virtual file driver alone.
    Vfd,
    /// The VOL connector alone.
    Vol,
    /// Both.
    Both,
}

words!(PluginChoice, "choice of plug-ins", Auto = "auto", Vfd = "vfd", Vol = "vol", Both = "both");

/// Who sees what is staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageScope {
    /// The processes of this node.
    #[default]
    Local,
    /// All nodes that share the staging area, such as a burst buffer.
    Global,
}

words!(StageScope, "scope", Local = "local", Global = "global");

/// Whether ranks of an MPI job read what others of them have cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerReads {
    /// They do, where several have a file open together.
    #[default]
    Auto,
    /// Each reads its own cache alone.
    Off,
}

words!(PeerReads, "way to read from peers", Auto = "auto", Off = "off");

/// Whether data sets are brought near when they are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrestageMode {
    /// They are not.
    #[default]
    Off,
    /// They are, and the opening waits for it.
    Blocking,
    /// They are, while the program goes on.
    Background,
}

words!(PrestageMode, "way to prestage", Off = "off", Blocking = "blocking", Background = "background");
