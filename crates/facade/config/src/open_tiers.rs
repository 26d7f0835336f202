//! From a configuration to tiers, and an origin that is read through them.

use std::{fs, os::unix::fs::DirBuilderExt, sync::Arc};

use forebay_process::{Error, ErrorKind, Result, ledger};
use forebay_source::{Origin, lies_near};
use forebay_tier::{
    DiskOptions, DiskTier, ForesightHandle, LeftOutTier, MemoryTier, Placement, Policy, Ranking, Tier, Tiered,
};

use crate::config::{
    Config,
    tier::{DiskConfig, TierConfig},
};

/// `origin` read through the tiers of `config`; nothing where it has none. `policy` is the user's own, in place of the one
/// that is configured. `peers` is the tier in the memory of all ranks, where this process is one of a job.
pub fn tiered(
    origin: Arc<dyn Origin>,
    config: &Config,
    policy: Option<Arc<dyn Policy>>,
    peers: Option<Arc<dyn Tier>>,
) -> Result<Option<Arc<Tiered>>> {
    if config.tiers.is_empty() {
        return Ok(None);
    }
    let foresight = ForesightHandle::default();
    let policy = policy.unwrap_or_else(|| Arc::new(config.placement.policy.builtin()));
    let placement = Placement {
        block_len: config.placement.block,
        threads: config.placement.threads,
        whole_file: config.placement.whole_file,
        ahead: config.placement.ahead,
        evicts_for_prefetch: !policy.newcomers_compete(),
        looks_ahead: policy.needs_foresight(),
        foresight: foresight.clone(),
        ..Placement::default()
    };
    let ranking = Ranking { policy, foresight };
    let (tiers, block_len) = (config.tiers.clone(), config.placement.block);
    let make = move || {
        let open = |tier: &TierConfig| match (tier, &peers) {
            (TierConfig::Peers { .. }, Some(peers)) => Ok(Arc::clone(peers)),
            _ => open_or_leave_out(tier, block_len, &ranking),
        };
        tiers.iter().map(open).collect()
    };
    Tiered::new(origin, make, placement).map(|tiered| Some(Arc::new(tiered)))
}

/// The tier that `tier` describes, or one that keeps nothing where it cannot be opened at the moment: copies save time, and
/// a run can do without. A configuration that works nowhere is an error.
fn open_or_leave_out(tier: &TierConfig, block_len: u64, ranking: &Ranking) -> Result<Arc<dyn Tier>> {
    match open_tier(tier, block_len, ranking) {
        Err(error) if error.kind() != ErrorKind::Invalid => {
            let name = match tier {
                TierConfig::Memory { .. } | TierConfig::Peers { .. } => tier.kind().to_owned(),
                TierConfig::Disk(disk) => format!("disk {}", disk.path.display()),
            };
            Ok(Arc::new(LeftOutTier::new(name, &error)))
        }
        opened => opened,
    }
}

fn open_tier(tier: &TierConfig, block_len: u64, ranking: &Ranking) -> Result<Arc<dyn Tier>> {
    match tier {
        TierConfig::Memory { quota } => {
            // A percentage is one of the share of this process: other ranks and workers have theirs.
            let grant = ledger().take("memory tier", quota.of(ledger().share()));
            Ok(Arc::new(MemoryTier::within(grant, ranking.clone())))
        }
        TierConfig::Disk(disk) => Ok(Arc::new(open_disk_tier(disk, block_len, ranking.clone())?)),
        TierConfig::Peers { .. } => {
            let error = Error::new(ErrorKind::Unavailable, "this process is no rank of a job");
            Err(error.hint("start it by mpirun, srun or torchrun"))
        }
    }
}

/// The disk tier that `disk` describes.
pub fn open_disk_tier(disk: &DiskConfig, block_len: u64, ranking: Ranking) -> Result<DiskTier> {
    let named = |error: Error| error.at(format!("disk tier '{}'", disk.path.display()));
    let failed = |error| named(Error::from_io(error));
    if let Some(file) = disk.path.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir()) {
        return Err(named(Error::new(ErrorKind::Invalid, format!("{} is not a folder", file.display()))));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&disk.path).map_err(failed)?;
    if !disk.network && !lies_near(fs::File::open(&disk.path).map_err(failed)?) {
        let far = "lies behind a network, or on a file system that is not known: copies there are no nearer";
        let error = named(Error::new(ErrorKind::Invalid, far));
        return Err(error.hint("name a folder on a disk of this node, or set `network = true` for the tier"));
    }
    let facts = rustix::fs::statvfs(&disk.path).map_err(|errno| failed(errno.into()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
    let (size, free) = (bytes(facts.f_blocks), bytes(facts.f_bavail));
    // What the tier holds already counts as free.
    let quota = disk.quota_bytes(size, free.saturating_add(DiskTier::used_at(&disk.path, disk.keep)));
    let options = DiskOptions {
        path: disk.path.clone(),
        quota,
        free: disk.free_bytes(size),
        keep: disk.keep,
        block_len,
    };
    DiskTier::open(options, ranking)
}

#[cfg(test)]
mod tests {
    use forebay_source::FileOrigin;
    use forebay_tier::BuiltinPolicy;

    use super::*;
    use crate::config::amount::Amount;

    #[test]
    fn tiers_are_made_as_configured_and_none_where_none_are() {
        let folder = tempfile::tempdir().unwrap();
        let origin = || Arc::new(FileOrigin::new()) as Arc<dyn Origin>;
        assert!(tiered(origin(), &Config::default(), None, None).unwrap().is_none());
        // However full the disk is that the test runs on.
        let free = Some(Amount::Bytes(0));
        let at = DiskConfig::at(folder.path().join("new"));
        let disk = DiskConfig { quota: Amount::Bytes(1 << 20), free, ..at };
        let memory = TierConfig::Memory { quota: Amount::Bytes(1 << 16) };
        let config = Config { tiers: vec![memory, TierConfig::Disk(disk)], ..Config::default() };
        let made = tiered(origin(), &config, None, None).unwrap().unwrap();
        let quotas: Vec<u64> = made.stats().tiers.iter().map(|tier| tier.quota).collect();
        assert_eq!(quotas, [1 << 16, 1 << 20]);
        assert_eq!(made.block_len(), 1 << 20);
    }

    #[test]
    fn a_tier_that_cannot_be_opened_is_left_out_and_one_that_is_plainly_wrong_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let origin = || Arc::new(FileOrigin::new()) as Arc<dyn Origin>;
        let memory = TierConfig::Memory { quota: Amount::Bytes(1 << 16) };
        let with = |path: std::path::PathBuf| Config {
            tiers: vec![TierConfig::Disk(DiskConfig::at(path)), memory.clone()],
            ..Config::default()
        };
        // No folder can be made there, by root neither.
        let made = tiered(origin(), &with("/proc/forebay-no-such".into()), None, None).unwrap().unwrap();
        let stats = made.stats();
        assert!(stats.tiers[0].left_out.as_deref().is_some_and(|why| why.contains("/proc/forebay-no-such")));
        assert_eq!((stats.tiers[1].quota, &stats.tiers[1].left_out), (1 << 16, &None));
        let warnings = made.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("a tier is left out: disk tier '/proc/"), "{warnings:?}");
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = tiered(origin(), &with(path), None, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("is not a folder"), "{error}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_disk_tier_that_is_no_nearer_than_the_data_is_refused_unless_it_is_wanted_there() {
        // Not a file system that is known to lie on this machine; nobody may make anything there.
        let far = DiskConfig::at("/sys");
        let open = |disk: &DiskConfig| open_disk_tier(disk, 1 << 20, Ranking::new(BuiltinPolicy::FirstFit));
        let refused = open(&far).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("behind a network"), "{refused}");
        assert!(refused.to_string().contains("network = true"), "{refused}");
        let wanted = open(&DiskConfig { network: true, ..far }).unwrap_err();
        assert!(!wanted.to_string().contains("network"), "nothing can be made there: {wanted}");
    }

    #[test]
    fn a_tier_in_memory_and_what_is_fetched_ahead_are_counted_and_go_back() {
        let shares = |what: &str| -> Vec<u64> {
            let taken = ledger().report().taken;
            taken.into_iter().filter(|holding| holding.what == what).map(|holding| holding.bytes).collect()
        };
        let tier = TierConfig::Memory { quota: Amount::Percent(25) };
        let config = Config { tiers: vec![tier], ..Config::default() };
        let made = tiered(Arc::new(FileOrigin::new()), &config, None, None).unwrap().unwrap();
        let quarter = Amount::Percent(25).of(ledger().share());
        assert_eq!(made.stats().tiers[0].quota, quarter);
        assert!(shares("memory tier").contains(&quarter));
        let ahead = shares("look-ahead");
        assert!(!ahead.is_empty() && ahead.iter().all(|bytes| *bytes <= ledger().share() / 8));
        drop(made);
        assert!(!shares("memory tier").contains(&quarter));
    }
}
