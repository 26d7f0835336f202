//! A slow mount, read as any program reads it. Where FUSE is not permitted, the tests say so and ask for a clear error.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    num::NonZeroU64,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use forebay_mount::{COUNTERS_FILE, Pace, RESET_FILE, SlowMount};
use tempfile::TempDir;

const LEN: usize = 3 << 20;

fn bytes() -> Vec<u8> {
    (0..LEN).map(|index| (index * 7 % 251).to_le_bytes()[0]).collect()
}

/// A folder with a file in a folder, shown elsewhere.
struct Shown {
    mount: SlowMount,
    below: TempDir,
    _above: TempDir,
}

impl Shown {
    fn path(&self, name: &str) -> PathBuf {
        self.mount.mountpoint().join(name)
    }

    fn open(&self) -> File {
        File::open(self.path("deep/f.bin")).unwrap()
    }
}

/// Mounts; where that is not permitted, checks that the error says what helps, and gives nothing.
fn shown(pace: Pace) -> Option<Shown> {
    let (below, above) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::create_dir(below.path().join("deep")).unwrap();
    fs::write(below.path().join("deep/f.bin"), bytes()).unwrap();
    match SlowMount::new(below.path(), above.path(), pace) {
        Ok(mount) => Some(Shown { mount, below, _above: above }),
        Err(error) => {
            let said = error.to_string();
            eprintln!("NOT TESTED, FUSE cannot be used here, but for the error: {said}");
            assert!(said.contains("fuse3") && said.contains("FaultOrigin"), "{said}");
            None
        }
    }
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_bytes_are_those_below() {
    let Some(shown) = shown(Pace::default()) else { return };
    assert!(fs::read(shown.path("deep/f.bin")).unwrap() == bytes());
    let mut part = vec![0; 5000];
    shown.open().read_exact_at(&mut part, 1_234_567).unwrap();
    assert!(part == bytes()[1_234_567..][..5000]);
}

#[test]
fn folders_list_what_is_below_and_hide_the_counters() {
    let Some(shown) = shown(Pace::default()) else { return };
    fs::write(shown.below.path().join("later.txt"), "x").unwrap();
    assert_eq!(names(&shown.path("")), ["deep", "later.txt"]);
    assert_eq!(names(&shown.path("deep")), ["f.bin"]);
    let many: Vec<String> = (0..1000).map(|number| format!("a_name_of_some_length_{number:04}")).collect();
    many.iter().for_each(|name| fs::write(shown.below.path().join("deep").join(name), "").unwrap());
    assert_eq!(names(&shown.path("deep"))[..1000], many);
    assert!(shown.path(COUNTERS_FILE).exists());
}

#[test]
fn sizes_times_and_links_are_those_below() {
    let Some(shown) = shown(Pace::default()) else { return };
    std::os::unix::fs::symlink("deep/f.bin", shown.below.path().join("link")).unwrap();
    let (here, there) = (shown.path("deep/f.bin"), shown.below.path().join("deep/f.bin"));
    let (here, there) = (fs::metadata(here).unwrap(), fs::metadata(there).unwrap());
    assert_eq!(here.len(), LEN as u64);
    assert_eq!(here.modified().unwrap(), there.modified().unwrap());
    assert_eq!(here.permissions(), there.permissions());
    assert_eq!(fs::read_link(shown.path("link")).unwrap(), Path::new("deep/f.bin"));
    assert!(fs::read(shown.path("link")).unwrap() == bytes());
}

#[test]
fn a_file_that_went_away_below_is_not_found() {
    let Some(shown) = shown(Pace::default()) else { return };
    assert!(shown.path("deep/f.bin").exists());
    fs::remove_file(shown.below.path().join("deep/f.bin")).unwrap();
    assert_eq!(File::open(shown.path("deep/f.bin")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(File::open(shown.path("never")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn nothing_can_be_written() {
    let Some(shown) = shown(Pace::default()) else { return };
    let refused =
        |done: std::io::Result<()>| assert_eq!(done.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    refused(fs::write(shown.path("new"), "x"));
    refused(File::options().append(true).open(shown.path("deep/f.bin")).map(|_| ()));
    refused(fs::remove_file(shown.path("deep/f.bin")));
    refused(fs::create_dir(shown.path("folder")));
    assert!(fs::read(shown.below.path().join("deep/f.bin")).unwrap() == bytes());
}

#[test]
fn each_read_and_open_is_counted_once_though_the_same_bytes_come_again() {
    let Some(shown) = shown(Pace::default()) else { return };
    let file = shown.open();
    let mut part = vec![0; 65_536];
    for number in 0..50 {
        file.read_exact_at(&mut part, number % 5 * 100_000).unwrap();
    }
    let counters = shown.mount.counters();
    assert_eq!((counters.opens, counters.reads, counters.requests), (1, 50, 50));
    assert_eq!(counters.bytes, 50 * 65_536);
}

#[test]
fn a_read_of_a_mebibyte_is_one_read_wherever_its_memory_begins() {
    let Some(shown) = shown(Pace::default()) else { return };
    let file = shown.open();
    let mut memory = vec![0; (1 << 20) + 8192];
    let page = memory.as_ptr().align_offset(4096);
    for skew in [0, 16, 4095] {
        let before = shown.mount.counters();
        let into = &mut memory[page + skew..][..1 << 20];
        file.read_exact_at(into, 12_345).unwrap();
        assert!(*into == bytes()[12_345..][..1 << 20]);
        let after = shown.mount.counters();
        assert_eq!(after.reads - before.reads, 1, "memory begins {skew} bytes into a page");
        assert_eq!(after.bytes - before.bytes, 1 << 20);
    }
}

#[test]
fn the_counters_are_a_file_of_json_and_another_sets_them_back() {
    let Some(shown) = shown(Pace::default()) else { return };
    let mut text = String::new();
    shown.open().read_to_string(&mut text).unwrap_err();
    let counted = shown.mount.counters();
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(shown.path(name)).unwrap()).unwrap()
    };
    for name in [COUNTERS_FILE, RESET_FILE] {
        let counters = read(name);
        assert_eq!(
            (counters["opens"].as_u64(), counters["reads"].as_u64()),
            (Some(1), Some(counted.reads)),
            "{counters}"
        );
        assert_eq!(counters["bytes"].as_u64(), Some(counted.bytes));
        assert!(counters["seconds"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(read(COUNTERS_FILE)["reads"], 0);
    assert_eq!(shown.mount.counters().reads, counted.reads, "the process that made the mount sees all");
}

#[test]
fn reads_and_opens_wait() {
    let pace = Pace { latency: ms(5), open_latency: ms(30), ..Pace::default() };
    let Some(shown) = shown(pace) else { return };
    let began = Instant::now();
    let file = shown.open();
    assert!(began.elapsed() >= ms(30), "{:?}", began.elapsed());
    let began = Instant::now();
    for number in 0..20 {
        file.read_exact_at(&mut [0; 100], number * 100).unwrap();
    }
    assert!(began.elapsed() >= ms(100), "{:?}", began.elapsed());
}

#[test]
fn reads_at_the_same_time_wait_at_the_same_time() {
    let Some(shown) = shown(Pace { latency: ms(50), ..Pace::default() }) else { return };
    let file = shown.open();
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..8 {
            let file = &file;
            scope.spawn(move || {
                (0..4)
                    .for_each(|turn| file.read_exact_at(&mut [0; 100], number * 1000 + turn * 100).unwrap());
            });
        }
    });
    // One after another they would take 1600 ms.
    let took = began.elapsed();
    assert!(took >= ms(200) && took < ms(800), "{took:?}");
}

#[test]
fn all_readers_share_the_bandwidth() {
    let pace = Pace { bytes_per_second: NonZeroU64::new(10 << 20), ..Pace::default() };
    let Some(shown) = shown(pace) else { return };
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..4 {
            let shown = &shown;
            scope.spawn(move || shown.open().read_exact_at(&mut [0; 500 << 10], number << 19).unwrap());
        }
    });
    // 2000 KiB at 10 MiB/s.
    assert!(began.elapsed() >= ms(195), "{:?}", began.elapsed());
}

#[test]
fn a_mount_ends_when_it_is_dropped_though_a_file_is_open() {
    let Some(shown) = shown(Pace::default()) else { return };
    let file = shown.open();
    let place = shown.path("deep");
    let Shown { mount, below: _below, _above } = shown;
    drop(mount);
    assert!(!place.exists());
    drop(file);
}

#[test]
fn a_folder_cannot_be_shown_within_itself() {
    let below = TempDir::new().unwrap();
    let inner = below.path().join("inner");
    fs::create_dir(&inner).unwrap();
    for (folder, at) in [(below.path(), inner.as_path()), (&inner, below.path()), (&inner, &inner)] {
        let said = SlowMount::new(folder, at, Pace::default()).unwrap_err().to_string();
        assert!(said.contains("lie in each other; mount it elsewhere"), "{said}");
    }
}

#[test]
fn a_place_that_is_missing_or_taken_is_named() {
    let below = TempDir::new().unwrap();
    let missing = below.path().join("missing");
    let said = SlowMount::new(below.path(), &missing, Pace::default()).unwrap_err().to_string();
    assert!(said.contains("missing") && said.contains("mkdir"), "{said}");
    let Some(shown) = shown(Pace::default()) else { return };
    let said = SlowMount::new(below.path(), shown.path(""), Pace::default()).unwrap_err().to_string();
    assert!(said.contains("another `forebay simulate` stands here"), "{said}");
}
