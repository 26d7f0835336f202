//! What DLIO does otherwise than it documents, reproduced on request.

use crate::{
    order::{
        counts::RankPosition,
        shuffle::{range_of, shuffle_samples},
    },
    workload::{LoaderKind, Workload},
};

/// The samples of a rank as DLIO reads them.
///
/// PyTorch: in order, as a shuffle only changes the order in which a map is filled. TensorFlow: a shuffle changes the record
/// within a file alone, and after the first sample every rank goes on with the first files.
pub(super) fn samples(
    workload: &Workload,
    epoch: u32,
    at: RankPosition,
    files: &[u64],
    most: usize,
) -> Vec<u64> {
    let per_file = workload.dataset.num_samples_per_file;
    let mut range = range_of(files.len(), workload, at, most);
    if workload.reader.loader == LoaderKind::PyTorch || files.is_empty() {
        return range;
    }
    shuffle_samples(workload, epoch, &mut range);
    let count = files.len() as u64;
    let first = u64::from(at.rank) * (count / u64::from(at.ranks.max(1)) % count);
    let read = range.iter().enumerate().map(|(position, sample)| {
        let index = if position == 0 { first } else { position as u64 / per_file % count };
        let file = files[usize::try_from(index).expect("an index of a file in memory")];
        file * per_file + sample % per_file
    });
    read.collect()
}
