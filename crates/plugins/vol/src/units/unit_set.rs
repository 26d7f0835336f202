//! A set of units: a bit for each, as many as were asked about.

/// A set of small numbers.
#[derive(Debug, Default)]
pub(crate) struct UnitSet {
    words: Vec<u64>,
}

/// Bits of a word.
const BITS: u64 = 64;

impl UnitSet {
    /// True when `unit` is in it.
    pub(crate) fn contains(&self, unit: u64) -> bool {
        let word = usize::try_from(unit / BITS).ok().and_then(|at| self.words.get(at));
        word.is_some_and(|word| word >> (unit % BITS) & 1 == 1)
    }

    /// Adds `unit`; true when it was not there.
    pub(crate) fn insert(&mut self, unit: u64) -> bool {
        let Ok(at) = usize::try_from(unit / BITS) else { return false };
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        let (before, bit) = (self.words[at], 1 << (unit % BITS));
        self.words[at] |= bit;
        before & bit == 0
    }

    /// Takes `unit` out.
    pub(crate) fn remove(&mut self, unit: u64) {
        if let Some(word) = usize::try_from(unit / BITS).ok().and_then(|at| self.words.get_mut(at)) {
            *word &= !(1 << (unit % BITS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_until_it_is_taken_out() {
        let mut set = UnitSet::default();
        assert!(!set.contains(1000));
        assert!(set.insert(1000) && !set.insert(1000) && set.insert(0));
        assert!(set.contains(1000) && set.contains(0) && !set.contains(999) && !set.contains(1001));
        set.remove(1000);
        set.remove(1 << 40);
        assert!(!set.contains(1000) && set.contains(0));
    }
}
