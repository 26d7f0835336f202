//! The configuration, as flags of a command.

use forebay::{Result, Settings, config::Overrides};

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
