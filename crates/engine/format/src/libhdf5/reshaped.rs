//! Arrays that libhdf5 knows in another shape than they are described in: Silo keeps the order of axes in its objects.

use forebay_process::{Error, ErrorKind, Result};

use super::library::{LockedHdf5, Request};
use forebay_container::runs::ArrayPart;
use forebay_container::{Array, Grid, Selection, Values, Variable};

/// The values that `request` asks for of a data set of as many elements, whatever its shape.
pub(super) fn read(library: &LockedHdf5, request: &Request<'_>) -> Result<Array> {
    let (variable, selection) = (request.variable, request.selection);
    let stored_shape = library.shape(request)?;
    if stored_shape == variable.grid.shape {
        return library.read(request);
    }
    let whole = Selection::all(&stored_shape);
    let stored = Variable { grid: Grid::whole(stored_shape.clone()), ..variable.clone() };
    let array = library.read(&Request { variable: &stored, selection: &whole, ..*request })?;
    let other = || {
        let what = format!("{stored_shape:?} elements where {:?} belong", variable.grid.shape);
        Error::new(ErrorKind::Unsupported, what)
    };
    let Values::Fixed(bytes) = &array.values else { return Err(other()) };
    let count = usize::try_from(variable.grid.element_count()).map_err(|_| other())?;
    let selected = usize::try_from(selection.element_count()).map_err(|_| other())?;
    if count == 0 || whole.element_count() != count as u64 {
        return Err(other());
    }
    let element_len = bytes.len() / count;
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    let part = ArrayPart { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start };
    // No more than was read whole, unless indexes were asked for twice, which a selection cannot.
    let mut out = vec![0; selected.saturating_mul(element_len)];
    part.copy(bytes, &mut out, element_len);
    Ok(Array { dtype: array.dtype, shape, values: Values::Fixed(out) })
}
