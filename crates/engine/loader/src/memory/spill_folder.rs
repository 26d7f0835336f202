//! Where a spill goes: the folder the user names, or one for temporary files on a local disk.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result, ledger, ranks_on_node};
use forebay_source::lies_near;
use rustix::fs::Access;

/// A folder for spills, and how much may go there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpillFolder {
    /// Where it is.
    pub(crate) folder: PathBuf,
    /// The most bytes.
    pub(crate) quota: u64,
    /// True when the user named it.
    pub(crate) is_named: bool,
}

impl SpillFolder {
    /// The folder that is `named`, which must be of use, or else the first for temporary files that is; nothing where `quota` is
    /// 0. With `is_shared` the processes of the node have one spill together.
    pub(crate) fn choose(named: Option<&Path>, quota: Option<u64>, is_shared: bool) -> Result<Option<Self>> {
        if quota == Some(0) {
            return Ok(None);
        }
        let of_environment = || Some(std::env::var_os("FOREBAY_SPILL_DIR")?.into());
        let named = named.map(Path::to_owned).or_else(of_environment);
        if let Some(named) = &named {
            check(named)?;
        }
        let is_named = named.is_some();
        Ok(named.or_else(temporary).map(|folder| {
            let free =
                rustix::fs::statvfs(&folder).map_or(0, |facts| facts.f_bavail.saturating_mul(facts.f_frsize));
            // Processes that have a spill each, of the same disk, share what is free there.
            let sharers = if is_shared { 1 } else { ranks_on_node() * ledger().workers() };
            Self { quota: quota.unwrap_or(free / 2 / sharers), folder, is_named }
        }))
    }

    /// `error`, which keeps the spill from being used that the user named.
    pub(crate) fn unusable(error: Error) -> Error {
        error.hint("name a folder on a local disk that can be written to, or a quota of 0 for no spill")
    }
}

/// An error unless files can be made in `folder`, which the user named.
fn check(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        let error = Error::new(ErrorKind::NotFound, "no folder for the spill").at(folder.display());
        return Err(SpillFolder::unusable(error));
    }
    let made = tempfile::tempfile_in(folder);
    made.map(drop)
        .map_err(|error| SpillFolder::unusable(Error::from_io(error).at(folder.display()).at("the spill")))
}

fn temporary() -> Option<PathBuf> {
    let of_job = ["SLURM_TMPDIR", "TMPDIR"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut candidates = of_job.chain(["/var/tmp".into(), "/tmp".into()]);
    candidates.find(|folder| {
        is_on_local_disk(folder) && rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    })
}

/// False for file systems behind a network, where to read back takes as long as to read again, and for those that live in
/// memory: what is spilled there is not out of it.
fn is_on_local_disk(folder: &Path) -> bool {
    folder.is_dir() && File::open(folder).is_ok_and(|folder| lies_near(&folder) && !lies_in_memory(&folder))
}

#[cfg(target_os = "linux")]
fn lies_in_memory(folder: &File) -> bool {
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    let kind = rustix::fs::fstatfs(folder).map(|facts| u64::try_from(facts.f_type).unwrap_or(0));
    kind.is_ok_and(|kind| IN_MEMORY.contains(&kind))
}

#[cfg(not(target_os = "linux"))]
fn lies_in_memory(_: &File) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_a_local_disk_is_no_place_for_a_spill() {
        // Its kind is not on the list of local ones, as those of NFS and Lustre are not.
        assert!(Path::new("/proc").is_dir() && !is_on_local_disk(Path::new("/proc")));
        assert!(!is_on_local_disk(Path::new("/dev/shm")), "it lies in memory");
        assert!(!is_on_local_disk(Path::new("/dev/null")), "no folder");
    }

    #[test]
    fn a_folder_that_the_user_names_and_nothing_can_be_written_to_is_an_error() {
        let choose = |folder: &str, quota| SpillFolder::choose(Some(Path::new(folder)), quota, false);
        // Not even root can make files there.
        let error = choose("/proc/self", None).unwrap_err();
        assert!(error.to_string().contains("/proc/self"), "{error}");
        let error = choose("/dev/null", None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(choose("/proc/self", Some(0)).unwrap(), None, "none is wanted");
    }
}
