//! A hyperslab read by the library, and made values of ours.

use std::ffi::c_int;

use forebay_container::Array;
use forebay_process::{Error, ErrorKind, Result};

use super::{
    arena::LibraryArena,
    ffi::{Calls, Hid, Read},
    library::{Hdf5Calls, Id, Request},
    memory::MemoryType,
    values::no_values,
};

/// `H5S_NULL`: a space without elements.
const NULL_SPACE: c_int = 2;
impl Hdf5Calls {
    /// The values that `request` asks for.
    pub(super) fn read(&self, request: &Request<'_>) -> Result<Array> {
        self.with_open(request, |data| self.read_from(data, request))
    }

    fn read_from(&self, data: Hid, request: &Request<'_>) -> Result<Array> {
        let calls = &self.calls;
        let stored = self.own_type(calls.data_type(data))?;
        let memory = MemoryType::of(self, stored.id)?;
        let from = self.own(calls.data_space(data), Calls::space_close, "no data space")?;
        let shape = request.selection.shape();
        if calls.space_kind(from.id) == NULL_SPACE || request.selection.element_count() == 0 {
            let dtype = memory.described(&request.variable.dtype);
            return Ok(Array { values: no_values(&dtype), dtype, shape });
        }
        let to = self.select(&from, request)?;
        let len = byte_len(request, memory.len)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| full(format!("no memory for {len} bytes")))?;
        bytes.resize(len, 0);
        let transfer = self.list("H5P_CLS_DATASET_XFER_ID_g")?;
        let read = Read {
            memory: memory.id.id,
            to: to.as_ref().unwrap_or(&from).id,
            from: from.id,
            transfer: transfer.id,
        };
        let mut arena = LibraryArena::new(usize::try_from(request.budget).unwrap_or(usize::MAX));
        let answer = calls.data_read(data, &read, &mut bytes, &mut arena);
        if answer < 0 && arena.is_spent() {
            return Err(full(format!(
                "values of variable length beyond the memory budget of {}",
                request.budget
            )));
        }
        self.check(answer, "does not read")?;
        let values = memory.values(bytes, &arena)?;
        Ok(Array { dtype: memory.described(&request.variable.dtype), shape, values })
    }

    /// Selects in `from`, and makes the space in memory; none for a single value.
    fn select(&self, from: &Id<'_>, request: &Request<'_>) -> Result<Option<Id<'_>>> {
        let calls = &self.calls;
        let shape = calls.space_shape(from.id);
        request.selection.check(&shape).map_err(|error| {
            let described = &request.variable.grid.shape;
            error.at(format!("an array of {shape:?} to {}, described as {described:?}", self.version))
        })?;
        if shape.is_empty() {
            return Ok(None);
        }
        let spans = request.selection.spans();
        let [start, step, count]: [Vec<u64>; 3] = [
            spans.iter().map(|span| span.start).collect(),
            spans.iter().map(|span| span.step).collect(),
            request.selection.shape(),
        ];
        self.check(calls.space_select(from.id, &start, &step, &count), "no such selection")?;
        self.own(calls.space_create(&count), Calls::space_close, "no space in memory").map(Some)
    }
}

fn byte_len(request: &Request<'_>, element_len: usize) -> Result<usize> {
    let len = request.selection.element_count().saturating_mul(element_len as u64);
    if len > request.budget {
        let what = format!("{len} bytes asked for at once, the memory budget is {}", request.budget);
        return Err(full(what).hint("read it in slices"));
    }
    usize::try_from(len).map_err(|_| full("more bytes than can be addressed".into()))
}

fn full(what: String) -> Error {
    Error::new(ErrorKind::Full, what)
}
