//! A folder that is kept and full lets the past go, and promises only what it has.

#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

mod made;

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use forebay_source::{
    ByteRange, FaultOrigin, FaultSchedule, FileOrigin, Locator, Origin, Source, SourceExt, SourceId,
};
use forebay_tier::{BuiltinPolicy, DiskTier, Foresight, Policy, Ranking, SourceKey, Tier, Tiered};
use made::{disk_options, name, on_disk, origin, pattern, placement, slow};

const LONG: Duration = Duration::from_secs(60);
const BLOCK: u64 = 1000;

/// Some sources, read at times that are not known.
#[derive(Debug)]
struct Known(HashSet<SourceKey>);

impl Foresight for Known {
    fn next_use(&self, source: SourceKey, _: Option<u64>) -> Option<u64> {
        self.knows(source).then_some(7)
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.0.contains(&source)
    }
}

fn keys(sources: &[Arc<dyn Source>]) -> HashSet<SourceKey> {
    sources.iter().map(|source| SourceKey::of(source.id())).collect()
}

/// Makes all copies look as if nobody had used them for an hour.
fn age(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "map") {
                let file = fs::File::options().write(true).open(path).unwrap();
                file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
            }
        }
    }
}

fn read_all(tiered: &Tiered, sources: &[Arc<dyn Source>], contents: &[Vec<u8>]) {
    for (source, contents) in sources.iter().zip(contents) {
        let all = ByteRange { start: 0, end: contents.len() as u64 };
        assert_eq!(source.fetch_one(all).unwrap()[..], contents[..]);
    }
    assert!(tiered.wait(LONG));
}

#[test]
fn last_months_set_leaves_for_one_that_a_schedule_knows_and_one_in_use_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (counted, contents) = origin(8, 5000, FaultSchedule::default());
    let open =
        || on_disk(Arc::clone(&counted), folder.path(), 20_000, BuiltinPolicy::Clairvoyant, placement(BLOCK));
    let opened = |tiered: &Tiered, range: std::ops::Range<usize>| -> Vec<_> {
        range.map(|index| tiered.open(&name(index)).unwrap()).collect()
    };
    let first = open();
    read_all(&first, &opened(&first, 0..4), &contents[..4]);
    assert_eq!(first.stats().tiers[0].used, 20_000, "it is full");
    drop(first);
    for is_known in [false, true] {
        let second = open();
        let sources = opened(&second, 4..8);
        let known = Known(if is_known { keys(&sources) } else { HashSet::new() });
        second.foresight().set(Some(Arc::new(known)));
        read_all(&second, &sources, &contents[4..]);
        assert_eq!(second.stats().placed, 0, "another job may be at the copies");
    }
    age(folder.path());
    let third = open();
    let sources = opened(&third, 4..8);
    third.foresight().set(Some(Arc::new(Known(keys(&sources)))));
    read_all(&third, &sources, &contents[4..]);
    read_all(&third, &sources, &contents[4..]);
    let before = counted.counters().bytes;
    read_all(&third, &sources, &contents[4..]);
    assert_eq!(counted.counters().bytes, before, "all of it is near by now");
    assert_eq!(third.stats().tiers[0].used, 20_000);
}

#[test]
fn an_older_version_of_a_file_leaves_first_under_every_policy() {
    let set = tempfile::tempdir_in("/dev/shm").unwrap();
    let folders = BuiltinPolicy::ALL.map(|policy| (policy, tempfile::tempdir().unwrap()));
    let path = set.path().join("a.bin");
    let at = Locator::new(path.to_str().unwrap());
    for seed in [1, 2, 3] {
        fs::write(&path, pattern(seed, 5000)).unwrap();
        // What changed a moment ago is not copied.
        thread::sleep(Duration::from_millis(2100));
        for (policy, folder) in &folders {
            let counted = Arc::new(FaultOrigin::new(Arc::new(FileOrigin::new()), slow(1)));
            let tiered = on_disk(Arc::clone(&counted), folder.path(), 5500, *policy, placement(BLOCK));
            let sources = [tiered.open(&at).unwrap()];
            let is_near = sources[0].request_bytes() == 0;
            assert_eq!(is_near, policy.newcomers_compete(), "{policy:?}: the older one makes room");
            for _ in 0..2 {
                read_all(&tiered, &sources, &[pattern(seed, 5000)]);
            }
            let stats = tiered.stats();
            assert_eq!((stats.placed_bytes, stats.tiers[0].used), (5000, 5000), "{policy:?}, {seed}");
            // While the older one leaves, a reader may find no room yet and read past the tier.
            let before = counted.counters().bytes;
            read_all(&tiered, &sources, &[pattern(seed, 5000)]);
            assert_eq!(counted.counters().bytes, before, "{policy:?}: all of it is near by now");
        }
    }
}

#[test]
fn what_has_no_room_is_not_promised_and_what_is_there_needs_none() {
    let folder = tempfile::tempdir().unwrap();
    let (counted, contents) = origin(4, 5000, slow(1));
    let open =
        || on_disk(Arc::clone(&counted), folder.path(), 12_000, BuiltinPolicy::FirstFit, placement(BLOCK));
    let far = counted.open(&name(0)).unwrap().request_bytes();
    assert!(far > 0, "small requests cost much there");
    let wishes = |tiered: &Tiered, indexes: [usize; 4]| -> Vec<bool> {
        let sources = indexes.map(|index| tiered.open(&name(index)).unwrap());
        if indexes[0] == 0 {
            read_all(tiered, &sources[..2], &contents[..2]);
        }
        sources.iter().map(|source| source.request_bytes() == 0).collect()
    };
    assert_eq!(wishes(&open(), [0, 1, 2, 3]), [true, true, false, false], "2 of 4 fit");
    // Full by now, as far as whole files go: what is there is near, and what is not there never will be.
    assert_eq!(wishes(&open(), [3, 2, 1, 0]), [false, false, true, true]);
}

#[test]
fn a_tier_tells_how_much_it_holds_of_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskTier::open(disk_options(folder.path(), 1 << 20, BLOCK), Ranking::new(BuiltinPolicy::Lru))
        .unwrap();
    let id =
        SourceId { locator: Locator::new("far"), len: 2500, version: forebay_source::Version::named("v") };
    let copies = disk.copies(&id).unwrap();
    assert_eq!(copies.held(), 0);
    let forebay_tier::Claim::Held(claimed) = Arc::clone(&copies).claim(2, 500, true) else { unreachable!() };
    claimed.put(&[1; 500]);
    assert_eq!(copies.held(), 500);
}
