//! The contract of a tier's copies, clause by clause, for every kind of tier and for a tiny one of the tests' own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what cannot be had has failed the test")]

mod made;

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::{ByteRange, Locator, MemoryOrigin, Origin, Source, SourceExt, SourceId, Version};
use forebay_tier::{
    Admission, BlockPiece, BuiltinPolicy, Claim, Claimed, Copies, DiskTier, EvictedBlock, MemoryTier,
    Ranking, Room, SourceBlocks, SourceKey, Tier, Usage, WholeCopy,
};
use made::{disk_options, pattern};

const BLOCK_LEN: u64 = 1000;
const LEN: usize = 4500;

/// A tier of a hundred lines: what is put stays, and nothing is ever refused.
#[derive(Debug, Default)]
struct TableTier(Mutex<HashMap<SourceKey, Arc<Table>>>);

#[derive(Debug)]
struct Table {
    blocks: SourceBlocks,
    present: Mutex<HashMap<u64, Bytes>>,
}

impl Tier for TableTier {
    fn name(&self) -> &'static str {
        "table"
    }

    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>> {
        let mut tables = self.0.lock().unwrap();
        let table = tables.entry(SourceKey::of(source)).or_insert_with(|| {
            Arc::new(Table { blocks: SourceBlocks::new(source.len, BLOCK_LEN), present: Mutex::default() })
        });
        Some(Arc::clone(table) as _)
    }

    fn usage(&self) -> Usage {
        let used = self.0.lock().unwrap().values().map(|table| table.held()).sum();
        Usage { used, quota: u64::MAX, ..Usage::default() }
    }

    fn left_out(&self) -> Option<&str> {
        None
    }

    fn wait(&self, _: Instant) -> bool {
        true
    }

    fn close(&self, _: Instant) {
        self.0.lock().unwrap().clear();
    }
}

impl Copies for Table {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], deadline: Option<Instant>) {
        let present = self.present.lock().unwrap();
        // From the last to the first, and none past the deadline: both are allowed.
        for piece in pieces.iter_mut().rev().filter(|piece| !piece.is_filled) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return;
            }
            let from = usize::try_from(piece.from).unwrap_or(usize::MAX);
            let part = present.get(&piece.block).and_then(|block| block.get(from..)?.get(..piece.into.len()));
            if let Some(part) = part {
                piece.into.copy_from_slice(part);
                piece.is_filled = true;
            }
        }
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        self.present.lock().unwrap().get(&block).cloned()
    }

    fn has(&self, block: u64) -> bool {
        self.present.lock().unwrap().contains_key(&block)
    }

    fn held(&self) -> u64 {
        self.present.lock().unwrap().values().map(|block| block.len() as u64).sum()
    }

    fn room(&self, _: u64, _: u64) -> Room {
        Room::Free
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, _: bool) -> Claim {
        if self.has(block) {
            return Claim::Here;
        }
        assert_eq!(len, self.blocks.range(block).len());
        Claim::Held(Box::new(TableClaim { table: self, block }))
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        let present = self.present.lock().unwrap();
        let blocks = (0..self.blocks.count()).map(|block| Some(&present.get(&block)?[..]));
        let bytes = blocks.collect::<Option<Vec<_>>>()?.concat();
        let origin = MemoryOrigin::default().with("whole", bytes.clone());
        Some(Arc::new(TableWhole { source: origin.open(&Locator::new("whole")).unwrap(), bytes }))
    }

    fn is_elsewhere(&self, _: u64) -> bool {
        false
    }

    fn serves_others(&self) -> bool {
        false
    }

    fn settle(&self) {}
}

/// A whole copy whose file has no name at all: whatever becomes of the tier, it is the holder's.
#[derive(Debug)]
struct TableWhole {
    source: Arc<dyn Source>,
    bytes: Vec<u8>,
}

impl WholeCopy for TableWhole {
    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        let mut file = tempfile::tempfile().ok()?;
        file.write_all(&self.bytes).ok()?;
        Some(file.into())
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn distrust(&self) {}

    fn touch(&self) {}
}

#[derive(Debug)]
struct TableClaim {
    table: Arc<Table>,
    block: u64,
}

impl Claimed for TableClaim {
    fn put(self: Box<Self>, bytes: &[u8]) -> Admission {
        self.table.present.lock().unwrap().insert(self.block, Bytes::copy_from_slice(bytes));
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<EvictedBlock> {
        Vec::new()
    }
}

fn id(name: &str) -> SourceId {
    SourceId { locator: Locator::new(name), len: LEN as u64, version: Version::named("v") }
}

/// The copies of a source on `tier`, on which the blocks of `present` were put.
fn filled(tier: &dyn Tier, name: &str, bytes: &[u8], present: &[u64]) -> Arc<dyn Copies> {
    let (copies, blocks) = (tier.copies(&id(name)).unwrap(), SourceBlocks::new(LEN as u64, BLOCK_LEN));
    for block in present {
        let range = blocks.range(*block);
        let of_block = range.cut(&Bytes::copy_from_slice(bytes), 0);
        let Claim::Held(claimed) = Arc::clone(&copies).claim(*block, range.len(), true) else {
            panic!("no room for block {block}")
        };
        assert_eq!(claimed.put(&of_block), Admission::Kept);
    }
    copies
}

/// One piece: a block, its first byte, its length.
type Wanted = (u64, u64, usize);

/// Reads `wanted` in one call, and says which were filled; each that was holds the right bytes.
fn read(copies: &dyn Copies, bytes: &[u8], wanted: &[Wanted], deadline: Option<Instant>) -> Vec<bool> {
    let mut memory: Vec<Vec<u8>> = wanted.iter().map(|(_, _, len)| vec![0xee; *len]).collect();
    let mut pieces: Vec<_> = memory
        .iter_mut()
        .zip(wanted)
        .map(|(into, (block, from, _))| BlockPiece { block: *block, from: *from, into, is_filled: false })
        .collect();
    copies.read_many(&mut pieces, deadline);
    let filled: Vec<bool> = pieces.iter().map(|piece| piece.is_filled).collect();
    for ((is_filled, memory), (block, from, len)) in filled.iter().zip(&memory).zip(wanted) {
        let start = usize::try_from(block * BLOCK_LEN + from).unwrap();
        assert!(
            !is_filled || memory[..] == bytes[start..start + len],
            "block {block} from {from}, {len} bytes"
        );
    }
    filled
}

/// Whether or not the tier has synced what was put.
fn at_once_and_once_settled(tier: &dyn Tier, clause: impl Fn()) {
    clause();
    assert!(tier.wait(Instant::now() + Duration::from_secs(60)));
    clause();
}

fn pieces_in_any_order_are_filled_where_their_blocks_are(tier: &dyn Tier) {
    let bytes = pattern(1, LEN);
    let copies = filled(tier, "any order", &bytes, &[0, 1, 2, 4]);
    let wanted =
        [(4, 0, 500), (0, 990, 10), (1, 0, 1000), (2, 0, 7), (3, 0, 10), (0, 0, 1), (1, 5, 20), (2, 7, 0)];
    at_once_and_once_settled(tier, || {
        let expected = [true, true, true, true, false, true, true, true];
        assert_eq!(read(&*copies, &bytes, &wanted, None), expected, "{tier:?}");
    });
}

fn many_neighbours_are_one_read_of_right_bytes(tier: &dyn Tier) {
    let bytes = pattern(2, LEN);
    let copies = filled(tier, "neighbours", &bytes, &[0, 1, 2, 3]);
    let wanted: Vec<Wanted> = (0..100).map(|index| (index / 25, index % 25 * 40, 40)).collect();
    at_once_and_once_settled(tier, || {
        assert_eq!(read(&*copies, &bytes, &wanted, None), [true; 100], "{tier:?}");
    });
}

fn a_piece_past_the_end_of_its_block_is_a_miss_and_spoils_no_other(tier: &dyn Tier) {
    let bytes = pattern(3, LEN);
    let copies = filled(tier, "past the end", &bytes, &[0, 1, 4]);
    let wanted = [(0, 999, 1), (4, 499, 1), (1, 0, 10)];
    assert_eq!(read(&*copies, &bytes, &wanted, None), [true; 3], "{tier:?}");
    let mut memory = [[0; 10]; 4];
    let mut pieces: Vec<_> = memory
        .iter_mut()
        .zip([(0, 995), (4, 495), (1, u64::MAX), (1, 0)])
        .map(|(into, (block, from))| BlockPiece { block, from, into, is_filled: false })
        .collect();
    copies.read_many(&mut pieces, None);
    let filled: Vec<bool> = pieces.iter().map(|piece| piece.is_filled).collect();
    assert_eq!(filled, [false, false, false, true], "{tier:?}");
}

fn a_piece_that_is_filled_is_left_as_it_is(tier: &dyn Tier) {
    let bytes = pattern(4, LEN);
    let copies = filled(tier, "filled", &bytes, &[0]);
    let (mut one, mut other) = ([1; 4], [2; 4]);
    let mut pieces = [
        BlockPiece { block: 0, from: 0, into: &mut one, is_filled: true },
        BlockPiece { block: 0, from: 4, into: &mut other, is_filled: false },
    ];
    copies.read_many(&mut pieces, None);
    assert!(pieces.iter().all(|piece| piece.is_filled));
    assert_eq!((one, &other[..]), ([1; 4], &bytes[4..8]), "{tier:?}");
}

fn a_deadline_that_is_over_costs_pieces_and_never_bytes(tier: &dyn Tier) {
    let bytes = pattern(5, LEN);
    let copies = filled(tier, "deadline", &bytes, &[0, 2, 4]);
    let wanted = [(0, 0, 10), (2, 0, 10), (4, 0, 10)];
    let now = Instant::now();
    // Each piece that is filled is right; how many are is the tier's own affair.
    read(&*copies, &bytes, &wanted, Some(now));
    assert!(now.elapsed() < Duration::from_secs(60), "{tier:?}");
    let later = Some(Instant::now() + Duration::from_secs(600));
    assert_eq!(read(&*copies, &bytes, &wanted, later), [true; 3], "{tier:?}");
}

fn a_block_is_put_once_and_counted(tier: &dyn Tier) {
    let before = tier.usage().used;
    let bytes = pattern(6, LEN);
    let copies = filled(tier, "counted", &bytes, &[1, 4]);
    assert!(matches!(Arc::clone(&copies).claim(1, BLOCK_LEN, true), Claim::Here));
    assert_eq!((copies.has(1), copies.has(2), copies.held()), (true, false, 1500), "{tier:?}");
    assert_eq!(tier.usage().used - before, 1500, "{tier:?}");
    assert_eq!(copies.get(4).as_deref(), Some(&bytes[4000..]), "{tier:?}");
    assert!(tier.copies(&id("another")).is_none_or(|other| !other.has(1)), "{tier:?}");
}

fn a_whole_copy_is_the_source_and_its_descriptor_lasts_longer_than_the_copy(tier: &dyn Tier) {
    let bytes = pattern(7, LEN);
    let copies = filled(tier, "whole", &bytes, &[0, 1, 2, 3]);
    assert!(copies.whole().is_none(), "a block is missing: {tier:?}");
    let copies = filled(tier, "whole", &bytes, &[4]);
    copies.settle();
    assert!(tier.wait(Instant::now() + Duration::from_secs(60)));
    // A tier of blocks alone has none.
    let Some(whole) = copies.whole() else { return };
    let all = ByteRange { start: 0, end: LEN as u64 };
    assert_eq!(whole.source().fetch_one(all).unwrap()[..], bytes[..], "{tier:?}");
    whole.touch();
    let file = File::from(whole.descriptor().expect("a descriptor"));
    assert!(!whole.is_gone());
    drop((whole, copies));
    let mut read = vec![0; LEN];
    file.read_exact_at(&mut read, 0).unwrap();
    assert_eq!((read, file.metadata().unwrap().len()), (bytes, LEN as u64), "{tier:?}");
}

fn a_tier_that_was_closed_holds_nothing_back_and_changes_no_byte(tier: &dyn Tier) {
    let bytes = pattern(8, LEN);
    let copies = filled(tier, "closed", &bytes, &[0, 1]);
    for _ in 0..2 {
        let began = Instant::now();
        tier.close(began + Duration::from_secs(1));
        assert!(began.elapsed() < Duration::from_secs(60), "{tier:?}");
        // A hit or a miss, and never other bytes.
        read(&*copies, &bytes, &[(0, 0, 10), (1, 7, 900)], None);
    }
}

fn every_clause(tier: &dyn Tier) {
    pieces_in_any_order_are_filled_where_their_blocks_are(tier);
    many_neighbours_are_one_read_of_right_bytes(tier);
    a_piece_past_the_end_of_its_block_is_a_miss_and_spoils_no_other(tier);
    a_piece_that_is_filled_is_left_as_it_is(tier);
    a_deadline_that_is_over_costs_pieces_and_never_bytes(tier);
    a_block_is_put_once_and_counted(tier);
    a_whole_copy_is_the_source_and_its_descriptor_lasts_longer_than_the_copy(tier);
    a_tier_that_was_closed_holds_nothing_back_and_changes_no_byte(tier);
}

fn disk_tier(folder: &Path) -> DiskTier {
    DiskTier::open(disk_options(folder, 1 << 20, BLOCK_LEN), Ranking::new(BuiltinPolicy::FirstFit)).unwrap()
}

#[test]
fn a_memory_tier_keeps_the_contract() {
    every_clause(&MemoryTier::new(1 << 20, Ranking::new(BuiltinPolicy::FirstFit)));
}

#[test]
fn a_disk_tier_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    every_clause(&disk_tier(folder.path()));
}

#[test]
fn a_tier_of_another_kind_keeps_the_contract() {
    every_clause(&TableTier::default());
}
