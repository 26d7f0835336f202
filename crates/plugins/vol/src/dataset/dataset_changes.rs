//! Which data sets a program changes: what is cached of them is not used again.

use std::sync::Arc;

use crate::{
    dataset::under_dataset::UnderDataset,
    file::file_state::{ObjectToken, VolFile},
    hdf5_arguments::DATASET,
    slots::LoadedLibrary,
    vol_object::VolObject,
};

/// The managed file that the data set `object` lies in, and its name there.
pub(crate) fn identity(library: &LoadedLibrary, object: &VolObject) -> Option<(Arc<VolFile>, ObjectToken)> {
    if library.files.is_empty() {
        return None;
    }
    let under = UnderDataset { object: object.under, connector: object.connector };
    let details = under.details(library, DATASET)?;
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
