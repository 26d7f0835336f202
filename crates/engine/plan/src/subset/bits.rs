//! Samples that rise, as a bitmap with ranks: one bit for each sample of the whole set.

use std::sync::Arc;

/// Words between two stored ranks: a rank adds an eighth of a word's bytes to each word.
const STRIDE: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SampleBits {
    words: Arc<[u64]>,
    /// Bits that are set before each `STRIDE` words, and after the last the number of all.
    ranks: Arc<[u64]>,
}

impl SampleBits {
    /// The bitmap of `samples`, each of which is below `whole_len` and comes once.
    pub(super) fn new(whole_len: u64, samples: impl Iterator<Item = u64>) -> Self {
        let mut words = vec![0u64; index(whole_len.div_ceil(64))];
        for sample in samples {
            words[index(sample / 64)] |= 1 << (sample % 64);
        }
        let mut ranks = vec![0];
        let mut count = 0;
        for stretch in words.chunks(STRIDE) {
            count += stretch.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            ranks.push(count);
        }
        Self { words: words.into(), ranks: ranks.into() }
    }

    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().copied()
    }

    /// How many bits below `sample` are set.
    pub(super) fn rank(&self, sample: u64) -> u64 {
        let word = index(sample / 64);
        if word >= self.words.len() {
            return self.ranks.last().copied().unwrap_or(0);
        }
        let stretch = word / STRIDE;
        let whole: u32 = self.words[stretch * STRIDE..word].iter().map(|word| word.count_ones()).sum();
        let below = self.words[word] & ((1 << (sample % 64)) - 1);
        self.ranks[stretch] + u64::from(whole + below.count_ones())
    }

    /// The sample whose rank is `rank`, which is below the number of all.
    pub(super) fn sample(&self, rank: u64) -> u64 {
        let stretch = self.ranks.partition_point(|before| *before <= rank) - 1;
        let mut left = rank - self.ranks[stretch];
        let mut word = stretch * STRIDE;
        loop {
            let count = u64::from(self.words[word].count_ones());
            if left < count {
                break;
            }
            left -= count;
            word += 1;
        }
        word as u64 * 64 + u64::from(place_of_bit(self.words[word], left))
    }
}

/// Where in `word` the bit is that has `rank` set bits below it.
fn place_of_bit(word: u64, rank: u64) -> u32 {
    let mut rest = word;
    for _ in 0..rank {
        rest &= rest - 1;
    }
    rest.trailing_zeros()
}

fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
