//! How long batches were of late.

/// The last few lengths.
#[derive(Debug, Default)]
pub(super) struct RecentLens {
    lens: [usize; RECENT],
    /// How many were noted.
    count: usize,
}

/// Lengths that are remembered.
const RECENT: usize = 16;

impl RecentLens {
    /// Notes one more.
    pub(super) fn note(&mut self, len: usize) {
        self.lens[self.count % RECENT] = len;
        self.count = self.count.wrapping_add(1);
    }

    /// The most that is to be expected: the longest, unless it is an outlier, more than twice as long as any other.
    pub(super) fn usual(&self) -> usize {
        let mut known = self.lens;
        known.sort_unstable();
        let [.., second, longest] = known;
        if second > 0 && longest / 2 > second { second } else { longest }
    }

    /// True when most are as long as is usual: so will be those to come.
    pub(super) fn is_steady(&self) -> bool {
        let known = &self.lens[..self.count.min(RECENT)];
        let usual = self.usual();
        let same = known.iter().filter(|len| **len == usual).count();
        same > 1 && same * 2 > known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(lens: &[usize]) -> (usize, bool) {
        let mut recent = RecentLens::default();
        lens.iter().for_each(|len| recent.note(*len));
        (recent.usual(), recent.is_steady())
    }

    #[test]
    fn one_batch_that_is_much_longer_than_others_changes_nothing_and_two_do_until_they_are_forgotten() {
        assert_eq!(noted(&[]), (0, false));
        assert_eq!(noted(&[100_000]), (100_000, false), "what alone is known");
        assert_eq!(noted(&[100_000, 100]), (100, false));
        assert_eq!(noted(&[100, 100_000, 100, 100]), (100, true));
        let mut lens = vec![100, 100_000, 80_000];
        assert_eq!(noted(&lens), (100_000, false));
        lens.extend([100; RECENT]);
        assert_eq!(noted(&lens), (100, true));
    }

    #[test]
    fn batches_that_differ_a_little_are_expected_as_long_as_the_longest_and_a_short_last_one_is_no_change() {
        assert_eq!(noted(&[90, 120, 100, 110]), (120, false));
        assert_eq!(noted(&[100, 100, 100, 30]), (100, true));
    }
}
