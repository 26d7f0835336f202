//! Where the samples of each of several files begin.

use std::num::NonZeroU64;

/// Where the samples of each of several files begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleStarts {
    /// One for each file, and one past the last sample of all.
    starts: Vec<u64>,
    /// Samples of a file, where all have as many: then no search is needed.
    every: Option<NonZeroU64>,
}

impl SampleStarts {
    /// Files of `counts` samples; nothing where they are more than can be counted.
    pub fn new(counts: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut starts = vec![0u64];
        for count in counts {
            starts.push(starts.last()?.checked_add(count)?);
        }
        let first = starts.get(1).copied().unwrap_or(0);
        let is_even = starts.windows(2).all(|two| two[1] - two[0] == first);
        let every = if is_even { NonZeroU64::new(first) } else { None };
        Some(Self { starts, every })
    }

    /// The first sample of file `part`, which there must be.
    #[inline]
    pub fn of(&self, part: usize) -> u64 {
        self.starts[part]
    }

    /// The file that has `sample`.
    #[inline]
    pub fn part(&self, sample: u64) -> usize {
        match self.every {
            Some(every) => usize::try_from(sample / every).unwrap_or(usize::MAX),
            None => self.starts.partition_point(|start| *start <= sample).saturating_sub(1),
        }
    }

    /// Samples of all files.
    #[inline]
    pub fn total(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Samples of each file.
    pub fn counts(&self) -> Vec<u64> {
        self.starts.windows(2).map(|two| two[1] - two[0]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_found_in_its_file_whether_files_have_as_many_or_not() {
        for counts in [vec![4, 4, 4], vec![3, 0, 5, 0, 0, 2], vec![7], vec![0, 2]] {
            let starts = SampleStarts::new(counts.clone()).unwrap();
            let samples =
                counts.iter().enumerate().flat_map(|(part, count)| (0..*count).map(move |at| (part, at)));
            for (sample, (part, at)) in samples.enumerate() {
                let sample = sample as u64;
                let found = (starts.part(sample), sample - starts.of(starts.part(sample)));
                assert_eq!(found, (part, at), "{counts:?}");
            }
            assert_eq!((starts.counts(), starts.total()), (counts.clone(), counts.iter().sum()));
        }
    }
}
