//! The order of one epoch: which sample is at a position, and where a sample is.
//!
//! Every order is a formula of the seed and the epoch, so nothing is stored per sample and any process
//! computes any part of it.

mod block;

use std::{ops::Range, sync::Arc};

use forebay_source::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use self::block::Block;
use crate::{
    Permutation,
    seed::{Key, Purpose},
};

/// Lanes of a block shuffle of a large set unless the spec says otherwise: 1, 2, 3, 4, 6, 8, 12, 16, 24 and 48 ranks
/// divide them, and a batch of 48 comes from as many groups.
pub const DEFAULT_LANES: u32 = 48;

/// Lanes that stand for as many as suit the set: see [`Groups::default_lanes`].
pub const AUTO_LANES: u32 = 0;

/// Fewer lanes for sets that have fewer groups than [`DEFAULT_LANES`], so that ranks still share them out.
const FEWER_LANES: [u32; 2] = [24, 12];

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
            let hint = format!("give 'lanes' a multiple of the number of ranks, such as {DEFAULT_LANES}");
            return Err(Error::new(ErrorKind::Invalid, "a block shuffle of 0 lanes").hint(hint));
        }
        if window == 0 {
            let hint = format!("give 'window' at least {DEFAULT_WINDOW}");
            return Err(Error::new(ErrorKind::Invalid, "a block shuffle of windows of 0 groups").hint(hint));
        }
        Ok(())
    }
}

/// How samples lie in groups that are best read together, as the rows of a chunk are.
///
/// Samples and groups are numbered through all parts (files). No group crosses parts: each part's last
/// group may be short, all others are equally long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    group_len: u64,
    /// The first sample of each part, and after the last the number of all.
    samples: Vec<u64>,
    /// The first group of each part, and after the last the number of all.
    groups: Vec<u64>,
}

impl Groups {
    /// The groups of parts that hold `part_lens` samples, at most `group_len` samples in each.
    ///
    /// A `group_len` above that of the longest part makes each part one group.
    pub fn new(part_lens: &[u64], group_len: u64) -> Result<Self> {
        if group_len == 0 {
            let hint = "a group holds at least 1 sample";
            return Err(Error::new(ErrorKind::Invalid, "groups of 0 samples").hint(hint));
        }
        let group_len = group_len.min(part_lens.iter().copied().max().unwrap_or(0)).max(1);
        let mut samples = vec![0];
        let mut groups = vec![0];
        let (mut sample_count, mut group_count) = (0u64, 0u64);
        for part_len in part_lens {
            // What short groups lack counts too: places are computed as if all groups were full.
            let filled = |count: &u64| count.checked_mul(group_len).is_some();
            let Some(count) = group_count.checked_add(part_len.div_ceil(group_len)).filter(filled) else {
                let what = format!("more than {} samples", u64::MAX);
                return Err(Error::new(ErrorKind::Invalid, what).hint("use fewer parts or shorter groups"));
            };
            group_count = count;
            sample_count += part_len;
            samples.push(sample_count);
            groups.push(group_count);
        }
        Ok(Self { group_len, samples, groups })
    }

    /// How many samples there are.
    pub fn len(&self) -> u64 {
        self.samples[self.part_count()]
    }

    /// True when there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many groups there are.
    pub fn group_count(&self) -> u64 {
        self.groups[self.part_count()]
    }

    /// Samples of a full group.
    pub fn group_len(&self) -> u64 {
        self.group_len
    }

    /// Lanes of a block shuffle unless the spec says otherwise: 48, or as many of 24 and 12 as there are groups.
    ///
    /// A set of fewer than 12 groups has 48 too: it is shuffled fully, by any number of ranks that divides them.
    pub fn default_lanes(&self) -> u32 {
        let fits = |lanes: &u32| u64::from(*lanes) <= self.group_count();
        let fewer = FEWER_LANES.into_iter().find(fits).filter(|_| !fits(&DEFAULT_LANES));
        fewer.unwrap_or(DEFAULT_LANES)
    }

    /// The group `sample` is in.
    pub fn group(&self, sample: u64) -> Option<u64> {
        let part = part_of(&self.samples, sample)?;
        Some(self.groups[part] + (sample - self.samples[part]) / self.group_len)
    }

    /// The samples in `group`: none when there is no such group.
    pub fn range(&self, group: u64) -> Range<u64> {
        let Some(part) = part_of(&self.groups, group) else { return self.len()..self.len() };
        let start = self.samples[part] + (group - self.groups[part]) * self.group_len;
        start..(self.samples[part + 1] - start).min(self.group_len) + start
    }

    /// The groups that are not full, each with what it lacks.
    fn short(&self) -> impl Iterator<Item = (u64, u64)> {
        let lacking = |part: usize| {
            let len = self.samples[part + 1] - self.samples[part];
            let over = len % self.group_len;
            (over > 0).then(|| (self.groups[part + 1] - 1, self.group_len - over))
        };
        (0..self.part_count()).filter_map(lacking)
    }

    fn part_count(&self) -> usize {
        self.samples.len() - 1
    }
}

/// The part that holds `index`, where `starts` ends with the number of all; empty parts hold nothing.
fn part_of(starts: &[u64], index: u64) -> Option<usize> {
    let after = starts.partition_point(|start| *start <= index);
    (after < starts.len()).then(|| after - 1)
}

/// The order of one epoch: a bijection between positions and samples, computed and not stored.
///
/// A number that is not below `len` stands for itself.
#[derive(Clone, Debug)]
pub struct Order {
    len: u64,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    AsTheyLie,
    Full(Permutation),
    Block(Box<Block>),
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
            Shuffle::None => Rule::AsTheyLie,
            Shuffle::Block { lanes, window } if groups.group_count() >= u64::from(lanes) => Rule::Block(
                Box::new(Block::new(lanes, window, |purpose| Key::new(purpose, seed, epoch), groups)),
            ),
            Shuffle::Full | Shuffle::Block { .. } => {
                Rule::Full(Permutation::new(len, Key::new(Purpose::Samples, seed, epoch).pair()))
            }
        };
        Ok(Self { len, rule })
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
            Rule::AsTheyLie => position,
            Rule::Full(permutation) => permutation.at(position),
            Rule::Block(_) if position >= self.len => position,
            Rule::Block(block) => block.sample(position),
        }
    }

    /// The position of `sample`.
    pub fn position(&self, sample: u64) -> u64 {
        match &self.rule {
            Rule::AsTheyLie => sample,
            Rule::Full(permutation) => permutation.position(sample),
            Rule::Block(block) => block.position(sample).unwrap_or(sample),
        }
    }
}
