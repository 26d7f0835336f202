//! One field of a batch, and what has to be verified before it is shown.

use std::fmt;

use forebay_container::{Dtype, cf::ValueKind};
use forebay_process::Result;

use crate::arena::Buffer;

/// One field of a batch: C order, native byte order, aligned, in one piece.
#[derive(Debug)]
pub struct FieldArray {
    /// The field's name.
    pub name: String,
    /// The type of an element; the bytes are in native order whatever it says.
    pub dtype: Dtype,
    /// What elements stand for.
    pub kind: ValueKind,
    /// The shape, samples included.
    pub shape: Vec<u64>,
    /// The elements.
    pub bytes: Buffer,
    /// Where samples of different lengths begin and end along the axis they are joined by.
    pub offsets: Option<Vec<i64>>,
}

/// Sources that bytes were copied from and that were not asked yet whether they changed meanwhile.
///
/// # Contract
///
/// - `verify` gives `Ok` only if all bytes that were copied are those of one version of their source.
/// - It may be called on any thread, and while other batches are made.
pub trait Verify: fmt::Debug + Send + Sync {
    /// Asks the sources.
    fn verify(&self) -> Result<()>;
}
