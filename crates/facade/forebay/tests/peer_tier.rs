//! A tier in the memory of all ranks: threads here, on hosts that are made up.

#![expect(clippy::unwrap_used, reason = "what cannot be had has failed the test")]

mod support {
    pub(super) mod counted_comm;
}

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay::{
    Locator, Origin, PeerTier,
    source::{ByteRange, MemoryOrigin, Source, SourceExt, SourceId, Version, check},
    store::{Comm, LocalComm, Wait, check::patience},
    tier::{BlockPiece, Claim, Placement, SourceKey, Tier, Tiered, UpcomingRead, UpcomingReads},
};
use support::counted_comm::CountedComm;

const BLOCK: u64 = 1000;

fn contents() -> Vec<u8> {
    (0..100_003u32).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

fn tiered(tier: &Arc<PeerTier>) -> Tiered {
    let origin: Arc<dyn Origin> = Arc::new(MemoryOrigin::default().with("set.bin", contents()));
    let tier = Arc::clone(tier);
    let placement = Placement { block_len: BLOCK, threads: 2, whole_file: true, ..Placement::default() };
    Tiered::new(origin, move || Ok(vec![Arc::clone(&tier) as Arc<dyn Tier>]), placement).unwrap()
}

#[test]
fn blocks_that_one_rank_has_placed_serve_its_peers() {
    LocalComm::run(&[0, 0, 1], |comm| {
        let tier = Arc::new(PeerTier::new(Arc::clone(&comm), 1 << 20, BLOCK, &patience()).unwrap());
        let tiered = tiered(&tier);
        let source = tiered.open(&Locator::new("set.bin")).unwrap();
        check::every_source_clause(&*source, &contents());
        assert!(tiered.wait(Duration::from_secs(60)));
        comm.barrier(&patience()).unwrap();
        let before = tiered.stats();
        let whole = source.fetch_one(ByteRange::at(0, contents().len() as u64)).unwrap();
        assert!(whole == contents());
        let after = tiered.stats();
        assert_eq!(
            after.origin.bytes,
            before.origin.bytes,
            "rank {}: all blocks are at their homes",
            comm.rank()
        );
        assert!(tier.usage().used < contents().len() as u64, "a rank holds its part alone");
        comm.barrier(&patience()).unwrap();
        tiered.close();
        tier.close_window(&patience()).unwrap();
    });
}

#[test]
fn a_quota_that_is_too_small_costs_reads_and_never_bytes() {
    LocalComm::run(&[0, 1], |comm| {
        for quota in [0, BLOCK, 10 * BLOCK] {
            let tier = Arc::new(PeerTier::new(Arc::clone(&comm), quota, BLOCK, &patience()).unwrap());
            let tiered = tiered(&tier);
            check::every_source_clause(&*tiered.open(&Locator::new("set.bin")).unwrap(), &contents());
            assert!(tier.usage().used <= quota);
            comm.barrier(&patience()).unwrap();
            tiered.close();
            tier.close_window(&patience()).unwrap();
        }
    });
}

#[test]
fn a_peer_that_is_gone_is_a_miss() {
    let ranks = LocalComm::on_hosts(&[0, 1]);
    std::thread::scope(|scope| {
        for comm in ranks {
            scope.spawn(move || {
                let comm = Arc::new(comm);
                let tier =
                    PeerTier::new(Arc::clone(&comm) as Arc<dyn Comm>, 1 << 20, BLOCK, &patience()).unwrap();
                let tiered = tiered(&Arc::new(tier));
                let source = tiered.open(&Locator::new("set.bin")).unwrap();
                check::every_source_clause(&*source, &contents());
                comm.barrier(&patience()).unwrap();
                if comm.rank() == 1 {
                    return comm.leave();
                }
                while comm.first_gone(0..2).is_none() {
                    std::thread::yield_now();
                }
                let whole = source.fetch_one(ByteRange::at(0, contents().len() as u64)).unwrap();
                assert!(whole == contents());
            });
        }
    });
}

/// Samples of 250 bytes, as they will be read.
#[derive(Debug)]
struct Samples {
    source: SourceKey,
    left: std::vec::IntoIter<u64>,
}

const SAMPLE: u64 = 250;

fn range_of(sample: u64) -> ByteRange {
    ByteRange::at(sample * SAMPLE, SAMPLE)
}

impl UpcomingReads for Samples {
    fn next(&mut self) -> Option<UpcomingRead> {
        self.left.next().map(|sample| UpcomingRead { source: self.source, range: range_of(sample) })
    }
}

/// Reads `samples` under look-ahead, a few at a time.
fn read_epoch(tiered: &Tiered, source: &dyn Source, samples: &[u64]) {
    let left = Vec::from(samples).into_iter();
    tiered.look_ahead(Some(Box::new(Samples { source: SourceKey::of(source.id()), left })));
    for few in samples.chunks(7) {
        let ranges: Vec<_> = few.iter().map(|sample| range_of(*sample)).collect();
        for (bytes, range) in source.fetch(&ranges).unwrap().into_iter().zip(&ranges) {
            assert!(bytes == range.cut(&Bytes::from(contents()), 0), "{range:?}");
        }
    }
    tiered.look_ahead(None);
}

#[test]
fn under_look_ahead_each_block_is_copied_once_and_the_second_epoch_reads_no_origin() {
    let ranks = LocalComm::run(&[0, 0, 1], |comm| {
        let tier = Arc::new(PeerTier::new(Arc::clone(&comm), 1 << 20, BLOCK, &patience()).unwrap());
        let tiered = tiered(&tier);
        let source = tiered.open(&Locator::new("set.bin")).unwrap();
        // Each rank has other samples than the others, and other ones in each epoch.
        let samples = |epoch: u64| -> Vec<u64> {
            let first = comm.rank() as u64 + epoch;
            (0..133).map(|step| (first + 3 * (step * 59 % 133)) % 400).collect()
        };
        read_epoch(&tiered, &*source, &samples(0));
        assert!(tiered.wait(Duration::from_secs(60)));
        let first = tiered.stats();
        comm.barrier(&patience()).unwrap();
        read_epoch(&tiered, &*source, &samples(1));
        let second = tiered.stats();
        assert_eq!(second.origin, first.origin, "rank {}: {second:?}", comm.rank());
        comm.barrier(&patience()).unwrap();
        tiered.close();
        tier.close_window(&patience()).unwrap();
        first
    });
    let sum = |count: fn(&forebay::tier::Stats) -> u64| ranks.iter().map(count).sum::<u64>();
    assert_eq!(sum(|stats| stats.placed), 101, "each block once");
    let (len, by_readers) = (contents().len() as u64, 3 * 133 * SAMPLE);
    let read = sum(|stats| stats.origin.bytes);
    assert!(read <= len + by_readers, "a sample that a reader needed first is read once more: {read}");
}

#[test]
fn homes_copy_what_only_others_read() {
    LocalComm::run(&[0, 1, 2], |comm| {
        let tier = Arc::new(PeerTier::new(Arc::clone(&comm), 1 << 20, BLOCK, &patience()).unwrap());
        let tiered = tiered(&tier);
        // Opened, and not read.
        let source = tiered.open(&Locator::new("set.bin")).unwrap();
        assert!(tiered.wait(Duration::from_secs(60)));
        comm.barrier(&patience()).unwrap();
        if comm.rank() == 0 {
            let before = tiered.stats();
            read_epoch(&tiered, &*source, &(0..400).rev().collect::<Vec<_>>());
            assert_eq!(tiered.stats().origin, before.origin);
        }
        comm.barrier(&patience()).unwrap();
        tiered.close();
        tier.close_window(&patience()).unwrap();
    });
}

#[test]
fn a_table_that_has_no_slot_for_one_block_still_takes_the_others() {
    LocalComm::run(&[0], |comm| {
        // As many slots as blocks: by chance some blocks find all their slots taken.
        let tier = Arc::new(PeerTier::new(Arc::clone(&comm), 101 * BLOCK, BLOCK, &patience()).unwrap());
        let tiered = tiered(&tier);
        let source = tiered.open(&Locator::new("set.bin")).unwrap();
        assert!(tiered.wait(Duration::from_secs(60)));
        assert!(tier.usage().used >= 80 * BLOCK, "{:?}", tier.usage());
        assert!(source.fetch_one(ByteRange::at(0, contents().len() as u64)).unwrap() == contents());
    });
}

#[test]
fn many_ranges_of_a_peer_take_three_round_trips_and_then_one() {
    let ranks = CountedComm::on_hosts(&[0, 1]);
    std::thread::scope(|scope| {
        for comm in ranks {
            scope.spawn(move || {
                let (comm, counts) = (Arc::new(comm.clone()) as Arc<dyn Comm>, comm.counts);
                let tier = Arc::new(PeerTier::new(Arc::clone(&comm), 1 << 20, BLOCK, &patience()).unwrap());
                let tiered = tiered(&tier);
                let source = tiered.open(&Locator::new("set.bin")).unwrap();
                assert!(tiered.wait(Duration::from_secs(60)));
                comm.barrier(&patience()).unwrap();
                let ranges: Vec<_> = (0..60).map(|block| ByteRange::at(block * BLOCK + 10, 100)).collect();
                for most in [3, 1] {
                    let before = counts.gets.load(SeqCst);
                    for (bytes, range) in source.fetch(&ranges).unwrap().into_iter().zip(&ranges) {
                        assert!(bytes == range.cut(&Bytes::from(contents()), 0));
                    }
                    let gets = counts.gets.load(SeqCst) - before;
                    assert!((1..=most).contains(&gets), "{gets} round trips instead of {most}");
                }
                comm.barrier(&patience()).unwrap();
                tiered.close();
                tier.close_window(&patience()).unwrap();
            });
        }
    });
}

#[test]
fn a_peer_that_stalls_costs_seconds_once() {
    let ranks = CountedComm::on_hosts(&[0, 1]);
    std::thread::scope(|scope| {
        for comm in ranks {
            scope.spawn(move || {
                let (comm, counts) = (Arc::new(comm.clone()) as Arc<dyn Comm>, comm.counts);
                let tier = Arc::new(PeerTier::new(Arc::clone(&comm), 1 << 20, BLOCK, &patience()).unwrap());
                let tiered = tiered(&tier);
                let source = tiered.open(&Locator::new("set.bin")).unwrap();
                assert!(tiered.wait(Duration::from_secs(60)));
                comm.barrier(&patience()).unwrap();
                if comm.rank() == 0 {
                    counts.is_stalled.store(true, SeqCst);
                    let began = Instant::now();
                    let whole = source.fetch_one(ByteRange::at(0, contents().len() as u64)).unwrap();
                    assert!(whole == contents());
                    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
                    let stalled = counts.stalled.load(SeqCst);
                    assert!((1..=3).contains(&stalled), "{stalled} reads waited");
                    counts.is_stalled.store(false, SeqCst);
                }
                comm.barrier(&patience()).unwrap();
                tiered.close();
                tier.close_window(&patience()).unwrap();
            });
        }
    });
}

#[test]
fn past_the_end_of_a_short_block_is_a_miss_at_its_home_too() {
    LocalComm::run(&[0], |comm| {
        let tier = PeerTier::new(comm, 1 << 20, BLOCK, &patience()).unwrap();
        let id = SourceId { locator: Locator::new("short"), len: 3, version: Version::named("v") };
        let copies = tier.copies(&id).unwrap();
        let Claim::Held(claimed) = Arc::clone(&copies).claim(0, 3, false) else { panic!("no room") };
        claimed.put(&Bytes::from_static(b"abc"));
        for (from, len, is_inside) in [(0, 3, true), (1, 2, true), (0, 4, false), (3, 1, false)] {
            let mut bytes = vec![7; len];
            let mut pieces = [BlockPiece { block: 0, from, into: &mut bytes, is_filled: false }];
            copies.read_many(&mut pieces, None);
            assert_eq!(pieces[0].is_filled, is_inside, "{len} bytes at {from}");
        }
        assert_eq!(copies.get(0).unwrap()[..], b"abc"[..]);
    });
}

#[test]
fn a_rank_that_has_no_memory_is_an_error_on_all_ranks_at_once() {
    LocalComm::run(&[0, 1], |comm| {
        let quota = if comm.rank() == 1 { 1 << 62 } else { 1 << 20 };
        let began = Instant::now();
        let error = PeerTier::new(comm, quota, 1 << 20, &Wait::at_most(Duration::from_secs(60))).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(30), "{error}");
        assert!(error.to_string().contains("rank 1"), "{error}");
    });
}
