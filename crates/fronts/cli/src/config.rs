//! `forebay config`: the configuration in force, and where each value comes from.

use std::collections::BTreeMap;

use forebay::{Result, Settings, config::Config};
use serde::Serialize;

use crate::{Context, args::config::ConfigArgs, output};

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
