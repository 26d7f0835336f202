//! The samples of one rank in one epoch: numbers that were dealt, and the files and records that they stand for.

use crate::{
    layout::Split,
    order::{
        counts::{RankPosition, files_used},
        shuffle::generator,
    },
    workload::{Framework, LoaderKind, RankShare, ShuffleMode, Workload},
};

/// What makes a sample of a number.
#[derive(Clone, Debug)]
pub(super) struct StoredSamples {
    /// The files of the epoch, in order; nothing where that is the order of their numbers.
    files: Option<Vec<u64>>,
    file_count: u64,
    per_file: u64,
    /// With TensorFlow's defects, the file that a rank reads first.
    defect_first: Option<u64>,
}

impl StoredSamples {
    pub(super) fn new(workload: &Workload, split: Split, epoch: u32, at: RankPosition) -> Self {
        let file_count = files_used(workload, split, at.ranks);
        // What DLIO does otherwise than it documents with TensorFlow: a shuffle changes the record within a file alone, and after
        // the first sample every rank goes on with the first files.
        let has_defects = workload.like_dlio
            && workload.reader.rank_share == RankShare::Ranges
            && workload.reader.loader != LoaderKind::PyTorch
            && file_count > 0;
        let first = || u64::from(at.rank) * (file_count / u64::from(at.ranks.max(1)) % file_count);
        Self {
            files: file_order(workload, split, epoch, at.ranks),
            file_count,
            per_file: workload.dataset.num_samples_per_file,
            defect_first: has_defects.then(first),
        }
    }

    /// All samples of the split.
    pub(super) fn total(&self) -> u64 {
        self.file_count * self.per_file
    }

    /// The sample that `number` stands for, which has `position` in the list of its rank.
    pub(super) fn sample(&self, number: u64, position: u64) -> u64 {
        let index = match self.defect_first {
            None => number / self.per_file,
            Some(first) if position == 0 => first,
            Some(_) => position / self.per_file % self.file_count,
        };
        let file = match &self.files {
            Some(files) => files[usize::try_from(index).expect("a number of a file in memory")],
            None => index,
        };
        file * self.per_file + number % self.per_file
    }
}

/// The files of an epoch, where they are shuffled.
///
/// DLIO shuffles its list anew each epoch, on top of the shuffles before, and the list of evaluation files with the same
/// generator after that of training files.
fn file_order(workload: &Workload, split: Split, epoch: u32, ranks: u32) -> Option<Vec<u64>> {
    // With PyTorch's loader DLIO leaves files in order, and documents that it does not.
    let ignores = workload.like_dlio && workload.reader.loader == LoaderKind::PyTorch;
    let is_in_order = workload.framework == Framework::SkLearn;
    if workload.reader.file_shuffle == ShuffleMode::Off || ignores || is_in_order {
        return None;
    }
    let mut train: Vec<u64> = (0..files_used(workload, Split::Train, ranks)).collect();
    let mut eval: Vec<u64> = (0..files_used(workload, Split::Eval, ranks)).collect();
    for epoch in 1..=epoch {
        let mut random = generator(workload, workload.reader.file_shuffle, epoch);
        random.shuffle(&mut train);
        random.shuffle(&mut eval);
    }
    match split {
        Split::Train => Some(train),
        Split::Eval => Some(eval),
    }
}
