//! `forebay config`: the configuration in force, and where each value comes from.

use std::collections::BTreeMap;

use forebay::{
    Result, Settings,
    config::{Config, Overrides},
};
use serde::Serialize;

use crate::{Context, output};

const EXAMPLES: &str = "\
Examples:
  forebay config                                  what is in force, as a file that can be read back
  forebay config --tier memory:4GiB --tier /nvme/$USER > forebay.toml
  FOREBAY_POLICY=lru forebay config --json | jq .value_origins

A flag wins over the environment, that over the file, the file over the default. The file is the one that --config or \
FOREBAY_CONFIG names, or forebay.toml in the working directory, or $XDG_CONFIG_HOME/forebay/forebay.toml (by default in \
~/.config). The variables: FOREBAY_ORIGIN, FOREBAY_TIERS (with commas between), FOREBAY_POLICY, \
FOREBAY_PLACEMENT_THREADS, FOREBAY_BLOCK, FOREBAY_WHOLE_FILE, FOREBAY_AHEAD, FOREBAY_STAGE and FOREBAY_STAGE_… with the \
names of its keys, FOREBAY_HDF5_… likewise, FOREBAY_DELAY_CLOSE, FOREBAY_PRESTAGE; and those of HDF5's Cache VOL.

JSON: file, config{origin{path}, tier[kind, path, quota, keep, free, network], placement{policy, threads, block, whole_file, \
ahead}, stage{path, quota, free_floor, drainers, bandwidth, memory, paused}, hdf5{paths, plugins, write, read, \
delay_close, scope, cache, cache_quota, cache_policy, peers, prestage, unit, least, \
clock_grain_ms}}, value_origins{by the name of a value; what is not there is a default}.";

/// Arguments of `forebay config`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigCommandArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// The configuration, as the command line says it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigArgs {
    /// Configuration file, or 'none'.
    #[arg(long, value_name = "FILE")]
    config: Option<String>,

    /// Origin of the data: a folder, or a URL such as s3://bucket/prefix.
    #[arg(long, value_name = "PATH")]
    origin: Option<String>,

    /// Cache tier, the fastest first: memory:4GiB, disk:/nvme/$USER:100GiB, a path alone for a disk, or 'none'.
    #[arg(long, value_name = "TIER")]
    tier: Vec<String>,

    /// Cache policy of the tiers: auto, first-fit, clairvoyant, lru, lfu, fifo or lifo.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// Copy threads of the tiers.
    #[arg(long, value_name = "N")]
    placement_threads: Option<String>,

    /// Block size of the tiers: what is copied at once, a power of two.
    #[arg(long, value_name = "SIZE")]
    block: Option<String>,

    /// Whole-file copies: whether the rest of a file is copied once a part of it was read.
    #[arg(long, value_name = "BOOL")]
    whole_file: Option<String>,

    /// Prefetch buffer of the tiers: what is fetched ahead of its use beyond what they keep.
    #[arg(long, value_name = "SIZE")]
    ahead: Option<String>,
}

impl ConfigArgs {
    /// True when a flag names a tier.
    pub(crate) fn names_tiers(&self) -> bool {
        !self.tier.is_empty()
    }

    /// The settings under these flags.
    pub(crate) fn load(&self) -> Result<Settings> {
        Settings::load(&self.overrides())
    }

    /// What the flags say.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            config: self.config.clone(),
            origin: self.origin.clone(),
            tiers: self.tier.clone(),
            policy: self.policy.clone(),
            threads: self.placement_threads.clone(),
            block: self.block.clone(),
            whole_file: self.whole_file.clone(),
            ahead: self.ahead.clone(),
            ..Overrides::default()
        }
    }
}

/// Settings under stable names.
#[derive(Debug, Serialize)]
pub(crate) struct SettingsFacts {
    pub(crate) file: Option<String>,
    pub(crate) config: Config,
    value_origins: BTreeMap<String, String>,
}

impl SettingsFacts {
    pub(crate) fn of(settings: &Settings) -> Self {
        let origins = settings.origins.iter();
        Self {
            file: settings.file.as_ref().map(|path| path.display().to_string()),
            config: settings.config.clone(),
            value_origins: origins.map(|(name, origin)| (name.clone(), origin.to_string())).collect(),
        }
    }
}

/// Runs `forebay config`.
pub(crate) fn run(context: &Context, args: &ConfigCommandArgs) -> Result<()> {
    let settings = Settings::load_for_hdf5(&args.config.overrides(), None)?;
    if context.json {
        return output::say(serde_json::json!(SettingsFacts::of(&settings)));
    }
    output::say(settings.to_toml().trim_end())
}
