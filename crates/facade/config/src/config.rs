//! The configuration: where the data lie, which tiers hold copies, how copies are placed, and where written bytes wait.

pub(crate) mod amount;
pub(crate) mod fast_place;
pub(crate) mod hdf5_config;
pub(crate) mod policy;
pub(crate) mod stage_config;
pub(crate) mod tier;

use forebay_source::Locator;
use forebay_tier::{AHEAD_BYTES, BLOCK_BYTES, THREADS};
use serde::{Deserialize, Serialize};

use crate::{
    config::{hdf5_config::Hdf5Config, policy::PolicyName, stage_config::StageConfig, tier::TierConfig},
    names::spelled_out,
};

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
    /// Where written bytes wait on their way.
    pub stage: StageConfig,
    /// What the HDF5 plug-ins do.
    pub hdf5: Hdf5Config,
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
