//! Where a spill goes when the user does not say.

use std::path::{Path, PathBuf};

use forebay_source::{Error, ErrorKind, Result};

use crate::options::SpillOptions;

/// A folder for spills, and how much may go there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpillPlace {
    pub(crate) folder: PathBuf,
    pub(crate) quota: u64,
}

/// The folder the user names, which must be one, or else the first for temporary files that is a folder on a disk.
pub(crate) fn choose(options: &SpillOptions) -> Result<Option<SpillPlace>> {
    let named = options.folder.clone().or_else(|| Some(std::env::var_os("FOREBAY_SPILL_DIR")?.into()));
    if let Some(named) = named.as_ref().filter(|named| !named.is_dir()) {
        let error = Error::new(ErrorKind::NotFound, "no folder for the spill").at(named.display());
        return Err(error.hint("name one on a local disk, or a quota of 0 for none"));
    }
    Ok(folder(named).map(|folder| {
        let free =
            rustix::fs::statvfs(&folder).map_or(0, |facts| facts.f_bavail.saturating_mul(facts.f_frsize));
        SpillPlace { quota: options.quota.unwrap_or(free / 2), folder }
    }))
}

fn folder(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        let of_job = ["SLURM_TMPDIR", "TMPDIR"].iter().filter_map(std::env::var_os).map(PathBuf::from);
        let mut candidates = of_job.chain(["/var/tmp".into(), "/tmp".into()]);
        candidates.find(|folder| folder.is_dir() && is_on_disk(folder))
    })
}

/// False for file systems that live in memory: what is spilled there is not out of it.
fn is_on_disk(folder: &Path) -> bool {
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    #[cfg(target_os = "linux")]
    {
        let kind = rustix::fs::statfs(folder).map(|facts| u64::try_from(facts.f_type).unwrap_or(0));
        kind.is_ok_and(|kind| !IN_MEMORY.contains(&kind))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (folder, IN_MEMORY);
        true
    }
}
