//! Values in memory.

use serde::{Deserialize, Serialize};

use crate::{dtype::Dtype, grid::shape, values::scalar::Scalar};

/// Values in memory, C order, native byte order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// The element type as it was stored; the bytes are in native order whatever it says.
    pub dtype: Dtype,
    /// Elements per dimension.
    pub shape: Vec<u64>,
    /// The elements.
    pub values: Values,
}

/// The bytes of an array's elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Values {
    /// Every element takes [`Dtype::native_len`] bytes, laid out as stored.
    Fixed(Vec<u8>),
    /// Element `i` is `bytes[offsets[i]..offsets[i + 1]]`, without padding; a variable-length part inside an
    /// element is a count of items (8 bytes) followed by the items.
    Variable {
        /// Where each element starts, and where the last one ends.
        offsets: Vec<u64>,
        /// The elements, end to end.
        bytes: Vec<u8>,
    },
}

impl Values {
    /// The bytes of element `index`, where elements differ in length.
    pub fn element(&self, index: u64) -> Option<&[u8]> {
        let Self::Variable { offsets, bytes } = self else { return None };
        let index = usize::try_from(index).ok()?;
        let ends = [*offsets.get(index)?, *offsets.get(index + 1)?].map(usize::try_from);
        let [Ok(start), Ok(end)] = ends else { return None };
        bytes.get(start..end)
    }
}

impl Array {
    /// Elements in all.
    pub fn element_count(&self) -> u64 {
        shape::product(&self.shape)
    }

    /// The numbers of an array of them, exactly; named integers count as integers. `None` for other types.
    pub fn scalars(&self) -> Option<Vec<Scalar>> {
        let (Some(number), Values::Fixed(bytes)) = (self.dtype.number(), &self.values) else { return None };
        Some(bytes.chunks_exact(number.size()).map(|element| Scalar::of(number, element)).collect())
    }

    /// The texts of an array of strings, padding removed; `None` for other types.
    pub fn texts(&self) -> Option<Vec<String>> {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match (&self.dtype, &self.values) {
            (Dtype::Text { len, .. }, Values::Fixed(bytes)) if *len > 0 => Some(
                bytes
                    .chunks_exact(*len)
                    .map(|text| lossy(text.split(|byte| *byte == 0).next().unwrap_or_default()))
                    .collect(),
            ),
            (Dtype::VarText { .. }, Values::Variable { offsets, bytes }) => Some(
                offsets
                    .windows(2)
                    .map(|two| {
                        let text = usize::try_from(two[0]).ok().zip(usize::try_from(two[1]).ok());
                        lossy(text.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default())
                    })
                    .collect(),
            ),
            _ => None,
        }
    }
}
