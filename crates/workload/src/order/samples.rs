//! The samples of one rank in one epoch, shuffled as the workload says.

use crate::{
    layout::Split,
    order::{
        counts::{RankPosition, batch_size, files_used},
        defects,
        shuffle::{generator, range_of, shuffle_samples},
    },
    workload::{LoaderKind, RankShare, ShuffleMode, Workload},
};

/// The samples of a rank, in order.
///
/// Without a shuffle no more than `most` are listed: there may be billions.
pub(super) fn of_rank(
    workload: &Workload,
    split: Split,
    epoch: u32,
    at: RankPosition,
    most: usize,
) -> Vec<u64> {
    let files = file_order(workload, split, epoch, at.ranks);
    if workload.like_dlio && workload.reader.rank_share == RankShare::Ranges {
        return defects::samples(workload, epoch, at, &files, most);
    }
    let numbers = match workload.reader.rank_share {
        RankShare::Ranges => {
            let mut range = range_of(files.len(), workload, at, most);
            shuffle_samples(workload, epoch, &mut range);
            range
        }
        RankShare::Batches => {
            let total = files.len() as u64 * workload.dataset.num_samples_per_file;
            let (from, len) = batches_of(total, batch_size(workload, split), at);
            if workload.reader.sample_shuffle == ShuffleMode::Off {
                (from..from + len.min(most as u64)).collect()
            } else {
                let mut all: Vec<u64> = (0..total).collect();
                shuffle_samples(workload, epoch, &mut all);
                all[clamped(from)..clamped(from + len)].to_vec()
            }
        }
    };
    let per_file = workload.dataset.num_samples_per_file;
    let stored = |number: u64| {
        let file = usize::try_from(number / per_file).expect("a number of a file in memory");
        files[file] * per_file + number % per_file
    };
    numbers.into_iter().map(stored).collect()
}

/// h5bench's share of a rank, as a start and a length: equally many whole batches.
fn batches_of(total: u64, batch_size: u64, at: RankPosition) -> (u64, u64) {
    let len = total / batch_size.max(1) / u64::from(at.ranks.max(1)) * batch_size;
    (len * u64::from(at.rank), len)
}

fn clamped(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The files of an epoch, in order.
///
/// DLIO shuffles its list anew each epoch, on top of the shuffles before, and the list of evaluation files with the same
/// generator after that of training files.
fn file_order(workload: &Workload, split: Split, epoch: u32, ranks: u32) -> Vec<u64> {
    let mut train: Vec<u64> = (0..files_used(workload, Split::Train, ranks)).collect();
    let mut eval: Vec<u64> = (0..files_used(workload, Split::Eval, ranks)).collect();
    // With PyTorch's loader DLIO leaves files in order, and documents that it does not.
    let ignores = workload.like_dlio && workload.reader.loader == LoaderKind::PyTorch;
    if workload.reader.file_shuffle != ShuffleMode::Off && !ignores {
        for epoch in 1..=epoch {
            let mut random = generator(workload, workload.reader.file_shuffle, epoch);
            random.shuffle(&mut train);
            random.shuffle(&mut eval);
        }
    }
    match split {
        Split::Train => train,
        Split::Eval => eval,
    }
}
