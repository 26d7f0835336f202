//! How far each rank is with its writes, where all other ranks can see it without asking it.
//!
//! Each rank has words in memory of its own that the ranks of its host have mapped and those of other hosts read by a one-sided
//! get. Only its owner writes them: the program's thread what was accepted, our thread what was drained.

use std::{sync::Arc, time::Duration};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{Comm, Wait, Window, WindowPiece, WindowRead};

use super::{
    board_words::{BoardPart, HEAD_BYTES, RankProgress},
    byte_spans::ByteSpans,
    own_words::OwnWords,
};

/// How often others are looked at while their writes are awaited.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// The words of all ranks.
#[derive(Debug)]
pub(crate) struct RankBoard {
    own: OwnWords,
    window: Arc<dyn Window>,
    rank: usize,
    size: usize,
}

impl RankBoard {
    /// A board for the ranks of `comm`, of which this one has the words `own`. Collective.
    pub(crate) fn new(comm: &dyn Comm, own: OwnWords) -> Result<Self> {
        let wait = Wait::while_ranks_live();
        let window = comm.window(own.memory(), &wait)?;
        window.publish(&wait)?;
        Ok(Self { own, window, rank: comm.rank(), size: comm.size() })
    }

    /// The words of this rank.
    pub(crate) fn own(&self) -> &OwnWords {
        &self.own
    }

    /// What `rank` tells.
    fn progress_of(&self, rank: usize) -> Result<RankProgress> {
        if let Some(memory) = self.window.shared(rank) {
            return Ok(BoardPart::of(memory).progress());
        }
        let mut bytes = [0; HEAD_BYTES];
        let pieces = vec![WindowPiece { offset: 0, into: &mut bytes }];
        let mut reads = [WindowRead { rank, pieces, outcome: Ok(()) }];
        self.window.get(&mut reads, &Wait::while_ranks_live());
        let [read] = reads;
        read.outcome?;
        Ok(RankProgress::from_bytes(&bytes))
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        (0..self.size).filter(|rank| *rank != self.rank)
    }

    /// True when some rank runs on another host, whose wait cannot be seen from here.
    pub(crate) fn has_other_hosts(&self) -> bool {
        self.others().any(|rank| self.window.shared(rank).is_none())
    }

    /// True when a rank of this host waits for writes of others.
    pub(crate) fn is_awaited(&self) -> bool {
        let here = self.others().filter_map(|rank| self.window.shared(rank));
        here.into_iter().any(|memory| BoardPart::of(memory).progress().waits != 0)
    }

    /// How many writes of any kind the other ranks have made.
    pub(crate) fn writes_of_others(&self) -> Result<u64> {
        self.others().try_fold(0_u64, |sum, rank| Ok(sum.wrapping_add(self.progress_of(rank)?.writes)))
    }

    /// Returns when what other ranks had accepted before the call is in the file.
    pub(crate) fn await_others(&self, comm: &dyn Comm) -> Result<()> {
        self.others().try_for_each(|rank| self.await_rank(comm, rank))
    }

    /// Returns when what other ranks of this host have accepted for bytes of `spans` is in the file: who writes later wins.
    ///
    /// Ranks of other hosts are not asked: there MPI-IO's own rule holds, which wants a flush in between.
    pub(crate) fn await_overlaps(&self, comm: &dyn Comm, spans: &ByteSpans) -> Result<()> {
        for rank in self.others() {
            let Some(memory) = self.window.shared(rank) else { continue };
            let part = BoardPart::of(memory);
            let now = part.progress();
            if now.drained < now.accepted && part.overlaps(spans) {
                self.await_rank(comm, rank)?;
            }
        }
        Ok(())
    }

    fn await_rank(&self, comm: &dyn Comm, rank: usize) -> Result<()> {
        let mut now = self.progress_of(rank)?;
        let accepted = now.accepted;
        if now.drained >= accepted {
            return Ok(());
        }
        let _waits = self.own.waiting();
        while now.drained < accepted {
            if now.failed != 0 {
                let what = format!("what rank {rank} wrote is in its staging area, not in the file");
                return Err(Error::new(ErrorKind::Unavailable, what).hint("see the warnings of that rank"));
            }
            if comm.first_gone(rank..rank + 1).is_some() {
                return Err(forebay_store::gone(rank));
            }
            std::thread::sleep(LOOK_EVERY);
            now = self.progress_of(rank)?;
        }
        Ok(())
    }

    /// Gives up the board. Collective.
    pub(crate) fn close(&self) -> Result<()> {
        self.window.close(&Wait::while_ranks_live())
    }
}
