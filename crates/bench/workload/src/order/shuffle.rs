//! The random numbers of shuffles.

use crate::{
    random::Mt19937,
    workload::{Framework, LoaderKind, RankShare, ShuffleMode, Workload},
};

/// Whether samples are shuffled: scikit-learn reads all of them in order, and with `like_dlio` PyTorch's are not, as DLIO only changes the order in which a map is filled.
pub(super) fn shuffles_samples(workload: &Workload) -> bool {
    let ignores = workload.like_dlio
        && workload.reader.rank_share == RankShare::Ranges
        && workload.reader.loader == LoaderKind::PyTorch;
    workload.reader.sample_shuffle != ShuffleMode::Off && !ignores && workload.framework != Framework::SkLearn
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
