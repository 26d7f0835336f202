//! Origins and tiers for the tests.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::{path::Path, sync::Arc, time::Duration};

use forebay_source::{FaultOrigin, FaultSchedule, Locator, MemoryOrigin};
use forebay_tier::{
    BlockPiece, BuiltinPolicy, Copies, DiskOptions, DiskTier, ForesightHandle, MemoryTier, Placement, Policy,
    Ranking, Tier, Tiered,
};

/// Bytes that tell where they stand.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

/// `count` sources of `len` bytes in memory, behind an origin that counts and can be slow.
pub(crate) fn origin(count: u64, len: usize, schedule: FaultSchedule) -> (Arc<FaultOrigin>, Vec<Vec<u8>>) {
    let contents: Vec<_> = (0..count).map(|seed| pattern(seed + 1, len)).collect();
    let named = contents.iter().enumerate().map(|(index, bytes)| (name(index), bytes.clone()));
    let memory =
        named.fold(MemoryOrigin::default(), |origin, (name, bytes)| origin.with(name.as_str(), bytes));
    (Arc::new(FaultOrigin::new(Arc::new(memory), schedule)), contents)
}

pub(crate) fn name(index: usize) -> Locator {
    Locator::new(format!("file{index:03}"))
}

pub(crate) fn slow(delay_ms: u64) -> FaultSchedule {
    FaultSchedule { delay: Duration::from_millis(delay_ms), ..FaultSchedule::default() }
}

pub(crate) fn ranking(policy: BuiltinPolicy, foresight: &ForesightHandle) -> Ranking {
    Ranking { policy: Arc::new(policy), foresight: foresight.clone() }
}

pub(crate) fn placement(block_len: u64) -> Placement {
    Placement { block_len, threads: 4, recheck: Duration::from_secs(3600), ..Placement::default() }
}

pub(crate) fn disk_options(folder: &Path, quota: u64, block_len: u64) -> DiskOptions {
    DiskOptions { path: folder.to_owned(), quota, free: 0, keep: true, block_len }
}

/// Fills `into` with the bytes of `block` from `from` on; false when they are not there.
pub(crate) fn read_piece(copies: &dyn Copies, block: u64, from: u64, into: &mut [u8]) -> bool {
    let mut piece = BlockPiece { block, from, into, is_filled: false };
    copies.read_many(std::slice::from_mut(&mut piece), None);
    piece.is_filled
}

/// `origin` through a disk tier in `folder`.
pub(crate) fn on_disk(
    origin: Arc<FaultOrigin>,
    folder: &Path,
    quota: u64,
    policy: BuiltinPolicy,
    placement: Placement,
) -> Tiered {
    let placement = Placement { evicts_for_prefetch: !policy.newcomers_compete(), ..placement };
    let options = disk_options(folder, quota, placement.block_len);
    let foresight = placement.foresight.clone();
    let make = move || {
        let tier = DiskTier::open(options.clone(), ranking(policy, &foresight))?;
        Ok(vec![Arc::new(tier) as Arc<dyn Tier>])
    };
    Tiered::new(origin, make, placement).expect("tiers")
}

/// `origin` through a memory tier.
pub(crate) fn in_memory(
    origin: Arc<FaultOrigin>,
    quota: u64,
    policy: BuiltinPolicy,
    placement: Placement,
) -> Tiered {
    let placement = Placement { evicts_for_prefetch: !policy.newcomers_compete(), ..placement };
    let foresight = placement.foresight.clone();
    let make =
        move || Ok(vec![Arc::new(MemoryTier::new(quota, ranking(policy, &foresight))) as Arc<dyn Tier>]);
    Tiered::new(origin, make, placement).expect("tiers")
}
