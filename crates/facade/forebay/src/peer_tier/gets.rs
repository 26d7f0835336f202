//! Reads of the memory of other ranks, many at a time: one request to each rank, all under way at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering::Relaxed,
};

use forebay_process::ErrorKind;
use forebay_store::{Wait, WindowPiece, WindowRead};

use super::{
    shared::PeerShared,
    table::{BlockName, ENTRY_LEN, PeerSlot, TableEntry},
};

/// Bytes of a rank's memory that are wanted.
pub(super) struct PeerGet<'a> {
    pub(super) rank: usize,
    pub(super) offset: u64,
    pub(super) into: &'a mut [u8],
    /// Set when `into` holds them.
    pub(super) is_filled: &'a mut bool,
}

/// The most bytes of blocks that are compared at once, but for one block that is longer.
const COMPARED_BYTES: u64 = 16 << 20;

/// Fills those of `gets` whose ranks answer. A failure is counted, and its rank left alone for a while.
pub(super) fn get_all(shared: &PeerShared, gets: &mut [PeerGet<'_>], wait: &Wait<'_>) {
    let mut of_ranks: BTreeMap<usize, Vec<WindowPiece<'_>>> = BTreeMap::new();
    for PeerGet { rank, offset, into, is_filled } in gets.iter_mut() {
        if let Some(shard) = shared.window.shared(*rank) {
            **is_filled = shard.copy_to(*offset, into).is_ok();
        } else if shared.answers(*rank) {
            of_ranks.entry(*rank).or_default().push(WindowPiece { offset: *offset, into });
        }
    }
    // A reader whose time is over says nothing of the ranks.
    if of_ranks.is_empty() || wait.go_on(String::new).is_err() {
        return;
    }
    let read = |(rank, pieces)| WindowRead { rank, pieces, outcome: Ok(()) };
    let mut reads: Vec<_> = of_ranks.into_iter().map(read).collect();
    shared.window.get(&mut reads, wait);
    let mut answered = BTreeSet::new();
    for WindowRead { rank, outcome, .. } in reads {
        match outcome {
            Ok(()) => {
                answered.insert(rank);
            }
            Err(error) => {
                shared.faults.fetch_add(1, Relaxed);
                if error.kind() == ErrorKind::Unavailable {
                    shared.rest(rank);
                }
            }
        }
    }
    let answered = gets.iter_mut().filter(|get| answered.contains(&get.rank));
    answered.for_each(|get| *get.is_filled = true);
}

/// Looks for blocks in the tables of their homes, and compares those that are there with their checksums: what is right is
/// remembered, and handed to `found`.
pub(super) fn find_all(
    shared: &PeerShared,
    names: &[BlockName],
    wait: &Wait<'_>,
    mut found: impl FnMut(BlockName, &[u8]),
) {
    let entries = find_entries(shared, names, wait);
    let together = usize::try_from(COMPARED_BYTES / shared.shape.slot_len().max(1)).unwrap_or(1).max(1);
    for entries in entries.chunks(together) {
        let buffer = |at: &PeerSlot| vec![0u8; usize::try_from(at.len).unwrap_or(0)];
        let mut blocks: Vec<_> = entries.iter().map(|(_, at)| (buffer(at), false)).collect();
        let mut gets = Vec::with_capacity(blocks.len());
        for ((_, at), (into, is_filled)) in entries.iter().zip(&mut blocks) {
            gets.push(PeerGet { rank: at.rank, offset: shared.shape.slot_at(at.slot), into, is_filled });
        }
        get_all(shared, &mut gets, wait);
        for ((entry, at), (bytes, is_filled)) in entries.iter().zip(&blocks) {
            if *is_filled && crc32c::crc32c(bytes) == entry.checksum {
                shared.remember(entry.name, *at);
                found(entry.name, bytes);
            } else if *is_filled {
                shared.faults.fetch_add(1, Relaxed);
            }
        }
    }
}

/// The entries of `names` in the tables of their homes, and where the blocks are.
fn find_entries(shared: &PeerShared, names: &[BlockName], wait: &Wait<'_>) -> Vec<(TableEntry, PeerSlot)> {
    let (shape, size) = (shared.shape, shared.comm.size());
    let places_of = |name: BlockName| {
        let place = move |slot| PeerSlot { rank: name.home(size), slot, len: 0 };
        shape.probed(name).map(move |slot| (name, place(slot)))
    };
    let places: Vec<_> = names.iter().flat_map(|name| places_of(*name)).collect();
    let mut entries = vec![([0; ENTRY_LEN], false); places.len()];
    let mut gets = Vec::with_capacity(places.len());
    for ((_, at), (into, is_filled)) in places.iter().zip(&mut entries) {
        gets.push(PeerGet { rank: at.rank, offset: shape.entry_at(at.slot), into, is_filled });
    }
    get_all(shared, &mut gets, wait);
    let mut found = Vec::new();
    for ((name, at), (bytes, is_filled)) in places.into_iter().zip(&entries) {
        let entry = TableEntry::parse(bytes).filter(|entry| *is_filled && entry.name == name);
        if let Some(entry) = entry {
            found.push((entry, PeerSlot { len: entry.len.min(shape.slot_len()), ..at }));
        }
    }
    found
}
