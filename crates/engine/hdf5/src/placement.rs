//! Where the values of a variable are looked for.

use forebay_container::Variable;
use forebay_process::Result;

use crate::{
    file::File,
    files::{ObjectAddress, OpenFiles},
};

/// Describes an object under a name, below so many virtual data sets.
pub(crate) type Describe = fn(&mut OpenFiles<'_>, ObjectAddress, &str, usize) -> Result<Variable>;

/// Where a variable's values are looked for.
pub(crate) struct DataPlacement<'a, 'w> {
    pub(crate) files: &'a mut OpenFiles<'w>,
    pub(crate) file: &'a File,
    pub(crate) object: ObjectAddress,
    /// How many virtual data sets lie above this one.
    pub(crate) nesting: usize,
    /// How a variable that this one is mapped to is described.
    pub(crate) describe: Describe,
}
