//! Reads of the parts of other ranks, many at a time: one request to each rank, all under way at once.

use std::collections::{BTreeMap, HashSet};

use forebay_store::{Wait, WindowPiece, WindowRead};

use crate::{
    block_digest::BlockDigest,
    block_table::{ENTRY_LEN, EntryWords, PROBED, TableShape},
    table_view::{KnownBlock, TableView},
};

/// Bytes of another rank's shard that are wanted.
pub(crate) struct PeerRead<'a> {
    pub(crate) part: usize,
    pub(crate) offset: u64,
    pub(crate) into: &'a mut [u8],
    /// Set when `into` holds them.
    pub(crate) is_filled: &'a mut bool,
}

/// The most bytes of blocks that are compared at once, but for one block that is longer.
const COMPARED_BYTES: u64 = 16 << 20;

/// Fills those of `gets` whose memory is mapped or whose ranks answer. A failure is counted, and its rank left alone for a while.
pub(crate) fn get_all(view: &TableView, gets: &mut [PeerRead<'_>], wait: &Wait<'_>) {
    let mut of_parts: BTreeMap<usize, Vec<WindowPiece<'_>>> = BTreeMap::new();
    for PeerRead { part, offset, into, is_filled } in gets.iter_mut() {
        if let Some(shard) = view.window.shared(view.parts[*part].leader) {
            **is_filled = shard.copy_to(*offset, into).is_ok();
        } else if view.answers(*part) {
            of_parts.entry(*part).or_default().push(WindowPiece { offset: *offset, into });
        }
    }
    // A reader whose time is over says nothing of the ranks.
    if of_parts.is_empty() || wait.go_on(String::new).is_err() {
        return;
    }
    let asked: Vec<usize> = of_parts.keys().copied().collect();
    let read = |(part, pieces): (usize, Vec<_>)| WindowRead {
        rank: view.parts[part].leader,
        pieces,
        outcome: Ok(()),
    };
    let mut reads: Vec<WindowRead<'_>> = of_parts.into_iter().map(read).collect();
    view.window.get(&mut reads, wait);
    let outcomes: Vec<bool> = reads.into_iter().map(|read| read.outcome.is_ok()).collect();
    for (part, _) in asked.iter().zip(&outcomes).filter(|(_, is_read)| !**is_read) {
        view.stats.fault();
        view.rest(*part);
    }
    for get in gets.iter_mut() {
        let answer = asked.binary_search(&get.part).ok().map(|index| outcomes[index]);
        *get.is_filled |= answer.unwrap_or(false);
    }
}

/// The entries of one table that a block may stand in, as they were read.
struct ProbedEntries {
    part: usize,
    name: BlockDigest,
    bytes: [u8; PROBED * ENTRY_LEN],
    is_filled: [bool; 2],
}

/// Looks for blocks in the parts of other ranks that may hold them, and remembers where they are.
pub(crate) fn find_all(view: &TableView, names: &HashSet<BlockDigest>, wait: &Wait<'_>) {
    let probe = |name: BlockDigest, part: usize| ProbedEntries {
        part,
        name,
        bytes: [0; PROBED * ENTRY_LEN],
        is_filled: [true; 2],
    };
    let of_name = |name: &BlockDigest| {
        let name = *name;
        view.other_parts(name).map(move |part| probe(name, part))
    };
    let mut probes: Vec<ProbedEntries> = names.iter().flat_map(of_name).collect();
    let mut gets = Vec::with_capacity(probes.len());
    for ProbedEntries { part, name, bytes, is_filled } in &mut probes {
        let (offsets, first_len) = entry_runs(view.parts[*part].shape, *name);
        let (first, second) = bytes.split_at_mut(first_len);
        for ((offset, into), is_filled) in offsets.into_iter().zip([first, second]).zip(is_filled) {
            if !into.is_empty() {
                *is_filled = false;
                gets.push(PeerRead { part: *part, offset, into, is_filled });
            }
        }
    }
    get_all(view, &mut gets, wait);
    for probe in probes.iter().filter(|probe| probe.is_filled == [true; 2]) {
        let (entries, _) = probe.bytes.as_chunks::<ENTRY_LEN>();
        let found = entries.iter().find_map(|entry| EntryWords::from_bytes(entry).place_of(probe.name));
        if let Some(place) = found.filter(|place| place.len <= view.parts[probe.part].shape.slot_len) {
            let block = KnownBlock { part: probe.part, place, is_compared: false };
            view.remember(probe.name, block);
        }
    }
}

/// Where the entries of `name` lie in a shard of `shape`: from the first offset on as many bytes, the rest from the second.
fn entry_runs(shape: TableShape, name: BlockDigest) -> ([u64; 2], usize) {
    let entries: Vec<u64> = shape.probed(name).collect();
    let first = entries.first().copied().unwrap_or(0);
    let wraps = entries.iter().position(|entry| *entry < first).unwrap_or(entries.len());
    ([shape.entry_at(first), shape.entry_at(0)], wraps * ENTRY_LEN)
}

/// Reads whole blocks of other ranks and compares them with their checksums: what is right is remembered and handed to `found`.
pub(crate) fn compare_all(
    view: &TableView,
    blocks: &[(BlockDigest, KnownBlock)],
    wait: &Wait<'_>,
    mut found: impl FnMut(BlockDigest, &[u8]),
) {
    let longest = blocks.iter().map(|(_, block)| block.place.len).max().unwrap_or(1).max(1);
    let together = usize::try_from(COMPARED_BYTES / longest).unwrap_or(1).max(1);
    for blocks in blocks.chunks(together) {
        let buffer = |block: &KnownBlock| vec![0_u8; usize::try_from(block.place.len).unwrap_or(0)];
        let mut read: Vec<(Vec<u8>, bool)> = blocks.iter().map(|(_, block)| (buffer(block), false)).collect();
        let mut gets = Vec::with_capacity(read.len());
        for ((_, block), (into, is_filled)) in blocks.iter().zip(&mut read) {
            let offset = view.parts[block.part].shape.slot_at(block.place.slot);
            gets.push(PeerRead { part: block.part, offset, into, is_filled });
        }
        get_all(view, &mut gets, wait);
        for ((name, block), (bytes, is_filled)) in blocks.iter().zip(&read) {
            if *is_filled && crc32c::crc32c(bytes) == block.place.checksum {
                view.remember(*name, KnownBlock { is_compared: true, ..*block });
                found(*name, bytes);
                continue;
            }
            if *is_filled {
                view.stats.fault();
            }
            view.forget(*name);
        }
    }
}
