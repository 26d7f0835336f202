//! What no tier has, read from the origin: whole blocks where a tier will keep them, else just what is asked for.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::Instant,
};

use forebay_source::{ByteRange, Error, ErrorKind, Fill, Result, SourceExt};

use crate::{
    Flight, Landed, Part, Turn,
    fetch::fetch_block,
    state::{PATIENCE, State},
    stats::nanos,
    tiered::Running,
};

/// Part of a block that a reader wants.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) block: u64,
    pub(crate) from: u64,
    pub(crate) into: &'a mut [u8],
}

impl State {
    /// Fills `missing`: blocks that a tier will keep are fetched whole, once; of others just what is asked for.
    pub(crate) fn read_origin(
        self: &Arc<Self>,
        running: &Arc<Running>,
        mut missing: Vec<Piece<'_>>,
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
            let may_replace = !running.placement.is_lasting || self.is_most(block, asked);
            if !self.has_room(block, may_replace)
                && running.flights.find(self.key, Part::Block(block)).is_none()
            {
                // It may have been placed, and have taken the last room, since it was looked for.
                exact.extend(
                    own.iter_mut().filter_map(|piece| (!self.read_tiers(running, piece)).then_some(piece)),
                );
                continue;
            }
            match running.flights.turn(self.key, Part::Block(block)) {
                Turn::Follow(flight) => flights.push((block, flight)),
                Turn::Lead(lead) => {
                    flights.push((block, lead.flight()));
                    let (state, running_then) = (Arc::clone(self), Arc::clone(running));
                    running.pool.urgent(Box::new(move || {
                        fetch_block(&running_then, &state, block, may_replace, lead);
                    }));
                }
            }
        }
        let mut exactly = if exact.is_empty() { Ok(()) } else { self.exactly(running, exact) };
        if exactly.is_ok() {
            exactly = self.land(&flights, &mut missing).and_then(|unplaced| {
                let left: Vec<_> =
                    missing.iter_mut().filter(|piece| unplaced.contains(&piece.block)).collect();
                if left.is_empty() { Ok(()) } else { self.exactly(running, left) }
            });
        }
        running.counters.wait_ns.fetch_add(nanos(began), Relaxed);
        exactly.map_err(|error| error.at(&self.id().locator))
    }

    /// Copies what `flights` bring; gives the blocks that they do not, for want of room or time.
    fn land(&self, flights: &[(u64, Arc<Flight>)], missing: &mut [Piece<'_>]) -> Result<HashSet<u64>> {
        let mut unplaced = HashSet::new();
        for (block, flight) in flights {
            // Who waits longer than anybody fetches reads for himself.
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
    fn exactly(self: &Arc<Self>, running: &Arc<Running>, pieces: Vec<&mut Piece<'_>>) -> Result<()> {
        let range_of = |piece: &Piece<'_>| {
            ByteRange::at(self.blocks.range(piece.block).start + piece.from, piece.into.len() as u64)
        };
        let ranges: Vec<_> = pieces.iter().map(|piece| range_of(piece)).collect();
        // Pieces of one read that a border of blocks cut apart are one request again.
        let runs = forebay_source::coalesce(&ranges, 0);
        let bytes = ranges.iter().map(|range| range.len()).sum();
        if self.inner.request_bytes() == 0 || runs.len() == 1 {
            let began = Instant::now();
            let mut fills: Vec<_> = pieces
                .into_iter()
                .zip(&ranges)
                .map(|(piece, range)| Fill { range: *range, into: piece.into })
                .collect();
            self.inner.fetch_into(&mut fills)?;
            running.counters.origin.add(runs.len() as u64, bytes, began);
            return Ok(());
        }
        // Behind a network requests wait side by side.
        let together = runs.len().div_ceil(running.pool.threads());
        let (tell, told) = mpsc::channel();
        for runs in runs.chunks(together) {
            let (state, running_then, runs, tell) =
                (Arc::clone(self), Arc::clone(running), runs.to_vec(), tell.clone());
            running.pool.urgent(Box::new(move || {
                let began = Instant::now();
                let fetched = state.inner.fetch(&runs);
                let bytes = runs.iter().map(|run| run.len()).sum();
                running_then.counters.origin.add(runs.len() as u64, bytes, began);
                // Who no longer listens has had an error.
                let _ = tell.send(fetched.map(|fetched| runs.into_iter().zip(fetched).collect::<Vec<_>>()));
            }));
        }
        drop(tell);
        let mut fetched = Vec::with_capacity(runs.len());
        for part in told {
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
}
