//! Which folders of this machine could hold copies, and why or why not.
//!
//! | file | idea |
//! |---|---|
//! | `machine` | what is asked of a machine, so that tests can make one up |
//! | `device` | what is behind a mount: flash, a spinning disk, memory, a network |
//! | `suitability` | whether a folder is suitable, with the reason |

mod device;
mod machine;
mod suitability;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::suitability::{Proposal, assess};
pub use self::{
    device::Device,
    machine::{Capacity, Machine, ThisMachine},
    suitability::{Candidate, Suitability},
};
use crate::config::tier::TierConfig;
use forebay_source::Mounts;

/// Folders that sites give to node-local disks; a `*` at the end stands for anything.
const USUAL: [&str; 8] = [
    "/local",
    "/localscratch",
    "/local_scratch",
    "/scratch/local",
    "/mnt/nvme*",
    "/nvme*",
    "/mnt/ssd*",
    "/ssd*",
];
/// Folders for temporary files, which may lie on the system's own disk.
const TEMPORARY: [&str; 2] = ["/var/tmp", "/tmp"];
/// What is mounted below these, or for reading only, is the system's.
const OF_SYSTEM: [&str; 9] = ["/proc", "/sys", "/run", "/boot", "/etc", "/usr", "/snap", "/var/lib", "/opt"];

/// Where a path lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Located {
    /// The mount it is below.
    pub mount_point: PathBuf,
    /// The type of its file system.
    pub file_system: String,
    /// What is behind it.
    pub device: Device,
}

/// The candidates of `machine`: the configured `tiers` first, then folders by how likely sites mean them for copies.
pub fn survey(machine: &dyn Machine, tiers: &[TierConfig]) -> Vec<Candidate> {
    let mounts = mounts_of(machine);
    let mut candidates: Vec<Candidate> = Vec::new();
    for proposal in proposals(machine, &mounts, tiers) {
        let real = machine.real(&proposal.path).unwrap_or_else(|| proposal.path.clone());
        let is_known = |known: &Candidate| machine.real(&known.path).as_ref() == Some(&real);
        if !candidates.iter().any(is_known) {
            candidates.push(assess(proposal, machine, &mounts, &candidates));
        }
    }
    candidates
}

/// The best of the suitable `candidates` that are not used yet.
pub fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    let suitable = candidates.iter().filter(|candidate| candidate.verdict == Suitability::Suitable);
    suitable.min_by_key(|candidate| candidate.device)
}

/// Where `path` lies, if mounts are known and it exists.
pub fn locate(machine: &dyn Machine, path: &Path) -> Option<Located> {
    let mounts = mounts_of(machine);
    let mount = mounts.above(&machine.real(path)?)?;
    Some(Located {
        mount_point: mount.point.clone(),
        file_system: mount.file_system.clone(),
        device: device::of_mount(mount, machine),
    })
}

fn mounts_of(machine: &dyn Machine) -> Mounts {
    Mounts::parse(machine.read(Path::new("/proc/self/mountinfo")).unwrap_or_default().as_bytes())
}

/// The folders to look at.
fn proposals(machine: &dyn Machine, mounts: &Mounts, tiers: &[TierConfig]) -> Vec<Proposal> {
    let mut found = Vec::new();
    for (index, tier) in tiers.iter().enumerate() {
        if let TierConfig::Disk(disk) = tier {
            let named_by = format!("tier {}", index + 1);
            found.push(Proposal { path: disk.path.clone(), named_by, tier: Some(disk.clone()) });
        }
    }
    let mut add = |path: PathBuf, named_by: String| {
        if path.is_absolute() && path != Path::new("/") {
            found.push(Proposal { path, named_by, tier: None });
        }
    };
    for name in ["SLURM_TMPDIR", "TMPDIR"] {
        if let Some(path) = machine.variable(name).filter(|path| !path.is_empty()) {
            add(path.into(), name.to_owned());
        }
    }
    let user = machine.variable("USER").unwrap_or_default();
    for pattern in USUAL {
        for path in matching(machine, pattern) {
            let own = path.join(&user);
            let is_there = !user.is_empty() && machine.is_folder(&own);
            add(if is_there { own } else { path }, pattern.to_owned());
        }
    }
    for mount in mounts.all() {
        let is_of_system =
            mount.is_read_only || OF_SYSTEM.iter().any(|folder| mount.point.starts_with(folder));
        if !is_of_system && !device::is_pseudo(&mount.file_system) && machine.is_folder(&mount.point) {
            add(mount.point.clone(), "mount".to_owned());
        }
    }
    for path in TEMPORARY.iter().map(Path::new).filter(|path| machine.is_folder(path)) {
        add(path.to_owned(), "temporary files".to_owned());
    }
    found
}

/// The folders that `pattern` names.
fn matching(machine: &dyn Machine, pattern: &str) -> Vec<PathBuf> {
    let Some(start) = pattern.strip_suffix('*') else {
        return [PathBuf::from(pattern)].into_iter().filter(|path| machine.is_folder(path)).collect();
    };
    let (folder, start) = start.rsplit_once('/').unwrap_or(("", start));
    let folder = Path::new("/").join(folder.trim_start_matches('/'));
    let mut names = machine.entries(&folder);
    names.retain(|name| name.starts_with(start));
    names.sort();
    names.into_iter().map(|name| folder.join(name)).filter(|path| machine.is_folder(path)).collect()
}
