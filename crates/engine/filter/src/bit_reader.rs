//! Reading numbers packed bit by bit, the highest bit first.

use forebay_process::Result;

use crate::error::ended_early;

pub(crate) struct Bits<'a> {
    rest: &'a [u8],
    /// Bits not given out yet, from the top; below the first `held` may stand bits of `rest` already.
    window: u64,
    held: u32,
}

impl<'a> Bits<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, window: 0, held: 0 }
    }

    /// The next `count` bits, at most 64.
    #[inline]
    pub(crate) fn take(&mut self, count: u32) -> Result<u64> {
        if count <= 32 {
            return self.take_short(count);
        }
        debug_assert!(count <= 64);
        let high = self.take_short(count - 32)?;
        Ok(high << 32 | self.take_short(32)?)
    }

    #[inline]
    fn take_short(&mut self, count: u32) -> Result<u64> {
        if self.held < count {
            self.refill();
            if self.held < count {
                return Err(ended_early());
            }
        }
        let bits = self.window.unbounded_shr(64 - count);
        self.skip(count);
        Ok(bits)
    }

    /// How many zeros stand before the next one, which is passed over too.
    #[inline]
    pub(crate) fn zeros(&mut self) -> Result<u64> {
        let mut count = 0;
        loop {
            if self.held == 0 {
                self.refill();
                if self.held == 0 {
                    return Err(ended_early());
                }
            }
            let leading = self.window.leading_zeros();
            if leading < self.held {
                self.skip(leading + 1);
                return Ok(count + u64::from(leading));
            }
            count += u64::from(self.held);
            self.skip(self.held);
        }
    }

    fn refill(&mut self) {
        if let Some(next) = self.rest.first_chunk() {
            self.window |= u64::from_be_bytes(*next) >> self.held;
            let bytes = (63 - self.held) / 8;
            self.rest = &self.rest[bytes as usize..];
            self.held += bytes * 8;
            return;
        }
        while self.held <= 56
            && let Some((&byte, rest)) = self.rest.split_first()
        {
            self.window |= u64::from(byte) << (56 - self.held);
            self.rest = rest;
            self.held += 8;
        }
    }

    /// Passes over `count` of the bits held.
    #[inline]
    fn skip(&mut self, count: u32) {
        self.window = self.window.unbounded_shl(count);
        self.held -= count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_come_in_the_order_written(bytes in proptest::collection::vec(any::<u8>(), 0..60), counts in proptest::collection::vec(0u32..=64, 1..40)) {
            let all: Vec<u64> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| u64::from(byte >> bit & 1))).collect();
            let mut bits = Bits::new(&bytes);
            let mut at = 0usize;
            for count in counts {
                let wanted = all.get(at..at + count as usize).map(|bits| bits.iter().fold(0, |sum, bit| sum << 1 | bit));
                let Some(wanted) = wanted else {
                    prop_assert!(bits.take(count).is_err());
                    break;
                };
                prop_assert_eq!(bits.take(count).unwrap(), wanted);
                at += count as usize;
            }
        }

        #[test]
        fn zeros_are_counted_up_to_the_next_one(runs in proptest::collection::vec(0usize..200, 0..20)) {
            let flags: Vec<bool> = runs.iter().flat_map(|&run| std::iter::repeat_n(false, run).chain([true])).collect();
            let bytes: Vec<u8> = flags.chunks(8).map(|byte| byte.iter().enumerate().map(|(bit, &set)| u8::from(set) << (7 - bit)).sum()).collect();
            let mut bits = Bits::new(&bytes);
            for run in runs {
                prop_assert_eq!(bits.zeros().unwrap(), run as u64);
            }
            prop_assert!(bits.zeros().is_err());
        }
    }
}
