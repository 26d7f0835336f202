//! Bits of entropy-coded data: stuffed zeros are taken out, and a marker ends it.

use forebay_process::{Error, Result};

/// Reads bits from the first on. Past the end it gives zeros, which [`check`](Self::check) tells.
pub(crate) struct EntropyBits<'a> {
    data: &'a [u8],
    /// The next byte to be taken.
    at: usize,
    /// Bits that were taken and not used yet, the next one highest.
    held: u64,
    count: u32,
    /// Bits among those held that are not in the data.
    made_up: u32,
}

impl<'a> EntropyBits<'a> {
    pub(crate) fn new(data: &'a [u8], at: usize) -> Self {
        Self { data, at, held: 0, count: 0, made_up: 0 }
    }

    /// Holds at least 32 bits: enough for a code and its value.
    #[inline]
    pub(crate) fn fill(&mut self) {
        if self.count < 32 {
            self.take_bytes();
        }
    }

    fn take_bytes(&mut self) {
        // Four bytes none of which is special.
        if let Some(four) = self.data.get(self.at..self.at + 4) {
            let word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
            // A byte of ones is zero in the complement, which borrows in the difference.
            let is_special = (!word).wrapping_sub(0x0101_0101) & word & 0x8080_8080 != 0;
            if !is_special {
                self.held |= u64::from(word) << (32 - self.count);
                self.count += 32;
                self.at += 4;
                return;
            }
        }
        while self.count <= 56 {
            let byte = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (Some(0xff), _) | (None, _) => {
                    self.made_up += 8;
                    0
                }
                (Some(byte), _) => {
                    self.at += 1;
                    *byte
                }
            };
            self.held |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// The next `count` bits, at most 16, which stay.
    #[inline]
    pub(crate) fn peek(&self, count: u32) -> u32 {
        ((self.held >> 48) as u32) >> (16 - count)
    }

    #[inline]
    pub(crate) fn skip(&mut self, count: u32) {
        self.held <<= count;
        self.count = self.count.saturating_sub(count);
    }

    /// The next `count` bits, at most 16.
    #[inline]
    pub(crate) fn get(&mut self, count: u32) -> u32 {
        self.fill();
        let bits = self.peek(count);
        self.skip(count);
        bits
    }

    /// A number of `count` bits, of which those below the middle are negative.
    #[inline]
    pub(crate) fn number(&mut self, count: u32) -> i32 {
        let bits = self.peek(count) as i32;
        self.skip(count);
        let is_negative = bits < (1 << count) >> 1;
        if is_negative { bits - (1 << count) + 1 } else { bits }
    }

    /// An error once bits were used that are not there.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.count < self.made_up { Err(Error::corrupt("JPEG ends early")) } else { Ok(()) }
    }

    /// Goes past the marker of restart `number`, and begins anew behind it.
    pub(crate) fn restart(&mut self, number: u8) -> Result<()> {
        self.check()?;
        let at = self.marker_at();
        if self.data.get(at..at + 2) != Some(&[0xff, 0xd0 + number % 8]) {
            return Err(Error::corrupt("JPEG lacks a restart marker"));
        }
        *self = Self::new(self.data, at + 2);
        Ok(())
    }

    /// Where the marker behind the data is, or the end.
    pub(crate) fn marker_at(&self) -> usize {
        let mut at = self.at;
        // What is held is of the data still; all of it ends before a marker.
        while let Some(two) = self.data.get(at..at + 2) {
            if two[0] == 0xff && two[1] != 0 && two[1] != 0xff {
                return at;
            }
            at += 1;
        }
        self.data.len()
    }
}
