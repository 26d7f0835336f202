//! A whole array, unpacked.

use forebay_process::{Error, ErrorKind, Result};

use super::unpacker::{Unpack, UnpackKind, Unpacker};
use crate::{
    cf::ValueKind,
    container::variable::Variable,
    dtype::Dtype,
    values::array::{Array, Values},
};

/// Values of a variable, unpacked.
#[derive(Clone, Debug)]
pub struct UnpackedArray {
    /// The values.
    pub array: Array,
    /// What they stand for.
    pub kind: ValueKind,
    /// A byte for each value that is 1 where it is missing, where that was asked for.
    pub mask: Option<Vec<u8>>,
}

/// The values of `array`, which was read from `variable`, unpacked as `how` asks. What holds no numbers stays as it is.
pub fn unpack(variable: &Variable, array: Array, how: Unpack) -> Result<UnpackedArray> {
    let is_masked = how.kind == UnpackKind::Masked;
    let unmasked = |array: Array| {
        let mask = is_masked.then(|| vec![0; usize::try_from(array.element_count()).unwrap_or(0)]);
        Ok(UnpackedArray { array, kind: ValueKind::Number, mask })
    };
    let Some(mut unpacker) = Unpacker::of(variable, how)? else { return unmasked(array) };
    let stored = array.dtype.number().ok_or_else(|| Error::new(ErrorKind::Bug, "numbers of no type"))?;
    if unpacker.has_mask() {
        unpacker.set_masked();
    } else if unpacker.is_idle(stored) {
        return unmasked(array);
    }
    let Values::Fixed(from) = &array.values else {
        return Err(Error::new(ErrorKind::Bug, "numbers that differ in length"));
    };
    let count = from.len() / stored.size().max(1);
    let mut bytes = vec![0; count * unpacker.to().size()];
    unpacker.run(from, &mut bytes)?;
    let mask = is_masked.then(|| {
        let mut mask = vec![0; count];
        unpacker.mask(from, &mut mask);
        mask
    });
    let kind = unpacker.kind();
    let dtype = if kind == ValueKind::Bool { Dtype::boolean() } else { Dtype::native(unpacker.to()) };
    let array = Array { dtype, shape: array.shape, values: Values::Fixed(bytes) };
    Ok(UnpackedArray { array, kind, mask })
}
