//! Data sets that lose their last link, and are deleted by whoever closes them last.
//!
//! Ranks close them when they like, and each as often as it has them open: no moment of that is one that ranks have in common. So all
//! that was staged is brought into the file before a link is deleted, and nothing is staged for data sets without links.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{ffi::c_int, ptr::null_mut};

use forebay_process::Result;

use super::settling::parallel_of;
use crate::{
    dataset::{chunk_addresses::file_of, under_dataset::UnderDataset},
    functions::RawPointer,
    hdf5_arguments::{FileGet, GetFirst, LinkDetails, OPEN_GROUPS},
    slots::LoadedLibrary,
    vol_object::VolObject,
};

/// `H5VL_LINK_DELETE`
const LINK_DELETE: c_int = 0;
/// `H5L_TYPE_HARD`
const HARD: c_int = 0;
/// `H5O_TYPE_GROUP`
const GROUP: c_int = 0;

/// `object`, which is of `kind`, gets a link: one that had none may be staged again.
pub(crate) fn before_link(library: &LoadedLibrary, object: &VolObject, kind: c_int) {
    let Some(file) = parallel_of(library, object, kind) else { return };
    let under = UnderDataset { object: object.under, connector: object.connector };
    if library.quietly(|| under.details(library, kind)).is_none_or(|details| details.references == 0) {
        file.note_layouts();
    }
}

/// An operation on a link at `location`, which begins with the kind of `object`: one that is deleted may free the place of data.
/// Collective then.
///
/// # Safety
/// `location` and `arguments` are those of HDF5's callback.
pub(crate) unsafe fn before_delete(
    library: &LoadedLibrary,
    object: &VolObject,
    location: RawPointer,
    arguments: RawPointer,
) -> Result<()> {
    // SAFETY: as promised by the caller.
    let (kind, operation) = unsafe { (*location.cast::<c_int>(), *arguments.cast::<c_int>()) };
    if operation != LINK_DELETE {
        return Ok(());
    }
    let Some(file) = parallel_of(library, object, kind) else { return Ok(()) };
    file.note_layouts();
    let under = UnderDataset { object: object.under, connector: object.connector };
    let may_stay = library.quietly(|| {
        // SAFETY: as promised by the caller.
        let is_group = unsafe { is_group(library, under, location) };
        is_group && has_open_groups(library, object, kind)
    });
    file.settle_before_delete(may_stay)
}

/// True when the link at `location` is one of those that keep a group.
unsafe fn is_group(library: &LoadedLibrary, under: UnderDataset, location: RawPointer) -> bool {
    let mut link = LinkDetails::default();
    let mut arguments = GetFirst::answered_at((&raw mut link).cast());
    let get = library.functions.H5VLlink_get;
    // SAFETY: an open object, a location of it, and arguments with the layout of the header.
    unsafe {
        // What another kind of link leads to is not looked for: that may be in a file that is not open.
        get(
            under.object,
            location,
            under.connector,
            (&raw mut arguments).cast(),
            library.default_transfer(),
            null_mut(),
        ) >= 0
            && link.kind == HARD
            && under.details_at(library, location).is_none_or(|details| details.kind == GROUP)
    }
}

/// True when this rank has groups open in the file of `object`, which is of `kind`, or that is not known.
fn has_open_groups(library: &LoadedLibrary, object: &VolObject, kind: c_int) -> bool {
    let Some(file) = file_of(library, object, kind) else { return true };
    let mut count = 0;
    let mut counted = FileGet::open_objects(OPEN_GROUPS, &raw mut count);
    let get = library.functions.H5VLfile_get;
    // SAFETY: an open file, and arguments with the layout of the header.
    unsafe {
        get(file, object.connector, (&raw mut counted).cast(), library.default_transfer(), null_mut()) < 0
            || count > 0
    }
}
