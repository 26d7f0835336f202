//! Ranks that are threads, on made-up hosts, read what the others have placed.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use forebay_peer::{HostShard, PeerStats, PeerTable};
use forebay_source::{Locator, SourceId, Version};
use forebay_store::{Comm, LocalComm, ShardPlace, Wait};
use forebay_tier::{Admission, BlockPiece, Claim, Copies};

const BLOCK: u64 = 4096;

fn wait() -> Wait<'static> {
    Wait::at_most(Duration::from_secs(300))
}

fn source() -> SourceId {
    SourceId { locator: Locator::new("hdf5://values/a"), len: 1 << 20, version: Version::named("1") }
}

fn shard_of(comm: &dyn Comm, quota: u64) -> Option<HostShard> {
    let is_leader = PeerTable::leader(comm) == comm.rank();
    is_leader.then(|| HostShard::new(quota, BLOCK, &ShardPlace::Memory).unwrap())
}

fn bytes_of(block: u64) -> Bytes {
    (0..BLOCK).map(|at| u8::try_from((at * 7 + block * 31) % 251).unwrap()).collect::<Vec<u8>>().into()
}

fn put(blocks: &Arc<impl Copies + 'static>, block: u64) -> Admission {
    match Arc::clone(blocks).claim(block, BLOCK, false) {
        Claim::Held(claim) => claim.put(&bytes_of(block)),
        _ => Admission::Refused,
    }
}

#[test]
fn each_rank_reads_what_any_other_has_placed_on_whichever_host() {
    let stats: &Arc<PeerStats> = &Arc::default();
    LocalComm::run(&[0, 0, 1, 2], |comm| {
        let shard = shard_of(&*comm, 64 * BLOCK);
        let cache = PeerTable::open(Arc::clone(&comm), shard.as_ref(), stats, &wait()).unwrap();
        let blocks = cache.blocks(&source());
        let mine = |rank: usize| rank as u64 * 8..rank as u64 * 8 + 8;
        mine(comm.rank()).for_each(|block| assert_eq!(put(&blocks, block), Admission::Kept));
        comm.barrier(&wait()).unwrap();
        blocks.find_elsewhere(0..40);
        for _ in 0..2 {
            for block in 0..32 {
                assert!(blocks.has(block), "block {block}");
                let mut part = [0; 100];
                let mut pieces = [BlockPiece { block, from: 1000, into: &mut part, is_filled: false }];
                blocks.read_many(&mut pieces, None);
                assert!(pieces[0].is_filled);
                assert_eq!(part, bytes_of(block)[1000..1100]);
            }
        }
        assert_eq!(blocks.get(20), Some(bytes_of(20)));
        assert!(!blocks.has(33) && blocks.get(33).is_none());
        assert!(matches!(Arc::clone(&blocks).claim(mine(comm.rank()).start, BLOCK, false), Claim::Here));
        comm.barrier(&wait()).unwrap();
        cache.close(&wait()).unwrap();
        assert!(!blocks.has(0) && blocks.get(0).is_none() && put(&blocks, 50) == Admission::Refused);
    });
    assert!(stats.counters().remote_bytes > 0 && stats.counters().faults == 0);
    assert_eq!(stats.counters().placed_bytes, 32 * BLOCK);
}

#[test]
fn what_a_host_has_is_there_when_its_part_is_opened_again() {
    let stats: &Arc<PeerStats> = &Arc::default();
    LocalComm::run(&[0, 0, 1], |comm| {
        let shard = shard_of(&*comm, 8 * BLOCK);
        for round in 0..3 {
            let cache = PeerTable::open(Arc::clone(&comm), shard.as_ref(), stats, &wait()).unwrap();
            let blocks = cache.blocks(&source());
            if round == 0 && comm.rank() == 1 {
                assert_eq!(put(&blocks, 5), Admission::Kept);
            }
            comm.barrier(&wait()).unwrap();
            blocks.find_elsewhere([5]);
            assert_eq!(blocks.get(5), Some(bytes_of(5)));
            comm.barrier(&wait()).unwrap();
            cache.close(&wait()).unwrap();
        }
    });
}

#[test]
fn a_full_part_refuses_and_a_host_without_one_reads_those_of_others() {
    let stats: &Arc<PeerStats> = &Arc::default();
    LocalComm::run(&[0, 1], |comm| {
        let shard = shard_of(&*comm, if comm.rank() == 0 { 2 * BLOCK } else { 0 });
        let cache = PeerTable::open(Arc::clone(&comm), shard.as_ref(), stats, &wait()).unwrap();
        let blocks = cache.blocks(&source());
        let kept = (0..6).filter(|block| put(&blocks, *block) == Admission::Kept).count();
        assert_eq!(kept, if comm.rank() == 0 { 2 } else { 0 });
        comm.barrier(&wait()).unwrap();
        blocks.find_elsewhere(0..6);
        assert_eq!((0..6).filter(|block| blocks.get(*block) == Some(bytes_of(*block))).count(), 2);
        comm.barrier(&wait()).unwrap();
        cache.close(&wait()).unwrap();
    });
}
