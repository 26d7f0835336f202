//! Random numbers that are functions: of the seed, the epoch and what they are for.

/// The step of splitmix64, 2^64 divided by the golden ratio.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One output of the generator splitmix64 for the state `word`.
pub fn splitmix64(word: u64) -> u64 {
    mix(word.wrapping_add(STEP))
}

/// The seed for whatever is random about one sample in one epoch; the samples of an epoch all differ.
pub fn sample_seed(seed: u64, epoch: u64, sample: u64) -> u64 {
    SeedKey::new(Purpose::Sample, seed, epoch).with(sample).0
}

/// What a key is for: the same words for another purpose give another key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The order of all samples.
    Samples = 1,
    /// The order of the groups.
    Groups = 2,
    /// The order within a window of groups.
    Window = 3,
    /// The randomness of one sample.
    Sample = 4,
    /// By how much the line of groups is turned.
    Turn = 5,
    /// Which samples belong to which part of a split.
    Split = 6,
    /// A draw by weight.
    Draw = 7,
    /// The order within a round over sources.
    Round = 8,
    /// The order of a source's samples, each time all have come.
    Cycle = 9,
    /// The order of runs of similar length.
    Run = 10,
}

/// A key under construction: words go in one by one, and their order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeedKey(u64);

impl SeedKey {
    pub(crate) fn new(purpose: Purpose, seed: u64, epoch: u64) -> Self {
        Self(mix(purpose as u64)).with(seed).with(epoch)
    }

    /// The key with one more word; different words give different keys.
    pub(crate) fn with(self, word: u64) -> Self {
        Self(splitmix64(self.0 ^ word))
    }

    /// A number below `len`, each as likely but for one part in `2^64 / len`; 0 where there is none.
    pub(crate) fn below(self, len: u64) -> u64 {
        let wide = u128::from(splitmix64(self.0)) * u128::from(len);
        u64::try_from(wide >> u64::BITS).expect("the upper half of 128 bits")
    }

    /// The key as a permutation takes it.
    pub(crate) fn pair(self) -> [u64; 2] {
        [splitmix64(self.0), splitmix64(self.0.wrapping_add(STEP))]
    }
}

/// A bijection that changes half of the bits whichever one changes: the finish of splitmix64.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
