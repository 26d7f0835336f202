//! An origin over an origin gives the same bytes, asks the origin once, and outlives what happens to its tiers.

#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(clippy::needless_range_loop, reason = "the number is also the name of a source")]
#![expect(clippy::cast_possible_truncation, reason = "sources of the tests are small")]

mod made;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use forebay_process::ErrorKind;
use forebay_source::{ByteRange, FaultOrigin, FaultSchedule, FileOrigin, Locator, Origin, SourceExt, check};
use forebay_tier::{BuiltinPolicy, DiskTier, Placement, Ranking, Tier, Tiered, warm};
use made::{disk_options, in_memory, name, on_disk, origin, pattern, placement, slow};

const LONG: Duration = Duration::from_secs(60);

fn read(tiered: &dyn Origin, index: usize, range: ByteRange) -> Vec<u8> {
    tiered.open(&name(index)).unwrap().fetch_one(range).unwrap().to_vec()
}

fn files_with(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn every_kind_of_tier_keeps_the_contract_of_a_source() {
    for len in [0, 1, 999, 1000, 1001, 100_003] {
        for policy in BuiltinPolicy::ALL {
            let (slow_origin, contents) = origin(1, len, FaultSchedule::default());
            let folder = tempfile::tempdir().unwrap();
            for quota in [0, 5_000, 1 << 20] {
                let memory = in_memory(Arc::clone(&slow_origin), quota, policy, placement(1000));
                check::every_source_clause(&*memory.open(&name(0)).unwrap(), &contents[0]);
                check::reopening_gives_an_equal_id(&memory, &name(0));
                let disk = on_disk(Arc::clone(&slow_origin), folder.path(), quota, policy, placement(1000));
                check::every_source_clause(&*disk.open(&name(0)).unwrap(), &contents[0]);
                // Once more, when all is there that will be.
                assert!(disk.wait(LONG));
                check::every_source_clause(&*disk.open(&name(0)).unwrap(), &contents[0]);
            }
        }
    }
}

#[test]
fn the_rest_of_a_source_follows_a_partial_read_and_the_origin_is_asked_once_per_block() {
    let (slow_origin, contents) = origin(3, 10_500, slow(1));
    let folder = tempfile::tempdir().unwrap();
    let tiered =
        on_disk(Arc::clone(&slow_origin), folder.path(), 1 << 20, BuiltinPolicy::FirstFit, placement(1000));
    for index in 0..3 {
        assert_eq!(read(&tiered, index, ByteRange { start: 5990, end: 6010 }), contents[index][5990..6010]);
    }
    assert!(tiered.wait(LONG));
    let after = slow_origin.counters();
    assert_eq!((after.operations, after.bytes), (33, 31_500));
    for index in 0..3 {
        assert_eq!(read(&tiered, index, ByteRange { start: 0, end: 10_500 }), contents[index]);
    }
    assert_eq!(slow_origin.counters().bytes, 31_500, "all came from the tier");
    let stats = tiered.stats();
    assert_eq!((stats.placed, stats.placed_bytes, stats.tiers[0].used), (33, 31_500, 31_500));
    assert_eq!((stats.origin.reads, stats.tiers[0].faults), (33, 0));
}

#[test]
fn many_readers_of_one_block_cause_one_request() {
    let (slow_origin, contents) = origin(1, 4000, slow(20));
    let tiered = in_memory(Arc::clone(&slow_origin), 1 << 20, BuiltinPolicy::FirstFit, placement(4000));
    let source = tiered.open(&name(0)).unwrap();
    thread::scope(|scope| {
        for start in 0..16 {
            let (source, contents) = (&source, &contents);
            scope.spawn(move || {
                let range = ByteRange { start: start * 200, end: start * 200 + 300 };
                let found = source.fetch_one(range).unwrap();
                assert_eq!(found[..], contents[0][range.start as usize..range.end as usize]);
            });
        }
    });
    assert_eq!(slow_origin.counters().operations, 1);
}

#[test]
fn a_set_larger_than_the_quota_costs_each_epoch_just_what_does_not_fit() {
    let (slow_origin, contents) = origin(7, 10_000, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    let tiered =
        on_disk(Arc::clone(&slow_origin), folder.path(), 40_000, BuiltinPolicy::FirstFit, placement(1000));
    let sources: Vec<_> = (0..7).map(|index| tiered.open(&name(index)).unwrap()).collect();
    let mut bytes = Vec::new();
    for epoch in 0..4u64 {
        let before = slow_origin.counters().bytes;
        for step in 0..70 {
            let (index, at) = ((step * 3 + epoch as usize) % 7, (step * 7 % 10) as u64 * 1000);
            let found = sources[index].fetch_one(ByteRange::at(at, 1000)).unwrap();
            assert_eq!(found[..], contents[index][at as usize..at as usize + 1000]);
        }
        assert!(tiered.wait(LONG));
        bytes.push(slow_origin.counters().bytes - before);
    }
    assert_eq!(bytes, [70_000, 30_000, 30_000, 30_000]);
    assert_eq!(tiered.stats().tiers[0].used, 40_000);
}

#[test]
fn a_file_larger_than_the_tier_is_cached_in_part_and_a_small_one_after_it_still_fits() {
    let small_first = [pattern(1, 500), pattern(2, 20_000), pattern(3, 700)];
    let memory = (0..3).fold(forebay_source::MemoryOrigin::default(), |origin, index| {
        origin.with(name(index).as_str(), small_first[index].clone())
    });
    let counted = Arc::new(FaultOrigin::new(Arc::new(memory), FaultSchedule::default()));
    let folder = tempfile::tempdir().unwrap();
    let tiered =
        on_disk(Arc::clone(&counted), folder.path(), 10_600, BuiltinPolicy::FirstFit, placement(1000));
    for index in [0, 1, 2] {
        let all = ByteRange { start: 0, end: small_first[index].len() as u64 };
        assert_eq!(read(&tiered, index, ByteRange { end: 1, ..all }), small_first[index][..1]);
        assert!(tiered.wait(LONG));
        assert_eq!(read(&tiered, index, all), small_first[index]);
    }
    let before = counted.counters().bytes;
    assert_eq!(read(&tiered, 1, ByteRange { start: 0, end: 20_000 }), small_first[1]);
    assert_eq!(counted.counters().bytes - before, 10_000, "ten blocks are kept, ten are not");
}

#[test]
fn copies_outlive_the_process_when_they_are_kept_and_go_with_it_when_not() {
    let (slow_origin, contents) = origin(1, 5000, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    for keep in [true, false] {
        let make = || {
            let options = forebay_tier::DiskOptions { keep, ..disk_options(folder.path(), 1 << 20, 1000) };
            let make = move || {
                let tier = DiskTier::open(options.clone(), Ranking::new(BuiltinPolicy::FirstFit))?;
                Ok(vec![Arc::new(tier) as Arc<dyn Tier>])
            };
            Tiered::new(Arc::clone(&slow_origin) as Arc<dyn Origin>, make, placement(1000)).unwrap()
        };
        let first = make();
        assert_eq!(read(&first, 0, ByteRange { start: 0, end: 5000 }), contents[0]);
        assert!(first.wait(LONG));
        drop(first);
        let before = slow_origin.counters().bytes;
        assert_eq!(read(&make(), 0, ByteRange { start: 0, end: 5000 }), contents[0]);
        let read_again = slow_origin.counters().bytes - before;
        assert_eq!(read_again, if keep { 0 } else { 5000 }, "keep = {keep}");
        let deserted = || files_with(folder.path(), "bytes").len();
        assert_eq!(deserted(), 1, "what is kept, and nothing of the job");
    }
}

#[test]
fn a_bit_that_flips_on_the_disk_is_a_counted_miss_and_the_bytes_are_right() {
    let (slow_origin, contents) = origin(1, 5000, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    let make = || {
        on_disk(Arc::clone(&slow_origin), folder.path(), 1 << 20, BuiltinPolicy::FirstFit, placement(1000))
    };
    assert_eq!(read(&make(), 0, ByteRange { start: 0, end: 5000 }), contents[0]);
    for flipped in [0, 2500, 4999] {
        let tiered = make();
        assert_eq!(read(&tiered, 0, ByteRange { start: 0, end: 5000 }), contents[0]);
        assert!(tiered.wait(LONG));
        drop(tiered);
        let path = files_with(folder.path(), "bytes").remove(0);
        let mut bytes = fs::read(&path).unwrap();
        bytes[flipped] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let before = slow_origin.counters().bytes;
        let tiered = make();
        assert_eq!(read(&tiered, 0, ByteRange { start: 0, end: 5000 }), contents[0], "byte {flipped}");
        assert_eq!(slow_origin.counters().bytes - before, 1000, "one block is fetched anew");
        assert_eq!(tiered.stats().tiers[0].faults, 1);
    }
}

#[test]
fn flips_anywhere_in_the_map_never_change_a_byte() {
    let (slow_origin, contents) = origin(1, 5000, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    let make = || {
        on_disk(Arc::clone(&slow_origin), folder.path(), 1 << 20, BuiltinPolicy::FirstFit, placement(1000))
    };
    let fill = || {
        let tiered = make();
        assert_eq!(read(&tiered, 0, ByteRange { start: 0, end: 5000 }), contents[0]);
        assert!(tiered.wait(LONG));
    };
    fill();
    let path = files_with(folder.path(), "map").remove(0);
    for at in 0..fs::metadata(&path).unwrap().len() as usize {
        fill();
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 0x41;
        fs::write(&path, bytes).unwrap();
        assert_eq!(read(&make(), 0, ByteRange { start: 0, end: 5000 }), contents[0], "byte {at} of the map");
    }
}

#[test]
fn a_tier_that_is_removed_under_a_running_reader_costs_no_byte() {
    let (slow_origin, contents) = origin(2, 50_000, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    let tiered =
        on_disk(Arc::clone(&slow_origin), folder.path(), 1 << 20, BuiltinPolicy::FirstFit, placement(1000));
    let sources: Vec<_> = (0..2).map(|index| tiered.open(&name(index)).unwrap()).collect();
    for round in 0..4 {
        for (source, contents) in sources.iter().zip(&contents) {
            assert_eq!(source.fetch_one(ByteRange { start: 0, end: 50_000 }).unwrap()[..], contents[..]);
        }
        match round {
            0 => assert!(tiered.wait(LONG)),
            1 => {
                for path in files_with(folder.path(), "bytes") {
                    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(123).unwrap();
                }
            }
            2 => fs::remove_dir_all(folder.path()).unwrap(),
            _ => {}
        }
    }
}

#[test]
fn a_disk_that_is_full_takes_nothing_and_reads_go_on() {
    let (slow_origin, contents) = origin(1, 5000, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    let options =
        forebay_tier::DiskOptions { free: u64::MAX / 2, ..disk_options(folder.path(), 1 << 20, 1000) };
    let make = move || {
        let tier = DiskTier::open(options.clone(), Ranking::new(BuiltinPolicy::FirstFit))?;
        Ok(vec![Arc::new(tier) as Arc<dyn Tier>])
    };
    let tiered = Tiered::new(slow_origin, make, placement(1000)).unwrap();
    assert_eq!(read(&tiered, 0, ByteRange { start: 0, end: 5000 }), contents[0]);
    assert!(tiered.wait(LONG));
    assert_eq!(tiered.stats().tiers[0].used, 0);
}

#[test]
fn an_origin_that_fails_now_and_then_gives_an_error_or_the_right_bytes() {
    for fail_every in [2, 3, 7] {
        let schedule =
            FaultSchedule { fail_every: std::num::NonZeroU64::new(fail_every), ..FaultSchedule::default() };
        let (bad_origin, contents) = origin(1, 20_000, schedule);
        let tiered = in_memory(bad_origin, 10_000, BuiltinPolicy::FirstFit, placement(1000));
        let source = tiered.open(&name(0)).unwrap();
        let mut right = 0;
        for step in 0..200u64 {
            let range = ByteRange::at(step * 97 % 19_000, 1000);
            match source.fetch_one(range) {
                Ok(found) => {
                    assert_eq!(found[..], contents[0][range.start as usize..range.end as usize]);
                    right += 1;
                }
                Err(error) => assert!(error.to_string().contains("file000"), "{error}"),
            }
        }
        assert!(right > 0, "some reads come through");
    }
}

/// Writes a file, and waits until a later change could not have the same stamp.
fn aged(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    thread::sleep(Duration::from_millis(2100));
}

/// A folder on another device than the tier's, where there is one.
fn elsewhere() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn a_file_that_changes_during_a_run_is_an_error() {
    let (set, folder) = (elsewhere(), tempfile::tempdir().unwrap());
    let path = set.path().join("a.bin");
    aged(&path, &pattern(1, 5000));
    let options = disk_options(folder.path(), 1 << 20, 1000);
    let make = move || {
        let tier = DiskTier::open(options.clone(), Ranking::new(BuiltinPolicy::FirstFit))?;
        Ok(vec![Arc::new(tier) as Arc<dyn Tier>])
    };
    let often = Placement { recheck: Duration::from_millis(5), ..placement(1000) };
    let tiered = Tiered::new(Arc::new(FileOrigin::new()), make, often).unwrap();
    let source = tiered.open(&Locator::new(path.to_str().unwrap())).unwrap();
    let all = ByteRange { start: 0, end: 5000 };
    assert_eq!(source.fetch_one(all).unwrap()[..], pattern(1, 5000)[..]);
    assert!(tiered.wait(LONG));
    assert_eq!(tiered.stats().tiers[0].used, 5000, "it is all on the tier");
    aged(&path, &pattern(2, 5000));
    let mut found = None;
    for _ in 0..1000 {
        match source.fetch_one(all) {
            Ok(found) => assert_eq!(found[..], pattern(1, 5000)[..], "one version, never a mix"),
            Err(error) => {
                found = Some(error);
                break;
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    let found = found.expect("an error");
    assert_eq!(found.kind(), ErrorKind::Unavailable);
    assert!(found.to_string().contains("changed while it was read"), "{found}");
    let again = tiered.open(&Locator::new(path.to_str().unwrap())).unwrap();
    assert_eq!(again.fetch_one(all).unwrap()[..], pattern(2, 5000)[..], "opened again, it is the new one");
}

#[test]
fn a_file_that_was_just_written_is_not_kept_and_one_on_the_tiers_own_device_is_not_copied() {
    let (set, folder) = (elsewhere(), tempfile::tempdir().unwrap());
    let (young, own) = (set.path().join("young.bin"), folder.path().join("own.bin"));
    aged(&own, &pattern(2, 5000));
    fs::write(&young, pattern(1, 5000)).unwrap();
    let options = disk_options(folder.path(), 1 << 20, 1000);
    let make = move || {
        let tier = DiskTier::open(options.clone(), Ranking::new(BuiltinPolicy::FirstFit))?;
        Ok(vec![Arc::new(tier) as Arc<dyn Tier>])
    };
    let tiered = Tiered::new(Arc::new(FileOrigin::new()), make, placement(1000)).unwrap();
    for (path, seed) in [(&young, 1), (&own, 2)] {
        let source = tiered.open(&Locator::new(path.to_str().unwrap())).unwrap();
        assert_eq!(source.fetch_one(ByteRange { start: 0, end: 5000 }).unwrap()[..], pattern(seed, 5000)[..]);
    }
    assert!(tiered.wait(LONG));
    assert_eq!(tiered.stats().tiers[0].used, 0);
}

#[test]
fn warming_goes_on_where_it_was_interrupted_and_compares_what_is_there() {
    let (slow_origin, contents) = origin(4, 10_000, slow(10));
    let folder = tempfile::tempdir().unwrap();
    let make = || {
        on_disk(Arc::clone(&slow_origin), folder.path(), 1 << 20, BuiltinPolicy::FirstFit, placement(1000))
    };
    let all: Vec<_> = (0..4).map(name).collect();
    let two = std::num::NonZeroUsize::new(2).unwrap();
    let first = warm(&make(), &all, two, |so_far| so_far.placed_bytes < 1000).unwrap();
    assert!((1000..40_000).contains(&first.placed_bytes), "{first:?}");
    let second = warm(&make(), &all, two, |_| true).unwrap();
    assert_eq!(second.placed_bytes + second.present_bytes, 40_000);
    assert_eq!(second.present_bytes, first.placed_bytes);
    let read_before = slow_origin.counters().bytes;
    assert_eq!(read_before, 40_000, "each byte once");
    let tiered = make();
    for index in 0..4 {
        assert_eq!(read(&tiered, index, ByteRange { start: 0, end: 10_000 }), contents[index]);
    }
    assert_eq!(slow_origin.counters().bytes, read_before);
    let third = warm(&tiered, &all, two, |_| true).unwrap();
    assert_eq!((third.present_bytes, third.placed_bytes, third.sources), (40_000, 0, 4));
}

#[test]
fn a_folder_that_others_can_write_to_is_refused_and_foreign_files_stay() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let options = |keep| forebay_tier::DiskOptions { keep, ..disk_options(folder.path(), 1 << 20, 1000) };
    let tier = DiskTier::open(options(false), Ranking::new(BuiltinPolicy::FirstFit)).unwrap();
    let own = tier.folder().to_owned();
    fs::write(own.join("notes.txt"), "mine").unwrap();
    drop(tier);
    assert_eq!(fs::read_to_string(own.join("notes.txt")).unwrap(), "mine");
    fs::set_permissions(own.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = DiskTier::open(options(true), Ranking::new(BuiltinPolicy::FirstFit)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
}
