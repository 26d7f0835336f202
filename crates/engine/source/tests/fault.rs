//! Faults on a schedule: the answer is right or an error, never wrong bytes.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs,
    num::NonZeroU64,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_process::ErrorKind;
use forebay_source::{
    ByteRange, FaultOrigin, FaultSchedule, FileOrigin, Fill, Locator, MemoryOrigin, Origin, Source, SourceExt,
};
use tempfile::TempDir;

const LEN: u64 = 10_000;

fn bytes() -> Vec<u8> {
    (0..LEN).map(|index| (index * 7 % 251).to_le_bytes()[0]).collect()
}

fn slice(bytes: &[u8], range: ByteRange) -> &[u8] {
    &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
}

/// Reads five ranges in one call, either way; true when it went well.
fn reads_right(source: &dyn Source, expected: &[u8], round: u64) -> bool {
    let ranges: Vec<_> =
        (0..5).map(|index| ByteRange::at((round * 977 + index * 3001) % 9000, 1000)).collect();
    let mut memory = vec![vec![0xee; 1000]; ranges.len()];
    let answer = if round.is_multiple_of(2) {
        source.fetch(&ranges).map(|lent| memory = lent.iter().map(|bytes| bytes.to_vec()).collect())
    } else {
        let pairs = ranges.iter().zip(&mut memory);
        source.fetch_into(&mut pairs.map(|(range, into)| Fill { range: *range, into }).collect::<Vec<_>>())
    };
    if let Err(error) = answer {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().starts_with("f.bin: byte "), "{error}");
        return false;
    }
    for (range, read) in ranges.iter().zip(&memory) {
        assert!(read == slice(expected, *range), "wrong bytes for {range:?}");
    }
    true
}

fn origins() -> (TempDir, [Arc<dyn Origin>; 2]) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("f.bin"), bytes()).unwrap();
    let files = Arc::new(FileOrigin::under(folder.path()));
    (folder, [files, Arc::new(MemoryOrigin::default().with("f.bin", bytes()))])
}

#[test]
fn every_nth_operation_fails_and_the_bytes_are_right_or_there_are_none() {
    let (_folder, origins) = origins();
    for (every, inner) in (1..20).flat_map(|every| origins.iter().map(move |origin| (every, origin))) {
        let every = NonZeroU64::new(every);
        for schedule in [
            FaultSchedule { fail_every: every, ..FaultSchedule::default() },
            FaultSchedule { cut_every: every, ..FaultSchedule::default() },
            FaultSchedule { fail_every: every, cut_every: NonZeroU64::new(3), ..FaultSchedule::default() },
        ] {
            let origin = FaultOrigin::new(Arc::clone(inner), schedule.clone());
            let source = origin.open(&Locator::new("f.bin")).unwrap();
            let right = (0..60).filter(|round| reads_right(&*source, &bytes(), *round)).count();
            assert!(right < 60, "{schedule:?} did nothing");
            let first = schedule.cut_every.min(schedule.fail_every).or(every).unwrap();
            assert!(right > 0 || first.get() <= 5, "{schedule:?} let nothing through");
        }
    }
}

#[test]
fn threads_share_one_count_of_operations() {
    let schedule = FaultSchedule { fail_every: NonZeroU64::new(100), ..FaultSchedule::default() };
    let (_folder, [files, _]) = origins();
    let origin = FaultOrigin::new(files, schedule);
    let expected = bytes();
    let failed: usize = thread::scope(|scope| {
        let read = || {
            let source = origin.open(&Locator::new("f.bin")).unwrap();
            (0..100).filter(|round| !reads_right(&*source, &expected, *round)).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(failed, 20, "4 threads x 100 calls x 5 operations, each hundredth fails");
    let counters = origin.counters();
    assert_eq!((counters.operations, counters.opens), (2000, 4));
    assert!(counters.bytes > 1_900_000 && counters.bytes < 2_000_000, "{counters:?}");
}

#[test]
fn delay_and_bandwidth_take_their_time_and_the_bandwidth_is_shared() {
    let inner = || Arc::new(MemoryOrigin::default().with("f.bin", bytes()));
    let took = |schedule: FaultSchedule| {
        let origin = FaultOrigin::new(inner(), schedule);
        let source = origin.open(&Locator::new("f.bin")).unwrap();
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert!(reads_right(&*source, &bytes(), 0)));
            }
        });
        began.elapsed()
    };
    let delay = Duration::from_millis(10);
    assert!(took(FaultSchedule { delay, ..FaultSchedule::default() }) >= delay * 5);
    let slow = FaultSchedule { bytes_per_second: NonZeroU64::new(100_000), ..FaultSchedule::default() };
    assert!(took(slow) >= Duration::from_millis(100), "2 x 5000 bytes at 100 kB/s");
}
