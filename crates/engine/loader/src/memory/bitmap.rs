//! Which units are marked, by a bit each: those of a part of the numbers take memory only where some are.

use std::collections::HashMap;

/// Marks of any numbers, in pages of 32,768.
#[derive(Debug, Default)]
pub(crate) struct Bitmap {
    pages: HashMap<u64, Box<[u64; WORDS]>>,
}

const WORDS: usize = 512;
const PAGE_BITS: u64 = WORDS as u64 * 64;

impl Bitmap {
    /// Marks `number`; false when it was marked before.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let page = self.pages.entry(number / PAGE_BITS).or_insert_with(|| Box::new([0; WORDS]));
        let (word, bit) = place(number);
        let is_new = page[word] & bit == 0;
        page[word] |= bit;
        is_new
    }

    /// Takes the mark of `number` away.
    pub(crate) fn remove(&mut self, number: u64) {
        let (word, bit) = place(number);
        if let Some(page) = self.pages.get_mut(&(number / PAGE_BITS)) {
            page[word] &= !bit;
        }
    }

    /// True when `number` is marked.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.pages.get(&(number / PAGE_BITS)).is_some_and(|page| page[word] & bit != 0)
    }
}

fn place(number: u64) -> (usize, u64) {
    let within = number % PAGE_BITS;
    (usize::try_from(within / 64).unwrap_or(0), 1 << (within % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_wherever_they_are_and_a_million_take_a_million_bits() {
        let mut marks = Bitmap::default();
        let numbers = [0, 63, 64, PAGE_BITS - 1, PAGE_BITS, u64::MAX];
        assert!(numbers.iter().all(|number| marks.insert(*number) && !marks.insert(*number)));
        assert!(numbers.iter().all(|number| marks.contains(*number)) && !marks.contains(65));
        marks.remove(64);
        assert!(!marks.contains(64) && marks.contains(63) && marks.insert(64));
        let mut dense = Bitmap::default();
        assert!((0..1_000_000).all(|number| dense.insert(number)));
        assert_eq!(dense.pages.len(), 31, "pages of 4 KiB");
    }
}
