//! What generated samples hold: random bytes that compress to a given ratio, the same for the same seed.

/// Random bytes and zeros take turns in stretches of this length together: shorter than the window of any codec, longer than a match.
const STRETCH: usize = 4096;
/// In samples that are shorter, stretches are shorter too. In one of this length the match that stands for the zeros takes a
/// twentieth.
const LEAST_STRETCH: usize = 64;

/// A stream of bytes.
#[derive(Clone, Debug)]
pub(crate) struct RandomBytes {
    state: u64,
    /// The length of a stretch, and how many bytes of each are random.
    stretch: usize,
    random: usize,
    /// Where the next byte stands in its stretch.
    at: usize,
    /// The last word, of which so many bytes are still to come: the stream is the same however it is cut.
    word: [u8; 8],
    left: usize,
}

impl RandomBytes {
    /// The bytes of file `file` of a set with `seed` that compress to one part in `ratio`, as wholes and sample by sample of
    /// `sample_len` bytes; 1 and less are for no compression.
    pub(crate) fn new((seed, file): (u64, u64), ratio: f64, sample_len: u64) -> Self {
        let stretch = usize::try_from(sample_len / 2).unwrap_or(STRETCH).clamp(LEAST_STRETCH, STRETCH);
        let share = if ratio > 1.0 { 1.0 / ratio } else { 1.0 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to the stretch's length"
        )]
        let random = ((stretch as f64 * share).round() as usize).clamp(1, stretch);
        let mut state = mixed(seed ^ mixed(file.wrapping_add(1)));
        state |= 1;
        Self { state, stretch, random, at: 0, word: [0; 8], left: 0 }
    }

    /// Fills `into` with the next bytes.
    pub(crate) fn fill(&mut self, mut into: &mut [u8]) {
        while !into.is_empty() {
            let is_random = self.at < self.random;
            let end = if is_random { self.random } else { self.stretch };
            let (part, rest) = into.split_at_mut((end - self.at).min(into.len()));
            match is_random {
                true => self.fill_random(part),
                false => part.fill(0),
            }
            self.at = (self.at + part.len()) % self.stretch;
            into = rest;
        }
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        let (first, into) = into.split_at_mut(self.left.min(into.len()));
        first.copy_from_slice(&self.word[8 - self.left..][..first.len()]);
        self.left -= first.len();
        let mut words = into.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            self.word = self.next().to_le_bytes();
            self.left = 8 - rest.len();
            rest.copy_from_slice(&self.word[..rest.len()]);
        }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state)
    }
}

fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let mut whole = vec![0; 3 * STRETCH];
        RandomBytes::new((7, 0), 1.5, 1 << 20).fill(&mut whole);
        for step in [1, 7, 8, 64, 1000] {
            let (mut cut, mut bytes) = (vec![0; whole.len()], RandomBytes::new((7, 0), 1.5, 1 << 20));
            cut.chunks_mut(step).for_each(|part| bytes.fill(part));
            assert!(cut == whole, "{step}");
        }
        let mut other = vec![0; whole.len()];
        RandomBytes::new((7, 1), 1.5, 1 << 20).fill(&mut other);
        assert!(other != whole, "another file");
    }

    fn compressed_len(bytes: &[u8]) -> usize {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(4));
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().len()
    }

    #[test]
    fn bytes_compress_to_the_ratio_that_is_asked_for() {
        for ratio in [1.0, 1.5, 2.0, 4.0, 10.0] {
            let mut bytes = vec![0; 1 << 20];
            RandomBytes::new((7, 0), ratio, 1 << 20).fill(&mut bytes);
            let (expected, len) = ((1 << 20) as f64 / ratio, compressed_len(&bytes) as f64);
            assert!((len / expected - 1.0).abs() < 0.05, "ratio {ratio}: {len} bytes of {expected}");
        }
    }

    #[test]
    fn each_small_sample_compresses_to_the_ratio_too() {
        for (sample_len, ratio) in [(512, 2.0), (1000, 2.0), (2048, 1.5), (4096, 2.0), (4096, 4.0)] {
            let (mut bytes, mut sample) =
                (RandomBytes::new((7, 0), ratio, sample_len as u64), vec![0; sample_len]);
            for number in 0..100 {
                bytes.fill(&mut sample);
                // The codec's header and table of code lengths take some sixty bytes of each.
                let (expected, len) = (sample_len as f64 / ratio, compressed_len(&sample) as f64);
                let slack = expected * 0.1 + 64.0;
                assert!(
                    (len - expected).abs() < slack,
                    "sample {number} of {sample_len} bytes: {len} of {expected}"
                );
            }
        }
    }
}
