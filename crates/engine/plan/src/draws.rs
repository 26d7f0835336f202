//! Epochs whose samples are drawn: by weight, in rounds over several sources, or in runs of similar length.
//!
//! Each is a function of the seed and the epoch, the same on every rank. What is no formula is a table of an epoch, which is
//! made when it is first asked for.

mod buckets;
mod checks;
mod rounds;
mod table;
mod weighted;

use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use self::table::PositionTable;
pub use self::{buckets::BucketDraws, rounds::RoundDraws, weighted::WeightedDraws};

/// How the samples of an epoch are drawn from a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draws {
    /// By weight.
    Weighted(WeightedDraws),
    /// In rounds, each with a fixed number of samples of each source.
    Rounds(RoundDraws),
    /// Each once, in runs of similar length.
    Buckets(BucketDraws),
}

impl Draws {
    /// How many samples an epoch has.
    pub fn len(&self) -> u64 {
        match self {
            Self::Weighted(draws) => draws.len(),
            Self::Rounds(draws) => draws.len(),
            Self::Buckets(draws) => draws.population(),
        }
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many samples there are to draw from.
    pub fn population(&self) -> u64 {
        match self {
            Self::Weighted(draws) => draws.population(),
            Self::Rounds(draws) => draws.population(),
            Self::Buckets(draws) => draws.population(),
        }
    }

    /// A digest of what is drawn.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |word: u64| hash.update(word.to_le_bytes());
        match self {
            Self::Weighted(draws) => {
                add(1);
                draws.each_word(&mut add);
            }
            Self::Rounds(draws) => {
                add(2);
                draws.each_word(&mut add);
            }
            Self::Buckets(draws) => {
                add(3);
                draws.each_word(&mut add);
            }
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What is drawn in one epoch.
#[derive(Clone, Debug)]
pub(crate) struct DrawnOrder {
    draws: Arc<Draws>,
    seed: u64,
    epoch: u64,
    /// Drawn numbers by position, where they are no formula.
    numbers: OnceLock<Arc<[u32]>>,
    /// Positions by number, where they are no formula.
    positions: OnceLock<Arc<PositionTable>>,
}

impl DrawnOrder {
    pub(crate) fn new(draws: Arc<Draws>, seed: u64, epoch: u64) -> Self {
        Self { draws, seed, epoch, numbers: OnceLock::new(), positions: OnceLock::new() }
    }

    /// The number that is drawn at `position`; a position past the last stands for itself.
    pub(crate) fn number(&self, position: u64) -> u64 {
        if position >= self.draws.len() {
            return position;
        }
        match &*self.draws {
            Draws::Weighted(draws) if draws.is_replaced() => draws.number(self.seed, self.epoch, position),
            Draws::Rounds(draws) => draws.number(self.seed, self.epoch, position),
            Draws::Weighted(_) | Draws::Buckets(_) => {
                usize::try_from(position).map_or(position, |at| u64::from(self.numbers()[at]))
            }
        }
    }

    /// Calls `each` with the positions at which `number` is drawn.
    pub(crate) fn each_position(&self, number: u64, each: &mut dyn FnMut(u64)) {
        if number >= self.draws.population() {
            return;
        }
        if let Draws::Rounds(draws) = &*self.draws {
            return draws.each_position(self.seed, self.epoch, number, each);
        }
        let table = self.positions.get_or_init(|| {
            let drawn = (0..self.draws.len()).map(|position| self.number(position));
            Arc::new(PositionTable::new(self.draws.population(), drawn))
        });
        table.positions(number).iter().for_each(|position| each(u64::from(*position)));
    }

    fn numbers(&self) -> &[u32] {
        self.numbers.get_or_init(|| match &*self.draws {
            Draws::Weighted(draws) => draws.table(self.seed, self.epoch).into(),
            Draws::Buckets(draws) => draws.table(self.seed, self.epoch).into(),
            Draws::Rounds(_) => Arc::default(),
        })
    }
}
