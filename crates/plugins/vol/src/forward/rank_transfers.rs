//! Reads and writes of files that ranks have open together.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use forebay_libhdf5::hdf5_types::herr_t;
use forebay_process::guard;

use super::transfers::Transfers;
use crate::{
    dataset::under_dataset::UnderDataset,
    parallel::{
        collective_read::{prepare, read_by_hdf5, read_together},
        dataset_lookup::parallel_dataset,
        mpi_lists::{self, MpiLists},
        parallel_dataset::ParallelDataset,
        parallel_stats::STATS,
        settling,
        staged_write::{WriteOutcome, stage_write},
    },
    slots::LoadedLibrary,
};

/// Reads in step with other ranks; `None` where this rank reads on its own, of a file that is up to date.
///
/// # Safety
/// `all` is what HDF5 handed to a callback.
pub(crate) unsafe fn read(library: &LoadedLibrary, all: &Transfers) -> Option<herr_t> {
    let function = library.functions.H5VLdataset_read;
    // Lists of several data sets may differ from rank to rank: HDF5 makes one read of all, and so must we.
    // SAFETY: as promised by the caller.
    let forward = || unsafe { all.forward(library, function) };
    if !library.files.has_parallel() {
        let is_one = all.count <= 1 || library.files.is_empty();
        return (!is_one && is_collective(library, all)).then(forward);
    }
    // SAFETY: as promised by the caller.
    let datasets = (0..all.count).filter_map(|index| unsafe { dataset_at(library, all, index) });
    let datasets: Vec<&ParallelDataset> = datasets.collect();
    let first = *datasets.first()?;
    let is_together = is_collective(library, all);
    if is_together && all.count == 1 && all.request.is_null() {
        // SAFETY: as promised by the caller.
        let (object, wanted) = unsafe { (all.object(0), all.read_request(0)) };
        return Some(guard(-1, || read_together(library, first, object, &wanted, &forward)));
    }
    if is_together {
        return Some(guard(-1, || read_by_hdf5(library, &datasets, &forward)));
    }
    datasets.into_iter().find_map(|dataset| guard(None, || prepare(library, dataset)))
}

/// Writes of ranks; `None` where no data set belongs to a file of ranks.
///
/// # Safety
/// `all` is what HDF5 handed to a callback.
pub(crate) unsafe fn write(library: &LoadedLibrary, all: &Transfers) -> Option<herr_t> {
    if !library.files.has_parallel() || all.count == 0 {
        return None;
    }
    // SAFETY: as promised by the caller.
    let datasets: Vec<Option<&ParallelDataset>> =
        (0..all.count).map(|index| unsafe { dataset_at(library, all, index) }).collect();
    datasets.iter().flatten().next()?;
    let is_together = is_collective(library, all);
    // SAFETY: as promised by the caller.
    let can_stage = |index: usize| unsafe { is_placed(library, all, index) };
    if !all.request.is_null() || (is_together && all.count > 1 && !(0..all.count).all(can_stage)) {
        return Some(written_by_hdf5(library, all, &datasets));
    }
    for (index, dataset) in datasets.iter().enumerate() {
        // SAFETY: as promised by the caller.
        let answer = unsafe { write_one(library, all, index, *dataset) };
        if answer < 0 {
            return Some(answer);
        }
    }
    Some(0)
}

/// Writes the data set at `index`.
unsafe fn write_one(
    library: &LoadedLibrary,
    all: &Transfers,
    index: usize,
    dataset: Option<&ParallelDataset>,
) -> herr_t {
    // SAFETY: as promised by the caller.
    let (one, wanted, object) = unsafe { (all.only(index), all.write_request(index), all.object(index)) };
    let under = UnderDataset { object: object.under, connector: object.connector };
    let Some(dataset) = dataset else { return written_by_hdf5(library, &one, &[]) };
    let staged = guard(WriteOutcome::Together, || stage_write(library, dataset, under, &wanted));
    let answer = match staged {
        WriteOutcome::Staged => 0,
        WriteOutcome::Alone => {
            if let Some(answer) = settling::refused(library, dataset.file.drain_all()) {
                return answer;
            }
            STATS.passed();
            let write = |transfer| written_by_hdf5(library, &Transfers { transfer, ..one }, &[]);
            mpi_lists::independently(library, one.transfer, write)
        }
        WriteOutcome::Together => {
            STATS.passed();
            written_by_hdf5(library, &one, &[])
        }
    };
    dataset.file.note_write();
    answer
}

/// Has the connector below write `all`, of which `datasets` belong to files of ranks.
fn written_by_hdf5(
    library: &LoadedLibrary,
    all: &Transfers,
    datasets: &[Option<&ParallelDataset>],
) -> herr_t {
    for dataset in datasets.iter().flatten() {
        if let Some(answer) = settling::refused(library, dataset.file.drain_all()) {
            return answer;
        }
        STATS.passed();
    }
    // SAFETY: what HDF5 handed to a callback, or a part of it.
    let answer = unsafe { all.forward(library, library.functions.H5VLdataset_write) };
    datasets.iter().flatten().for_each(|dataset| dataset.file.note_write());
    answer
}

unsafe fn dataset_at<'a>(
    library: &LoadedLibrary,
    all: &'a Transfers,
    index: usize,
) -> Option<&'a ParallelDataset> {
    // SAFETY: as promised by the caller.
    guard(None, || parallel_dataset(library, unsafe { all.object(index) }))
}

/// True when all bytes of the data set at `index` have a known place: the same on every rank.
unsafe fn is_placed(library: &LoadedLibrary, all: &Transfers, index: usize) -> bool {
    // SAFETY: as promised by the caller.
    let (object, dataset) = unsafe { (all.object(index), dataset_at(library, all, index)) };
    let under = UnderDataset { object: object.under, connector: object.connector };
    guard(false, || {
        dataset.is_some_and(|dataset| dataset.file.stages() && dataset.placed(library, under).is_some())
    })
}

fn is_collective(library: &LoadedLibrary, all: &Transfers) -> bool {
    MpiLists::of(library).is_some_and(|lists| lists.is_collective(library, all.transfer))
}
