//! Where the values of a variable are looked for.

use forebay_container::Variable;
use forebay_source::Result;

use crate::{
    file::File,
    files::{Files, Object},
};

/// Describes an object under a name, below so many virtual data sets.
pub(crate) type Describe = fn(&mut Files<'_>, Object, &str, usize) -> Result<Variable>;

/// Where a variable's values are looked for.
pub(crate) struct Placement<'a, 'w> {
    pub(crate) files: &'a mut Files<'w>,
    pub(crate) file: &'a File,
    pub(crate) object: Object,
    /// How many virtual data sets lie above this one.
    pub(crate) nesting: usize,
    /// How a variable that this one is mapped to is described.
    pub(crate) describe: Describe,
}
