//! Candidates of made-up machines, and whether they are suitable.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use forebay_config::{
    DiskConfig, TierConfig,
    candidates::{Candidate, Capacity, Device, Machine, Suitability, best, locate, survey},
};
use tempfile::TempDir;

const GIB: u64 = 1 << 30;

/// A machine below a folder.
struct MadeUp {
    root: TempDir,
    variables: Vec<(&'static str, &'static str)>,
    /// By path: what is free of 1000 GiB; others have 500 GiB.
    free: Vec<(&'static str, u64)>,
    read_only: Vec<&'static str>,
}

impl MadeUp {
    fn new(mounts: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let made = Self { root, variables: vec![("USER", "ada")], free: Vec::new(), read_only: Vec::new() };
        made.file("/proc/self/mountinfo", &mounts.join("\n"));
        for line in mounts {
            made.folder(line.split(' ').nth(4).unwrap());
        }
        made
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(path.as_ref().strip_prefix("/").unwrap())
    }

    fn folder(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
    }

    fn file(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// A disk of sysfs with one partition, `number` 8:1 for example.
    fn disk(&self, name: &str, number: &str, rotational: &str) {
        let disk = format!("/sys/devices/bus/{name}");
        self.file(&format!("{disk}/queue/rotational"), rotational);
        self.file(&format!("{disk}/{name}1/partition"), "1");
        self.folder("/sys/dev/block");
        symlink(format!("../../devices/bus/{name}/{name}1"), self.at(format!("/sys/dev/block/{number}")))
            .unwrap();
        self.folder("/sys/class/block");
        symlink(format!("../../devices/bus/{name}/{name}1"), self.at(format!("/sys/class/block/{name}1")))
            .unwrap();
    }

    fn survey(&self, tiers: &[TierConfig]) -> Vec<Candidate> {
        survey(self, tiers)
    }
}

impl Machine for MadeUp {
    fn read(&self, path: &Path) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        let root = self.root.path().canonicalize().unwrap();
        let real = self.at(path).canonicalize().ok()?;
        Some(Path::new("/").join(real.strip_prefix(root).ok()?))
    }

    fn entries(&self, path: &Path) -> Vec<String> {
        let listed = fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        listed.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.at(path).is_dir()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn capacity(&self, path: &Path) -> Option<Capacity> {
        let free = self.free.iter().find(|(known, _)| path.starts_with(known));
        Some(Capacity { disk_bytes: 1000 * GIB, free_bytes: free.map_or(500 * GIB, |(_, free)| *free) })
    }

    fn may_write(&self, path: &Path) -> bool {
        !self.read_only.iter().any(|known| path.starts_with(known))
    }
}

fn place<'a>(places: &'a [Candidate], path: &str) -> &'a Candidate {
    let found = places.iter().find(|place| place.path == Path::new(path));
    assert!(found.is_some(), "{path}: {places:#?}");
    found.unwrap()
}

const ROOT: &str = "1 0 8:1 / / rw - ext4 /dev/sda1 rw";
const NVME: &str = "2 1 259:1 / /nvme rw - xfs /dev/nvme0n11 rw";
const LUSTRE: &str = "3 1 0:50 / /lustre rw - lustre mgs@tcp:/fs rw";
const SHM: &str = "4 1 0:51 / /dev/shm rw - tmpfs tmpfs rw";

fn node() -> MadeUp {
    let mut node = MadeUp::new(&[ROOT, NVME, LUSTRE, SHM, "5 1 0:4 / /proc rw - proc proc rw"]);
    node.disk("sda", "8:1", "1\n");
    node.disk("nvme0n1", "259:1", "0\n");
    node.folder("/tmp/job");
    node.folder("/nvme/ada");
    node.variables.push(("SLURM_TMPDIR", "/tmp/job"));
    node
}

#[test]
fn each_kind_of_place_is_told_and_judged() {
    let places = node().survey(&[]);
    let nvme = place(&places, "/nvme/ada");
    assert_eq!((nvme.device, nvme.verdict), (Device::Nvme, Suitability::Suitable));
    assert_eq!((nvme.free_bytes, nvme.quota_bytes), (500 * GIB, (500 * GIB) / 100 * 80));
    assert_eq!(
        (nvme.named_by.as_str(), nvme.tier_path.as_path()),
        ("/nvme*", Path::new("/nvme/ada/forebay"))
    );
    let job = place(&places, "/tmp/job");
    assert_eq!(
        (job.device, job.verdict, job.named_by.as_str()),
        (Device::Hdd, Suitability::Suitable, "SLURM_TMPDIR")
    );
    assert!(job.why.contains("the system's own") && job.why.contains("spinning"), "{}", job.why);
    assert_eq!(job.tier_path, Path::new("/tmp/job/forebay-ada"));
    assert_eq!(best(&places), Some(nvme), "flash before a spinning disk, whichever was named first");
    for (path, device, why) in [
        ("/lustre", Device::Network, "lustre is behind a network"),
        ("/dev/shm", Device::Memory, "a memory tier does the same"),
        ("/tmp", Device::Hdd, "the same disk as /tmp/job"),
        ("/nvme", Device::Nvme, "the same disk as /nvme/ada"),
    ] {
        let found = place(&places, path);
        assert_eq!(
            (found.device, found.verdict, found.quota_bytes),
            (device, Suitability::Unfit, 0),
            "{path}"
        );
        assert!(found.why.contains(why), "{path}: {}", found.why);
    }
    assert!(!places.iter().any(|place| place.path.starts_with("/proc") || place.path == Path::new("/")));
}

#[test]
fn a_place_that_is_full_or_not_ours_or_missing_is_passed_over() {
    let mut node = node();
    node.free = vec![("/nvme", 4 * GIB)];
    node.read_only = vec!["/tmp"];
    node.variables.push(("TMPDIR", "/nowhere"));
    let places = node.survey(&[]);
    assert_eq!(place(&places, "/nvme/ada").why, "too full: 4GiB are free, and 4GiB have to stay so");
    assert_eq!(place(&places, "/tmp/job").why, "not writable by this user");
    assert_eq!(place(&places, "/nowhere").why, "there is no such folder");
    assert_eq!(best(&places), None);
}

#[test]
fn a_configured_tier_is_used_or_refused_with_the_reason() {
    let node = node();
    let tiers = ["/nvme/ada/new/deep", "/lustre/copies"].map(|path| TierConfig::Disk(DiskConfig::at(path)));
    let places = node.survey(&tiers);
    let used = place(&places, "/nvme/ada/new/deep");
    assert_eq!(
        (used.verdict, used.device, used.named_by.as_str()),
        (Suitability::Used, Device::Nvme, "tier 1")
    );
    let refused = place(&places, "/lustre/copies");
    assert_eq!((refused.verdict, refused.quota_bytes), (Suitability::Refused, 0));
    assert!(refused.why.contains("behind a network"), "{}", refused.why);
    let wanted = TierConfig::Disk(DiskConfig { network: true, ..DiskConfig::at("/lustre/copies") });
    let in_memory = TierConfig::Disk(DiskConfig::at("/dev/shm/copies"));
    for tier in [wanted, in_memory] {
        let TierConfig::Disk(DiskConfig { path, .. }) = &tier else { panic!("no disk") };
        let places = node.survey(std::slice::from_ref(&tier));
        let used = place(&places, path.to_str().expect("text"));
        assert_eq!(used.verdict, Suitability::Used, "{}: {}", path.display(), used.why);
    }
    assert_eq!(place(&places, "/nvme/ada").verdict, Suitability::Unfit, "the disk is used already");
}

#[test]
fn a_mapped_device_is_as_slow_as_its_slowest_part() {
    let node = MadeUp::new(&[ROOT, "2 1 253:0 / /local rw - ext4 /dev/mapper/vg-local rw"]);
    node.disk("sdb", "8:17", "0");
    node.disk("nvme0n1", "259:1", "0");
    node.folder("/sys/devices/virtual/block/dm-0/slaves");
    symlink("../../devices/virtual/block/dm-0", node.at("/sys/dev/block/253:0")).unwrap();
    let slave = |name: &str| {
        let link = node.at(format!("/sys/devices/virtual/block/dm-0/slaves/{name}1"));
        symlink(format!("../../../../bus/{name}/{name}1"), link).unwrap();
    };
    slave("nvme0n1");
    assert_eq!(place(&node.survey(&[]), "/local").device, Device::Nvme);
    slave("sdb");
    assert_eq!(place(&node.survey(&[]), "/local").device, Device::Ssd);
}

#[test]
fn a_file_system_with_numbers_of_its_own_is_found_by_its_source() {
    let node = MadeUp::new(&["1 0 0:30 / /local rw - btrfs /dev/nvme0n11 rw"]);
    node.disk("nvme0n1", "259:1", "0");
    assert_eq!(locate(&node, Path::new("/local")).unwrap().device, Device::Nvme);
}

#[test]
fn without_sysfs_a_disk_is_unknown_and_a_containers_layer_is_no_place() {
    let node = MadeUp::new(&[
        "1 0 0:60 / / rw - overlay overlay rw",
        "2 1 8:1 / /local rw - ext4 /dev/sda1 rw",
        "3 1 254:0 / /mnt/nvme1 ro - ext4 /dev/vda rw",
    ]);
    node.folder("/tmp");
    let places = node.survey(&[]);
    assert_eq!(place(&places, "/local").device, Device::Unknown);
    assert_eq!(place(&places, "/local").verdict, Suitability::Suitable);
    assert!(place(&places, "/tmp").why.contains("container's own layer"));
    assert_eq!(place(&places, "/mnt/nvme1").why, "not writable by this user");
}

#[test]
fn a_disk_of_a_virtual_machine_is_not_believed_to_spin() {
    let node = MadeUp::new(&["1 0 254:1 / / rw - ext4 /dev/vda1 rw"]);
    node.disk("vda", "254:1", "1");
    let found = locate(&node, Path::new("/")).unwrap();
    assert_eq!((found.device, found.file_system.as_str()), (Device::Virtual, "ext4"));
    assert_eq!(locate(&node, Path::new("/missing")), None);
}
