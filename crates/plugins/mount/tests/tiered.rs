//! A folder mounted through tiers, read as any program reads it. Where FUSE is not permitted, the tests say so and ask for a
//! clear error.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use forebay_config::{Amount, Config, DiskConfig, TierConfig};
use forebay_mount::{TieredMount, TieredMountReport, unmount_tiered};
use tempfile::TempDir;

const LEN: usize = 5 << 20;
/// Guards against hanging, and nothing else.
const PATIENCE: Duration = Duration::from_secs(300);

fn bytes(seed: usize) -> Vec<u8> {
    (0..LEN).map(|index| ((index + seed) * 7 % 251).to_le_bytes()[0]).collect()
}

/// A folder on another device than its tiers, shown elsewhere.
struct Shown {
    mount: TieredMount,
    below: TempDir,
    tier: PathBuf,
    _above: TempDir,
}

impl Shown {
    fn path(&self, name: &str) -> PathBuf {
        self.mount.mountpoint().join(name)
    }

    fn report(&self) -> TieredMountReport {
        self.mount.report()
    }

    fn origin_bytes(&self) -> u64 {
        self.report().tiers.unwrap().origin.bytes
    }

    /// Waits until all that was read is placed.
    fn settle(&self) {
        assert!(self.mount.tiers().unwrap().wait(PATIENCE));
    }

    /// Reads the file until the kernel does it from the copy; false where this kernel or user has no passthrough.
    fn passes_through(&self, name: &str) -> bool {
        let until = Instant::now() + PATIENCE;
        let is_allowed = rustix::process::geteuid().is_root() && kernel_version() >= (6, 9);
        loop {
            let before = self.report().passthrough_opens;
            drop(File::open(self.path(name)).unwrap());
            if self.report().passthrough_opens > before {
                return true;
            }
            if !is_allowed {
                return false;
            }
            assert!(Instant::now() < until, "never passed through: {:?}", self.report());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn below() -> TempDir {
    let below = TempDir::new_in("/dev/shm").unwrap();
    fs::create_dir(below.path().join("deep")).unwrap();
    fs::write(below.path().join("deep/f.bin"), bytes(0)).unwrap();
    fs::write(below.path().join("small"), "a few bytes").unwrap();
    symlink("deep/f.bin", below.path().join("link")).unwrap();
    fs::hard_link(below.path().join("small"), below.path().join("second")).unwrap();
    below
}

/// Files too young are not copied, as a later change could hide behind the same time.
fn grow_old() {
    thread::sleep(Duration::from_millis(2200));
}

enum Kind {
    Memory,
    Disk,
    None,
}

fn shown(kind: Kind) -> Option<Shown> {
    let (below, above) = (below(), TempDir::new().unwrap());
    if fs::metadata("/dev/shm").unwrap().dev() == fs::metadata(above.path()).unwrap().dev() {
        eprintln!("NOT TESTED: there is no second device to copy from");
        return None;
    }
    grow_old();
    let tier = above.path().join("tier");
    let disk = DiskConfig {
        quota: Amount::Bytes(64 << 20),
        free: Some(Amount::Bytes(0)),
        ..DiskConfig::at(tier.clone())
    };
    let tiers = match kind {
        Kind::Memory => vec![TierConfig::Memory { quota: Amount::Bytes(64 << 20) }],
        Kind::Disk => vec![TierConfig::Disk(disk)],
        Kind::None => Vec::new(),
    };
    let place = above.path().join("mnt");
    fs::create_dir(&place).unwrap();
    match TieredMount::new(below.path(), &place, &Config { tiers, ..Config::default() }) {
        Ok(mount) => Some(Shown { mount, below, tier, _above: above }),
        Err(error) => {
            let said = error.to_string();
            eprintln!("NOT TESTED, FUSE cannot be used here, but for the error: {said}");
            assert!(said.contains("fuse3") && said.contains("forebay run"), "{said}");
            None
        }
    }
}

fn refused(done: std::io::Result<()>) {
    assert_eq!(done.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn names_attributes_links_and_bytes_are_those_of_the_origin_and_nothing_can_be_written() {
    let Some(shown) = shown(Kind::None) else { return };
    for name in ["deep", "deep/f.bin", "small", "second", "link"] {
        let (here, there) = (shown.path(name), shown.below.path().join(name));
        let (here, there) = (fs::symlink_metadata(here).unwrap(), fs::symlink_metadata(there).unwrap());
        let facts = |found: &fs::Metadata| {
            (
                found.ino(),
                found.mode(),
                found.size(),
                found.nlink(),
                found.uid(),
                found.mtime_nsec(),
                found.ctime(),
            )
        };
        assert_eq!(facts(&here), facts(&there), "{name}");
    }
    assert_eq!(fs::read_link(shown.path("link")).unwrap(), Path::new("deep/f.bin"));
    assert!(fs::read(shown.path("link")).unwrap() == bytes(0));
    let mut names: Vec<_> =
        fs::read_dir(shown.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["deep", "link", "second", "small"]);
    refused(fs::write(shown.path("new"), "x"));
    refused(File::options().append(true).open(shown.path("small")).map(drop));
    refused(fs::remove_file(shown.path("small")));
    refused(fs::rename(shown.path("small"), shown.path("other")));
    assert_eq!(File::open(shown.path("none")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(shown.report().tiers.is_none());
}

#[test]
fn a_file_is_read_from_the_origin_once_and_then_by_the_kernel_from_the_copy() {
    let Some(shown) = shown(Kind::Disk) else { return };
    assert!(fs::read(shown.path("deep/f.bin")).unwrap() == bytes(0));
    shown.settle();
    let once = shown.origin_bytes();
    assert!(once >= LEN as u64 && once <= LEN as u64 + (1 << 20), "{once}");
    let passes = shown.passes_through("deep/f.bin");
    let reads = shown.report().reads;
    assert!(fs::read(shown.path("deep/f.bin")).unwrap() == bytes(0));
    let mut part = vec![0; 5000];
    File::open(shown.path("deep/f.bin")).unwrap().read_exact_at(&mut part, 1_234_567).unwrap();
    assert!(part == bytes(0)[1_234_567..][..5000]);
    assert_eq!(shown.origin_bytes(), once, "the origin is not asked again");
    assert!(!passes || shown.report().reads == reads, "nor is this process");
    let lines = shown.report().lines(|bytes| format!("{bytes} B"));
    assert!(lines[0].contains("files opened") && lines.last().unwrap().contains("origin"), "{lines:?}");
}

#[test]
fn copies_in_memory_are_served_by_requests() {
    let Some(shown) = shown(Kind::Memory) else { return };
    for _ in 0..3 {
        assert!(fs::read(shown.path("deep/f.bin")).unwrap() == bytes(0));
        shown.settle();
    }
    let report = shown.report();
    assert_eq!((report.passthrough_opens, report.fallbacks), (0, 0));
    assert!(shown.origin_bytes() <= LEN as u64 + (1 << 20));
}

/// Writes in place: the same inode, other bytes.
fn overwrite(path: &Path, with: &[u8]) {
    let mut file = File::options().write(true).truncate(true).open(path).unwrap();
    file.write_all(with).unwrap();
}

#[test]
fn a_changed_file_is_seen_at_the_next_open_and_the_old_one_is_read_on() {
    let Some(shown) = shown(Kind::Disk) else { return };
    let (here, there) = (shown.path("deep/f.bin"), shown.below.path().join("deep/f.bin"));
    let mut old = File::open(&here).unwrap();
    let mut first = vec![0; LEN];
    old.read_exact(&mut first).unwrap();
    shown.settle();
    // In place while it is open: the old number stands for the old version.
    let longer = [bytes(3), bytes(5)].concat();
    overwrite(&there, &longer);
    assert!(fs::read(&here).unwrap() == longer);
    assert_eq!(fs::metadata(&here).unwrap().len(), longer.len() as u64);
    old.read_exact_at(&mut first, 0).unwrap();
    assert!(first == bytes(0) || first == longer[..LEN], "one version or the other");
    drop(old);
    // And once the kernel reads the copy.
    grow_old();
    assert!(fs::read(&here).unwrap() == longer);
    shown.settle();
    shown.passes_through("deep/f.bin");
    let old = File::open(&here).unwrap();
    overwrite(&there, b"short");
    assert_eq!(fs::read(&here).unwrap(), b"short");
    old.read_exact_at(&mut first, 0).unwrap();
    assert!(first == longer[..LEN], "a whole copy is read on");
    drop(old);
    // Another file in its place.
    fs::write(shown.below.path().join("new"), "replaced").unwrap();
    fs::rename(shown.below.path().join("new"), &there).unwrap();
    assert_eq!(fs::read(&here).unwrap(), b"replaced");
    fs::remove_file(&there).unwrap();
    assert_eq!(File::open(&here).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_is_replaced_while_it_is_open_is_read_to_its_end_as_it_was() {
    for kind in [Kind::None, Kind::Memory, Kind::Disk] {
        let Some(shown) = shown(kind) else { return };
        let (here, there) = (shown.path("deep/f.bin"), shown.below.path().join("deep/f.bin"));
        let old = File::open(&here).unwrap();
        let mut part = vec![0; 100];
        old.read_exact_at(&mut part, 0).unwrap();
        fs::write(shown.below.path().join("new"), bytes(3)).unwrap();
        fs::rename(shown.below.path().join("new"), &there).unwrap();
        assert!(fs::read(&here).unwrap() == bytes(3), "the next open is of the new one");
        let mut whole = vec![0; LEN];
        old.read_exact_at(&mut whole, 0).unwrap();
        assert!(whole == bytes(0), "and the old one is no mix of both");
        assert_eq!(old.metadata().unwrap().len(), LEN as u64);
        fs::remove_file(&there).unwrap();
        let mut last = vec![0; 100];
        old.read_exact_at(&mut last, LEN as u64 - 100).unwrap();
        assert!(last == bytes(0)[LEN - 100..]);
    }
}

#[test]
fn links_are_followed_by_the_kernel_on_the_mount_and_never_by_the_origins_side() {
    let Some(shown) = shown(Kind::None) else { return };
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "outside").unwrap();
    symlink(outside.path(), shown.below.path().join("absolute")).unwrap();
    symlink("../..", shown.below.path().join("deep/upwards")).unwrap();
    // An absolute link leads where it says, past the mount; one that climbs out leads above the mount point.
    assert_eq!(fs::read(shown.path("absolute/secret")).unwrap(), b"outside");
    let above = fs::canonicalize(shown.path("deep/upwards")).unwrap();
    assert_eq!(Some(above.as_path()), shown.mount.mountpoint().parent());
    // A folder that a program has open becomes such a link.
    let deep = File::open(shown.path("deep")).unwrap();
    fs::rename(shown.below.path().join("deep"), shown.below.path().join("moved")).unwrap();
    symlink(outside.path(), shown.below.path().join("deep")).unwrap();
    let flags = rustix::fs::OFlags::RDONLY;
    let opened = rustix::fs::openat(&deep, "secret", flags, rustix::fs::Mode::empty());
    assert!(opened.is_err(), "the folder that is open has no such file");
    // The folder is known by its new name once that was looked up.
    assert!(fs::read(shown.path("moved/f.bin")).unwrap() == bytes(0));
    assert!(rustix::fs::openat(&deep, "f.bin", flags, rustix::fs::Mode::empty()).is_ok());
}

#[test]
fn a_name_that_goes_leaves_the_files_other_names_readable() {
    let Some(shown) = shown(Kind::None) else { return };
    assert_eq!(fs::read(shown.path("second")).unwrap(), b"a few bytes");
    assert_eq!(fs::read(shown.path("small")).unwrap(), b"a few bytes");
    fs::remove_file(shown.below.path().join("small")).unwrap();
    assert_eq!(fs::read(shown.path("second")).unwrap(), b"a few bytes");
    assert_eq!(fs::metadata(shown.path("second")).unwrap().nlink(), 1);
}

#[test]
fn a_tier_whose_folder_is_removed_costs_no_bytes() {
    let Some(shown) = shown(Kind::Disk) else { return };
    let half = File::open(shown.path("deep/f.bin")).unwrap();
    let mut part = vec![0; 100];
    half.read_exact_at(&mut part, 0).unwrap();
    fs::remove_dir_all(&shown.tier).unwrap();
    let mut whole = vec![0; LEN];
    half.read_exact_at(&mut whole, 0).unwrap();
    assert!(whole == bytes(0));
    assert!(fs::read(shown.path("deep/f.bin")).unwrap() == bytes(0));
    assert_eq!(fs::read(shown.path("small")).unwrap(), b"a few bytes");
}

#[test]
fn many_threads_read_and_reopen_at_the_same_time() {
    let Some(shown) = shown(Kind::Disk) else { return };
    let expected = bytes(0);
    thread::scope(|scope| {
        for seed in 0..8usize {
            let (shown, expected) = (&shown, &expected);
            scope.spawn(move || {
                let mut part = vec![0; 10_000];
                for number in 0..60usize {
                    let file = File::open(shown.path("deep/f.bin")).unwrap();
                    let at = (seed * 7919 + number * 104_729) % (LEN - part.len());
                    file.read_exact_at(&mut part, at as u64).unwrap();
                    assert!(part == expected[at..][..part.len()]);
                }
            });
        }
    });
    assert_eq!(shown.report().fallbacks, 0);
}

#[test]
fn places_that_cannot_be_mounted_on_are_refused_with_a_remedy() {
    let (below, above) = (below(), TempDir::new().unwrap());
    let said = |origin: &Path, place: &Path, config: &Config| {
        TieredMount::new(origin, place, config).map(drop).unwrap_err().to_string()
    };
    let none = Config::default();
    fs::write(above.path().join("file"), "x").unwrap();
    assert!(said(below.path(), above.path(), &none).contains("not empty"));
    assert!(said(below.path(), &above.path().join("none"), &none).contains("mkdir"));
    assert!(said(below.path(), &below.path().join("deep"), &none).contains("lie in each other"));
    assert!(said(&above.path().join("file"), &below.path().join("deep"), &none).contains("only a folder"));
    let place = above.path().join("empty");
    fs::create_dir(&place).unwrap();
    let tiers = vec![TierConfig::Disk(DiskConfig::at(place.join("tier")))];
    assert!(said(below.path(), &place, &Config { tiers, ..none }).contains("below the mount point"));
    assert!(unmount_tiered(&place).unwrap_err().to_string().contains("no mount of `forebay mount`"));
}

#[test]
fn a_mount_ends_by_the_command_unless_it_is_in_use() {
    let Some(shown) = shown(Kind::None) else { return };
    let place = shown.mount.mountpoint().to_owned();
    assert!(TieredMount::new(shown.below.path(), &place, &Config::default()).is_err());
    if rustix::process::geteuid().is_root() {
        let open = File::open(place.join("small")).unwrap();
        assert!(unmount_tiered(&place).unwrap_err().to_string().contains("files open"));
        drop(open);
    }
    let until = Instant::now() + PATIENCE;
    // The kernel tells of a closed file a moment later.
    while let Err(error) = unmount_tiered(&place) {
        assert!(Instant::now() < until, "{error}");
        thread::sleep(Duration::from_millis(20));
    }
    while !shown.mount.has_ended() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}
