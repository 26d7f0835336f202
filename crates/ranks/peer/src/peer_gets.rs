//! Reads of the parts of other hosts, many at a time: one request to each host, all under way at once.

use std::collections::BTreeMap;

use forebay_store::{Wait, WindowPiece, WindowRead};

use crate::{
    block_digest::BlockDigest,
    host_table::{ENTRY_LEN, EntryWords, HostTableShape, PROBED},
    peer_view::{KnownBlock, PeerView},
};

/// Bytes of another host's shard that are wanted.
pub(crate) struct PeerRead<'a> {
    pub(crate) host: usize,
    pub(crate) offset: u64,
    pub(crate) into: &'a mut [u8],
    /// Set when `into` holds them.
    pub(crate) is_filled: &'a mut bool,
}

/// The most bytes of blocks that are compared at once, but for one block that is longer.
const COMPARED_BYTES: u64 = 16 << 20;

/// Fills those of `gets` whose hosts answer. A failure is counted, and its host left alone for a while.
pub(crate) fn get_all(view: &PeerView, gets: &mut [PeerRead<'_>], wait: &Wait<'_>) {
    let mut of_hosts: BTreeMap<usize, Vec<WindowPiece<'_>>> = BTreeMap::new();
    for PeerRead { host, offset, into, .. } in gets.iter_mut().filter(|get| view.answers(get.host)) {
        of_hosts.entry(*host).or_default().push(WindowPiece { offset: *offset, into });
    }
    if of_hosts.is_empty() || !view.is_rank() {
        return;
    }
    let asked: Vec<usize> = of_hosts.keys().copied().collect();
    let read = |(host, pieces): (usize, Vec<_>)| WindowRead {
        rank: view.hosts[host].leader,
        pieces,
        outcome: Ok(()),
    };
    let mut reads: Vec<WindowRead<'_>> = of_hosts.into_iter().map(read).collect();
    view.window.get(&mut reads, wait);
    let outcomes: Vec<bool> = reads.into_iter().map(|read| read.outcome.is_ok()).collect();
    for (host, _) in asked.iter().zip(&outcomes).filter(|(_, is_read)| !**is_read) {
        view.stats.fault();
        view.rest(*host);
    }
    for get in gets.iter_mut() {
        let answer = asked.binary_search(&get.host).ok().map(|index| outcomes[index]);
        *get.is_filled |= answer.unwrap_or(false);
    }
}

/// The entries of one table that a block may stand in, as they were read.
struct ProbedEntries {
    host: usize,
    name: BlockDigest,
    bytes: [u8; PROBED * ENTRY_LEN],
    is_filled: [bool; 2],
}

/// Looks for blocks in the tables of all other hosts, and remembers where they are.
pub(crate) fn find_all(view: &PeerView, names: &[BlockDigest], wait: &Wait<'_>) {
    let of_host = |host: usize| {
        let probe = move |name: &BlockDigest| ProbedEntries {
            host,
            name: *name,
            bytes: [0; PROBED * ENTRY_LEN],
            is_filled: [true; 2],
        };
        names.iter().map(probe)
    };
    let mut probes: Vec<ProbedEntries> = view.other_hosts().flat_map(of_host).collect();
    let mut gets = Vec::with_capacity(probes.len());
    for ProbedEntries { host, name, bytes, is_filled } in &mut probes {
        let (offsets, first_len) = entry_runs(view.hosts[*host].shape, *name);
        let (first, second) = bytes.split_at_mut(first_len);
        for ((offset, into), is_filled) in offsets.into_iter().zip([first, second]).zip(is_filled) {
            if !into.is_empty() {
                *is_filled = false;
                gets.push(PeerRead { host: *host, offset, into, is_filled });
            }
        }
    }
    get_all(view, &mut gets, wait);
    for probe in probes.iter().filter(|probe| probe.is_filled == [true; 2]) {
        let (entries, _) = probe.bytes.as_chunks::<ENTRY_LEN>();
        let found = entries.iter().find_map(|entry| EntryWords::from_bytes(entry).place_of(probe.name));
        if let Some(place) = found.filter(|place| place.len <= view.hosts[probe.host].shape.slot_len) {
            let block = KnownBlock { host: probe.host, place, is_compared: false };
            view.remember(probe.name, block);
        }
    }
}

/// Where the entries of `name` lie in a shard of `shape`: from the first offset on as many bytes, the rest from the second.
fn entry_runs(shape: HostTableShape, name: BlockDigest) -> ([u64; 2], usize) {
    let entries: Vec<u64> = shape.probed(name).collect();
    let first = entries.first().copied().unwrap_or(0);
    let wraps = entries.iter().position(|entry| *entry < first).unwrap_or(entries.len());
    ([shape.entry_at(first), shape.entry_at(0)], wraps * ENTRY_LEN)
}

/// Reads whole blocks of other hosts and compares them with their checksums: what is right is remembered and handed to `found`.
pub(crate) fn compare_all(
    view: &PeerView,
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
            let offset = view.hosts[block.host].shape.slot_at(block.place.slot);
            gets.push(PeerRead { host: block.host, offset, into, is_filled });
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
