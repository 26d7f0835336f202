//! The order of one epoch: which sample is at a position, and where a sample is.
//!
//! Every order is a formula of the seed and the epoch, so nothing is stored per sample and any process
//! computes any part of it.

mod block_shuffle;

use std::sync::Arc;

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use self::block_shuffle::BlockShuffle;
use crate::{
    draws::{DrawnOrder, Draws},
    groups::{DEFAULT_LANES, Groups},
    permutation::Permutation,
    seed::{Purpose, SeedKey},
};

/// Lanes that stand for as many as suit the set: see [`Groups::default_lanes`].
pub const AUTO_LANES: u32 = 0;

/// Groups that are shuffled together unless the spec says otherwise.
pub const DEFAULT_WINDOW: u32 = 1;

/// How the samples of an epoch are shuffled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Shuffle {
    /// Not at all: as they lie.
    None,
    /// Every sample may be anywhere.
    Full,
    /// Group by group, from many groups at once, so that each group is read and decoded once.
    Block {
        /// How many runs of groups are dealt from, one sample each in turn; ranks own whole ones. [`AUTO_LANES`] for as
        /// many as suit the set.
        #[serde(default)]
        lanes: u32,
        /// How many groups are shuffled together.
        #[serde(default = "default_window")]
        window: u32,
    },
}

fn default_window() -> u32 {
    DEFAULT_WINDOW
}

impl Shuffle {
    /// The block shuffle of as many lanes as suit the set, and the default window.
    pub const BLOCK: Self = Self::Block { lanes: AUTO_LANES, window: DEFAULT_WINDOW };

    /// The shuffle with its lanes decided for a set of `groups`.
    #[must_use]
    pub fn decided(self, groups: &Groups) -> Self {
        match self {
            Self::Block { lanes: AUTO_LANES, window } => {
                Self::Block { lanes: groups.default_lanes(), window }
            }
            Self::None | Self::Full | Self::Block { .. } => self,
        }
    }

    /// Refuses a block shuffle of no lanes or no window.
    pub fn check(self) -> Result<()> {
        let Self::Block { lanes, window } = self else { return Ok(()) };
        if lanes == 0 {
            let hint = format!("set lanes to a multiple of the number of ranks, such as {DEFAULT_LANES}");
            return Err(Error::new(ErrorKind::Invalid, "lanes=0").hint(hint));
        }
        if window == 0 {
            let hint = format!("set window to at least {DEFAULT_WINDOW}");
            return Err(Error::new(ErrorKind::Invalid, "window=0").hint(hint));
        }
        Ok(())
    }
}

/// The order of one epoch: a bijection between positions and samples, computed and not stored.
///
/// A number that is not below `len` stands for itself.
#[derive(Clone, Debug)]
pub struct Order {
    len: u64,
    rule: OrderRule,
}

#[derive(Clone, Debug)]
enum OrderRule {
    AsTheyLie,
    Full(Permutation),
    Block(Box<BlockShuffle>),
    Drawn(Box<DrawnOrder>),
}

impl Order {
    /// The order of the samples of `groups` in `epoch`.
    ///
    /// With fewer groups than lanes, a block shuffle may have all groups open at once: it is a full one then.
    pub fn new(shuffle: Shuffle, seed: u64, epoch: u64, groups: Arc<Groups>) -> Result<Self> {
        let shuffle = shuffle.decided(&groups);
        shuffle.check()?;
        let len = groups.len();
        let rule = match shuffle {
            Shuffle::None => OrderRule::AsTheyLie,
            Shuffle::Block { lanes, window } if groups.group_count() >= u64::from(lanes) => {
                OrderRule::Block(Box::new(BlockShuffle::new(
                    lanes,
                    window,
                    |purpose| SeedKey::new(purpose, seed, epoch),
                    groups,
                )))
            }
            Shuffle::Full | Shuffle::Block { .. } => {
                OrderRule::Full(Permutation::new(len, SeedKey::new(Purpose::Samples, seed, epoch).pair()))
            }
        };
        Ok(Self { len, rule })
    }

    /// The order in which `draws` come in `epoch`: no bijection, as a sample may come more than once or not at all.
    pub fn drawn(draws: Arc<Draws>, seed: u64, epoch: u64) -> Self {
        Self { len: draws.len(), rule: OrderRule::Drawn(Box::new(DrawnOrder::new(draws, seed, epoch))) }
    }

    /// True when what it orders are groups of neighbours, and so samples that have to lie as they do in files.
    pub(crate) fn is_by_rank(&self) -> bool {
        matches!(self.rule, OrderRule::Block(_))
    }

    /// How many samples there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sample at `position`.
    pub fn sample(&self, position: u64) -> u64 {
        match &self.rule {
            OrderRule::AsTheyLie => position,
            OrderRule::Full(permutation) => permutation.at(position),
            OrderRule::Block(_) if position >= self.len => position,
            OrderRule::Block(block) => block.sample(position),
            OrderRule::Drawn(drawn) => drawn.number(position),
        }
    }

    /// The position of `sample`; the first where it comes more than once.
    pub fn position(&self, sample: u64) -> u64 {
        match &self.rule {
            OrderRule::AsTheyLie => sample,
            OrderRule::Full(permutation) => permutation.position(sample),
            OrderRule::Block(block) => block.position(sample).unwrap_or(sample),
            OrderRule::Drawn(drawn) => {
                let mut first = u64::MAX;
                drawn.each_position(sample, &mut |position| first = first.min(position));
                first
            }
        }
    }

    /// Calls `each` with every position of `sample`.
    pub(crate) fn each_position(&self, sample: u64, each: &mut dyn FnMut(u64)) {
        match &self.rule {
            OrderRule::Drawn(drawn) => drawn.each_position(sample, each),
            OrderRule::AsTheyLie | OrderRule::Full(_) | OrderRule::Block(_) => each(self.position(sample)),
        }
    }
}
