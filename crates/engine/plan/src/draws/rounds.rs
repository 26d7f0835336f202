//! Draws in rounds: every round has a fixed number of samples of each source, such as a class or one of several sets.
//!
//! ```text
//! round r of R positions     its slots, shuffled by the key (seed, epoch, r)
//! slot                       source s, and which of its slots in the round: so it is draw k of s in the epoch
//! draw k of s                cycle k / n, place k % n in the shuffle of its n samples by the key (seed, epoch, s, cycle)
//! ```
//!
//! The samples of a source all come once before one of them comes again, and each share is exact in every round.

use std::sync::Arc;

use forebay_process::Result;

use super::checks::{check_count, invalid};
use crate::{
    permutation::Permutation,
    seed::{Purpose, SeedKey},
};

/// Draws in rounds over sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundDraws {
    /// The first member of each source, and after the last their number.
    starts: Vec<u64>,
    /// The first slot of each source in a round, and after the last the length of a round.
    slots: Vec<u64>,
    /// Numbers by member, and members by number; nothing where they are the same.
    members: Option<[Arc<[u32]>; 2]>,
    len: u64,
}

impl RoundDraws {
    /// `len` draws, of which each round has `shares[s]` of source `s`; sources lie one after another and have `lens` samples.
    pub fn of_sources(lens: &[u64], shares: &[u64], len: u64) -> Result<Self> {
        if lens.len() != shares.len() || lens.is_empty() {
            let what = format!("{} shares for {} sources", shares.len(), lens.len());
            return Err(invalid(what, "give each source a share"));
        }
        if let Some(empty) = lens.iter().zip(shares).position(|(len, share)| *len == 0 && *share > 0) {
            return Err(invalid(format!("source {empty} has no samples"), "leave it out"));
        }
        let sums = |counts: &[u64]| -> Option<Vec<u64>> {
            let mut sums = vec![0u64];
            for count in counts {
                sums.push(sums.last()?.checked_add(*count)?);
            }
            Some(sums)
        };
        let (Some(starts), Some(slots)) = (sums(lens), sums(shares)) else {
            return Err(invalid("sources are too long", "mix fewer"));
        };
        if slots.last() == Some(&0) {
            return Err(invalid("no source has a share", "give one a share above 0"));
        }
        Ok(Self { starts, slots, members: None, len })
    }

    /// `len` draws over the classes of the samples, one of each class in every round; `classes` count from 0.
    pub fn balanced(classes: &[u32], len: u64) -> Result<Self> {
        check_count("the number of samples", classes.len() as u64)?;
        if classes.is_empty() {
            return Err(invalid("no samples to balance", "balance a set that has some"));
        }
        let class_count = classes.iter().max().map_or(0, |last| *last as usize + 1);
        let mut lens = vec![0u64; class_count];
        classes.iter().for_each(|class| lens[*class as usize] += 1);
        let shares: Vec<u64> = lens.iter().map(|len| u64::from(*len > 0)).collect();
        let mut numbers: Vec<u32> = (0..).take(classes.len()).collect();
        numbers.sort_by_key(|number| classes[*number as usize]);
        let mut places = vec![0u32; numbers.len()];
        numbers.iter().zip(0..).for_each(|(number, place)| places[*number as usize] = place);
        let members = Some([numbers.into(), places.into()]);
        Ok(Self { members, ..Self::of_sources(&lens, &shares, len)? })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn population(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    pub(super) fn each_word(&self, add: &mut dyn FnMut(u64)) {
        add(self.len);
        add(self.starts.len() as u64);
        self.starts.iter().chain(&self.slots).for_each(|word| add(*word));
        self.members
            .iter()
            .flat_map(|[numbers, _]| numbers.iter())
            .for_each(|number| add(u64::from(*number)));
    }

    pub(super) fn number(&self, seed: u64, epoch: u64, position: u64) -> u64 {
        let round_len = self.round_len();
        let round = position / round_len;
        let slot = round_order(seed, epoch, round, round_len).at(position % round_len);
        let source = self.slots.partition_point(|start| *start <= slot) - 1;
        let draw = round * (self.slots[source + 1] - self.slots[source]) + (slot - self.slots[source]);
        let count = self.starts[source + 1] - self.starts[source];
        let order = cycle_order(seed, epoch, source, draw / count, count);
        let member = self.starts[source] + order.at(draw % count);
        self.renamed(0, member)
    }

    pub(super) fn each_position(&self, seed: u64, epoch: u64, number: u64, each: &mut dyn FnMut(u64)) {
        let member = self.renamed(1, number);
        let source = self.starts.partition_point(|start| *start <= member) - 1;
        let count = self.starts[source + 1] - self.starts[source];
        let (round_len, share) = (self.round_len(), self.slots[source + 1] - self.slots[source]);
        if share == 0 {
            return;
        }
        let draws = self.len.div_ceil(round_len) * share;
        for cycle in 0..draws.div_ceil(count) {
            let order = cycle_order(seed, epoch, source, cycle, count);
            let draw = cycle * count + order.position(member - self.starts[source]);
            let (round, slot) = (draw / share, self.slots[source] + draw % share);
            let position = round * round_len + round_order(seed, epoch, round, round_len).position(slot);
            if position < self.len {
                each(position);
            }
        }
    }

    fn round_len(&self) -> u64 {
        self.slots.last().copied().unwrap_or(1)
    }

    /// The number of a member with 0, and the member of a number with 1.
    fn renamed(&self, direction: usize, from: u64) -> u64 {
        let to = self.members.as_ref().zip(usize::try_from(from).ok());
        to.map_or(from, |(members, at)| u64::from(members[direction][at]))
    }
}

fn round_order(seed: u64, epoch: u64, round: u64, len: u64) -> Permutation {
    Permutation::new(len, SeedKey::new(Purpose::Round, seed, epoch).with(round).pair())
}

fn cycle_order(seed: u64, epoch: u64, source: usize, cycle: u64, len: u64) -> Permutation {
    let key = SeedKey::new(Purpose::Cycle, seed, epoch).with(source as u64).with(cycle);
    Permutation::new(len, key.pair())
}
