//! From a configuration to running parts: origins that are read through tiers.

use std::{fs, os::unix::fs::DirBuilderExt, sync::Arc};

use forebay_format::memory_budget;
use forebay_source::{Error, Origin, Result};
use forebay_tier::{
    DiskOptions, DiskTier, Judge, MemoryTier, Outlook, Placement, Policy as Ranking, Tier, Tiered,
};

use crate::config::{Config, DiskTier as DiskConfig, TierConfig};

/// `origin` read through the tiers of `config`; nothing where it has none. `ranking` is the user's own policy, in place
/// of the one that is configured.
pub fn tiered(
    origin: Arc<dyn Origin>,
    config: &Config,
    ranking: Option<Arc<dyn Ranking>>,
) -> Result<Option<Arc<Tiered>>> {
    if config.tiers.is_empty() {
        return Ok(None);
    }
    let outlook = Outlook::default();
    let ranking = ranking.unwrap_or_else(|| Arc::new(config.placement.policy.standard()));
    let placement = Placement {
        block_len: config.placement.block,
        threads: config.placement.threads,
        whole_file: config.placement.whole_file,
        ahead: config.placement.ahead,
        is_lasting: ranking.newcomers_compete(),
        looks_ahead: ranking.needs_foresight(),
        outlook: outlook.clone(),
        ..Placement::default()
    };
    let judge = Judge { policy: ranking, outlook };
    let (tiers, block_len) = (config.tiers.clone(), config.placement.block);
    let make = move || tiers.iter().map(|tier| open_tier(tier, block_len, &judge)).collect();
    Tiered::new(origin, make, placement).map(|tiered| Some(Arc::new(tiered)))
}

fn open_tier(tier: &TierConfig, block_len: u64, judge: &Judge) -> Result<Arc<dyn Tier>> {
    match tier {
        TierConfig::Memory { quota } => {
            Ok(Arc::new(MemoryTier::new(quota.of(memory_budget()), judge.clone())))
        }
        TierConfig::Disk(disk) => Ok(Arc::new(open_disk_tier(disk, block_len, judge.clone())?)),
    }
}

/// The disk tier that `disk` describes.
pub fn open_disk_tier(disk: &DiskConfig, block_len: u64, judge: Judge) -> Result<DiskTier> {
    let place = |error| Error::from_io(error).at(format!("disk tier '{}'", disk.path.display()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&disk.path).map_err(place)?;
    let facts = rustix::fs::statvfs(&disk.path).map_err(|errno| place(errno.into()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
    let (size, free) = (bytes(facts.f_blocks), bytes(facts.f_bavail));
    // What it holds already is as good as free.
    let quota = disk.quota_bytes(size, free.saturating_add(DiskTier::used_at(&disk.path, disk.keep)));
    let options = DiskOptions {
        path: disk.path.clone(),
        quota,
        free: disk.free_bytes(size),
        keep: disk.keep,
        block_len,
    };
    DiskTier::open(options, judge)
}

#[cfg(test)]
mod tests {
    use forebay_source::FileOrigin;

    use super::*;
    use crate::config::Amount;

    #[test]
    fn tiers_are_made_as_configured_and_none_where_none_are() {
        let folder = tempfile::tempdir().unwrap();
        let origin = || Arc::new(FileOrigin::new()) as Arc<dyn Origin>;
        assert!(tiered(origin(), &Config::default(), None).unwrap().is_none());
        // However full the disk is that the test runs on.
        let free = Some(Amount::Bytes(0));
        let at = DiskConfig::at(folder.path().join("new"));
        let disk = DiskConfig { quota: Amount::Bytes(1 << 20), free, ..at };
        let memory = TierConfig::Memory { quota: Amount::Bytes(1 << 16) };
        let config = Config { tiers: vec![memory, TierConfig::Disk(disk)], ..Config::default() };
        let made = tiered(origin(), &config, None).unwrap().unwrap();
        let quotas: Vec<u64> = made.stats().tiers.iter().map(|tier| tier.quota).collect();
        assert_eq!(quotas, [1 << 16, 1 << 20]);
        assert_eq!(made.block_len(), 1 << 20);
    }
}
