//! Replica groups: `width` ranks or more that hold the whole set between them.

use std::ops::Range;

use forebay_process::{Error, Result};

/// How ranks form replica groups: consecutive ranks, groups as even as can be and none narrower than asked.
///
/// DDStore leaves the last group narrower where the width does not divide the ranks; its few members then hold more than
/// their memory was planned for. Here seven ranks of width 3 form groups of 4 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaGroups {
    ranks: usize,
    count: usize,
}

impl ReplicaGroups {
    /// ReplicaGroups of at least `width` of `ranks` ranks; one group of all where no width is given.
    pub fn new(ranks: usize, width: Option<usize>) -> Result<Self> {
        match width {
            None => Ok(Self { ranks, count: 1 }),
            Some(width) if (1..=ranks).contains(&width) => Ok(Self { ranks, count: ranks / width }),
            Some(width) => {
                let what = format!("a width of {width} with {ranks} ranks");
                Err(Error::invalid(what)
                    .hint(format!("give one between 1 and {ranks}, the ranks of the job")))
            }
        }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// The group of `rank`.
    pub fn group_of(self, rank: usize) -> usize {
        // Group g begins at the first rank with rank * count >= g * ranks.
        rank * self.count / self.ranks
    }

    /// The ranks of `group`.
    pub fn members(self, group: usize) -> Range<usize> {
        let first = |group: usize| (group * self.ranks).div_ceil(self.count);
        first(group)..first(group + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_a_member_of_its_group_and_no_group_is_narrower_than_asked() {
        for ranks in 1..40 {
            for width in (1..=ranks).map(Some).chain([None]) {
                let groups = ReplicaGroups::new(ranks, width).expect("a width within the ranks");
                let mut next = 0;
                let mut lens = Vec::new();
                for group in 0..groups.count() {
                    let members = groups.members(group);
                    assert_eq!(members.start, next, "{ranks} ranks, width {width:?}");
                    assert!(members.clone().all(|rank| groups.group_of(rank) == group), "{ranks}, {width:?}");
                    lens.push(members.len());
                    next = members.end;
                }
                assert_eq!(next, ranks);
                let least = lens.iter().min().expect("there is a group");
                assert!(*least >= width.unwrap_or(ranks) && lens.iter().max() <= Some(&(least + 1)));
            }
        }
    }

    #[test]
    fn a_width_beyond_the_ranks_is_refused() {
        for width in [0, 5] {
            let error = ReplicaGroups::new(4, Some(width)).expect_err("no such groups");
            assert!(error.to_string().contains("between 1 and 4"), "{error}");
        }
    }
}
