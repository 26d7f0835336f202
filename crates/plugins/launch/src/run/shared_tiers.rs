//! Tiers as all processes of a run share them: a memory tier is a disk tier in `/dev/shm`.

use std::path::Path;

use forebay_config::{Amount, DiskConfig, TierConfig};
use forebay_process::{Error, ErrorKind, Result, ledger};

/// Where memory can be shared under a name.
const MEMORY: &str = "/dev/shm";

/// `tiers` as all processes of a run can share them, and what the user ought to know of it.
pub(crate) fn shared_tiers(tiers: &[TierConfig]) -> (Vec<TierConfig>, Vec<String>) {
    let (mut shared, mut warnings) = (Vec::new(), Vec::new());
    let mut memory = 0u64;
    for tier in tiers {
        match tier {
            TierConfig::Memory { quota } => {
                // Two of them would be one folder.
                memory = memory.saturating_add(quota.of(ledger().share()));
                shared.retain(|tier| !is_in_memory(tier));
                let disk = DiskConfig { quota: Amount::Bytes(memory), ..DiskConfig::at(MEMORY) };
                shared.push(TierConfig::Disk(disk));
            }
            TierConfig::Disk(_) => shared.push(tier.clone()),
            TierConfig::Peers { .. } => {
                warnings.push(
                    "the tier in the memory of all ranks is left out: only forebay's own loader has it"
                        .to_owned(),
                );
            }
        }
    }
    if memory > 0 && !Path::new(MEMORY).is_dir() {
        shared.retain(|tier| !is_in_memory(tier));
        warnings
            .push(format!("the memory tier is left out: processes share it in {MEMORY}, which is not there"));
    }
    (shared, warnings)
}

fn is_in_memory(tier: &TierConfig) -> bool {
    matches!(tier, TierConfig::Disk(disk) if disk.path == Path::new(MEMORY))
}

/// An error where copies would lie among the files that they are copies of.
pub(crate) fn check_apart(tiers: &[TierConfig], origin: &Path) -> Result<()> {
    let within = tiers.iter().find_map(|tier| match tier {
        TierConfig::Disk(disk) if disk.path.starts_with(origin) => Some(disk.path.display().to_string()),
        _ => None,
    });
    let Some(path) = within else { return Ok(()) };
    let error =
        Error::new(ErrorKind::Invalid, format!("the tier lies under the origin {}", origin.display()));
    Err(error.at(path).hint("name a folder outside it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_becomes_one_folder_that_processes_share() {
        let tiers = ["memory:1MiB", "/nvme:1GiB:keep", "memory:2MiB", "peers:1GiB"]
            .map(|word| TierConfig::parse(word).unwrap());
        let (shared, warnings) = shared_tiers(&tiers);
        let words: Vec<String> = shared.iter().map(TierConfig::to_string).collect();
        assert_eq!(words, ["disk:/nvme:1GiB:keep", "disk:/dev/shm:3MiB"]);
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn a_tier_among_the_files_that_it_copies_is_refused() {
        let tiers = [TierConfig::parse("/pfs/set/copies:1GiB").unwrap()];
        let error = check_apart(&tiers, Path::new("/pfs/set")).unwrap_err().to_string();
        assert!(error.contains("lies under the origin /pfs/set"), "{error}");
        assert!(check_apart(&tiers, Path::new("/pfs/se")).is_ok());
    }
}
