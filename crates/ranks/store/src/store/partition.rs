//! Which member of a replica group holds a sample: consecutive samples each, even by count or by bytes.

use std::ops::Range;

use serde::Serialize;

use crate::store::sample_lens::SampleLens;

/// By what samples are divided evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Balance {
    /// By their number.
    Count,
    /// By their bytes: no member holds more than an even part and one sample.
    #[default]
    Bytes,
}

/// The samples of every member: runs that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// The first sample of each member, and the count at the end.
    firsts: Vec<u64>,
}

impl Partition {
    /// Members that hold so many samples each.
    pub fn of_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut firsts = vec![0u64];
        for count in counts {
            firsts.push(firsts[firsts.len() - 1].saturating_add(count));
        }
        Self { firsts }
    }

    /// `lens` divided among `members`.
    pub fn even(lens: &SampleLens, members: usize, balance: Balance) -> Self {
        let part = |whole: u64, member: usize| {
            let part = u128::from(whole) * member as u128 / members as u128;
            u64::try_from(part).unwrap_or(whole)
        };
        let first = |member: usize| match balance {
            Balance::Bytes if lens.total() > 0 => lens.first_from_row(part(lens.total(), member)),
            _ => part(lens.count(), member),
        };
        let mut firsts: Vec<u64> = (0..members).map(first).collect();
        firsts.push(lens.count());
        Self { firsts }
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.firsts[self.firsts.len() - 1]
    }

    /// The member that holds `sample`, which is below the count.
    pub fn member_of(&self, sample: u64) -> usize {
        self.firsts.partition_point(|first| *first <= sample) - 1
    }

    /// The samples of `member`.
    pub fn samples_of(&self, member: usize) -> Range<u64> {
        self.firsts[member]..self.firsts[member + 1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_sample_has_one_member_and_none_holds_much_more_than_another(
            lens in prop::collection::vec(0..50u64, 0..200), members in 1..20usize, by_bytes: bool,
        ) {
            let known = SampleLens::ragged(&lens);
            let balance = if by_bytes { Balance::Bytes } else { Balance::Count };
            let partition = Partition::even(&known, members, balance);
            prop_assert_eq!(partition.count(), lens.len() as u64);
            let mut next = 0;
            for member in 0..members {
                let samples = partition.samples_of(member);
                prop_assert_eq!(samples.start, next);
                next = samples.end;
                for sample in samples.clone() {
                    prop_assert_eq!(partition.member_of(sample), member);
                }
                let (held, whole) = match (balance, known.total()) {
                    (Balance::Bytes, 1..) => (known.start(samples.end) - known.start(samples.start), known.total()),
                    _ => (samples.end - samples.start, known.count()),
                };
                let longest = if known.total() > 0 && by_bytes { known.longest() } else { 1 };
                prop_assert!(held <= whole.div_ceil(members as u64) + longest, "member {}: {} of {}", member, held, whole);
            }
            prop_assert_eq!(next, lens.len() as u64);
        }
    }

    #[test]
    fn members_may_hold_nothing() {
        let partition = Partition::of_counts([0, 3, 0, 0, 2, 0]);
        assert_eq!((0..5).map(|sample| partition.member_of(sample)).collect::<Vec<_>>(), [1, 1, 1, 4, 4]);
        assert_eq!((partition.count(), partition.samples_of(3)), (5, 3..3));
    }
}
