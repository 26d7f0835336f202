//! What reads variables that have no extents.

use std::fmt;

use forebay_container::{Array, Opaque, Selection, Variable};
use forebay_process::Result;

use crate::Opened;

/// Reads variables that have no extents: a library, or a user's own program.
///
/// # Contract
/// - What it gives has the selection's shape and the variable's type in this machine's byte order.
/// - Safe to call from many threads at once; a reader whose library is not holds a lock of its own.
pub trait Reader: Send + Sync + fmt::Debug {
    /// The name that [`Opaque::library`] has: `libhdf5`.
    fn name(&self) -> &str;

    /// The values that are wanted.
    fn read(&self, wanted: &ReadRequest<'_>) -> Result<Array>;
}

/// What a [`Reader`] is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    /// The container, and through it its sources.
    pub opened: &'a Opened,
    /// What the format noted for the reader.
    pub opaque: &'a Opaque,
    /// The variable.
    pub variable: &'a Variable,
    /// Which of its elements.
    pub selection: &'a Selection,
}
