//! Which data sets a timestep of a kernel has, and what goes between them and memory.

use std::ffi::CStr;

use forebay::{Error, Result};
use forebay_workload::SpaceLayout;

use crate::{
    hdf5_ffi::{Hdf5Functions, Hdf5Id, particles::COMPOUND},
    kernel_particles::{ParticleTypes, STRUCTURES, VARIABLES},
    runtime_hdf5::RuntimeHdf5,
};

/// One call of `H5Dwrite` or `H5Dread`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParticleTransfer {
    /// The data set, by its number.
    pub(crate) data: usize,
    /// The variable whose array is meant, or all structures.
    pub(crate) variable: Option<usize>,
    /// The type in memory.
    pub(crate) memory_type: Hdf5Id,
}

/// The data sets of a timestep with their types, and the calls that move all of its particles.
#[derive(Debug)]
pub(crate) struct TimestepLayout {
    pub(crate) data: Vec<(&'static CStr, Hdf5Id)>,
    pub(crate) transfers: Vec<ParticleTransfer>,
}

impl TimestepLayout {
    /// For particles that lie in memory and in the file as `memory` and `file` say.
    pub(crate) fn new(types: &ParticleTypes<'_>, memory: SpaceLayout, file: SpaceLayout) -> Self {
        let all = 0..VARIABLES.len();
        let is_structured = |layout| layout == SpaceLayout::Interleaved;
        let data = match (is_structured(memory), is_structured(file)) {
            (_, true) => vec![(STRUCTURES, types.whole)],
            // A variable is found in a structure by its name, so that it has one in the file too.
            (true, false) => all.clone().map(|number| (VARIABLES[number], types.single[number])).collect(),
            (false, false) => all.clone().map(|number| (VARIABLES[number], types.plain[number])).collect(),
        };
        let transfer = |data, variable, memory_type| ParticleTransfer { data, variable, memory_type };
        let transfers = match (is_structured(memory), is_structured(file)) {
            (true, true) => vec![transfer(0, None, types.whole)],
            (true, false) => all.map(|number| transfer(number, None, types.whole)).collect(),
            (false, true) => all.map(|number| transfer(0, Some(number), types.single[number])).collect(),
            (false, false) => all.map(|number| transfer(number, Some(number), types.plain[number])).collect(),
        };
        Self { data, transfers }
    }
}

impl RuntimeHdf5 {
    /// The type that `transfer` has in memory when it is read from the data set `data`: a structure where that has one.
    pub(crate) fn memory_type(
        &self,
        data: Hdf5Id,
        transfer: &ParticleTransfer,
        types: &ParticleTypes<'_>,
    ) -> Result<Hdf5Id> {
        let stored = self.own(self.functions.data_type(data), Hdf5Functions::type_close, "no type")?;
        let is_structure = self.functions.type_class(stored.id) == COMPOUND;
        match transfer.variable {
            Some(variable) if is_structure => Ok(types.single[variable]),
            None if !is_structure => Err(Error::invalid("plain variables cannot be read as structures")
                .hint("set MEM_PATTERN to CONTIG")),
            _ => Ok(transfer.memory_type),
        }
    }
}
