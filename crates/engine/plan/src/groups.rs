//! The groups of a block shuffle: runs of neighbouring samples that are read together.

use std::ops::Range;

use forebay_process::{Error, ErrorKind, Result};

/// Lanes of a block shuffle of a large set unless the spec says otherwise: 1, 2, 3, 4, 6, 8, 12, 16, 24 and 48 ranks
/// divide them, and a batch of 48 comes from as many groups.
pub const DEFAULT_LANES: u32 = 48;

/// Fewer lanes for sets that have fewer groups than [`DEFAULT_LANES`], so that ranks still share them out.
const FEWER_LANES: [u32; 2] = [24, 12];

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
    pub(crate) fn short(&self) -> impl Iterator<Item = (u64, u64)> {
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
