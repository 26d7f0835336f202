//! Whether a place will do, in a sentence.

use std::path::{Path, PathBuf};

use forebay_source::Mounts;
use serde::Serialize;

use super::{Device, LocalPlace, Machine, Room, device};
use crate::{config::DiskTier, size};

/// Less is not worth a tier.
const LEAST_QUOTA: u64 = 1 << 30;

/// Whether a place is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The configuration says so, and it will do.
    Used,
    /// The configuration says so, and it will not do.
    Refused,
    /// It would do, and nobody asked for it.
    Suitable,
    /// It will not do.
    Unfit,
}

/// A place to be judged.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) named_by: String,
    /// The tier of the configuration that it is.
    pub(super) tier: Option<DiskTier>,
}

/// Looks at a place, after those `before` it.
pub(super) fn judge(
    candidate: Candidate,
    machine: &dyn Machine,
    mounts: &Mounts,
    before: &[LocalPlace],
) -> LocalPlace {
    let Candidate { path, named_by, tier } = candidate;
    // A tier's folder is made when it is first needed: what counts is where.
    let there = path.ancestors().find_map(|above| machine.real(above)).unwrap_or_else(|| "/".into());
    let mount = mounts.above(&there);
    let room = machine.room(&there).unwrap_or_default();
    let tier_path = if tier.is_some() { path.clone() } else { own_folder(&path, machine) };
    let rules = tier.clone().unwrap_or_else(|| DiskTier::at(&tier_path));
    let mut place = LocalPlace {
        device: mount.map_or(Device::Unknown, |mount| device::of_mount(mount, machine)),
        file_system: mount.map(|mount| mount.file_system.clone()),
        disk_bytes: room.disk_bytes,
        free_bytes: room.free_bytes,
        writable: mount.is_none_or(|mount| !mount.is_read_only) && machine.may_write(&there),
        quota_bytes: rules.quota_bytes(room.disk_bytes, room.free_bytes),
        verdict: Verdict::Unfit,
        why: String::new(),
        path,
        named_by,
        tier_path,
    };
    let is_missing = tier.is_none() && !machine.is_folder(&place.path);
    let fault = if is_missing {
        Some(Fault::Refusal("there is no such folder".to_owned()))
    } else {
        fault(&place, room, &rules)
    };
    let twin = before.iter().find(|other| is_same_disk(other, &place, machine, mounts));
    (place.verdict, place.why) = match (fault, tier.is_some(), twin) {
        (Some(Fault::Refusal(why)), true, _) => (Verdict::Refused, why),
        (Some(Fault::Advice(why)), true, _) => (Verdict::Used, why),
        (Some(Fault::Refusal(why) | Fault::Advice(why)), false, _) => (Verdict::Unfit, why),
        (None, true, _) => (Verdict::Used, "configured".to_owned()),
        (None, false, Some(twin)) => (Verdict::Unfit, format!("the same disk as {}", twin.path.display())),
        (None, false, None) => (Verdict::Suitable, praise(&place, mount.map(|mount| mount.point.as_path()))),
    };
    if place.verdict == Verdict::Unfit || place.verdict == Verdict::Refused {
        place.quota_bytes = 0;
    }
    place
}

/// Why copies do not go there.
enum Fault {
    /// They cannot, whoever asks for it.
    Refusal(String),
    /// They can, and there is a better place.
    Advice(String),
}

/// Why copies do not go there.
fn fault(place: &LocalPlace, room: Room, rules: &DiskTier) -> Option<Fault> {
    let file_system = place.file_system.as_deref().unwrap_or("an unknown file system");
    match place.device {
        Device::Network if !rules.network => {
            let why = format!("{file_system} is behind a network, or not known: copies there are no nearer");
            return Some(Fault::Refusal(why));
        }
        Device::Memory => {
            return Some(Fault::Advice(format!("{file_system} lies in memory: a memory tier does the same")));
        }
        _ => {}
    }
    if file_system == "overlay" {
        let why = "the container's own layer: mount a disk into the container";
        return Some(Fault::Advice(why.to_owned()));
    }
    if !place.writable {
        return Some(Fault::Refusal("not writable by this user".to_owned()));
    }
    let least = rules.quota.of(u64::MAX).min(LEAST_QUOTA);
    (place.quota_bytes < least).then(|| {
        let floor = size::exact(rules.free_bytes(room.disk_bytes) >> 20 << 20);
        let free = size::exact(room.free_bytes >> 20 << 20);
        Fault::Refusal(format!("too full: {free} are free, and {floor} have to stay so"))
    })
}

/// Why copies may go there.
fn praise(place: &LocalPlace, mount_point: Option<&Path>) -> String {
    let is_of_system = mount_point == Some(Path::new("/"));
    let disk = match place.device {
        Device::Nvme | Device::Ssd => "a local disk without moving parts",
        Device::Hdd => "a local disk, but a spinning one: slow at random",
        _ => "a local disk",
    };
    if is_of_system { format!("{disk}; it is the system's own") } else { disk.to_owned() }
}

/// True where `other` will do and lies on the same file system.
fn is_same_disk(other: &LocalPlace, place: &LocalPlace, machine: &dyn Machine, mounts: &Mounts) -> bool {
    let device = |path: &Path| {
        let there = path.ancestors().find_map(|above| machine.real(above))?;
        mounts.above(&there).map(|mount| mount.device.clone())
    };
    let will_do = matches!(other.verdict, Verdict::Used | Verdict::Suitable);
    will_do && device(&other.path).is_some_and(|other| device(&place.path) == Some(other))
}

/// The folder for a tier of this user: one of its own, where others have theirs too.
fn own_folder(path: &Path, machine: &dyn Machine) -> PathBuf {
    let user = machine.variable("USER").filter(|user| !user.is_empty());
    match user {
        Some(user) if !path.ends_with(&user) => path.join(format!("forebay-{user}")),
        _ => path.join("forebay"),
    }
}
