//! Which units were named to the tiers.

/// Units that were named: a loader that has one does not ask for it again.
#[derive(Debug)]
pub(super) struct NamedUnits {
    bits: Vec<u64>,
}

/// Units of which it is noted whether they were named; 16 MiB of notes.
const MOST_UNITS: u64 = 1 << 27;

impl NamedUnits {
    pub(super) fn new(unit_count: u64) -> Self {
        let noted = if unit_count <= MOST_UNITS { unit_count } else { 0 };
        Self { bits: vec![0; usize::try_from(noted.div_ceil(64)).unwrap_or(0)] }
    }

    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
    }

    /// True unless `unit` was named.
    pub(super) fn is_new(&self, unit: u64) -> bool {
        self.bits.get(word(unit)).is_none_or(|bits| bits & bit(unit) == 0)
    }

    /// Notes that `unit` was named.
    pub(super) fn add(&mut self, unit: u64) {
        if let Some(bits) = self.bits.get_mut(word(unit)) {
            *bits |= bit(unit);
        }
    }
}

fn word(unit: u64) -> usize {
    usize::try_from(unit / 64).unwrap_or(usize::MAX)
}

fn bit(unit: u64) -> u64 {
    1 << (unit % 64)
}
