//! What is behind a mount: flash, a spinning disk, memory, a network.

use std::path::{Path, PathBuf};

use serde::Serialize;

use forebay_source::Mount;

use super::machine::Machine;

/// What is behind a file system, the best for copies first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// Flash on the PCIe bus.
    Nvme,
    /// Flash behind a disk controller.
    Ssd,
    /// A disk of a virtual machine: the device below is unknown.
    Virtual,
    /// A disk, and nothing says which kind.
    Unknown,
    /// A spinning disk.
    Hdd,
    /// A file system in memory.
    Memory,
    /// Another machine.
    Network,
}

impl Device {
    /// What people call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nvme => "NVMe",
            Self::Ssd => "SSD",
            Self::Virtual => "virtual disk",
            Self::Unknown => "unknown",
            Self::Hdd => "hard disk",
            Self::Memory => "memory",
            Self::Network => "network",
        }
    }
}

/// File systems on disks of this machine.
const ON_DISKS: [&str; 13] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "jfs", "reiserfs", "vfat", "exfat",
    "overlay",
];
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];
/// What the kernel shows as files, and images that nobody writes to.
const PSEUDO: [&str; 27] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "cgroup",
    "cgroup2",
    "mqueue",
    "tracefs",
    "debugfs",
    "securityfs",
    "bpf",
    "autofs",
    "binfmt_misc",
    "configfs",
    "fusectl",
    "hugetlbfs",
    "pstore",
    "nsfs",
    "rpc_pipefs",
    "efivarfs",
    "selinuxfs",
    "squashfs",
    "erofs",
    "iso9660",
    "resctrl",
    "fuse.lxcfs",
    "fuse.gvfsd-fuse",
];

/// True for file systems that hold no files of users.
pub(super) fn is_pseudo(file_system: &str) -> bool {
    PSEUDO.contains(&file_system)
}

/// What is behind `mount`; a file system that is not known counts as another machine.
pub(super) fn of_mount(mount: &Mount, machine: &dyn Machine) -> Device {
    let file_system = mount.file_system.as_str();
    if IN_MEMORY.contains(&file_system) {
        return Device::Memory;
    }
    if is_pseudo(file_system) {
        return Device::Unknown;
    }
    if !ON_DISKS.contains(&file_system) {
        return Device::Network;
    }
    of_device(&Path::new("/sys/dev/block").join(&mount.device), machine, 0)
        // btrfs and ZFS have device numbers of their own, but may tell what they lie on.
        .or_else(|| of_device(&class(&mount.source, machine)?, machine, 0))
        .unwrap_or(Device::Unknown)
}

/// Where sysfs tells of the device whose file is `source`.
fn class(source: &str, machine: &dyn Machine) -> Option<PathBuf> {
    let file = Path::new(source);
    // Any other source is a name, not a path.
    file.strip_prefix("/dev").ok()?;
    let real = machine.real(file).unwrap_or_else(|| file.to_owned());
    Some(Path::new("/sys/class/block").join(real.strip_prefix("/dev").ok()?.file_name()?))
}

/// The device whose folder in sysfs is `folder`, or the slowest of those it is made of.
fn of_device(folder: &Path, machine: &dyn Machine, depth: u32) -> Option<Device> {
    const DEEPEST: u32 = 8;
    let folder = machine.real(folder)?;
    let parts = machine.entries(&folder.join("slaves"));
    if !parts.is_empty() && depth < DEEPEST {
        let below = parts.iter().map(|part| of_device(&folder.join("slaves").join(part), machine, depth + 1));
        return below.map(|device| device.unwrap_or(Device::Unknown)).max();
    }
    // A partition lies in the folder of its disk.
    let is_partition = machine.read(&folder.join("partition")).is_some();
    let disk = if is_partition { folder.parent()?.to_owned() } else { folder };
    let name = disk.file_name()?.to_str()?.to_owned();
    if name.starts_with("nvme") {
        return Some(Device::Nvme);
    }
    // Hypervisors say of their disks that they spin, whatever they are.
    if ["vd", "xvd"].iter().any(|start| name.starts_with(start)) {
        return Some(Device::Virtual);
    }
    match machine.read(&disk.join("queue/rotational"))?.trim() {
        "0" => Some(Device::Ssd),
        "1" => Some(Device::Hdd),
        _ => None,
    }
}
