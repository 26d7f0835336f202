//! Reads of files that ranks have open together: in step where the program asks for that.
//!
//! In a collective read a rank must not leave HDF5 while others wait for it there. So each says whether it has what it wants in
//! its cache, or is going to read whole units of it on its own; HDF5 is left out where all can do without it, and only there.

use forebay_libhdf5::hdf5_types::herr_t;
use forebay_process::{Error, ErrorKind, Result};

use super::{mpi_lists, parallel_dataset::ParallelDataset, parallel_stats::STATS, settling};
use crate::{
    read::cached_read::{self, DatasetRead, ReadBy},
    slots::LoadedLibrary,
    vol_object::VolObject,
};

/// Something of this rank's is not in the file, and cannot be brought there.
const FAILS: u8 = 0;
/// This rank needs HDF5.
const NEEDS_HDF5: u8 = 1;
/// This rank needs nobody.
const IS_READY: u8 = 2;

/// Brings the file of `dataset` up to date for an independent read; an answer where that failed.
pub(crate) fn prepare(library: &LoadedLibrary, dataset: &ParallelDataset) -> Option<herr_t> {
    note_others(dataset);
    settling::refused(library, dataset.file.drain_all())
}

/// What other ranks have written is not read from the cache.
fn note_others(dataset: &ParallelDataset) {
    if dataset.file.agreed.caches && dataset.file.others_wrote() {
        dataset.managed.note_all_changed();
    }
}

/// Reads `wanted` of `object` in step with the other ranks; `forward` has the connector below read it as it was asked for.
pub(crate) fn read_together(
    library: &LoadedLibrary,
    dataset: &ParallelDataset,
    object: &VolObject,
    wanted: &DatasetRead,
    forward: &dyn Fn() -> herr_t,
) -> herr_t {
    let drained = dataset.file.drain_own();
    note_others(dataset);
    let wanted = DatasetRead { fill_transfer: library.default_transfer(), ..*wanted };
    cached_read::with_planned(library, object, &wanted, |planned| {
        let outlook = planned.map(|planned| planned.look(ReadBy::AllRanks));
        let is_ready = outlook.as_ref().is_some_and(|outlook| !outlook.needs_below());
        let mine = match (&drained, is_ready || cached_read::is_empty(library, &wanted)) {
            (Err(_), _) => FAILS,
            (Ok(()), false) => NEEDS_HDF5,
            (Ok(()), true) => IS_READY,
        };
        let vote = dataset.file.vote(mine).and_then(Result::ok);
        let common = match vote {
            // A rank has written after others have looked at their caches.
            Some(vote) if vote.has_writes => {
                dataset.managed.note_all_changed();
                vote.least.min(NEEDS_HDF5)
            }
            Some(vote) => vote.least,
            None => NEEDS_HDF5,
        };
        if let Some(answer) = settling::refused(library, drained.and(checked(common))) {
            return answer;
        }
        STATS.collective(common == IS_READY);
        let Some((planned, outlook)) = planned.zip(outlook) else {
            return if common == IS_READY { 0 } else { forward() };
        };
        if common == IS_READY {
            // Others are not in HDF5 now: what is missing is read by this rank alone.
            let alone =
                || mpi_lists::independently(library, wanted.transfer, |list| planned.read_below(list));
            return planned.serve_from_cache(&outlook).unwrap_or_else(alone);
        }
        let answer = forward();
        if answer >= 0 && !vote.is_some_and(|vote| vote.has_writes) {
            planned.keep_whole(&outlook);
        }
        answer
    })
}

/// An error where some rank's writes are not in the file.
fn checked(common: u8) -> Result<()> {
    match common {
        FAILS => Err(Error::new(ErrorKind::Io, "staged writes of another rank could not be written")),
        _ => Ok(()),
    }
}

/// Reads several data sets in step with the other ranks, by the connector below: ranks that read one ask whether all are ready.
pub(crate) fn read_by_hdf5(
    library: &LoadedLibrary,
    datasets: &[&ParallelDataset],
    forward: &dyn Fn() -> herr_t,
) -> herr_t {
    let drained = datasets.iter().try_for_each(|dataset| dataset.file.drain_all());
    let mine = if drained.is_ok() { NEEDS_HDF5 } else { FAILS };
    let vote = datasets.first().and_then(|dataset| dataset.file.vote(mine)).and_then(Result::ok);
    let outcome = drained.and(checked(vote.map_or(NEEDS_HDF5, |vote| vote.least)));
    STATS.collective(false);
    settling::refused(library, outcome).unwrap_or_else(forward)
}
