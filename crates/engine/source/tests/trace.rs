//! What a traced origin reports is what was asked, and it changes nothing.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use forebay_process::{ErrorKind, Histogram, Result};
use forebay_source::{
    ByteRange, FaultOrigin, FaultSchedule, Fill, Locator, MemoryOrigin, Operation, Origin, Source, SourceExt,
    SourceId, TraceRing, TraceSink, TracedOrigin, TracedRequest,
};
use proptest::{collection::vec, prelude::*};

const LEN: u64 = 10_000;

fn memory() -> Arc<dyn Origin> {
    Arc::new(MemoryOrigin::default().with("a.bin", vec![7; 10_000]))
}

fn at() -> Locator {
    Locator::new("a.bin")
}

proptest! {
    #[test]
    fn traced_ranges_are_the_ranges_asked(asked in vec(vec((0..LEN, 0..LEN), 1..5), 1..20)) {
        let ring = Arc::new(TraceRing::new(1000));
        let source = TracedOrigin::new(memory(), ring.clone()).open(&at()).unwrap();
        let range = |(one, other): &(u64, u64)| ByteRange { start: *one.min(other), end: *one.max(other) };
        let asked: Vec<Vec<_>> = asked.iter().map(|call| call.iter().map(range).collect()).collect();
        for (number, ranges) in asked.iter().enumerate() {
            if number % 2 == 0 {
                source.fetch(ranges).unwrap();
                continue;
            }
            let mut memory: Vec<_> = ranges.iter().map(|range| vec![0; usize::try_from(range.len()).unwrap()]).collect();
            let pairs = ranges.iter().zip(&mut memory);
            source.fetch_into(&mut pairs.map(|(range, into)| Fill { range: *range, into }).collect::<Vec<_>>()).unwrap();
            prop_assert!(memory.iter().flatten().all(|byte| *byte == 7));
        }
        let entries = ring.take();
        prop_assert_eq!((entries[0].operation, entries[0].ranges.len()), (Operation::Open, 0));
        let reads = &entries[1..];
        prop_assert_eq!(reads.iter().map(|entry| entry.ranges.to_vec()).collect::<Vec<_>>(), asked);
        for (number, entry) in reads.iter().enumerate() {
            let operation = if number % 2 == 0 { Operation::Fetch } else { Operation::CopyInto };
            prop_assert_eq!((entry.operation, &*entry.locator, entry.error), (operation, &at(), None));
        }
        prop_assert!(reads.windows(2).all(|pair| pair[0].began + pair[0].took <= pair[1].began));
        prop_assert!(ring.take().is_empty());
    }
}

#[test]
fn a_ring_keeps_the_last_requests_and_counts_the_others() {
    let ring = Arc::new(TraceRing::new(3));
    let source = TracedOrigin::new(memory(), ring.clone()).open(&at()).unwrap();
    for start in 0..10 {
        source.fetch_one(ByteRange::at(start, 1)).unwrap();
    }
    let starts: Vec<_> = ring.take().iter().map(|entry| entry.ranges[0].start).collect();
    assert_eq!((starts, ring.dropped()), (vec![7, 8, 9], 8));
}

#[test]
fn a_closure_is_a_sink_and_hears_of_what_failed() {
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&kinds);
    let sink = move |request: &TracedRequest<'_>| heard.lock().unwrap().push(request.error);
    let schedule = FaultSchedule { fail_every: NonZeroU64::new(2), ..FaultSchedule::default() };
    let origin = TracedOrigin::new(Arc::new(FaultOrigin::new(memory(), schedule)), Arc::new(sink));
    origin.open(&Locator::new("none")).unwrap_err();
    let source = origin.open(&at()).unwrap();
    source.fetch_one(ByteRange::at(0, 1)).unwrap();
    source.fetch_one(ByteRange::at(0, 1)).unwrap_err();
    assert_eq!(*kinds.lock().unwrap(), [Some(ErrorKind::NotFound), None, None, Some(ErrorKind::Io)]);
}

/// A sink of the tests' own: bytes asked for.
#[derive(Default)]
struct Bytes(AtomicU64);

impl TraceSink for Bytes {
    fn record(&self, request: &TracedRequest<'_>) {
        self.0.fetch_add(request.ranges.iter().map(|range| range.len()).sum(), Relaxed);
    }
}

#[test]
fn a_second_sink_is_a_few_lines() {
    let bytes = Arc::new(Bytes::default());
    let source = TracedOrigin::new(memory(), bytes.clone()).open(&at()).unwrap();
    source.fetch(&[ByteRange::at(0, 10), ByteRange::at(5, 20)]).unwrap();
    source.fetch_into(&mut [Fill { range: ByteRange::at(0, 3), into: &mut [0; 3] }]).unwrap();
    assert_eq!(bytes.0.load(Relaxed), 33);
}

#[test]
fn a_histogram_counts_reads_that_came_and_nothing_else() {
    let histogram = Arc::new(Histogram::new());
    let delay = Duration::from_millis(3);
    let schedule = FaultSchedule { fail_every: NonZeroU64::new(4), delay, ..FaultSchedule::default() };
    let far: Arc<dyn Origin> = Arc::new(FaultOrigin::new(memory(), schedule));
    let source = TracedOrigin::of_far(far, histogram.clone()).open(&at()).unwrap();
    for _ in 0..4 {
        let _ = source.fetch_one(ByteRange::at(0, 1));
    }
    let summary = histogram.summary();
    assert_eq!(summary.count, 3, "the fourth failed");
    assert!(
        summary.p50_ns >= 3_000_000 && summary.p50_ns <= summary.max_ns && summary.max_ns >= summary.mean_ns
    );
}

/// An origin that opens one source, ever the same.
#[derive(Debug)]
struct One(Arc<dyn Source>);

impl Origin for One {
    fn open(&self, _: &Locator) -> Result<Arc<dyn Source>> {
        Ok(Arc::clone(&self.0))
    }

    fn list(&self, _: &Locator) -> Result<Vec<Locator>> {
        Ok(vec![at()])
    }

    fn survey(&self, _: &Locator) -> Result<Vec<SourceId>> {
        Ok(vec![self.0.id().clone()])
    }
}

#[test]
fn near_sources_are_handed_out_as_they_are_where_only_far_ones_are_traced() {
    let near = memory().open(&at()).unwrap();
    let histogram = Arc::new(Histogram::new());
    let one = Arc::new(One(Arc::clone(&near)));
    let opened = TracedOrigin::of_far(one.clone(), histogram.clone()).open(&at()).unwrap();
    assert!(Arc::ptr_eq(&opened, &near), "nothing stands between the reader and the file");
    let traced = TracedOrigin::new(one, histogram.clone()).open(&at()).unwrap();
    assert!(!Arc::ptr_eq(&traced, &near));
    opened.fetch_one(ByteRange::at(0, 1)).unwrap();
    traced.fetch_one(ByteRange::at(0, 1)).unwrap();
    assert_eq!(histogram.count(), 1);
}
