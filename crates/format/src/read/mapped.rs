//! Values that are parts of other variables.

use forebay_source::{Error, ErrorKind, Result};

use crate::{Opened, fill::fill_all};
use forebay_container::runs::Part;
use forebay_container::{
    Dtype, Mapping, Mappings, Selection, Values, Variable, convert::convert, native::same_native,
};

/// Reads `selection` of a variable that is mapped from others.
pub(super) fn read(
    opened: &Opened,
    variable: &Variable,
    mappings: &Mappings,
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    let touching = mappings.touching(selection);
    if let [mapping] = touching[..]
        && is_filled_by(opened, variable, mapping, selection, out)?
    {
        return Ok(());
    }
    fill_all(variable, out);
    let element_len = variable.dtype.stored_len();
    let out_shape = selection.shape();
    for mapping in touching {
        let part = part_of(opened, mapping)?;
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

/// Reads straight into `out` where one patch of `mapping` is all of it, as it is for a row of a stack of files.
fn is_filled_by(
    opened: &Opened,
    variable: &Variable,
    mapping: &Mapping,
    selection: &Selection,
    out: &mut [u8],
) -> Result<bool> {
    let part = part_of(opened, mapping)?;
    let is_same = same_native(&part.dtype, &variable.dtype) && !matches!(part.dtype, Dtype::Odd { .. });
    let [patch] = &mapping.patches(selection, &part.grid.shape)[..] else { return Ok(false) };
    if !is_same || part.dtype.is_variable() || patch.shape != selection.shape() {
        return Ok(false);
    }
    opened.read_into(part, &patch.from, out).map(|()| true)
}

fn part_of<'a>(opened: &'a Opened, mapping: &Mapping) -> Result<&'a Variable> {
    let bug = || Error::new(ErrorKind::Bug, "a mapping from a part that is not there");
    opened.container().parts.get(mapping.part).ok_or_else(bug)
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
