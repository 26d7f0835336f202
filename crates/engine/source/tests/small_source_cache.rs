//! Small, far sources are read whole, once.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs,
    num::NonZeroU64,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, SystemTime},
};

use forebay_source::{
    ByteRange, FaultOrigin, FaultSchedule, FileOrigin, Fill, Locator, MemoryOrigin, Origin, SmallSourceCache,
    Source, SourceExt,
};
use tempfile::TempDir;

const LEN: usize = 10_000;

fn bytes(seed: usize) -> Vec<u8> {
    (0..LEN).map(|index| (index * 7 % 251 + seed).to_le_bytes()[0]).collect()
}

/// Memory that takes its time, `count` sources `0`, `1`... of it.
fn far(count: usize) -> Arc<FaultOrigin> {
    let memory = (0..count)
        .fold(MemoryOrigin::default(), |memory, index| memory.with(&index.to_string(), bytes(index)));
    Arc::new(FaultOrigin::new(Arc::new(memory), slow()))
}

fn slow() -> FaultSchedule {
    FaultSchedule { delay: Duration::from_millis(2), ..FaultSchedule::default() }
}

fn open(origin: &dyn Origin, index: usize) -> Arc<dyn Source> {
    origin.open(&Locator::new(index.to_string())).unwrap()
}

fn reads_right(source: &dyn Source, index: usize) {
    let lent = source.fetch(&[ByteRange::at(5000, 1000), ByteRange::at(0, 10)]).unwrap();
    assert!(lent[0] == bytes(index)[5000..6000] && lent[1] == bytes(index)[..10]);
    let mut memory = [0; 3000];
    source.fetch_into(&mut [Fill { range: ByteRange::at(7000, 3000), into: &mut memory }]).unwrap();
    assert!(memory == bytes(index)[7000..]);
}

#[test]
fn describing_and_reading_a_small_far_source_costs_one_operation() {
    let far = far(1);
    let origin = SmallSourceCache::new(Arc::clone(&far) as _, 1 << 20);
    for _ in 0..3 {
        let source = open(&origin, 0);
        for _ in 0..3 {
            reads_right(&*source, 0);
        }
        assert_eq!(source.request_bytes(), 1 << 20, "as far as ever");
    }
    assert_eq!(far.counters().operations, 1);
}

#[test]
fn threads_that_ask_at_once_cause_one_operation() {
    let far = far(4);
    let origin = SmallSourceCache::new(Arc::clone(&far) as _, 1 << 20);
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let sources: Vec<_> = (0..4).map(|index| open(&origin, index)).collect();
                barrier.wait();
                sources.iter().zip(0..).for_each(|(source, index)| reads_right(&**source, index));
            });
        }
    });
    assert_eq!(far.counters().operations, 4);
}

#[test]
fn the_oldest_is_given_up_and_read_again() {
    let far = far(3);
    // Two of the three.
    let origin = SmallSourceCache::new(Arc::clone(&far) as _, 2 * LEN as u64);
    let sources: Vec<_> = (0..3).map(|index| open(&origin, index)).collect();
    let operations = |index: usize| {
        let before = far.counters().operations;
        reads_right(&*sources[index], index);
        far.counters().operations - before
    };
    assert_eq!([0, 1, 0, 2, 1, 2].map(operations), [1, 1, 0, 1, 0, 0]);
    assert_eq!(operations(0), 1, "was the oldest");
    assert_eq!(operations(1), 1, "was the oldest then");
}

#[test]
fn large_and_near_sources_are_handed_through() {
    let near = Arc::new(FaultOrigin::new(
        Arc::new(MemoryOrigin::default().with("0", bytes(0))),
        FaultSchedule::default(),
    ));
    let origin = SmallSourceCache::new(Arc::clone(&near) as _, 1 << 20);
    let source = open(&origin, 0);
    for _ in 0..2 {
        reads_right(&*source, 0);
    }
    assert_eq!(near.counters().operations, 6);

    let large = MemoryOrigin::default().with("0", vec![1; (1 << 20) + 1]);
    let large = Arc::new(FaultOrigin::new(Arc::new(large), slow()));
    let origin = SmallSourceCache::new(Arc::clone(&large) as _, 1 << 30);
    let source = open(&origin, 0);
    assert_eq!(source.fetch_one(ByteRange::at(5, 2)).unwrap()[..], [1, 1]);
    assert_eq!((large.counters().operations, large.counters().bytes), (1, 2));
    assert_eq!(source.request_bytes(), 1 << 20);

    let far = far(1);
    let origin = SmallSourceCache::new(Arc::clone(&far) as _, 100);
    open(&origin, 0).fetch_one(ByteRange::at(0, 5)).unwrap();
    assert_eq!(far.counters().bytes, 5, "longer than the budget");
}

#[test]
fn a_request_that_fails_is_an_error_and_is_tried_again() {
    let schedule = FaultSchedule { fail_every: NonZeroU64::new(2), ..slow() };
    let memory = MemoryOrigin::default().with("0", bytes(0)).with("1", bytes(1));
    let failing = Arc::new(FaultOrigin::new(Arc::new(memory), schedule));
    let origin = SmallSourceCache::new(Arc::clone(&failing) as _, 1 << 20);
    let sources = [open(&origin, 0), open(&origin, 1)];
    reads_right(&*sources[0], 0);
    sources[1].fetch_one(ByteRange::at(0, 5)).unwrap_err();
    reads_right(&*sources[1], 1);
    assert_eq!(failing.counters().operations, 3);
}

#[test]
fn a_young_file_is_not_shared_with_those_who_open_it_later() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("0");
    fs::write(&path, bytes(0)).unwrap();
    let far = Arc::new(FaultOrigin::new(Arc::new(FileOrigin::under(folder.path())), slow()));
    let origin = SmallSourceCache::new(Arc::clone(&far) as _, 1 << 20);
    for _ in 0..2 {
        let source = open(&origin, 0);
        assert!(!source.id().version.is_settled(SystemTime::now()));
        reads_right(&*source, 0);
        reads_right(&*source, 0);
    }
    assert_eq!(far.counters().operations, 2, "once for each who opened it");
}
