//! Variables without extents, read by a library found at run time.

use forebay_source::{Error, ErrorKind, Result};

use crate::{Array, Opaque, Opened, Selection, Variable};

/// The values of `selection`, read by the library that `opaque` names.
pub(crate) fn read(_opened: &Opened, opaque: &Opaque, _variable: &Variable, _selection: &Selection) -> Result<Array> {
    Err(Error::new(ErrorKind::Unsupported, opaque.why.clone()))
}
