//! Whether a folder is suitable for copies, with the reason.

use std::path::{Path, PathBuf};

use forebay_process::size;
use forebay_source::Mounts;
use serde::Serialize;

use super::{
    device::{self, Device},
    machine::{Capacity, Machine},
};
use crate::config::tier::DiskConfig;

/// Less is not worth a tier.
const LEAST_QUOTA: u64 = 1 << 30;

/// Whether a folder is suitable for copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Suitability {
    /// It is configured, and suitable.
    Used,
    /// It is configured, and not suitable.
    Refused,
    /// It is suitable, and not configured.
    Suitable,
    /// It is not suitable.
    Unfit,
}

/// A folder that was looked at as a place for copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// The folder.
    pub path: PathBuf,
    /// Why it was looked at: a variable, the configuration, a usual name, a mount.
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
    /// Whether it is suitable, or used already.
    pub verdict: Suitability,
    /// The reason, in a sentence without its full stop.
    pub why: String,
    /// Where in it a tier of this user would go.
    pub tier_path: PathBuf,
}

/// A folder to be assessed.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) path: PathBuf,
    pub(super) named_by: String,
    /// The tier of the configuration that it is.
    pub(super) tier: Option<DiskConfig>,
}

/// Assesses a folder, after those `before` it.
pub(super) fn assess(
    proposal: Proposal,
    machine: &dyn Machine,
    mounts: &Mounts,
    before: &[Candidate],
) -> Candidate {
    let Proposal { path, named_by, tier } = proposal;
    // A tier's folder is made when it is first needed: what counts is where.
    let there = path.ancestors().find_map(|above| machine.real(above)).unwrap_or_else(|| "/".into());
    let mount = mounts.above(&there);
    let capacity = machine.capacity(&there).unwrap_or_default();
    let tier_path = if tier.is_some() { path.clone() } else { own_folder(&path, machine) };
    let rules = tier.clone().unwrap_or_else(|| DiskConfig::at(&tier_path));
    let mut candidate = Candidate {
        device: mount.map_or(Device::Unknown, |mount| device::of_mount(mount, machine)),
        file_system: mount.map(|mount| mount.file_system.clone()),
        disk_bytes: capacity.disk_bytes,
        free_bytes: capacity.free_bytes,
        writable: mount.is_none_or(|mount| !mount.is_read_only) && machine.may_write(&there),
        quota_bytes: rules.quota_bytes(capacity.disk_bytes, capacity.free_bytes),
        verdict: Suitability::Unfit,
        why: String::new(),
        path,
        named_by,
        tier_path,
    };
    let is_missing = tier.is_none() && !machine.is_folder(&candidate.path);
    let fault = if is_missing {
        Some(Unsuitable::Refusal("there is no such folder".to_owned()))
    } else {
        fault(&candidate, capacity, &rules)
    };
    let twin = before.iter().find(|other| is_same_disk(other, &candidate, machine, mounts));
    (candidate.verdict, candidate.why) = match (fault, tier.is_some(), twin) {
        (Some(Unsuitable::Refusal(why)), true, _) => (Suitability::Refused, why),
        (Some(Unsuitable::Advice(why)), true, _) => (Suitability::Used, why),
        (Some(Unsuitable::Refusal(why) | Unsuitable::Advice(why)), false, _) => (Suitability::Unfit, why),
        (None, true, _) => (Suitability::Used, "configured".to_owned()),
        (None, false, Some(twin)) => {
            (Suitability::Unfit, format!("the same disk as {}", twin.path.display()))
        }
        (None, false, None) => {
            (Suitability::Suitable, reason(&candidate, mount.map(|mount| mount.point.as_path())))
        }
    };
    if matches!(candidate.verdict, Suitability::Unfit | Suitability::Refused) {
        candidate.quota_bytes = 0;
    }
    candidate
}

/// Why copies do not go there.
enum Unsuitable {
    /// They cannot, even where the folder is configured.
    Refusal(String),
    /// They can, and there is a better way.
    Advice(String),
}

/// Why copies do not go there.
fn fault(candidate: &Candidate, capacity: Capacity, rules: &DiskConfig) -> Option<Unsuitable> {
    let file_system = candidate.file_system.as_deref().unwrap_or("an unknown file system");
    match candidate.device {
        Device::Network if !rules.network => {
            let why = format!("{file_system} is behind a network, or not known: copies there are no nearer");
            return Some(Unsuitable::Refusal(why));
        }
        Device::Memory => {
            return Some(Unsuitable::Advice(format!(
                "{file_system} lies in memory: a memory tier does the same"
            )));
        }
        _ => {}
    }
    if file_system == "overlay" {
        let why = "the container's own layer: mount a disk into the container";
        return Some(Unsuitable::Advice(why.to_owned()));
    }
    if !candidate.writable {
        return Some(Unsuitable::Refusal("not writable by this user".to_owned()));
    }
    let least = rules.quota.of(u64::MAX).min(LEAST_QUOTA);
    (candidate.quota_bytes < least).then(|| {
        let floor = size::exact(rules.free_bytes(capacity.disk_bytes) >> 20 << 20);
        let free = size::exact(capacity.free_bytes >> 20 << 20);
        Unsuitable::Refusal(format!("too full: {free} are free, and {floor} have to stay so"))
    })
}

/// Why copies may go there.
fn reason(candidate: &Candidate, mount_point: Option<&Path>) -> String {
    let is_of_system = mount_point == Some(Path::new("/"));
    let disk = match candidate.device {
        Device::Nvme | Device::Ssd => "a local disk without moving parts",
        Device::Hdd => "a local disk, but a spinning one: slow at random",
        _ => "a local disk",
    };
    if is_of_system { format!("{disk}; it is the system's own") } else { disk.to_owned() }
}

/// True where `other` is suitable and lies on the same file system.
fn is_same_disk(other: &Candidate, candidate: &Candidate, machine: &dyn Machine, mounts: &Mounts) -> bool {
    let device = |path: &Path| {
        let there = path.ancestors().find_map(|above| machine.real(above))?;
        mounts.above(&there).map(|mount| mount.device.clone())
    };
    let is_suitable = matches!(other.verdict, Suitability::Used | Suitability::Suitable);
    is_suitable && device(&other.path).is_some_and(|other| device(&candidate.path) == Some(other))
}

/// The folder for a tier of this user: one of its own, where others have theirs too.
fn own_folder(path: &Path, machine: &dyn Machine) -> PathBuf {
    let user = machine.variable("USER").filter(|user| !user.is_empty());
    match user {
        Some(user) if !path.ends_with(&user) => path.join(format!("forebay-{user}")),
        _ => path.join("forebay"),
    }
}
