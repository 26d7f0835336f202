//! Reads from ranks of other hosts that end in time.
//!
//! MPI has no flush that ends, and no get that can be called off: the memory of a get belongs to MPI until it is done. So gets
//! are requests (`MPI_Rget`) that are polled, and they go to slabs of our own, from where their bytes are copied. A slab whose
//! gets do not end is set aside, and used again once they have: never is the caller's memory written after the call returned.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{Wait, WindowRead, gone};

use crate::{
    calls::{
        polling::Polling,
        ranks::Ranks,
        slab::{GetOutcome, Part, SLAB_LEN, SlabOfGets},
        stall::CallTarget,
        window_use::WindowUse,
    },
    library::abi::MpiHandle,
};

/// Slabs that one call has in flight: one is copied while the other is fetched.
const SLABS_IN_FLIGHT: usize = 2;

/// Reads of one call, and how far they have come.
pub(crate) struct RemoteGets<'a, 'b> {
    ranks: &'a Ranks,
    window: MpiHandle,
    usage: &'a Arc<WindowUse>,
    reads: &'a mut [WindowRead<'b>],
    parts: SlabParts<'a>,
    /// How long each rank may still be silent: it begins anew with every get that has ended.
    waits: BTreeMap<usize, Wait<'a>>,
    in_flight: VecDeque<SlabOfGets>,
}

impl<'a, 'b> RemoteGets<'a, 'b> {
    /// Those of `reads` that `chosen` names, each rank's one behind the other; every piece lies within its shard.
    pub(crate) fn new(
        ranks: &'a Ranks,
        (window, usage): (MpiHandle, &'a Arc<WindowUse>),
        reads: &'a mut [WindowRead<'b>],
        chosen: &'a [usize],
    ) -> Self {
        let parts = SlabParts { chosen, at: 0, piece: 0, piece_at: 0 };
        Self { ranks, window, usage, reads, parts, waits: BTreeMap::new(), in_flight: VecDeque::new() }
    }

    /// Fills the pieces. No rank may be silent for longer than `wait`.
    pub(crate) fn fill(mut self, wait: &Wait<'a>) {
        self.refuse_lost();
        loop {
            while self.in_flight.len() < SLABS_IN_FLIGHT {
                let Some(slab) = self.ranks.watched("Rget", |target| self.start(target)) else { break };
                for rank in slab.waited_for() {
                    self.waits.insert(rank, wait.renewed());
                }
                self.in_flight.push_back(slab);
            }
            if self.in_flight.is_empty() {
                return;
            }
            self.finish_one(wait);
            for slab in std::mem::take(&mut self.in_flight) {
                match slab.is_waited_for() {
                    true => self.in_flight.push_back(slab),
                    false => self.ranks.slabs.put_back(slab),
                }
            }
            // Where bytes never stop coming, nobody rests.
            self.give_up_silent();
        }
    }

    /// Refuses reads of ranks that are lost, or have not answered earlier gets: those that never end take a few slabs, not some for
    /// every call.
    fn refuse_lost(&mut self) {
        let silent = self.ranks.slabs.silent_ranks(self.ranks.mpi);
        for index in self.parts.chosen {
            let read = &mut self.reads[*index];
            read.outcome = self.ranks.losses.check(read.rank);
            if read.outcome.is_ok() && silent.contains(&read.rank) {
                let what = format!("rank {} has not answered an earlier get yet", read.rank);
                read.outcome =
                    Err(Error::new(ErrorKind::Unavailable, what).hint("see whether that rank still runs"));
            }
        }
    }

    /// Starts as many gets as a slab takes.
    fn start(&mut self, target: &CallTarget) -> Option<SlabOfGets> {
        let mut part = self.parts.next(self.reads, SLAB_LEN)?;
        let slab = match self.ranks.slabs.take() {
            Ok(slab) => slab,
            Err(error) => {
                self.parts.chosen.iter().for_each(|index| self.reads[*index].outcome = Err(error.clone()));
                return None;
            }
        };
        let mut slab = SlabOfGets::new(slab, self.window, Arc::clone(self.usage));
        loop {
            target.set(part.rank);
            let offset = self.reads[part.read].pieces[part.piece].offset + part.piece_at as u64;
            if let Err(error) = slab.start(self.ranks.mpi, part, offset) {
                self.give_up(part.rank, &self.ranks.losses.fail(part.rank, &error));
                slab.give_up(part.rank);
            }
            match self.parts.next(self.reads, slab.room()) {
                Some(next) => part = next,
                None => return Some(slab),
            }
        }
    }

    /// Waits until all gets of a slab have ended or are given up.
    fn finish_one(&mut self, wait: &Wait<'a>) {
        let mut polling = Polling::for_bytes();
        while self.in_flight.iter().all(SlabOfGets::is_waited_for) {
            if self.copy_ended(wait) {
                polling.begin_anew();
            } else if polling.rest() {
                self.give_up_silent();
            }
        }
    }

    /// Copies what has arrived; true where something has, or failed.
    fn copy_ended(&mut self, wait: &Wait<'a>) -> bool {
        let mut has_ended = false;
        let mut failures = Vec::new();
        for slab in &mut self.in_flight {
            for index in 0..slab.rank_count() {
                while let Some(outcome) = slab.next_ended(self.ranks.mpi, index) {
                    has_ended = true;
                    match outcome {
                        GetOutcome::Arrived(part, slab_at) => {
                            self.waits.insert(part.rank, wait.renewed());
                            let into = &mut self.reads[part.read].pieces[part.piece].into;
                            slab.copy_to(slab_at, &mut into[part.piece_at..part.piece_at + part.len]);
                        }
                        GetOutcome::Failed(part, error) => failures.push((part.rank, error)),
                    }
                }
            }
        }
        for (rank, error) in failures {
            self.give_up(rank, &self.ranks.losses.fail(rank, &error));
        }
        has_ended
    }

    /// Gives up ranks that are gone or silent for too long, and all where the window is closed.
    fn give_up_silent(&mut self) {
        let is_open = self.usage.check_open();
        let waited_for: BTreeSet<usize> = self.in_flight.iter().flat_map(SlabOfGets::waited_for).collect();
        for rank in waited_for {
            if let Err(error) = is_open.clone().and_then(|()| self.check_patience(rank)) {
                self.give_up(rank, &error);
            }
        }
        if let Err(error) = is_open {
            let left = self.parts.chosen.iter().skip(self.parts.at);
            left.for_each(|index| self.reads[*index].outcome = Err(error.clone()));
        }
    }

    fn check_patience(&self, rank: usize) -> Result<()> {
        if let Some(rank) = self.ranks.losses.first_gone(rank..rank + 1) {
            return Err(gone(rank));
        }
        let wait = self.waits.get(&rank);
        wait.map_or(Ok(()), |wait| wait.go_on(|| format!("rank {rank} does not answer")))
    }

    /// Ends all reads of `rank` with an error.
    fn give_up(&mut self, rank: usize, error: &Error) {
        self.in_flight.iter_mut().for_each(|slab| slab.give_up(rank));
        for index in self.parts.chosen {
            let read = &mut self.reads[*index];
            if read.rank == rank {
                read.outcome = Err(error.clone());
            }
        }
    }
}

/// The bytes of pieces in the order they are asked for, in parts that fit a slab.
struct SlabParts<'a> {
    chosen: &'a [usize],
    at: usize,
    piece: usize,
    piece_at: usize,
}

impl SlabParts<'_> {
    /// The next part, at most `most` bytes, if there may be any; reads that failed are passed over.
    fn next(&mut self, reads: &[WindowRead<'_>], most: usize) -> Option<Part> {
        if most == 0 {
            return None;
        }
        loop {
            let index = *self.chosen.get(self.at)?;
            let read = &reads[index];
            if read.outcome.is_err() || self.piece == read.pieces.len() {
                (self.at, self.piece, self.piece_at) = (self.at + 1, 0, 0);
                continue;
            }
            let left = read.pieces[self.piece].into.len() - self.piece_at;
            if left == 0 {
                (self.piece, self.piece_at) = (self.piece + 1, 0);
                continue;
            }
            let len = left.min(most);
            let part = Part { rank: read.rank, read: index, piece: self.piece, piece_at: self.piece_at, len };
            self.piece_at += len;
            return Some(part);
        }
    }
}
