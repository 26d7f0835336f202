//! Which places of this machine could hold copies, and why or why not.
//!
//! | file | idea |
//! |---|---|
//! | `machine` | what is asked of a machine, so that tests can make one up |
//! | `device` | what is behind a mount: flash, a spinning disk, memory, a network |
//! | `judge` | whether a place will do, in a sentence |

mod device;
mod judge;
mod machine;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::judge::{Candidate, judge};
pub use self::{
    device::Device,
    judge::Verdict,
    machine::{Machine, Room, ThisMachine},
};
use crate::config::TierConfig;
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

/// A place for copies that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocalPlace {
    /// The folder.
    pub path: PathBuf,
    /// What led to it: a variable, the configuration, a usual name, a mount.
    pub named_by: String,
    /// What is behind it.
    pub device: Device,
    /// The type of its file system, if that is known.
    pub file_system: Option<String>,
    /// The size of its file system.
    pub disk_bytes: u64,
    /// What is free there for this user.
    pub free_bytes: u64,
    /// Whether this user may write there.
    pub writable: bool,
    /// What a tier there would get.
    pub quota_bytes: u64,
    /// Whether it is used.
    pub verdict: Verdict,
    /// The reason, in a sentence without its full stop.
    pub why: String,
    /// Where in it a tier of this user would go.
    pub tier_path: PathBuf,
}

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

/// The places of `machine`, those of the configured `tiers` first, then by how likely they are meant for this.
pub fn survey(machine: &dyn Machine, tiers: &[TierConfig]) -> Vec<LocalPlace> {
    let mounts = mounts_of(machine);
    let mut places: Vec<LocalPlace> = Vec::new();
    for candidate in candidates(machine, &mounts, tiers) {
        let real = machine.real(&candidate.path).unwrap_or_else(|| candidate.path.clone());
        let is_known = |place: &LocalPlace| machine.real(&place.path).as_ref() == Some(&real);
        if !places.iter().any(is_known) {
            places.push(judge(candidate, machine, &mounts, &places));
        }
    }
    places
}

/// The best of `places` that will do and are not used yet.
pub fn best(places: &[LocalPlace]) -> Option<&LocalPlace> {
    places.iter().filter(|place| place.verdict == Verdict::Suitable).min_by_key(|place| place.device)
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

fn candidates(machine: &dyn Machine, mounts: &Mounts, tiers: &[TierConfig]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (index, tier) in tiers.iter().enumerate() {
        if let TierConfig::Disk(disk) = tier {
            let named_by = format!("tier {}", index + 1);
            found.push(Candidate { path: disk.path.clone(), named_by, tier: Some(disk.clone()) });
        }
    }
    let mut add = |path: PathBuf, named_by: String| {
        if path.is_absolute() && path != Path::new("/") {
            found.push(Candidate { path, named_by, tier: None });
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
