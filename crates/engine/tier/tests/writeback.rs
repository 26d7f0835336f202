//! A disk that takes what is written and cannot keep it: ext4 in a sparse file on a file system that is full.
//!
//! Needs root and a loop device, and takes some seconds: run by `make deep-tiers`, which says `FOREBAY_LOOP=1`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(clippy::cast_possible_truncation, reason = "sources of the tests are small")]

mod made;

use std::{fs, path::PathBuf, process::Command, sync::Arc, time::Duration};

use forebay_source::{ByteRange, Locator, Origin, SourceExt};
use forebay_tier::{BuiltinPolicy, Tiered};
use made::{name, on_disk, origin, placement, slow};

const BLOCK: u64 = 1 << 20;
const SOURCES: usize = 4;
const LEN: u64 = 12 << 20;

/// Runs a command of the system, and gives what it says.
fn shell(command: &str) -> String {
    let done = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A disk of 256 MiB of which some 20 can be kept, unmounted when dropped.
struct LyingDisk {
    folder: tempfile::TempDir,
    device: String,
}

impl LyingDisk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (below, above) = (folder.path().join("below"), folder.path().join("above"));
        for path in [&below, &above] {
            fs::create_dir(path).unwrap();
        }
        let (below, above) = (below.display(), above.display());
        shell(&format!("mount -t tmpfs -o size=24m none {below}"));
        shell(&format!(
            "truncate -s 256m {below}/image && mkfs.ext4 -q -b 4096 -O ^has_journal {below}/image"
        ));
        let device = shell(&format!("losetup --find --show {below}/image"));
        // A request that the loop device writes in part counts as written: only whole pages fail for sure.
        let queue = device.replace("/dev", "/sys/block");
        shell(&format!("echo 4 > {queue}/queue/max_sectors_kb"));
        shell(&format!("mount {device} {above}"));
        Self { folder, device }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("above")
    }
}

impl Drop for LyingDisk {
    fn drop(&mut self) {
        let (device, folder) = (&self.device, self.folder.path().display());
        let _ = Command::new("sh")
            .args(["-c", &format!("umount {folder}/above; losetup -d {device}; umount {folder}/below")])
            .status();
    }
}

/// Lets memory forget what counts as written.
fn forget_pages() {
    shell("sync; echo 3 > /proc/sys/vm/drop_caches");
}

fn assert_right(tiered: &Tiered, contents: &[Vec<u8>], read_len: u64) {
    for (index, contents) in contents.iter().enumerate() {
        let source = tiered.open(&name(index)).unwrap();
        for start in (0..LEN - read_len).step_by(700_001) {
            let range = ByteRange::at(start, read_len);
            let found = source.fetch_one(range).unwrap();
            let expected = &contents[start as usize..(start + read_len) as usize];
            let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
            let count = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
            assert!(
                wrong.is_none(),
                "source {index}, {read_len} bytes at {start}: {count} are not what the origin has, from {} on: {:?}",
                start + wrong.unwrap_or(0) as u64,
                &found[wrong.unwrap_or(0)..][..16]
            );
        }
    }
}

#[test]
fn what_a_disk_takes_and_cannot_keep_is_never_read_back_as_something_else() {
    if std::env::var_os("FOREBAY_LOOP").is_none() {
        return;
    }
    // Pages are lost while blocks come, before the whole is sealed, and after.
    for wait_first in [false, true] {
        let disk = LyingDisk::new();
        let (far, contents) = origin(SOURCES as u64, LEN as usize, slow(0));
        let tiered =
            on_disk(Arc::clone(&far), &disk.path(), u64::MAX / 2, BuiltinPolicy::FirstFit, placement(BLOCK));
        for index in 0..SOURCES {
            tiered
                .open(&Locator::new(name(index).as_str()))
                .unwrap()
                .fetch_one(ByteRange::at(0, 10))
                .unwrap();
            if !wait_first {
                assert_right(&tiered, &contents, 1000);
                forget_pages();
            }
            assert_right(&tiered, &contents, 1000);
        }
        assert!(tiered.wait(Duration::from_secs(60)));
        for _ in 0..2 {
            forget_pages();
            assert_right(&tiered, &contents, 1000);
            assert_right(&tiered, &contents, 3 << 20);
        }
        let stats = tiered.stats();
        assert!(stats.tiers[0].faults > 0, "the disk was made to fail: {stats:?}");
        drop(tiered);
        // The next process finds what is right, or nothing.
        let tiered = on_disk(far, &disk.path(), u64::MAX / 2, BuiltinPolicy::FirstFit, placement(BLOCK));
        assert_right(&tiered, &contents, 1000);
    }
}
