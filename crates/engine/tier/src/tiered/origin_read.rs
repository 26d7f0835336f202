//! Reads what no tier has from the origin: whole blocks where a tier will keep them, else just what is asked for.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::Instant,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Fill, SourceExt};

use crate::{
    flight::{Flight, FlightPart, Landed, Turn},
    stats::nanos,
    tier::BlockPiece,
    tiered::{
        fetch::fetch_block,
        process_tiers::ProcessTiers,
        source_state::{PATIENCE, SourceState},
    },
};

/// Fills `missing`: blocks that a tier will keep are fetched whole, once; of others just what is asked for.
pub(crate) fn read_origin(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    mut missing: Vec<BlockPiece<'_>>,
) -> Result<()> {
    let began = Instant::now();
    missing.sort_unstable_by_key(|piece| (piece.block, piece.from));
    let mut flights: Vec<(u64, Arc<Flight>)> = Vec::new();
    let mut exact = Vec::new();
    let mut rest = &mut missing[..];
    while let Some(first) = rest.first() {
        let block = first.block;
        let count = rest.iter().position(|piece| piece.block != block).unwrap_or(rest.len());
        let (own, after) = rest.split_at_mut(count);
        rest = after;
        let asked = own.iter().map(|piece| piece.into.len() as u64).sum();
        let may_replace = process.placement.evicts_for_prefetch || state.is_most(block, asked);
        if !state.has_room(block, may_replace)
            && process.flights.find(state.key, FlightPart::Block(block)).is_none()
        {
            // It may have been placed, and have taken the last room, since it was looked for. Others were just asked.
            if state.has(block) || !state.is_elsewhere(block) {
                state.read_tiers(&process.counters, own);
            }
            exact.extend(own.iter_mut().filter(|piece| !piece.is_filled));
            continue;
        }
        match process.flights.turn(state.key, FlightPart::Block(block)) {
            Turn::Follow(flight) => flights.push((block, flight)),
            Turn::Lead(lead) => {
                flights.push((block, lead.flight()));
                let (process_then, state) = (Arc::clone(process), Arc::clone(state));
                process.threads.urgent(Box::new(move || {
                    fetch_block(&process_then, &state, block, may_replace, lead);
                }));
            }
        }
    }
    let mut exactly = if exact.is_empty() { Ok(()) } else { fetch_exactly(process, state, exact) };
    if exactly.is_ok() {
        exactly = land(&flights, &mut missing).and_then(|unplaced| {
            let left: Vec<_> = missing.iter_mut().filter(|piece| unplaced.contains(&piece.block)).collect();
            if left.is_empty() { Ok(()) } else { fetch_exactly(process, state, left) }
        });
    }
    process.counters.wait_ns.fetch_add(nanos(began), Relaxed);
    exactly.map_err(|error| error.at(&state.id().locator))
}

/// Copies what `flights` bring; gives the blocks that they do not, for want of room or time.
fn land(flights: &[(u64, Arc<Flight>)], missing: &mut [BlockPiece<'_>]) -> Result<HashSet<u64>> {
    let mut unplaced = HashSet::new();
    for (block, flight) in flights {
        // A reader that waits longer than any fetch takes reads for itself.
        let landed = flight.wait(PATIENCE).unwrap_or(Landed::NoRoom);
        let Some(bytes) = landed.into_result()? else {
            unplaced.insert(*block);
            continue;
        };
        let first = missing.partition_point(|piece| piece.block < *block);
        for piece in missing[first..].iter_mut().take_while(|piece| piece.block == *block) {
            let from = usize::try_from(piece.from).unwrap_or(usize::MAX);
            let part = bytes.get(from..from.saturating_add(piece.into.len()));
            let short = || Error::new(ErrorKind::Bug, "a block is shorter than its range");
            piece.into.copy_from_slice(part.ok_or_else(short)?);
        }
    }
    Ok(unplaced)
}

/// Fetches `pieces` and no byte more.
fn fetch_exactly(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    pieces: Vec<&mut BlockPiece<'_>>,
) -> Result<()> {
    let range_of = |piece: &BlockPiece<'_>| {
        ByteRange::at(state.blocks.range(piece.block).start + piece.from, piece.into.len() as u64)
    };
    let ranges: Vec<_> = pieces.iter().map(|piece| range_of(piece)).collect();
    // Pieces of one read that a border of blocks cut apart are one request again.
    let runs = forebay_source::coalesce(&ranges, 0);
    let bytes = ranges.iter().map(|range| range.len()).sum();
    if state.inner.request_bytes() == 0 || runs.len() == 1 {
        let began = Instant::now();
        let mut fills: Vec<_> = pieces
            .into_iter()
            .zip(&ranges)
            .map(|(piece, range)| Fill { range: *range, into: piece.into })
            .collect();
        state.inner.fetch_into(&mut fills)?;
        process.counters.origin.add(runs.len() as u64, bytes, began);
        return Ok(());
    }
    // Behind a network requests wait side by side.
    let together = runs.len().div_ceil(process.threads.count());
    let (send, received) = mpsc::channel();
    for runs in runs.chunks(together) {
        let (process_then, state, runs, send) =
            (Arc::clone(process), Arc::clone(state), runs.to_vec(), send.clone());
        process.threads.urgent(Box::new(move || {
            let began = Instant::now();
            let fetched = state.inner.fetch(&runs);
            let bytes = runs.iter().map(|run| run.len()).sum();
            process_then.counters.origin.add(runs.len() as u64, bytes, began);
            // A reader that no longer listens has returned an error.
            let _ = send.send(fetched.map(|fetched| runs.into_iter().zip(fetched).collect::<Vec<_>>()));
        }));
    }
    drop(send);
    let mut fetched = Vec::with_capacity(runs.len());
    for part in received {
        fetched.extend(part?);
    }
    fetched.sort_unstable_by_key(|(run, _)| run.start);
    let lost = || Error::new(ErrorKind::Unavailable, "a thread that read it was stopped");
    if fetched.len() != runs.len() {
        return Err(lost());
    }
    for (piece, range) in pieces.into_iter().zip(&ranges) {
        if range.is_empty() {
            continue;
        }
        let index = fetched.partition_point(|(run, _)| run.start <= range.start).checked_sub(1);
        let (run, bytes) = index.and_then(|index| fetched.get(index)).ok_or_else(lost)?;
        piece.into.copy_from_slice(&range.cut(bytes, run.start));
    }
    Ok(())
}
