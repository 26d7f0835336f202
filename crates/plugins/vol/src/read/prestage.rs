//! Data sets read into the cache before they are asked for: on the calling thread, or behind it where no HDF5 is needed.

use crate::{
    dataset::{selection::SelectedRuns, under_dataset::UnderDataset},
    read::{
        cached_dataset::{CachedDataset, KeptUnits, Prestaged},
        cached_read::dataset_of,
        prestage_queue::ByteJob,
    },
    settings,
    slots::LoadedLibrary,
    units::read_plan,
    vol_object::VolObject,
};
use forebay_config::PrestageMode;
use forebay_libhdf5::hdf5_types::{herr_t, hid_t};

/// Units that each read of the data set adds, where it is prestaged step by step.
const UNITS_PER_READ: usize = 1;

/// Reads what `space` selects of `object` into the cache. One that cannot be cached is left alone: it is read as ever.
///
/// In the background bytes are read by a thread of our own where their place in the file is known, as HDF5 may not be called from
/// one; other data sets go on a unit at a time with each read of them.
pub(crate) fn prestage(
    library: &LoadedLibrary,
    object: &VolObject,
    space: hid_t,
    is_blocking: bool,
) -> herr_t {
    let Some(dataset) = dataset_of(library, object) else { return 0 };
    let Some(kept) = dataset.usable() else { return 0 };
    let Some(kept) = (**kept).as_ref() else { return 0 };
    let under = UnderDataset { object: object.under, connector: object.connector };
    let Some(units) = units_of(library, dataset, kept, space) else { return -1 };
    if is_blocking {
        fill_all(library, dataset, under, kept, units);
        return 0;
    }
    match dataset.byte_place(library, under) {
        Some(offset) => kept.cache.prestage.push(job(dataset, kept, offset, units)),
        None => dataset.units.later().extend(units),
    }
    0
}

/// Prestages `object` when it is first read, if the settings ask for it, and goes on with what was left for later.
pub(crate) fn before_read(library: &LoadedLibrary, object: &VolObject) {
    let Some(dataset) = dataset_of(library, object) else { return };
    let mode = settings::current().prestage;
    if mode != PrestageMode::Off && dataset.units.takes_prestaging() {
        prestage(library, object, 0, mode == PrestageMode::Blocking);
    }
    step(library, object, dataset);
}

/// Goes on with what was left for later.
fn step(library: &LoadedLibrary, object: &VolObject, dataset: &CachedDataset) {
    if dataset.units.later().is_empty() {
        return;
    }
    let units: Vec<u64> = {
        let mut later = dataset.units.later();
        let count = later.len().min(UNITS_PER_READ);
        later.drain(..count).collect()
    };
    with_kept(dataset, |kept| {
        let under = UnderDataset { object: object.under, connector: object.connector };
        fill_all(library, dataset, under, kept, units);
    });
}

/// Reads all that was left for later.
pub(crate) fn finish(library: &LoadedLibrary, object: &VolObject) {
    let Some(dataset) = dataset_of(library, object) else { return };
    let units: Vec<u64> = dataset.units.later().drain(..).collect();
    with_kept(dataset, |kept| {
        let under = UnderDataset { object: object.under, connector: object.connector };
        fill_all(library, dataset, under, kept, units);
    });
}

fn with_kept(dataset: &CachedDataset, body: impl FnOnce(&KeptUnits)) {
    if let Some(kept) = dataset.usable()
        && let Some(kept) = (**kept).as_ref()
    {
        body(kept);
    }
}

fn fill_all(
    library: &LoadedLibrary,
    dataset: &CachedDataset,
    under: UnderDataset,
    kept: &KeptUnits,
    units: Vec<u64>,
) {
    for unit in units {
        match dataset.prestage_unit(library, under, kept, unit) {
            Prestaged::Here => {}
            Prestaged::Full | Prestaged::Failed => return,
        }
    }
}

/// The units of what `space` selects, and of those the first that the cache has room for: more would push each other out.
fn units_of(
    library: &LoadedLibrary,
    dataset: &CachedDataset,
    kept: &KeptUnits,
    space: hid_t,
) -> Option<Vec<u64>> {
    let grid = &dataset.grid;
    let most = kept.cache.counters().quota_bytes / grid.padded_len();
    if space == 0 {
        return Some((0..grid.count().min(most)).collect());
    }
    let selected = SelectedRuns::in_file(library, space, grid.shape(), grid.element_len())?;
    let pieces = read_plan::pieces(grid, &selected.runs, None);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Some(read_plan::units(&pieces).into_iter().take(most).map(|one| one.unit).collect())
}

fn job(dataset: &CachedDataset, kept: &KeptUnits, offset: u64, units: Vec<u64>) -> ByteJob {
    let place = |unit: u64| {
        let part = dataset.grid.unit_box(unit);
        let first =
            part.start.iter().zip(dataset.grid.shape()).fold(0, |at, (start, extent)| at * extent + start);
        (unit, offset + first * dataset.grid.element_len(), dataset.grid.filled_len(unit))
    };
    ByteJob {
        file: std::sync::Arc::clone(dataset.file()),
        units: units.into_iter().filter(|unit| !dataset.has(kept, *unit)).map(place).collect(),
        target: dataset.target(kept),
    }
}
