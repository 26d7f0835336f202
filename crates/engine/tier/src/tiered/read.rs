//! How a read is served: whole copy, read-ahead buffer, tiers from the top, origin.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Fill, Source, SourceExt};

use crate::{
    flight::Landed,
    stats::nanos,
    tier::BlockPiece,
    tiered::{
        background_tasks::{PlaceRest, Recheck},
        origin_read::read_origin,
        process_tiers::ProcessTiers,
        read_ahead::Taken,
        source_state::{PATIENCE, SourceState, coarse_ms},
    },
};

/// The bytes of `ranges`, in new memory.
pub(crate) fn fetch(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    ranges: &[ByteRange],
) -> Result<Vec<Bytes>> {
    recheck(process, state)?;
    let len = ranges.iter().map(|range| range.len()).sum();
    let whole = |whole: &dyn Source| whole.fetch(ranges);
    if let Some(found) = state.read_whole(&process.counters, ranges.len(), len, whole) {
        return Ok(found);
    }
    let mut memory = ranges
        .iter()
        .map(|range| {
            let full = || Error::new(ErrorKind::Full, format!("no memory for {} bytes", range.len()));
            let len = usize::try_from(range.len()).map_err(|_| full())?;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(len).map_err(|error| full().because(error).at(&state.id().locator))?;
            bytes.resize(len, 0);
            Ok(bytes)
        })
        .collect::<Result<Vec<Vec<u8>>>>()?;
    let mut fills: Vec<_> =
        memory.iter_mut().zip(ranges).map(|(into, range)| Fill { range: *range, into }).collect();
    fill(process, state, &mut fills)?;
    Ok(memory.into_iter().map(Bytes::from).collect())
}

/// Fills the caller's memory.
pub(crate) fn fetch_into(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    fills: &mut [Fill<'_>],
) -> Result<()> {
    recheck(process, state)?;
    let (count, len) = (fills.len(), fills.iter().map(|fill| fill.range.len()).sum());
    if state.read_whole(&process.counters, count, len, |whole| whole.fetch_into(fills)).is_some() {
        return Ok(());
    }
    fill(process, state, fills)
}

/// An error once the origin's bytes are no longer those of the copies; queues a check when the last one is too old.
fn recheck(process: &Arc<ProcessTiers>, state: &Arc<SourceState>) -> Result<()> {
    if state.changed.load(Relaxed) {
        let error = Error::new(ErrorKind::Unavailable, "changed while it was read");
        return Err(error.hint("open it again once nobody writes to it").at(&state.id().locator));
    }
    let (now_ms, asked_ms) = (coarse_ms(), state.asked_ms.load(Relaxed));
    if Duration::from_millis(now_ms.saturating_sub(asked_ms)) < process.placement.recheck {
        return Ok(());
    }
    let is_ours = state.asked_ms.compare_exchange(asked_ms, now_ms, Relaxed, Relaxed).is_ok();
    if is_ours && !state.is_asking.swap(true, Relaxed) {
        let (process_then, state) = (Arc::downgrade(process), Arc::clone(state));
        process.threads.background_first(Arc::new(Recheck { process: process_then, state }));
    }
    Ok(())
}

/// The most pieces in one call of a tier, for a batch of samples and for few ranges: they are on the stack, so that a read
/// of copies allocates nothing, and a short read pays for few.
const PIECES_OF_BATCH: usize = 64;
const PIECES_OF_FEW: usize = 8;

/// Fills `fills` from the read-ahead buffer, from tiers, and last from the origin.
fn fill(process: &Arc<ProcessTiers>, state: &Arc<SourceState>, fills: &mut [Fill<'_>]) -> Result<()> {
    // The last block may have been placed meanwhile, by another process even.
    state.find_whole();
    if fills.len() <= PIECES_OF_FEW / 2 {
        fill_by::<PIECES_OF_FEW>(process, state, fills)
    } else {
        fill_by::<PIECES_OF_BATCH>(process, state, fills)
    }
}

/// Fills `fills`, at most `MOST` pieces at a time.
fn fill_by<const MOST: usize>(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    fills: &mut [Fill<'_>],
) -> Result<()> {
    let mut pieces: [BlockPiece<'_>; MOST] = std::array::from_fn(|_| BlockPiece::default());
    let (mut count, mut missing) = (0, Vec::new());
    let read = |pieces: &mut [BlockPiece<'_>]| state.read_tiers(&process.counters, pieces);
    for fill in fills {
        if process.read_ahead.is_active() {
            if state.blocks.covering(fill.range).all(|block| state.has(block)) {
                process.read_ahead.discard(state.key, fill.range);
            } else if take_prefetched(process, state, fill) {
                continue;
            }
        }
        let (start, end) = (fill.range.start, fill.range.end);
        let mut rest = &mut *fill.into;
        for block in state.blocks.covering(fill.range) {
            let of_block = state.blocks.range(block);
            let (from, to) = (start.max(of_block.start), end.min(of_block.end));
            let (into, after) = rest.split_at_mut(usize::try_from(to - from).unwrap_or(0));
            rest = after;
            if count == MOST {
                read(&mut pieces);
                take_unfilled(&mut pieces, &mut missing);
                count = 0;
            }
            pieces[count] = BlockPiece { block, from: from - of_block.start, into, is_filled: false };
            count += 1;
        }
    }
    read(&mut pieces[..count]);
    take_unfilled(&mut pieces[..count], &mut missing);
    place_rest(process, state);
    if missing.is_empty() { Ok(()) } else { read_origin(process, state, missing) }
}

/// Moves the pieces that no tier filled to `missing`.
fn take_unfilled<'a>(pieces: &mut [BlockPiece<'a>], missing: &mut Vec<BlockPiece<'a>>) {
    missing.extend(pieces.iter_mut().filter(|piece| !piece.is_filled).map(std::mem::take));
}

/// Queues the rest of the source for placement, once, where no schedule says what is read next.
fn place_rest(process: &Arc<ProcessTiers>, state: &Arc<SourceState>) {
    if !process.read_ahead.is_active() {
        PlaceRest::queue(process, state);
    }
}

/// Fills from what was prefetched, or waits for it where it is in flight.
fn take_prefetched(process: &ProcessTiers, state: &SourceState, fill: &mut Fill<'_>) -> bool {
    let began = Instant::now();
    loop {
        match process.read_ahead.take(&process.flights, state.key, fill.range) {
            Taken::Bytes(bytes) => {
                fill.into.copy_from_slice(&bytes);
                process.counters.ahead.fetch_add(1, Relaxed);
                return true;
            }
            // Whether it came or not, it is looked for again; once a tier has it, it is found there.
            Taken::InFlight(flight) if began.elapsed() < PATIENCE => {
                let landed = flight.wait(PATIENCE);
                process.counters.wait_ns.fetch_add(nanos(began), Relaxed);
                if !matches!(landed, Some(Landed::Bytes(_))) {
                    process.read_ahead.overtake(state.key, fill.range);
                    return false;
                }
            }
            Taken::InFlight(_) | Taken::Not => return false,
        }
    }
}
