//! The fields of a batch side by side: the memory to copy in one go, and where each field lies in it.

use forebay::{
    batch::{Buffer, DLDataType, FieldArray},
    container::{Dtype, Number, cf::ValueKind},
};
use pyo3::prelude::*;

use crate::{error::raised, tensors::memory::Memory};

/// Pieces of memory, and by field its values, its offsets, or, where DLPack has no type for it, its memory.
pub(crate) type JointFields =
    (Vec<Py<Memory>>, Vec<(String, Option<PlacedField>, Option<PlacedField>, Option<Py<Memory>>)>);

/// Which piece, the elements before it there, the code and the bits of its type, its shape, and its strides in elements.
pub(crate) type PlacedField = (usize, u64, (u8, u8), Vec<u64>, Vec<u64>);

/// A field that is one of the buffers that are put together.
struct Unplaced {
    buffer: usize,
    dtype: DLDataType,
    shape: Vec<u64>,
}

/// `fields` in as few pieces as their memory has blocks.
pub(crate) fn joint_fields(py: Python<'_>, fields: Vec<FieldArray>) -> PyResult<JointFields> {
    let mut buffers = Vec::with_capacity(fields.len());
    let mut unplaced = Vec::with_capacity(fields.len());
    for field in fields {
        let Ok((dtype, inner)) = field.dlpack_type() else {
            let name = field.name.clone();
            unplaced.push((name, None, None, Some(Py::new(py, Memory::new(field))?)));
            continue;
        };
        let FieldArray { name, mut shape, bytes, offsets, .. } = field;
        shape.extend(inner);
        let bounds = offsets.map(|offsets| written_beside(&bytes, &offsets)).transpose()?;
        let values = Unplaced { buffer: buffers.len(), dtype, shape };
        buffers.push(bytes);
        let bounds = bounds.map(|bounds| {
            let shape = vec![(bounds.len() / size_of::<i64>()) as u64];
            let dtype = DLDataType { code: 0, bits: 64, lanes: 1 };
            buffers.push(bounds);
            Unplaced { buffer: buffers.len() - 1, dtype, shape }
        });
        unplaced.push((name, Some(values), bounds, None));
    }
    let (spans, starts) = Buffer::spanning(buffers);
    let pieces = spans.into_iter().map(|bytes| Py::new(py, Memory::new(plain_bytes(bytes))));
    let place = |field: Option<Unplaced>| field.map(|field| field.placed(&starts));
    let joint = unplaced.into_iter().map(|(name, values, bounds, memory)| {
        let (values, bounds) = (place(values), place(bounds));
        (name, values, bounds, memory)
    });
    Ok((pieces.collect::<PyResult<_>>()?, joint.collect()))
}

impl Unplaced {
    fn placed(self, starts: &[(usize, usize)]) -> PlacedField {
        let (piece, start) = starts[self.buffer];
        let DLDataType { code, bits, .. } = self.dtype;
        let mut strides = vec![1u64; self.shape.len()];
        for axis in (1..self.shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(self.shape[axis].max(1));
        }
        let first = start as u64 / (u64::from(bits) / 8).max(1);
        (piece, first, (code, bits), self.shape, strides)
    }
}

/// `offsets` as a field, in memory of the arena of `bytes`.
pub(crate) fn offsets_field(bytes: &Buffer, offsets: &[i64]) -> PyResult<FieldArray> {
    let mut buffer = bytes.elsewhere(size_of_val(offsets)).map_err(raised)?;
    write_offsets(&mut buffer, offsets);
    let shape = vec![offsets.len() as u64];
    Ok(FieldArray { dtype: Dtype::native(Number::I64), shape, ..plain_bytes(buffer) })
}

/// `offsets` in memory beside `bytes`, or elsewhere where there is no room.
fn written_beside(bytes: &Buffer, offsets: &[i64]) -> PyResult<Buffer> {
    let len = size_of_val(offsets);
    let mut beside = match bytes.beside(len) {
        Some(beside) => beside,
        None => bytes.elsewhere(len).map_err(raised)?,
    };
    write_offsets(&mut beside, offsets);
    Ok(beside)
}

fn write_offsets(buffer: &mut Buffer, offsets: &[i64]) {
    for (place, offset) in buffer.chunks_exact_mut(size_of::<i64>()).zip(offsets) {
        place.copy_from_slice(&offset.to_ne_bytes());
    }
}

/// `bytes` as a field of bytes.
fn plain_bytes(bytes: Buffer) -> FieldArray {
    let (dtype, shape) = (Dtype::native(Number::U8), vec![bytes.len() as u64]);
    FieldArray { name: String::new(), dtype, kind: ValueKind::Number, shape, bytes, offsets: None }
}
