//! What the axes of variables are called, and what NetCDF-4 makes of HDF5.
//!
//! Two conventions name axes: dimension scales, variables that stand for an axis and are referred to by those that
//! have it, which NetCDF-4 builds on; and labels, kept as text with the variable itself.

use std::collections::HashMap;

use forebay_process::{Error, Result};

use forebay_container::{
    AXIS_LABELS, AXIS_NUMBERS, Array, Attribute, ChunkTable, Container, Extents, Grid, OWN_NUMBER, Values,
    Variable, is_netcdf_attribute, says_scale,
};

/// Names of axes are said once per variable that has them: a small file can say far more of them than it holds.
const NAME_BYTES_PER_BYTE: u64 = 64;
const LEAST_NAME_BYTES: u64 = 16 << 20;

/// Names the axes of all variables; `scale` gives the name of the variable that stands for an axis of another.
///
/// A NetCDF-4 file is called so, and its variables are as long as their dimensions.
pub(crate) fn name<'a>(
    container: &mut Container,
    scale: impl Fn(&str, usize) -> Option<&'a str>,
) -> Result<()> {
    let numbers: HashMap<i64, String> = container.variables.iter().filter_map(own_number).collect();
    let file_len = container.sources.first().map_or(0, |id| id.len);
    let mut allowance = file_len.saturating_mul(NAME_BYTES_PER_BYTE).saturating_add(LEAST_NAME_BYTES);
    let mut scales: Vec<Vec<Option<String>>> = Vec::with_capacity(container.variables.len());
    for variable in &container.variables {
        let numbered = variable.attribute(AXIS_NUMBERS).map(integers).unwrap_or_default();
        let own = is_scale(variable).then_some(variable.name.as_str());
        let of_axis = |axis: usize| {
            let numbered = || numbers.get(numbered.get(axis)?).map(String::as_str);
            // A scale has no scales of its own: its first axis is what it stands for.
            scale(&variable.name, axis).or_else(numbered).or_else(|| own.filter(|_| axis == 0))
        };
        let found: Vec<Option<&str>> = (0..variable.grid.shape.len()).map(of_axis).collect();
        let said = found.iter().flatten().fold(0, |sum, name| sum + name.len() as u64);
        let Some(left) = allowance.checked_sub(said) else {
            return Err(Error::corrupt("names of axes far longer than the file that says them"));
        };
        allowance = left;
        scales.push(found.into_iter().map(|name| name.map(str::to_owned)).collect());
    }
    for (variable, scales) in container.variables.iter_mut().zip(&scales) {
        variable.dimensions = names(variable, scales);
    }
    if is_netcdf4(container) {
        container.format = Container::NETCDF4.into();
        grow_all(container, &scales)?;
    }
    Ok(())
}

/// The names of a variable's axes, by label or by scale; none where no axis has one.
fn names(variable: &Variable, scales: &[Option<String>]) -> Vec<String> {
    let labels = variable.attribute(AXIS_LABELS).and_then(Array::texts).unwrap_or_default();
    let of_axis = |(axis, scale): (usize, &Option<String>)| {
        let label = labels.get(axis).filter(|label| !label.is_empty()).cloned();
        label.or_else(|| Some(last(scale.as_ref()?).to_owned())).unwrap_or_default()
    };
    let names: Vec<String> = scales.iter().enumerate().map(of_axis).collect();
    if names.iter().all(String::is_empty) { Vec::new() } else { names }
}

/// A dimension without bound is as long as the longest variable along it; what others lack reads as their fill value.
fn grow_all(container: &mut Container, scales: &[Vec<Option<String>>]) -> Result<()> {
    let mut lens: HashMap<&str, u64> = HashMap::new();
    for (variable, scales) in container.variables.iter().zip(scales) {
        if variable.is_bare_dimension() {
            continue;
        }
        for (scale, len) in scales.iter().zip(&variable.grid.shape) {
            if let Some(scale) = scale {
                let longest = lens.entry(scale).or_default();
                *longest = (*longest).max(*len);
            }
        }
    }
    for (variable, scales) in container.variables.iter_mut().zip(scales) {
        let axes = variable.grid.shape.iter().zip(&variable.max_shape).zip(scales);
        let shape: Vec<u64> = axes
            .map(|((len, most), scale)| match scale {
                Some(scale) if most.is_none() => {
                    lens.get(scale.as_str()).map_or(*len, |longest| *longest.max(len))
                }
                _ => *len,
            })
            .collect();
        if shape != variable.grid.shape && !variable.is_bare_dimension() {
            grow(variable, shape)?;
        }
    }
    Ok(())
}

/// Makes a chunked variable as long as `shape`; its chunks keep their places.
fn grow(variable: &mut Variable, shape: Vec<u64>) -> Result<()> {
    let Extents::Chunks(table) = &variable.extents else { return Ok(()) };
    // What a library reads is as long as the library says, and a shape beyond counting is left as it was.
    let len = shape.iter().try_fold(variable.dtype.stored_len() as u64, |len, n| len.checked_mul(*n));
    if variable.unknown_filter().is_some() || len.is_none_or(|len| len == u64::MAX) {
        return Ok(());
    }
    let grid = Grid { shape, chunk: variable.grid.chunk.clone() };
    let moved = |(number, extent)| Some((grid.chunk_number(&variable.grid.chunk_at(number))?, extent));
    let table = ChunkTable::new(table.iter().filter_map(moved).collect(), grid.chunk_count())?;
    variable.extents = Extents::Chunks(table);
    variable.grid = grid;
    Ok(())
}

fn is_netcdf4(container: &Container) -> bool {
    let is_of_netcdf = |attribute: &Attribute| is_netcdf_attribute(&attribute.name);
    let root = container.groups.iter().find(|group| group.name.is_empty());
    root.is_some_and(|root| root.attributes.iter().any(is_of_netcdf))
        || container
            .variables
            .iter()
            .any(|variable| variable.is_bare_dimension() || variable.attributes.iter().any(is_of_netcdf))
}

fn is_scale(variable: &Variable) -> bool {
    says_scale(variable.attribute("CLASS"))
}

fn own_number(variable: &Variable) -> Option<(i64, String)> {
    if !is_scale(variable) {
        return None;
    }
    let number = *integers(variable.attribute(OWN_NUMBER)?).first()?;
    Some((number, variable.name.clone()))
}

/// The values of an attribute of 32-bit integers, which is how NetCDF-4 writes its numbers.
fn integers(array: &Array) -> Vec<i64> {
    let Values::Fixed(bytes) = &array.values else { return Vec::new() };
    if array.dtype.native_len() != 4 {
        return Vec::new();
    }
    bytes.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes).into()).collect()
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
