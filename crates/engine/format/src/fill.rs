//! What elements read as that were never written.

use forebay_container::{Variable, native, runs};

/// The fill value of `variable` as a native element; empty means zeros.
pub(crate) fn native_fill(variable: &Variable) -> Vec<u8> {
    let mut fill = variable.fill.clone();
    native::make_native(&variable.dtype, &mut fill);
    fill
}

/// Fills the whole of `out` with what elements of `variable` read as that were never written.
pub fn fill_all(variable: &Variable, out: &mut [u8]) {
    runs::fill(&native_fill(variable), out);
}
