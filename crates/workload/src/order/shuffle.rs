//! Shares and shuffles as DLIO makes them.

use crate::{
    order::counts::RankPosition,
    random::Mt19937,
    workload::{ShuffleMode, Workload},
};

/// DLIO's share of a rank: a range of equal length, shorter on the last ranks.
pub(super) fn range_of(file_count: usize, workload: &Workload, at: RankPosition, most: usize) -> Vec<u64> {
    let total = file_count as u64 * workload.dataset.num_samples_per_file;
    let of_each = total.div_ceil(u64::from(at.ranks.max(1)));
    let from = (of_each * u64::from(at.rank)).min(total);
    let most = if workload.reader.sample_shuffle == ShuffleMode::Off { most as u64 } else { u64::MAX };
    (from..(from + of_each.min(most)).min(total)).collect()
}

/// Shuffles samples as the workload says.
pub(super) fn shuffle_samples(workload: &Workload, epoch: u32, samples: &mut [u64]) {
    let mode = workload.reader.sample_shuffle;
    if mode != ShuffleMode::Off {
        generator(workload, mode, epoch).shuffle(samples);
    }
}

/// The generator of an epoch's shuffle.
pub(super) fn generator(workload: &Workload, mode: ShuffleMode, epoch: u32) -> Mt19937 {
    let seed = match mode {
        ShuffleMode::Random => workload.train.run_seed,
        ShuffleMode::Off | ShuffleMode::Seed => workload.train.seed,
    };
    let of_epoch = if workload.train.seed_change_epoch || mode == ShuffleMode::Random { epoch } else { 0 };
    Mt19937::seeded(seed.wrapping_add(of_epoch))
}
