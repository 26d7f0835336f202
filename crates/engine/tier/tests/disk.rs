//! A disk tier that several processes share: here each has a `DiskTier` of its own on one folder.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what the tests share is part of the tests")]

mod made;

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::{ByteRange, Locator, Origin, SourceExt, SourceId, Version};
use forebay_tier::{
    Admission, BuiltinPolicy, Claim, Copies, DiskTier, Ranking, SourceKey, Tier, UpcomingRead, UpcomingReads,
};
use made::{disk_options, name, on_disk, origin, pattern, placement, read_piece, slow};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn open(folder: &Path, block_len: u64) -> DiskTier {
    DiskTier::open(disk_options(folder, 1 << 30, block_len), Ranking::new(BuiltinPolicy::Lru)).unwrap()
}

fn id(name: &str, len: u64) -> SourceId {
    SourceId { locator: Locator::new(name), len, version: Version::named("v") }
}

fn put(copies: &Arc<dyn Copies>, block: u64, bytes: &[u8]) {
    let Claim::Held(claimed) = Arc::clone(copies).claim(block, bytes.len() as u64, true) else {
        panic!("no room")
    };
    assert_eq!(claimed.put(&Bytes::copy_from_slice(bytes)), Admission::Kept);
}

fn fill(copies: &Arc<dyn Copies>, bytes: &[u8], block_len: usize) {
    for (block, bytes) in (0..).zip(bytes.chunks(block_len)) {
        put(copies, block, bytes);
    }
}

fn wait(tier: &DiskTier) {
    assert!(tier.wait(Instant::now() + Duration::from_secs(60)));
}

#[test]
fn a_mirror_that_another_process_removed_is_no_fault_and_the_next_one_keeps_its_seal() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 2000));
    let (reader, other) = (open(folder.path(), 1000), open(folder.path(), 1000));
    let far = id("far", 2000);
    let read = reader.copies(&far).unwrap();
    fill(&read, &bytes, 1000);
    wait(&reader);
    let whole = read.whole().expect("all is there");
    assert_eq!(other.clear(|_| true), 2000);
    let again = other.copies(&far).unwrap();
    fill(&again, &bytes, 1000);
    wait(&other);
    assert!(again.whole().is_some());
    assert!(
        whole.source().fetch_one(ByteRange { start: 0, end: 2000 }).is_err(),
        "its file has no name any more"
    );
    whole.distrust();
    assert_eq!((reader.usage().faults, other.usage().faults), (0, 0));
    assert!(
        open(folder.path(), 1000).copies(&far).unwrap().whole().is_some(),
        "the seal of the new one holds"
    );
}

#[test]
fn the_file_of_a_mirror_says_which_source_it_is_a_copy_of() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 2000));
    let (tier, far) = (open(folder.path(), 1000), id("far", 2000));
    let copies = tier.copies(&far).unwrap();
    fill(&copies, &bytes, 1000);
    wait(&tier);
    let descriptor = copies.whole().and_then(|whole| whole.descriptor()).expect("all is there");
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&descriptor));
    let path = fs::read_link(link).unwrap();
    assert_eq!(DiskTier::source_of(&path), Some(far));
    assert_eq!(DiskTier::source_of(&path.with_extension("map")), None);
    assert_eq!(DiskTier::source_of(Path::new("/etc/passwd")), None);
    tier.clear(|_| true);
    assert_eq!(DiskTier::source_of(&path), None);
}

#[test]
fn two_lengths_of_blocks_on_one_folder_leave_each_others_mirrors_alone() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 6000));
    let far = id("far", 6000);
    for _ in 0..2 {
        for block_len in [1000, 3000] {
            let tier = open(folder.path(), block_len);
            let copies = tier.copies(&far).unwrap();
            let count = 6000 / block_len;
            if !copies.has(0) {
                assert_eq!(
                    tier.mirrors().iter().filter(|mirror| mirror.present == 6000).count() as u64,
                    block_len / 3000
                );
                fill(&copies, &bytes, usize::try_from(block_len).unwrap());
            }
            assert!((0..count).all(|block| copies.get(block).is_some()));
            assert_eq!(tier.usage().faults, 0);
        }
    }
    let tier = open(folder.path(), 1000);
    assert_eq!((tier.mirrors().len(), tier.usage().used), (2, 12_000));
    assert_eq!(tier.clear(|_| true), 12_000);
}

const LIMITED: &str = "FOREBAY_LIMITED_CHILD";

/// Reads a tier with too few descriptors. Run by the test below in a process of its own.
#[test]
fn limited_child() {
    let Ok(folder) = std::env::var(LIMITED) else { return };
    let tier = open(Path::new(&folder), 1000);
    let before = getrlimit(Resource::Nofile);
    for left in 0..8 {
        // A fresh tier for each: what is open already needs no descriptor.
        let tier = open(Path::new(&folder), 1000);
        let copies: Vec<_> =
            (0..3).map(|number| tier.copies(&id(&format!("far{number}"), 2000)).unwrap()).collect();
        let lowest_free =
            u64::try_from(fs::File::open("/").map(|file| std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap())
                .unwrap();
        setrlimit(Resource::Nofile, Rlimit { current: Some(lowest_free + left), ..before }).unwrap();
        for copies in &copies {
            let mut read = [0; 10];
            let _may_miss = (read_piece(&**copies, 0, 0, &mut read), copies.has(0), copies.whole().is_some());
            let _may_be_full = Arc::clone(copies).claim(1, 1000, true);
        }
        setrlimit(Resource::Nofile, before).unwrap();
        assert_eq!(tier.mirrors().len(), 3, "with {left} descriptors");
        drop(copies);
    }
    assert_eq!(tier.mirrors().iter().map(|mirror| mirror.present).sum::<u64>(), 3000);
    for number in 0..3 {
        let copies = tier.copies(&id(&format!("far{number}"), 2000)).unwrap();
        assert_eq!(copies.get(0).unwrap()[..], pattern(number, 1000)[..]);
    }
}

#[test]
fn want_of_descriptors_is_a_miss_and_removes_no_mirror() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path(), 1000);
    for number in 0..3 {
        put(&tier.copies(&id(&format!("far{number}"), 2000)).unwrap(), 0, &pattern(number, 1000));
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["limited_child", "--exact", "--nocapture"])
        .env(LIMITED, folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

/// Bytes that this thread has asked the system for.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let counters = fs::read_to_string("/proc/thread-self/io").unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn however_many_mirrors_are_partly_filled_a_small_hit_reads_little_more_than_it_asks_for() {
    // More than the budget of descriptors has room for.
    const MIRRORS: u64 = 700;
    let (folder, block) = (tempfile::tempdir().unwrap(), pattern(1, 1 << 14));
    let tier = open(folder.path(), 1 << 14);
    let all: Vec<_> =
        (0..MIRRORS).map(|number| tier.copies(&id(&format!("far{number}"), 1 << 20)).unwrap()).collect();
    for copies in &all {
        put(copies, 3, &block);
    }
    let read_all = || {
        for (number, copies) in all.iter().enumerate() {
            let mut read = [0; 100];
            assert!(read_piece(&**copies, 3, 50, &mut read) && read[..] == block[50..150]);
            // What is not on the disk yet is compared when it was closed: the disk is not outrun here.
            if number % 16 == 0 {
                wait(&tier);
            }
        }
    };
    // The first reads may compare a block each.
    (0..3).for_each(|_| read_all());
    let before = bytes_read();
    read_all();
    let per_hit = (bytes_read() - before) / MIRRORS;
    assert!(per_hit < 4096, "{per_hit} bytes for a hit of 100");
}

#[test]
fn a_seal_that_another_process_wrote_is_seen_without_comparing_anything() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 5000));
    let (one, other) = (open(folder.path(), 1000), open(folder.path(), 1000));
    let far = id("far", 5000);
    let (filled, seen) = (one.copies(&far).unwrap(), other.copies(&far).unwrap());
    put(&filled, 0, &bytes[..1000]);
    assert!(seen.whole().is_none() && seen.has(0));
    for block in 1..5u16 {
        let start = usize::from(block) * 1000;
        put(&filled, block.into(), &bytes[start..start + 1000]);
    }
    wait(&one);
    let until = Instant::now() + Duration::from_secs(30);
    while seen.whole().is_none() {
        assert!(Instant::now() < until, "nobody looked at the seal again");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_relative_name_is_not_taken_for_a_file_of_the_working_directory() {
    // One there is where tests run, and another device than that of a temporary folder need not be.
    let folder = tempfile::tempdir_in(".").unwrap();
    assert!(Path::new("Cargo.toml").exists());
    assert!(open(folder.path(), 1000).copies(&id("Cargo.toml", 2000)).is_some());
}

#[derive(Debug)]
struct Nothing;

impl UpcomingReads for Nothing {
    fn next(&mut self) -> Option<UpcomingRead> {
        None
    }
}

#[test]
fn who_places_the_last_block_makes_the_mirror_whole_though_it_looks_ahead_and_others_placed_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (far, contents) = origin(1, 5000, slow(0));
    let source = far.open(&name(0)).unwrap().id().clone();
    let other = open(folder.path(), 1000);
    let copies = other.copies(&source).unwrap();
    for block in 0..4u16 {
        let start = usize::from(block) * 1000;
        put(&copies, block.into(), &contents[0][start..start + 1000]);
    }
    let tiered = on_disk(far, folder.path(), 1 << 20, BuiltinPolicy::FirstFit, placement(1000));
    tiered.look_ahead(Some(Box::new(Nothing)));
    let read = tiered.open(&name(0)).unwrap();
    assert_eq!(read.fetch_one(ByteRange { start: 4000, end: 5000 }).unwrap()[..], contents[0][4000..]);
    assert!(tiered.wait(Duration::from_secs(60)));
    assert_eq!(read.fetch_one(ByteRange { start: 0, end: 10 }).unwrap()[..], contents[0][..10]);
    assert!(tiered.has_whole(SourceKey::of(&source)));
}

#[test]
fn a_counter_that_was_lost_is_counted_anew() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), pattern(1, 2000));
    for lost in [Some(&[0; 40][..]), Some(&[]), None] {
        let tier = open(folder.path(), 1000);
        let copies = tier.copies(&id("far", 2000)).unwrap();
        if !copies.has(0) {
            fill(&copies, &bytes, 1000);
        }
        drop(copies);
        let usage = tier.folder().join("usage");
        drop(tier);
        match lost {
            Some(lost) => fs::write(&usage, lost).unwrap(),
            None => fs::remove_file(&usage).unwrap(),
        }
        assert_eq!(open(folder.path(), 1000).usage().used, 2000);
    }
}

#[test]
fn a_tier_that_takes_long_to_count_after_a_kill_keeps_nobody_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path(), 1000);
    put(&tier.copies(&id("far", 2000)).unwrap(), 0, &pattern(1, 1000));
    let own = tier.folder().to_owned();
    drop(tier);
    // A process was killed, and one of the maps takes for ever to read.
    let usage = own.join("usage");
    let mut killed = fs::read(&usage).unwrap();
    killed[8] += 1;
    fs::write(&usage, killed).unwrap();
    let map = fs::read_dir(&own)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "map"))
        .unwrap();
    let stuck = map.with_file_name(twin(&map));
    rustix::fs::mknodat(rustix::fs::CWD, &stuck, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let (opened, received) = mpsc::channel();
    for _ in 0..3 {
        let (opened, path) = (opened.clone(), folder.path().to_owned());
        thread::spawn(move || {
            let tier = DiskTier::open(disk_options(&path, 1 << 30, 1000), Ranking::new(BuiltinPolicy::Lru));
            let has = tier.as_ref().is_ok_and(|tier| tier.copies(&id("far", 2000)).unwrap().has(0));
            let _ = opened.send(has);
            // Holds the folder until the test is over.
            thread::park();
            drop(tier);
        });
    }
    for _ in 0..3 {
        assert_eq!(received.recv_timeout(Duration::from_secs(120)), Ok(true));
    }
}

/// The name of another map in the folder of `map`.
fn twin(map: &Path) -> String {
    let name = map.file_name().unwrap().to_str().unwrap();
    let last = name.find(['-', '.']).unwrap() - 1;
    let other = if name.as_bytes()[last] == b'0' { "1" } else { "0" };
    format!("{}{other}{}", &name[..last], &name[last + 1..])
}
