//! Variables that have no extents, and those that forebay itself cannot read: a reader or a library reads them.

use forebay_container::{Array, Dtype, Extents, Opaque, Selection, Values, Variable};
use forebay_process::{Error, ErrorKind, Event, EventKind, Result};

use crate::{
    Opened, ReadRequest,
    libhdf5::{by_library, is_silo_in_hdf5},
    readers,
};

/// The values of `selection`, read by the reader that `opaque` names.
pub(crate) fn read(
    opened: &Opened,
    opaque: &Opaque,
    variable: &Variable,
    selection: &Selection,
) -> Result<Array> {
    let array = readers::find(&opaque.library)?.read(&ReadRequest { opened, opaque, variable, selection });
    if array.is_ok() && LIBRARIES.contains(&opaque.library.as_str()) {
        tell(opened, variable, &opaque.library, &opaque.why);
    }
    let array = array.map_err(|error| error.at(format!("{}, so {} reads it", opaque.why, opaque.library)))?;
    if array.shape != selection.shape() {
        let what = format!(
            "{} gives {:?} elements where {:?} belong",
            opaque.library,
            array.shape,
            selection.shape()
        );
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    Ok(array)
}

/// The library's answer where forebay itself gave `native`; if it has none, that error and what was tried.
pub(crate) fn fall_back(
    opened: &Opened,
    variable: &Variable,
    selection: &Selection,
    native: Error,
) -> Result<Array> {
    let is_tried = matches!(variable.extents, Extents::Opaque(_));
    // Neither can the library make values of these.
    let is_hopeless = matches!(variable.dtype, Dtype::Reference { .. } | Dtype::Other { .. });
    let is_stored_so = opened.container().is_hdf5() || is_silo_in_hdf5(opened.container());
    if is_hopeless || native.kind() != ErrorKind::Unsupported || !is_stored_so || is_tried {
        return Err(native);
    }
    match by_library(opened, variable, selection) {
        Ok(array) => {
            tell(opened, variable, LIBRARIES[0], &native.to_string());
            Ok(array)
        }
        Err(error) => Err(native.hint(format!("libhdf5 was tried: {error}"))),
    }
}

/// C libraries that are found at run time; other readers are forebay's own or the user's.
const LIBRARIES: [&str; 2] = ["libhdf5", "libsilo"];

/// Reports that `library` reads a variable, and why.
fn tell(opened: &Opened, variable: &Variable, library: &str, why: &str) {
    let file = opened.container().sources.first().map(|id| id.locator.to_string()).unwrap_or_default();
    let subject = format!("{file}: variable '{}'", variable.name);
    Event::new(EventKind::Library, format!("{subject}: {library} reads it: {why}")).about(subject).emit();
}

/// As [`fall_back`], into memory laid out as the variable's type says.
pub(crate) fn fall_back_into(
    opened: &Opened,
    variable: &Variable,
    selection: &Selection,
    native: Error,
    out: &mut [u8],
) -> Result<()> {
    let array = fall_back(opened, variable, selection, native)?;
    copy_out(&array, variable, out)
}

/// Copies the values of `array` to memory laid out as the type of `variable` says.
pub(crate) fn copy_out(array: &Array, variable: &Variable, out: &mut [u8]) -> Result<()> {
    let is_wanted = match variable.dtype {
        Dtype::Nonstandard { number, .. } => array.dtype == Dtype::native(number),
        _ => array.dtype == variable.dtype,
    };
    match &array.values {
        Values::Fixed(bytes) if bytes.len() == out.len() && is_wanted => {
            out.copy_from_slice(bytes);
            Ok(())
        }
        _ => {
            let what = format!("the library gives {} where {} was wanted", array.dtype, variable.dtype);
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}
