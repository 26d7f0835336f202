//! How long every sample of a variable is, in two bytes for most.

/// The lengths of samples in rows, and where each begins in a row of all of them.
///
/// Ragged ones are kept as narrow as the longest allows, with the sums up to every few of them: a million samples of less than
/// 65,536 rows take 2.3 MB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleLens(Lens);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Lens {
    Even { count: u64, len: u64 },
    Ragged { sums: Vec<u64>, lens: NarrowLens },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NarrowLens {
    Bytes(Vec<u8>),
    Shorts(Vec<u16>),
    Words(Vec<u32>),
    Longs(Vec<u64>),
}

/// Lengths are added up over at most this many samples: 32 of two bytes are one cache line.
const BLOCK: usize = 32;

impl SampleLens {
    /// `count` samples of `len` rows each.
    pub fn even(count: u64, len: u64) -> Self {
        Self(Lens::Even { count, len })
    }

    /// Samples of these lengths.
    pub fn ragged(lens: &[u64]) -> Self {
        if let Some(first) = lens.first()
            && lens.iter().all(|len| len == first)
        {
            return Self::even(lens.len() as u64, *first);
        }
        let mut sums = Vec::with_capacity(lens.len() / BLOCK + 2);
        let mut sum = 0u64;
        for block in lens.chunks(BLOCK) {
            sums.push(sum);
            sum = block.iter().fold(sum, |sum, len| sum.saturating_add(*len));
        }
        sums.push(sum);
        Self(Lens::Ragged { sums, lens: NarrowLens::new(lens) })
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Lens::Even { count, .. } => *count,
            Lens::Ragged { lens, .. } => lens.count() as u64,
        }
    }

    /// The rows of every sample, where they are the same.
    pub fn even_len(&self) -> Option<u64> {
        match &self.0 {
            Lens::Even { len, .. } => Some(*len),
            Lens::Ragged { .. } => None,
        }
    }

    /// Rows of all samples.
    pub fn total(&self) -> u64 {
        match &self.0 {
            Lens::Even { count, len } => count.saturating_mul(*len),
            Lens::Ragged { sums, .. } => sums.last().copied().unwrap_or(0),
        }
    }

    /// Rows before `sample`, and its own; `sample` is below the count.
    pub fn start_and_len(&self, sample: u64) -> (u64, u64) {
        match &self.0 {
            Lens::Even { len, .. } => (sample.saturating_mul(*len), *len),
            Lens::Ragged { sums, lens } => {
                let sample = usize::try_from(sample).unwrap_or(usize::MAX);
                let first = sample / BLOCK * BLOCK;
                (sums[sample / BLOCK] + lens.sum(first, sample), lens.at(sample))
            }
        }
    }

    /// Rows before `sample`, which may be the count.
    pub fn start(&self, sample: u64) -> u64 {
        if sample >= self.count() { self.total() } else { self.start_and_len(sample).0 }
    }

    /// The longest sample.
    pub fn longest(&self) -> u64 {
        match &self.0 {
            Lens::Even { count: 0, .. } => 0,
            Lens::Even { len, .. } => *len,
            Lens::Ragged { lens, .. } => (0..lens.count()).map(|sample| lens.at(sample)).max().unwrap_or(0),
        }
    }

    /// A number that differs where lengths do: what two ranks compare instead of all of them.
    pub fn fingerprint(&self) -> u64 {
        // FNV-1a over lengths: ranks that disagree do so by accident, not on purpose.
        let mix = |hash: u64, len: u64| (hash ^ len).wrapping_mul(0x0000_0100_0000_01b3);
        match self.even_len() {
            Some(len) => mix(mix(1, self.count()), len),
            None => (0..self.count()).fold(2, |hash, sample| mix(hash, self.start_and_len(sample).1)),
        }
    }

    /// The first sample that begins at or after row `row`, or the count.
    pub fn first_from_row(&self, row: u64) -> u64 {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle) < row { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// These samples, followed by others.
    pub fn joined<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let mut known = None;
        let is_even = parts.clone().filter(|part| part.count() > 0).all(|part| match part.even_len() {
            Some(len) => *known.get_or_insert(len) == len,
            None => false,
        });
        if is_even {
            let first = parts.clone().find_map(Self::even_len);
            return Self::even(parts.map(Self::count).sum(), known.or(first).unwrap_or(0));
        }
        let lens: Vec<u64> =
            parts.flat_map(|part| (0..part.count()).map(|sample| part.start_and_len(sample).1)).collect();
        Self::ragged(&lens)
    }

    /// Bytes that this takes.
    pub fn memory(&self) -> u64 {
        match &self.0 {
            Lens::Even { .. } => 0,
            Lens::Ragged { sums, lens } => {
                (sums.len() * size_of::<u64>() + lens.count() * lens.width()) as u64
            }
        }
    }
}

impl NarrowLens {
    fn new(lens: &[u64]) -> Self {
        let longest = lens.iter().max().copied().unwrap_or(0);
        // Each holds the longest, so nothing is cut off.
        macro_rules! narrowed {
            ($number:ty) => {
                lens.iter().map(|len| <$number>::try_from(*len).unwrap_or(<$number>::MAX)).collect()
            };
        }
        match longest {
            0..=0xff => Self::Bytes(narrowed!(u8)),
            0x100..=0xffff => Self::Shorts(narrowed!(u16)),
            0x1_0000..=0xffff_ffff => Self::Words(narrowed!(u32)),
            _ => Self::Longs(lens.to_vec()),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Bytes(lens) => lens.len(),
            Self::Shorts(lens) => lens.len(),
            Self::Words(lens) => lens.len(),
            Self::Longs(lens) => lens.len(),
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Bytes(_) => 1,
            Self::Shorts(_) => 2,
            Self::Words(_) => 4,
            Self::Longs(_) => 8,
        }
    }

    fn at(&self, sample: usize) -> u64 {
        match self {
            Self::Bytes(lens) => lens[sample].into(),
            Self::Shorts(lens) => lens[sample].into(),
            Self::Words(lens) => lens[sample].into(),
            Self::Longs(lens) => lens[sample],
        }
    }

    fn sum(&self, first: usize, end: usize) -> u64 {
        match self {
            Self::Bytes(lens) => lens[first..end].iter().map(|len| u64::from(*len)).sum(),
            Self::Shorts(lens) => lens[first..end].iter().map(|len| u64::from(*len)).sum(),
            Self::Words(lens) => lens[first..end].iter().map(|len| u64::from(*len)).sum(),
            Self::Longs(lens) => lens[first..end].iter().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn samples_begin_where_those_before_them_end(lens in prop::collection::vec(
            prop_oneof![0..3u64, 250..260u64, 65_530..65_540u64, 0..1u64 << 40], 0..200,
        ), row in 0..1u64 << 42) {
            let known = SampleLens::ragged(&lens);
            prop_assert_eq!(known.count(), lens.len() as u64);
            let mut sum = 0;
            for (sample, len) in lens.iter().enumerate() {
                prop_assert_eq!(known.start_and_len(sample as u64), (sum, *len));
                sum += len;
            }
            prop_assert_eq!((known.total(), known.start(lens.len() as u64)), (sum, sum));
            prop_assert_eq!(known.longest(), lens.iter().max().copied().unwrap_or(0));
            let starts = (0..lens.len() as u64).map(|sample| known.start(sample));
            prop_assert_eq!(known.first_from_row(row), starts.filter(|start| *start < row).count() as u64);
            let (first, second) = lens.split_at(lens.len() / 3);
            let parts = [SampleLens::ragged(first), SampleLens::ragged(&[]), SampleLens::ragged(second)];
            let joined = SampleLens::joined(parts.iter());
            prop_assert_eq!((joined.count(), joined.total()), (known.count(), known.total()));
            for sample in 0..lens.len() as u64 {
                prop_assert_eq!(joined.start_and_len(sample), known.start_and_len(sample));
            }
        }
    }

    #[test]
    fn a_million_ragged_samples_take_less_than_16_mb() {
        let lens: Vec<u64> = (0..1_000_000u64).map(|sample| sample * 7919 % 60_000).collect();
        assert!(SampleLens::ragged(&lens).memory() < 3_000_000);
        let long: Vec<u64> = lens.iter().map(|len| len << 20).collect();
        assert!(SampleLens::ragged(&long).memory() < 16_000_000);
    }

    #[test]
    fn samples_of_one_length_take_nothing() {
        assert_eq!(SampleLens::ragged(&[7; 1000]), SampleLens::even(1000, 7));
        assert_eq!(SampleLens::even(1000, 7).memory(), 0);
    }
}
