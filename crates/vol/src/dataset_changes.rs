//! Which data sets a program changes: what is cached of them is not used again.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{ffi::c_int, sync::Arc};

use crate::{
    file_state::{ObjectToken, VolFile},
    functions::RawPointer,
    hdf5_arguments::{ObjectDetails, ObjectGetInfo, SelfLocation},
    slots::LoadedLibrary,
    vol_object::VolObject,
};

/// `H5I_DATASET`
pub(crate) const DATASET: c_int = 5;

/// The managed file that the data set `object` lies in, and its name there.
pub(crate) fn identity(library: &LoadedLibrary, object: &VolObject) -> Option<(Arc<VolFile>, ObjectToken)> {
    if library.files.is_empty() {
        return None;
    }
    let mut location = SelfLocation::of(DATASET);
    let mut details = ObjectDetails::default();
    let mut arguments = ObjectGetInfo::basic(&raw mut details);
    // SAFETY: an open object of that connector, and arguments with the layout of the header.
    let answer = unsafe {
        (library.functions.H5VLobject_get)(
            object.under,
            (&raw mut location).cast(),
            object.connector,
            (&raw mut arguments).cast(),
            0,
            std::ptr::null_mut::<RawPointer>(),
        )
    };
    if answer < 0 {
        return None;
    }
    Some((library.files.find(details.file_number)?, details.token))
}

/// The data set `object` is written, resized or new.
pub(crate) fn changed(library: &LoadedLibrary, object: &VolObject) {
    if library.files.is_empty() {
        return;
    }
    if let Some((file, token)) = library.quietly(|| identity(library, object)) {
        file.note_change(token);
    }
}

/// The program wants to see a file as it is now: what is cached of those that have changed is not used again.
pub(crate) fn refreshed(library: &LoadedLibrary) {
    for file in library.files.all() {
        if file.id().is_some() && !file.is_current() {
            file.note_all_changed();
        }
    }
}

/// Objects were made beside `object`, at places that are not known here.
pub(crate) fn new_objects(library: &LoadedLibrary, _beside: &VolObject) {
    for file in library.files.all() {
        file.note_all_changed();
    }
}
