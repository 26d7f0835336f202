//! Values that are parts of other variables.

use forebay_source::{Error, ErrorKind, Result};

use super::{Opened, fill_all};
use crate::{Dtype, Mapping, Selection, Values, Variable, convert::convert, native::same_native, runs::Part};

/// Reads `selection` of a variable that is mapped from others.
pub(super) fn read(
    opened: &Opened,
    variable: &Variable,
    mappings: &[Mapping],
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    fill_all(variable, out);
    let element_len = variable.dtype.stored_len();
    let out_shape = selection.shape();
    for mapping in mappings {
        let Some(part) = opened.container().parts.get(mapping.part) else {
            return Err(Error::new(ErrorKind::Bug, "a mapping from a part that is not there"));
        };
        for patch in mapping.patches(selection, &part.grid.shape) {
            let bytes = elements(opened, part, &patch.from)?;
            let bytes = if same_native(&part.dtype, &variable.dtype) {
                bytes
            } else {
                convert(&part.dtype, &variable.dtype, &bytes)
            };
            let all = Selection::all(&patch.shape);
            let to = Part {
                from_shape: &patch.shape,
                selection: &all,
                to_shape: &out_shape,
                to_start: &patch.to_start,
            };
            to.copy(&bytes, out, element_len);
        }
    }
    Ok(())
}

/// The elements of `part` that `selection` takes: native ones, but odd numbers as they are stored, since the whole
/// widens them once it is filled.
fn elements(opened: &Opened, part: &Variable, selection: &Selection) -> Result<Vec<u8>> {
    if let Dtype::Odd { .. } = part.dtype {
        return opened.read_stored(part, selection);
    }
    let Values::Fixed(bytes) = opened.read(part, selection)?.values else {
        let what = "a virtual data set of values of variable length";
        return Err(Error::new(ErrorKind::Unsupported, what));
    };
    // A library that reads a part may give its elements another length.
    let len = selection.element_count().saturating_mul(part.dtype.native_len() as u64);
    if bytes.len() as u64 != len {
        let what = format!("{} bytes of the part '{}', {len} needed", bytes.len(), part.name);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(bytes)
}
