//! How far each rank is with its writes, where all other ranks can see it without asking it.
//!
//! Each rank has a few words in memory of its own that the ranks of its host have mapped and those of other hosts read by a
//! one-sided get. Only its owner writes them: the program's thread what was accepted, our thread what was drained.

#![expect(unsafe_code, reason = "words in memory that other processes read at the same time")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use forebay_mpi::MpiComm;
use forebay_source::{Error, ErrorKind, Result};
use forebay_store::{Comm, ShardMemory, ShardPlace, Wait, Window, WindowPiece, WindowRead};

/// Words of a rank's part.
const WORDS: usize = 4;
const BYTES: usize = WORDS * size_of::<u64>();
/// How often others are looked at while their writes are awaited.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// What one rank tells the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankProgress {
    /// Writes that its log has accepted.
    pub(crate) accepted: u64,
    /// How many of them are in the file.
    pub(crate) drained: u64,
    /// Writes of any kind that it has made.
    pub(crate) writes: u64,
    /// Not 0 once its log could not be drained.
    pub(crate) failed: u64,
}

impl RankProgress {
    fn from_words(words: [u64; WORDS]) -> Self {
        let [accepted, drained, writes, failed] = words;
        Self { accepted, drained, writes, failed }
    }
}

/// The words that this rank writes.
#[derive(Clone, Debug)]
pub(crate) struct OwnWords(Arc<ShardMemory>);

impl OwnWords {
    /// Words of zeros.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Arc::new(ShardMemory::new(BYTES as u64, &ShardPlace::Memory)?)))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        word_of(&self.0, index)
    }

    /// One more write was accepted; gives how many now.
    pub(crate) fn accept(&self) -> u64 {
        self.word(0).fetch_add(1, SeqCst) + 1
    }

    /// All up to `accepted` are in the file.
    pub(crate) fn drained(&self, accepted: u64) {
        self.word(1).fetch_max(accepted, SeqCst);
        self.word(3).store(0, SeqCst);
    }

    /// One more write of any kind was made.
    pub(crate) fn wrote(&self) {
        self.word(2).fetch_add(1, SeqCst);
    }

    /// The log cannot be drained.
    pub(crate) fn failed(&self) {
        self.word(3).store(1, SeqCst);
    }

    /// What the others see.
    pub(crate) fn now(&self) -> RankProgress {
        RankProgress::from_words(std::array::from_fn(|index| self.word(index).load(SeqCst)))
    }
}

fn word_of(memory: &ShardMemory, index: usize) -> &AtomicU64 {
    assert!(index < WORDS && memory.len() >= BYTES as u64, "a part has its words");
    // SAFETY: a mapping of at least BYTES bytes, aligned to a page, that lives as long as the reference; all use of it is atomic.
    unsafe { AtomicU64::from_ptr(memory.address().cast::<u64>().add(index)) }
}

/// The words of all ranks.
#[derive(Debug)]
pub(crate) struct RankBoard {
    own: OwnWords,
    window: Arc<dyn Window>,
    rank: usize,
    size: usize,
}

impl RankBoard {
    /// A board for the ranks of `comm`. Collective.
    pub(crate) fn new(comm: &MpiComm) -> Result<Self> {
        let (own, wait) = (OwnWords::new()?, Wait::while_ranks_live());
        let window = comm.window(Arc::clone(&own.0), &wait)?;
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
            return Ok(RankProgress::from_words(std::array::from_fn(|index| {
                word_of(memory, index).load(SeqCst)
            })));
        }
        let mut bytes = [0; BYTES];
        let pieces = vec![WindowPiece { offset: 0, into: &mut bytes }];
        let mut reads = [WindowRead { rank, pieces, outcome: Ok(()) }];
        self.window.get(&mut reads, &Wait::while_ranks_live());
        let [read] = reads;
        read.outcome?;
        let word = |index: usize| {
            let from = index * size_of::<u64>();
            u64::from_ne_bytes(bytes[from..from + size_of::<u64>()].try_into().expect("eight bytes"))
        };
        Ok(RankProgress::from_words(std::array::from_fn(word)))
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        (0..self.size).filter(|rank| *rank != self.rank)
    }

    /// How many writes of any kind the other ranks have made.
    pub(crate) fn writes_of_others(&self) -> Result<u64> {
        self.others().try_fold(0_u64, |sum, rank| Ok(sum.wrapping_add(self.progress_of(rank)?.writes)))
    }

    /// Returns when what other ranks had accepted before the call is in the file.
    pub(crate) fn await_others(&self, comm: &MpiComm) -> Result<()> {
        for rank in self.others() {
            let accepted = self.progress_of(rank)?.accepted;
            loop {
                let now = self.progress_of(rank)?;
                if now.drained >= accepted {
                    break;
                }
                if now.failed != 0 {
                    let what = format!("what rank {rank} wrote is in its staging area, not in the file");
                    return Err(
                        Error::new(ErrorKind::Unavailable, what).hint("see the warnings of that rank")
                    );
                }
                if comm.first_gone(rank..rank + 1).is_some() {
                    return Err(forebay_store::gone(rank));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// Gives up the board. Collective.
    pub(crate) fn close(&self) -> Result<()> {
        self.window.close(&Wait::while_ranks_live())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drained_never_goes_back_and_ends_a_failure() {
        let words = OwnWords::new().unwrap();
        assert_eq!((words.accept(), words.accept()), (1, 2));
        words.wrote();
        words.failed();
        assert_eq!(words.now(), RankProgress { accepted: 2, drained: 0, writes: 1, failed: 1 });
        words.drained(2);
        words.drained(1);
        assert_eq!(words.now(), RankProgress { accepted: 2, drained: 2, writes: 1, failed: 0 });
    }
}
