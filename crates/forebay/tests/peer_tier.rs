//! A tier in the memory of all ranks: threads here, on hosts that are made up.

#![expect(clippy::unwrap_used, reason = "what cannot be had has failed the test")]

use std::{sync::Arc, time::Duration};

use forebay::{
    Locator, Origin, PeerTier,
    source::{ByteRange, MemoryOrigin, SourceExt, check},
    store::{Comm, LocalComm, check::patience},
    tier::{Placement, Tier, Tiered},
};

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
