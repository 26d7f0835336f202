//! What one epoch costs.

use serde::Serialize;

use crate::epoch::share::WalkedShare;

/// What one epoch costs. The names are those of [`LoaderStats`](crate::LoaderStats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EpochCost {
    /// Batches for the consumer.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes in them.
    pub delivered_bytes: u64,
    /// Bytes asked of the sources.
    pub read_bytes: u64,
    /// Requests for them.
    pub requests: u64,
    /// Bytes that come out of the filters.
    pub decoded_bytes: u64,
    /// Units that are read and decoded.
    pub decoded_units: u64,
    /// Units that were decoded before, in this epoch or an earlier one.
    pub decoded_again: u64,
    /// Bytes written to the spill.
    pub spilled_bytes: u64,
    /// Bytes read back from it.
    pub unspilled_bytes: u64,
    /// The most the spill holds.
    pub peak_spill_bytes: u64,
    /// The most memory that is in use: batches ahead, decoded units, a unit that each thread decodes, stored and decoded.
    pub peak_memory_bytes: u64,
}

impl EpochCost {
    /// Bytes read per byte used.
    pub fn read_factor(&self) -> f64 {
        factor(self.read_bytes, self.delivered_bytes)
    }

    /// Bytes decoded per byte used.
    pub fn decode_factor(&self) -> f64 {
        factor(self.decoded_bytes, self.delivered_bytes)
    }

    /// The cost of all, where this is that of a share.
    pub(super) fn of_all(self, share: WalkedShare) -> Self {
        Self {
            delivered_bytes: share.all_of(self.delivered_bytes),
            read_bytes: share.all_of(self.read_bytes),
            requests: share.all_of(self.requests),
            decoded_bytes: share.all_of(self.decoded_bytes),
            decoded_units: share.all_of(self.decoded_units),
            decoded_again: share.all_of(self.decoded_again),
            spilled_bytes: share.all_of(self.spilled_bytes),
            unspilled_bytes: share.all_of(self.unspilled_bytes),
            peak_spill_bytes: share.all_of(self.peak_spill_bytes),
            ..self
        }
    }
}

fn factor(bytes: u64, used: u64) -> f64 {
    if used == 0 { 0.0 } else { bytes as f64 / used as f64 }
}
