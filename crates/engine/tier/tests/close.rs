//! Tiers that are closed while they are in use.
#![expect(clippy::unwrap_used, reason = "what cannot be had has failed the test")]

mod made;

use std::{
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_source::{ByteRange, FaultOrigin, FaultSchedule, Origin, Source, SourceExt};
use forebay_tier::{
    BuiltinPolicy, DiskOptions, DiskTier, MemoryTier, Ranking, SourceKey, Tier, Tiered, UpcomingRead,
    UpcomingReads,
};
use made::{disk_options, in_memory, name, origin, placement, slow};

const LEN: usize = 100_000;

/// The beginning of one source, for ever.
#[derive(Debug)]
struct Endless(SourceKey);

impl UpcomingReads for Endless {
    fn next(&mut self) -> Option<UpcomingRead> {
        Some(UpcomingRead { source: self.0, range: ByteRange { start: 0, end: 100 } })
    }
}

fn read(source: &dyn Source) -> Vec<u8> {
    source.fetch_one(ByteRange { start: 0, end: LEN as u64 }).unwrap().to_vec()
}

/// Threads of this process that place blocks or serve a disk tier.
fn worker_count() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let name = |thread: &fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
    threads.filter(|thread| thread.as_ref().is_ok_and(|thread| name(thread).starts_with("forebay-"))).count()
}

fn memory_over_disk(far: Arc<FaultOrigin>, folder: &std::path::Path) -> Tiered {
    let options = DiskOptions { keep: false, ..disk_options(folder, 1 << 30, 1000) };
    let make = move || {
        let ranking = Ranking::new(BuiltinPolicy::FirstFit);
        let memory = Arc::new(MemoryTier::new(20_000, ranking.clone())) as Arc<dyn Tier>;
        Ok(vec![memory, Arc::new(DiskTier::open(options.clone(), ranking)?)])
    };
    Tiered::new(far, make, placement(1000)).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn closing_ends_threads_and_the_folder_of_the_job_in_bounded_time_and_reads_go_to_the_origin() {
    let (far, contents) = origin(2, LEN, slow(1));
    let folder = tempfile::tempdir().unwrap();
    let tiered = memory_over_disk(Arc::clone(&far), folder.path());
    let source = tiered.open(&name(0)).unwrap();
    tiered.look_ahead(Some(Box::new(Endless(SourceKey::of(source.id())))));
    assert_eq!(read(&*source), contents[0]);
    assert!(worker_count() > 0);
    let began = Instant::now();
    tiered.close();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(tiered.is_closed());
    // A thread has left the kernel's list a moment after it has ended.
    while worker_count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::yield_now();
    }
    let of_tier = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(of_tier).unwrap().count(), 0, "the folder of the job is gone");
    let usage = tiered.stats().tiers;
    assert_eq!(usage[0].used, 0, "memory is given back");

    // What is open reads on, and what is opened anew is the origin's own.
    let (before, anew) = (far.counters().bytes, tiered.open(&name(1)).unwrap());
    assert_eq!((read(&*source), read(&*anew)), (contents[0].clone(), contents[1].clone()));
    assert_eq!(far.counters().bytes - before, 2 * LEN as u64);
    tiered.look_ahead(Some(Box::new(Endless(SourceKey::of(source.id())))));
    tiered.close();
    assert_eq!((worker_count(), tiered.stats().backlog), (0, 0), "and nothing begins anew");
    drop(tiered);
    assert_eq!(read(&*source), contents[0]);
}

#[test]
fn a_reader_under_whom_the_tiers_are_closed_gets_the_right_bytes() {
    for round in 0..20 {
        let (far, contents) =
            origin(1, LEN, FaultSchedule { delay: Duration::from_micros(300), ..FaultSchedule::default() });
        let tiered = in_memory(far, 1 << 20, BuiltinPolicy::FirstFit, placement(1000));
        let source = tiered.open(&name(0)).unwrap();
        thread::scope(|scope| {
            let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| read(&*source))).collect();
            thread::sleep(Duration::from_millis(round));
            tiered.close();
            for reader in readers {
                assert_eq!(reader.join().unwrap(), contents[0]);
            }
        });
    }
}
