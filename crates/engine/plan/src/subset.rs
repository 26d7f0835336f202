//! A subset of a set of samples: from its own numbers to those of the whole set, and back.
//!
//! ```text
//! number in the subset ─► sample of the whole set      sample()
//! sample ─► ranks ─► numbers in the subset             ranks(), by_rank()
//! ```
//!
//! A rank is a place among the subset's samples once they are sorted: neighbours in it lie near each other in files, so the
//! groups of a block shuffle are runs of ranks.

mod bits;
mod listed;

use std::ops::Range;

use forebay_process::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};

use self::{bits::SampleBits, listed::ListedSamples};
use crate::{
    groups::Groups,
    permutation::Permutation,
    seed::{Purpose, SeedKey},
};

/// Some samples of a set, in an order of their own; one may come more than once.
///
/// A slice is a formula. Samples that rise are a bitmap where they lie close, and a list elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subset {
    whole_len: u64,
    len: u64,
    rule: SubsetRule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SubsetRule {
    /// Sample `start + step * number`.
    Slice {
        start: u64,
        step: i64,
    },
    Bits(SampleBits),
    Listed(ListedSamples),
}

/// So many samples are listed and sorted; those of a larger split go straight to a bitmap, and are never a slice by chance.
const FEW: u64 = 4096;

impl Subset {
    /// `len` samples of `whole_len`, from `start` on, each `step` after the one before it.
    pub fn slice(whole_len: u64, start: u64, step: i64, len: u64) -> Result<Self> {
        let last = i128::from(start) + i128::from(step) * i128::from(len.saturating_sub(1));
        if len > 0 && (start >= whole_len || last < 0 || last >= i128::from(whole_len) || step == 0) {
            let what = format!("{len} samples from {start} on in steps of {step}, of {whole_len}");
            return Err(Error::new(ErrorKind::Invalid, what).hint("take samples that are there"));
        }
        let (start, step) = if len == 0 { (0, 1) } else { (start, step) };
        let step = if len == 1 { 1 } else { step };
        Ok(Self { whole_len, len, rule: SubsetRule::Slice { start, step } })
    }

    /// The samples `samples` of `whole_len`, in that order.
    pub fn listed(whole_len: u64, samples: Vec<u64>) -> Result<Self> {
        if let Some(sample) = samples.iter().find(|sample| **sample >= whole_len) {
            let what = format!("sample {sample} of {whole_len}");
            return Err(Error::new(ErrorKind::Invalid, what).hint("take samples that are there"));
        }
        let len = samples.len() as u64;
        if let Some((start, step)) = regular(&samples) {
            return Self::slice(whole_len, start, step, len);
        }
        let rises = samples.is_sorted_by(|one, next| one < next);
        // A word of the bitmap takes as much as a number of the list.
        let rule = if rises && whole_len / 64 < len {
            SubsetRule::Bits(SampleBits::new(whole_len, samples.into_iter()))
        } else {
            SubsetRule::Listed(ListedSamples::new(samples))
        };
        Ok(Self { whole_len, len, rule })
    }

    /// Those of `len` samples whose place in a keyed shuffle of all is in `places`, as they lie.
    ///
    /// Parts that are cut out of one seed's shuffle do not overlap, and any process computes any of them.
    pub fn split(len: u64, seed: u64, places: Range<u64>) -> Result<Self> {
        if places.start > places.end || places.end > len {
            let what = format!("places {} to {} of {len} samples", places.start, places.end);
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let order = Permutation::new(len, SeedKey::new(Purpose::Split, seed, 0).pair());
        let count = places.end - places.start;
        if count > FEW && count > len / 64 && count < len {
            let bits = SampleBits::new(len, places.map(|place| order.at(place)));
            return Ok(Self { whole_len: len, len: count, rule: SubsetRule::Bits(bits) });
        }
        let mut samples: Vec<u64> = places.map(|place| order.at(place)).collect();
        samples.sort_unstable();
        Self::listed(len, samples)
    }

    /// How many samples it has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many samples there are in the whole set.
    pub fn whole_len(&self) -> u64 {
        self.whole_len
    }

    /// True when it is the whole set, as it lies.
    pub fn is_whole(&self) -> bool {
        self.len == self.whole_len && matches!(self.rule, SubsetRule::Slice { step: 1, .. })
    }

    /// The sample of the whole set that has `number` here; a number that is not there has none.
    pub fn sample(&self, number: u64) -> Option<u64> {
        if number >= self.len {
            return None;
        }
        Some(match &self.rule {
            SubsetRule::Slice { start, step } => {
                start.wrapping_add_signed(step.wrapping_mul(number.cast_signed()))
            }
            SubsetRule::Bits(bits) => bits.sample(number),
            SubsetRule::Listed(listed) => listed.sample(number),
        })
    }

    /// The ranks of `sample`: one where it is here once, none where it is not here.
    pub fn ranks(&self, sample: u64) -> Range<u64> {
        self.rank(sample)..self.rank(sample.saturating_add(1))
    }

    /// The number of the sample of `rank`.
    pub fn by_rank(&self, rank: u64) -> u64 {
        match &self.rule {
            SubsetRule::Slice { step, .. } if *step < 0 => self.len.saturating_sub(1).saturating_sub(rank),
            SubsetRule::Slice { .. } | SubsetRule::Bits(_) => rank,
            SubsetRule::Listed(listed) => listed.by_rank(rank),
        }
    }

    /// True when `sample` is here.
    pub fn has(&self, sample: u64) -> bool {
        !self.ranks(sample).is_empty()
    }

    /// The subset of this one that `inner` is, of the same whole set.
    pub fn then(&self, inner: &Self) -> Result<Self> {
        if inner.whole_len != self.len {
            let what = format!("a subset of {} samples is taken of {}", inner.whole_len, self.len);
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        if let (SubsetRule::Slice { start, step }, SubsetRule::Slice { step: inner_step, .. }) =
            (&self.rule, &inner.rule)
        {
            let first = inner.sample(0).and_then(|number| self.sample(number)).unwrap_or(*start);
            return Self::slice(self.whole_len, first, step.saturating_mul(*inner_step), inner.len);
        }
        let samples = (0..inner.len).filter_map(|number| self.sample(inner.sample(number)?));
        Self::listed(self.whole_len, samples.collect())
    }

    /// How many of the samples of each of `groups` are here; groups of which none is are left out.
    pub(crate) fn group_lens(&self, groups: &Groups) -> Vec<u64> {
        let mut lens = Vec::new();
        let mut before = 0;
        for group in 0..groups.group_count() {
            let after = self.rank(groups.range(group).end);
            if after > before {
                lens.push(after - before);
            }
            before = after;
        }
        lens
    }

    /// A digest of which samples these are.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.whole_len.to_le_bytes());
        hash.update(self.len.to_le_bytes());
        match &self.rule {
            SubsetRule::Slice { start, step } => {
                hash.update(b"slice");
                hash.update(start.to_le_bytes());
                hash.update(step.to_le_bytes());
            }
            SubsetRule::Bits(bits) => {
                hash.update(b"bits");
                bits.words().for_each(|word| hash.update(word.to_le_bytes()));
            }
            SubsetRule::Listed(listed) => {
                hash.update(b"listed");
                listed.samples().for_each(|sample| hash.update(sample.to_le_bytes()));
            }
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Digest of the numbers by rank; `None` where each sample's number is its rank.
    pub fn numbering_digest(&self) -> Option<String> {
        let is_reversed = || (0..self.len).all(|rank| self.by_rank(rank) == self.len - 1 - rank);
        match &self.rule {
            SubsetRule::Slice { step, .. } if *step < 0 => Some("reversed".to_owned()),
            SubsetRule::Slice { .. } | SubsetRule::Bits(_) => None,
            SubsetRule::Listed(listed) if listed.rises() => None,
            SubsetRule::Listed(_) if is_reversed() => Some("reversed".to_owned()),
            SubsetRule::Listed(_) => {
                let mut hash = Sha256::new();
                (0..self.len).for_each(|rank| hash.update(self.by_rank(rank).to_le_bytes()));
                Some(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
            }
        }
    }

    /// How many samples here, each as often as it comes, are below `sample`.
    fn rank(&self, sample: u64) -> u64 {
        match &self.rule {
            SubsetRule::Slice { start, step } => {
                let distance = step.unsigned_abs();
                let least = if *step < 0 {
                    start.saturating_sub(distance.saturating_mul(self.len.saturating_sub(1)))
                } else {
                    *start
                };
                sample.saturating_sub(least).div_ceil(distance.max(1)).min(self.len)
            }
            SubsetRule::Bits(bits) => bits.rank(sample),
            SubsetRule::Listed(listed) => listed.rank(sample),
        }
    }
}

/// First sample and step of `samples` that are all as far apart.
fn regular(samples: &[u64]) -> Option<(u64, i64)> {
    let (first, second) = match samples {
        [] => return Some((0, 1)),
        [only] => return Some((*only, 1)),
        [first, second, ..] => (*first, *second),
    };
    let step = i64::try_from(i128::from(second) - i128::from(first)).ok().filter(|step| *step != 0)?;
    samples.is_sorted_by(|one, next| one.checked_add_signed(step) == Some(*next)).then_some((first, step))
}
