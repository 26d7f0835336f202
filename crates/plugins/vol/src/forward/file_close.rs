//! The close of a file, once all that ranks have written to it together is in it.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::{ptr::null_mut, sync::Arc};

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};
use forebay_process::{Error, WarnOnce, guard};

use super::{FAILED, below};
use crate::{
    functions::RawPointer,
    hdf5_arguments::FileFlush,
    parallel::settling,
    read::read_cache::ReadCache,
    slots::{self, LoadedLibrary},
    vol_object::{VolObject, drop_object, object_at, wrap_request},
};

static NOT_CLOSED: WarnOnce = WarnOnce::new();

/// Closes a file, once all that ranks have written to it together is in it.
pub(crate) unsafe extern "C" fn close<const N: usize>(
    object: RawPointer,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; an object whose closing succeeded is not used again.
    unsafe {
        let (under, connector) = below(object);
        let parallel = object_at(object).file.as_ref().and_then(|file| file.parallel()).map(Arc::clone);
        let settled = parallel.as_ref().map_or(Ok(()), |file| guard(Ok(()), || file.settle()));
        if let Err(error) = settled
            && let Some(answer) = close_refused(library, object_at(object), &error)
        {
            return answer;
        }
        let answer = (library.functions.H5VLfile_close)(under, connector, transfer, request);
        wrap_request(library, request, connector);
        if answer >= 0 {
            drop_object(library, object);
            guard((), || {
                if parallel.is_some() {
                    // What was read goes to where the ranks share it while they do.
                    ReadCache::await_writes();
                }
                if let Some(Err(error)) = parallel.map(|file| file.closed()) {
                    NOT_CLOSED.say(format_args!("{error}"));
                }
            });
        }
        answer
    }
}

/// The answer of a close that could not bring all into the file: it stays open, with its metadata in the file, so that what is
/// staged can be recovered into it. A second try closes it.
unsafe fn close_refused(library: &LoadedLibrary, object: &VolObject, error: &Error) -> Option<herr_t> {
    let is_first =
        object.file.as_ref().and_then(|file| file.parallel()).is_some_and(|file| file.fails_close());
    if !is_first {
        NOT_CLOSED
            .say(format_args!("{error}; what is staged stays in the staging area: run `forebay recover`"));
        return None;
    }
    let mut flush = FileFlush::of_file();
    // SAFETY: as for every callback: an open file, and arguments with the layout of the header.
    unsafe {
        let specific = library.functions.H5VLfile_specific;
        specific(
            object.under,
            object.connector,
            (&raw mut flush).cast(),
            library.default_transfer(),
            null_mut(),
        );
    }
    settling::push_error(library, error);
    Some(FAILED)
}
