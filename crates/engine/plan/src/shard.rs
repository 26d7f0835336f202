//! Which positions of an epoch a rank uses in which step.
//!
//! A step is a window of `world * batch` positions, so what is consumed after a step does not depend on the
//! rank, and another world goes on from there. Arithmetic only.

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::order::Shuffle;

/// The largest batch: its positions alone take 64 GiB.
const MAX_BATCH: u64 = 1 << 32;

/// One process of those that share an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Its number, from 0.
    pub rank: u32,
    /// How many there are.
    pub world: u32,
}

impl Default for Shard {
    /// A process alone.
    fn default() -> Self {
        Self { rank: 0, world: 1 }
    }
}

/// What becomes of the last positions when they do not fill a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tail {
    /// The last batch is shorter; for one rank only.
    #[default]
    Short,
    /// They are left out.
    Drop,
    /// They are dealt out one by one; slots without one stay empty.
    Pad,
    /// They are dealt out one by one; further slots repeat positions from the epoch's first on.
    Wrap,
}

/// What [`Steps`] is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepsSpec {
    /// Positions of the epoch.
    pub len: u64,
    /// Positions already consumed.
    pub start: u64,
    /// Samples of a rank's batch.
    pub batch: u64,
    /// Whose steps.
    pub shard: Shard,
    /// What becomes of an incomplete last step.
    pub tail: Tail,
    /// How positions become samples: under a block shuffle ranks take every `world`-th position, and so
    /// whole lanes.
    pub shuffle: Shuffle,
}

/// The steps of one rank through what remains of an epoch; every rank has as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    spec: StepsSpec,
    dealing: Dealing,
    /// Positions of a step.
    width: u64,
    /// Steps that are complete.
    full_count: u64,
    /// Positions after them.
    rest: u64,
}

/// How a complete step's positions are dealt to ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dealing {
    /// Each rank a run of them.
    Runs,
    /// Rank r those that leave r when divided by the world.
    Remainders,
}

impl Steps {
    /// The steps `spec` asks for.
    pub fn new(spec: StepsSpec) -> Result<Self> {
        check(&spec)?;
        let StepsSpec { len, start, batch, shard, .. } = spec;
        let Some(remaining) = len.checked_sub(start) else {
            let what = format!("{start} positions consumed of an epoch of {len}");
            return Err(invalid(what, "resume with the data set the state was saved for"));
        };
        // Neither factor is above 2^32 and the world is below.
        let width = u64::from(shard.world) * batch;
        let dealing = match spec.shuffle {
            Shuffle::Block { .. } => Dealing::Remainders,
            Shuffle::None | Shuffle::Full => Dealing::Runs,
        };
        Ok(Self { spec, dealing, width, full_count: remaining / width, rest: remaining % width })
    }

    /// What they were made from.
    pub(crate) fn spec(&self) -> &StepsSpec {
        &self.spec
    }

    /// Samples of all ranks that fill no batch and are left out.
    pub(crate) fn dropped(&self) -> u64 {
        if self.spec.tail == Tail::Drop { self.rest } else { 0 }
    }

    /// How many steps there are, the same for every rank.
    pub fn step_count(&self) -> u64 {
        self.full_count + u64::from(self.rest > 0 && self.spec.tail != Tail::Drop)
    }

    /// Puts the positions of this rank's batch in `step` into `positions`, `None` for an empty slot; after
    /// the last step there are none.
    pub fn positions(&self, step: u64, positions: &mut Vec<Option<u64>>) {
        positions.clear();
        if step >= self.step_count() {
            return;
        }
        let StepsSpec { batch, shard, .. } = self.spec;
        let (rank, world) = (u64::from(shard.rank), u64::from(shard.world));
        let start = self.spec.start + step * self.width;
        if step < self.full_count {
            match self.dealing {
                Dealing::Runs => positions.extend((0..batch).map(|slot| Some(start + rank * batch + slot))),
                Dealing::Remainders => {
                    let first = start + self.first_turn(start);
                    positions.extend((0..batch).map(|slot| Some(first + slot * world)));
                }
            }
            return;
        }
        let first = match self.dealing {
            Dealing::Runs => rank,
            Dealing::Remainders => self.first_turn(start),
        };
        let slot_count = if self.spec.tail == Tail::Short { self.rest } else { batch };
        positions.extend((0..slot_count).map(|slot| self.dealt(first + slot * world)));
    }

    /// Positions of the epoch that all ranks together have consumed once they have done `step`.
    pub fn consumed_after(&self, step: u64) -> u64 {
        let steps = step.saturating_add(1).min(self.step_count());
        let consumed = self.spec.start.saturating_add(steps.saturating_mul(self.width));
        consumed.min(self.spec.len)
    }

    /// The step in which this rank uses `position`, not counting what a wrapped tail repeats.
    pub fn step_of(&self, position: u64) -> Option<u64> {
        let from_start = position.checked_sub(self.spec.start).filter(|_| position < self.spec.len)?;
        let (step, turn) = (from_start / self.width, from_start % self.width);
        if step >= self.step_count() {
            return None;
        }
        let world = u64::from(self.spec.shard.world);
        let rank = match self.dealing {
            Dealing::Remainders => position % world,
            Dealing::Runs if step < self.full_count => turn / self.spec.batch,
            Dealing::Runs => turn % world,
        };
        (rank == u64::from(self.spec.shard.rank)).then_some(step)
    }

    /// How far from `start` the first position is that leaves this rank when divided by the world.
    fn first_turn(&self, start: u64) -> u64 {
        let (rank, world) = (u64::from(self.spec.shard.rank), u64::from(self.spec.shard.world));
        (rank + world - start % world) % world
    }

    /// The position that is dealt at `turn` of the incomplete step.
    fn dealt(&self, turn: u64) -> Option<u64> {
        let Some(missing) = turn.checked_sub(self.rest) else {
            return Some(self.spec.start + self.full_count * self.width + turn);
        };
        (self.spec.tail == Tail::Wrap).then(|| missing % self.spec.len)
    }
}

fn check(spec: &StepsSpec) -> Result<()> {
    let Shard { rank, world } = spec.shard;
    if world == 0 {
        return Err(invalid("world=0".into(), "a process alone is rank=0 with world=1"));
    }
    if rank >= world {
        let hint = match world {
            1 => "set world to the number of ranks".to_owned(),
            _ => format!("set rank to 0 to {}", world - 1),
        };
        return Err(invalid(format!("rank={rank} with world={world}"), &hint));
    }
    if spec.batch == 0 {
        return Err(invalid("batch_size=0".into(), "set batch_size to at least 1"));
    }
    if spec.batch > MAX_BATCH {
        let hint = format!("set batch_size to at most {MAX_BATCH}");
        return Err(invalid(format!("batch_size={}", spec.batch), &hint));
    }
    if spec.tail == Tail::Short && world > 1 {
        let what = format!("tail='short' with world={world}: not every rank would have the last batch");
        return Err(invalid(what, "set tail='drop', 'pad' or 'wrap'"));
    }
    spec.shuffle.check()?;
    match spec.shuffle {
        Shuffle::Block { lanes, .. } if !lanes.is_multiple_of(world) => {
            let what = format!("lanes={lanes} does not divide among {world} ranks");
            let fitting = lanes.div_ceil(world).saturating_mul(world);
            let hint = format!("set lanes to a multiple of {world}, such as {fitting}, or shuffle='full'");
            Err(invalid(what, &hint))
        }
        _ => Ok(()),
    }
}

fn invalid(what: String, hint: &str) -> Error {
    Error::new(ErrorKind::Invalid, what).hint(hint)
}
