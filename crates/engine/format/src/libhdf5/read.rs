//! A hyperslab read by the library, and made values of ours.

use std::ffi::c_int;

use forebay_container::Array;
use forebay_libhdf5::{
    Hdf5Calls, HyperslabTransfer, OpenId, arena::LibraryArena, calls::NO_SHAPE, hdf5_types::hid_t,
};
use forebay_process::{Error, ErrorKind, Result};

use super::{
    library::{LockedHdf5, Request},
    memory::MemoryType,
    values::no_values,
};

/// `H5S_NULL`: a space without elements.
const NULL_SPACE: c_int = 2;

impl LockedHdf5 {
    /// The values that `request` asks for.
    pub(super) fn read(&self, request: &Request<'_>) -> Result<Array> {
        self.with_open(request, |data| self.read_from(data, request))
    }

    fn read_from(&self, data: hid_t, request: &Request<'_>) -> Result<Array> {
        let calls = &self.calls;
        let stored = self.own_type(calls.data_type(data))?;
        let memory = MemoryType::of(self, stored.id())?;
        let from = self.own(calls.data_space(data), Hdf5Calls::space_close, "no data space")?;
        let shape = request.selection.shape();
        if calls.space_kind(from.id()) == NULL_SPACE || request.selection.element_count() == 0 {
            let dtype = memory.described(&request.variable.dtype);
            return Ok(Array { values: no_values(&dtype), dtype, shape });
        }
        let to = self.select(&from, request)?;
        let len = byte_len(request, memory.len)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| full(format!("no memory for {len} bytes")))?;
        bytes.resize(len, 0);
        let list = self.list("H5P_CLS_DATASET_XFER_ID_g")?;
        let transfer = HyperslabTransfer {
            memory_type: memory.id.id(),
            memory_space: to.as_ref().unwrap_or(&from).id(),
            file_space: from.id(),
            list: list.id(),
        };
        let mut arena = LibraryArena::new(usize::try_from(request.budget).unwrap_or(usize::MAX));
        if let Err(said) = calls.data_read_with(data, &transfer, &mut bytes, &mut arena) {
            if arena.is_spent() {
                return Err(full(format!(
                    "values of variable length beyond the memory budget of {}",
                    request.budget
                )));
            }
            return Err(self.refusal(said, "does not read"));
        }
        let values = memory.values(bytes, &arena)?;
        Ok(Array { dtype: memory.described(&request.variable.dtype), shape, values })
    }

    /// Selects in `from`, and makes the space in memory; none for a single value.
    fn select(&self, from: &OpenId<'_>, request: &Request<'_>) -> Result<Option<OpenId<'_>>> {
        let calls = &self.calls;
        let mut lengths = NO_SHAPE;
        let shape = calls.space_shape(from.id(), &mut lengths);
        request.selection.check(shape).map_err(|error| {
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
        self.check(calls.space_select(from.id(), &start, Some(&step), &count), "no such selection")?;
        self.own(calls.space_create(&count), Hdf5Calls::space_close, "no space in memory").map(Some)
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
