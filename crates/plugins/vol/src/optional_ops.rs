//! Operations of this connector that a program calls on a file or a data set, by `H5VLfile_optional_op` and the like.

#![expect(unsafe_code, reason = "arguments of a program come by address")]

use std::{
    ffi::{c_double, c_int, c_void},
    time::Duration,
};

use crate::{
    hdf5_arguments::OptionalArguments,
    operation_numbers::{ControlOp, DATASET_SUBCLASS, FILE_SUBCLASS},
    parallel::parallel_stats::{ParallelCounters, forebay_hdf5_parallel_stats},
    read::{prestage, read_cache::ReadCache},
    slots::LoadedLibrary,
    units::cache_stats::CacheCounters,
    vol_object::VolObject,
};
use forebay_libhdf5::hdf5_types::{herr_t, hid_t};
use forebay_process::guard;

/// `forebay_hdf5_prestage_t` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrestageArguments {
    /// What of the data set; 0 (`H5S_ALL`) for all.
    pub(crate) file_space: hid_t,
    /// Not 0: the call returns when all of it is in the cache.
    pub(crate) is_blocking: c_int,
}

/// `forebay_hdf5_wait_t` of the header.
#[repr(C)]
#[derive(Debug)]
struct WaitArguments {
    /// How long at most.
    seconds: c_double,
    /// Not 0 once all is in the cache (out).
    is_done: c_int,
}

/// The longest wait that a program can ask for.
const LONGEST_WAIT: f64 = 1e9;

/// Has `library` give numbers to the operations.
pub(crate) fn register(library: &LoadedLibrary) {
    for subclass in [FILE_SUBCLASS, DATASET_SUBCLASS] {
        for op in ControlOp::ALL {
            let mut number = -1;
            let name = op.name().as_ptr();
            // SAFETY: a name that ends in NUL, and a place for the number. One that is there already is found.
            let answer = library.quietly(|| unsafe {
                match (library.functions.H5VLfind_opt_operation)(subclass, name, &raw mut number) {
                    0.. => 0,
                    _ => (library.functions.H5VLregister_opt_operation)(subclass, name, &raw mut number),
                }
            });
            library.operations.note(subclass, op, if answer < 0 { -1 } else { number });
        }
    }
}

/// True when `number` of `subclass` is an operation of this connector.
pub(crate) fn is_own(library: &LoadedLibrary, subclass: c_int, number: c_int) -> bool {
    library.operations.find(subclass, number).is_some()
}

/// The answer to an operation on a file; `None` where it is not one of this connector.
///
/// # Safety
/// The arguments are those that the header declares for the operation.
pub(crate) unsafe fn on_file(
    library: &LoadedLibrary,
    object: &VolObject,
    asked: &OptionalArguments,
) -> Option<herr_t> {
    let op = library.operations.find(FILE_SUBCLASS, asked.operation)?;
    // SAFETY: as promised by the caller.
    Some(guard(-1, || unsafe { on_any(op, object, asked.arguments) }))
}

/// The answer to an operation on a data set; `None` where it is not one of this connector.
///
/// # Safety
/// As for [`on_file`].
pub(crate) unsafe fn on_dataset(
    library: &LoadedLibrary,
    object: &VolObject,
    asked: &OptionalArguments,
) -> Option<herr_t> {
    let op = library.operations.find(DATASET_SUBCLASS, asked.operation)?;
    Some(guard(-1, || match op {
        ControlOp::Prestage => {
            let all = PrestageArguments { file_space: 0, is_blocking: 1 };
            let given = asked.arguments.cast::<PrestageArguments>();
            // SAFETY: as promised by the caller.
            let given = if given.is_null() { all } else { unsafe { *given } };
            prestage::prestage(library, object, given.file_space, given.is_blocking != 0)
        }
        ControlOp::Wait => {
            prestage::finish(library, object);
            // SAFETY: as promised by the caller.
            unsafe { on_any(op, object, asked.arguments) }
        }
        // SAFETY: as promised by the caller.
        _ => unsafe { on_any(op, object, asked.arguments) },
    }))
}

/// Operations that mean the same on every object.
unsafe fn on_any(op: ControlOp, object: &VolObject, arguments: *mut c_void) -> herr_t {
    match op {
        ControlOp::Pause => pause(),
        ControlOp::Start => start(),
        ControlOp::Switch => {
            let Some(file) = &object.file else { return 0 };
            // SAFETY: a number, as the header says; nothing stands for "on".
            file.switch(arguments.is_null() || unsafe { *arguments.cast::<c_int>() } != 0);
        }
        ControlOp::Wait => {
            let given = arguments.cast::<WaitArguments>();
            if given.is_null() {
                wait(f64::INFINITY);
                return 0;
            }
            // SAFETY: as the header says.
            unsafe { (*given).is_done = c_int::from(wait((*given).seconds)) };
        }
        ControlOp::ParallelStats => {
            // SAFETY: as the header says; nothing is filled for nothing.
            unsafe { forebay_hdf5_parallel_stats(arguments.cast::<ParallelCounters>()) };
        }
        ControlOp::Stats => {
            if arguments.is_null() {
                return -1;
            }
            // SAFETY: as the header says.
            unsafe { *arguments.cast::<CacheCounters>() = stats() };
        }
        ControlOp::Prestage => return -1,
    }
    0
}

/// Reads pass through, and nothing is put into the cache, until [`start`].
pub(crate) fn pause() {
    if let Some(cache) = ReadCache::of_process() {
        cache.pause();
    }
}

/// Ends a pause.
pub(crate) fn start() {
    if let Some(cache) = ReadCache::of_process() {
        cache.start();
    }
}

/// Waits until what was read is in the cache; false when `seconds` were not enough.
pub(crate) fn wait(seconds: f64) -> bool {
    let patience = Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_WAIT));
    ReadCache::in_use().is_none_or(|cache| cache.wait(patience))
}

/// The counters of this process.
pub(crate) fn stats() -> CacheCounters {
    ReadCache::in_use().map_or_else(CacheCounters::default, |cache| cache.counters())
}
