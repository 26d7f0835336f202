//! Reads of a variable: any hyperslab, into the caller's memory, in parallel over chunks.
//!
//! ```text
//! Selection ─► slabs (one per thread's piece of the output) ─► plan (steps) ─► execute: fetch ─► decode ─► copy
//!                                                                └──────────► requests: listed, not read
//! ```

mod execute;
mod gather;
mod plan;
mod requests;
mod rows;
mod stored;

pub use stored::StoredChunk;

use forebay_container::{
    Array, ArrayPart, Dtype, Extents, Selection, SlabSizes, Values, Variable, native, nonstandard, slabs,
};
use forebay_hdf5::HeapReader;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    fallback,
    fill::fill_all,
    opened::{Opened, zeroed},
};

impl Opened {
    /// The values of `selection` from `variable`, which belongs to this container.
    ///
    /// What forebay itself cannot read, a library reads where there is one: one caller at a time.
    pub fn read(&self, variable: &Variable, selection: &Selection) -> Result<Array> {
        self.read_natively(variable, selection)
            .or_else(|error| fallback::fall_back(self, variable, selection, error))
    }

    /// As [`read`](Self::read), by the library alone: for comparing the two.
    #[doc(hidden)]
    pub fn read_by_library(&self, variable: &Variable, selection: &Selection) -> Result<Array> {
        crate::libhdf5::by_library(self, variable, selection).map_err(|error| self.place(variable, error))
    }

    fn read_natively(&self, variable: &Variable, selection: &Selection) -> Result<Array> {
        let place = |error: Error| self.place(variable, error);
        self.check(variable, selection).map_err(place)?;
        let shape = selection.shape();
        if let Extents::Opaque(opaque) = &variable.extents {
            return fallback::read(self, opaque, variable, selection).map_err(place);
        }
        let len = self.output_len(variable, selection).map_err(place)?;
        let mut bytes = zeroed(len).map_err(place)?;
        self.fill(variable, selection, &mut bytes).map_err(place)?;
        if let Dtype::Nonstandard { number, .. } = variable.dtype {
            let mut wide = zeroed(len / variable.dtype.stored_len() * number.size()).map_err(place)?;
            nonstandard::widen(&variable.dtype, &bytes, &mut wide);
            return Ok(Array { dtype: Dtype::native(number), shape, values: Values::Fixed(wide) });
        }
        if !variable.dtype.is_variable() {
            return Ok(Array { dtype: variable.dtype.clone(), shape, values: Values::Fixed(bytes) });
        }
        let heap = variable.heap.ok_or_else(|| Error::new(ErrorKind::Bug, "no heap")).map_err(place)?;
        let source = self.source(heap.source).map_err(place)?;
        let values =
            HeapReader::new(source, heap, self.budget()).resolve(&variable.dtype, &bytes).map_err(place)?;
        Ok(Array { dtype: variable.dtype.clone(), shape, values })
    }

    /// The elements of `selection` as they are stored: odd numbers not widened, references to values of any length.
    pub fn read_stored(&self, variable: &Variable, selection: &Selection) -> Result<Vec<u8>> {
        let place = |error: Error| self.place(variable, error);
        self.check(variable, selection).map_err(place)?;
        if let Extents::Opaque(opaque) = &variable.extents {
            return Err(place(Error::new(ErrorKind::Unsupported, opaque.why.clone())));
        }
        let mut bytes = zeroed(self.output_len(variable, selection).map_err(place)?).map_err(place)?;
        self.fill(variable, selection, &mut bytes).map_err(place)?;
        Ok(bytes)
    }

    /// Fills `out` with the values of `selection`; every element takes [`native_len`](Dtype::native_len).
    pub fn read_into(&self, variable: &Variable, selection: &Selection, out: &mut [u8]) -> Result<()> {
        let place = |error: Error| self.place(variable, error);
        self.check(variable, selection).map_err(place)?;
        if variable.dtype.is_variable() {
            let what = "values of variable length do not fit memory of fixed length";
            return Err(place(Error::new(ErrorKind::Invalid, what)));
        }
        let stored_len = self.output_len(variable, selection).map_err(place)?;
        let element_len = variable.dtype.stored_len();
        if stored_len / element_len * variable.dtype.native_len() != out.len() {
            return Err(place(Error::new(ErrorKind::Invalid, "memory of another length than the selection")));
        }
        if let Extents::Opaque(opaque) = &variable.extents {
            let array = fallback::read(self, opaque, variable, selection);
            return array.and_then(|array| fallback::copy_out(&array, variable, out)).map_err(place);
        }
        self.fill_widened(variable, selection, stored_len, out)
            .map_err(place)
            .or_else(|error| fallback::fall_back_into(self, variable, selection, error, out))
    }

    /// Fills `out` with `rows` of axis 0, in the order given; a row may be asked for more than once. Of values of any length
    /// these are the references, as [`read_stored`](Self::read_stored) gives them.
    /// Many rows in one call cost less than as many calls: each chunk is decoded once, each source asked once.
    pub fn read_rows(&self, variable: &Variable, rows: &[u64], out: &mut [u8]) -> Result<()> {
        let place = |error: Error| self.place(variable, error);
        if let Some(why) = variable.dtype.refusal() {
            return Err(place(Error::new(ErrorKind::Unsupported, why)));
        }
        let inner = variable.grid.shape.get(1..).unwrap_or_default();
        let row_len =
            forebay_container::shape::product(inner).saturating_mul(variable.dtype.stored_len() as u64);
        let is_plain = !matches!(variable.dtype, Dtype::Nonstandard { .. });
        if !is_plain || row_len.saturating_mul(rows.len() as u64) != out.len() as u64 {
            let what = format!("{} bytes of memory for {} rows of {row_len}", out.len(), rows.len());
            return Err(place(Error::new(ErrorKind::Invalid, what)));
        }
        match rows::read(self, variable, rows, out).map_err(place) {
            Err(error) if error.kind() == ErrorKind::Unsupported && !variable.dtype.is_variable() => {
                let row_len = out.len().checked_div(rows.len()).unwrap_or(0).max(1);
                rows.iter().zip(out.chunks_exact_mut(row_len)).try_for_each(|(row, slot)| {
                    self.read_into(variable, &rows::selection(*row..row + 1, inner), slot)
                })
            }
            native => native,
        }
    }

    /// Selections that together make up `selection`, in C order, each of about `wanted_bytes` where chunks allow.
    pub fn slabs<'a>(
        &self,
        variable: &'a Variable,
        selection: &Selection,
        wanted_bytes: u64,
    ) -> impl Iterator<Item = Selection> + use<'a> {
        slabs(variable, selection, SlabSizes { wanted: wanted_bytes, most: self.budget() })
    }

    fn fill_widened(
        &self,
        variable: &Variable,
        selection: &Selection,
        stored_len: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let Dtype::Nonstandard { .. } = variable.dtype else { return self.fill(variable, selection, out) };
        let mut stored = zeroed(stored_len)?;
        self.fill(variable, selection, &mut stored)?;
        nonstandard::widen(&variable.dtype, &stored, out);
        Ok(())
    }

    fn fill(&self, variable: &Variable, selection: &Selection, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        match &variable.extents {
            Extents::Chunks(table) if table.is_empty() => {
                fill_all(variable, out);
                Ok(())
            }
            Extents::Chunks(_) | Extents::Shards(_) | Extents::Boxes(_) => {
                execute::in_parallel(self, variable, selection, out)
            }
            Extents::Segments(_) | Extents::Mapped(_) => execute::here(self, variable, selection, out),
            Extents::Inline(bytes) => {
                copy_inline(variable, bytes, selection, out);
                Ok(())
            }
            Extents::Opaque(opaque) => {
                fallback::copy_out(&fallback::read(self, opaque, variable, selection)?, variable, out)
            }
        }
    }
}

/// Copies `selection` of a variable whose values stand in the description.
fn copy_inline(variable: &Variable, bytes: &[u8], selection: &Selection, out: &mut [u8]) {
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    let part = ArrayPart { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start };
    part.copy(bytes, out, variable.dtype.stored_len());
    native::make_native(&variable.dtype, out);
}
