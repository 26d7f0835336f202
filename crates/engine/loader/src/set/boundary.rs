//! From what the user calls a sample to an index of each file's samples.

use std::{collections::HashMap, sync::Arc};

use forebay_container::{
    Selection, Values, Variable,
    cast::to_unsigned,
    sample_index::{Bounds, Corners, SampleIndex, Windows},
    window_axis::WindowAxis,
};
use forebay_format::Opened;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::column::{ColumnPart, SampleForm, named},
    spec::{AxisLen, AxisName, Boundary, Centres, FieldSpec, Offsets},
};

/// Offset tables that were read already: several fields may share one.
pub(crate) type BoundsCache = HashMap<(usize, usize, String, u64), Arc<Bounds>>;

/// A field's variable in one file, whose samples are asked for.
#[derive(Debug)]
pub(crate) struct IndexRequest<'a> {
    pub(crate) field: &'a FieldSpec,
    /// Position in the field's list of files.
    pub(crate) file: usize,
    pub(crate) opened: &'a Opened,
    pub(crate) variable: &'a Variable,
}

impl IndexRequest<'_> {
    /// Which elements of the variable are which sample, as `samples` say.
    pub(crate) fn index(&self, samples: &Boundary, cache: &mut BoundsCache) -> Result<SampleIndex> {
        let shape = &self.variable.grid.shape;
        match samples {
            Boundary::Fixed { rows } => {
                Ok(SampleIndex::Rows { rows: *rows, count: sample_count(*rows, shape[0])? })
            }
            Boundary::GroupRows { .. } => Ok(SampleIndex::Rows { rows: 1, count: shape[0] }),
            Boundary::Along { axis, rows } => {
                let axis = self.axis(axis)?;
                let count = sample_count(*rows, shape[axis])?;
                match axis {
                    // Rows of axis 0 lie together: that is known to be so, and made use of.
                    0 => Ok(SampleIndex::Rows { rows: *rows, count }),
                    axis => Ok(SampleIndex::Slabs { axis, rows: *rows, count }),
                }
            }
            // Boxes that go on from file to file, and what is the same for all samples, are cut once all files are known.
            Boundary::Whole | Boundary::Groups { .. } | Boundary::Series(_) | Boundary::Constant => {
                Ok(SampleIndex::Whole)
            }
            Boundary::Ragged { offsets, axis: 0 } if self.is_of_one_length(offsets) => {
                Ok(SampleIndex::Rows { rows: 1, count: shape.first().copied().unwrap_or(0) })
            }
            Boundary::Ragged { offsets, axis } => {
                let Some(limit) = shape.get(*axis) else {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!("no axis {axis} among {}", shape.len()),
                    ));
                };
                Ok(SampleIndex::Ragged { axis: *axis, bounds: self.bounds(offsets, *limit, cache)? })
            }
            Boundary::Windows { size, stride, step } => self.windows(size, stride, step),
            Boundary::Centres { at, size } => self.centres(at, size),
        }
    }

    /// True when formats would have written `offsets` beside the variable if its samples differed in length, and did
    /// not: another shard may have them.
    fn is_of_one_length(&self, offsets: &Offsets) -> bool {
        let Offsets::Variable(name) = offsets else { return false };
        let own = offsets_name(self.variable);
        name.trim_matches('/') == own && !self.variable.grid.shape.is_empty() && !has(self.opened, &own)
    }

    fn bounds(&self, offsets: &Offsets, limit: u64, cache: &mut BoundsCache) -> Result<Arc<Bounds>> {
        let key = match offsets {
            Offsets::Variable(name) => format!("v{name}"),
            Offsets::BeginEnd(begin, end) => format!("b{begin}\0{end}"),
            Offsets::Lengths(name) => format!("l{name}"),
            Offsets::Listed(_) | Offsets::ListedInOneFile(_) => {
                return self.read_bounds(offsets, limit).map(Arc::new);
            }
        };
        let key = (self.field.files, self.file, key, limit);
        if let Some(known) = cache.get(&key) {
            return Ok(Arc::clone(known));
        }
        let named = |error: Error| match offsets {
            Offsets::Variable(name) | Offsets::Lengths(name) => error.at(format!("offsets '{name}'")),
            Offsets::BeginEnd(begin, end) => error.at(format!("offsets '{begin}', '{end}'")),
            Offsets::Listed(_) | Offsets::ListedInOneFile(_) => error,
        };
        let bounds = Arc::new(self.read_bounds(offsets, limit).map_err(named)?);
        cache.insert(key, Arc::clone(&bounds));
        Ok(bounds)
    }

    fn read_bounds(&self, offsets: &Offsets, limit: u64) -> Result<Bounds> {
        match offsets {
            Offsets::Variable(name) => match integers(self.opened, name)? {
                (shape, table) if shape.len() == 1 => Bounds::offsets(table, limit),
                (shape, table) if shape.len() == 2 && shape[1] == 2 => {
                    Bounds::pairs(table.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect(), limit)
                }
                (shape, _) => {
                    let what = format!("offsets '{name}' of shape {shape:?}");
                    Err(Error::new(ErrorKind::Invalid, what)
                        .hint("n + 1 offsets, or n pairs of begin and end"))
                }
            },
            Offsets::BeginEnd(begin, end) => {
                let (begins, ends) = (integers(self.opened, begin)?.1, integers(self.opened, end)?.1);
                if begins.len() != ends.len() {
                    let what = format!("{} begins and {} ends", begins.len(), ends.len());
                    return Err(Error::new(ErrorKind::Invalid, what));
                }
                Bounds::pairs(begins.into_iter().zip(ends).map(|(begin, end)| [begin, end]).collect(), limit)
            }
            Offsets::Lengths(name) => {
                let (_, lengths) = integers(self.opened, name)?;
                let mut table = Vec::with_capacity(lengths.len() + 1);
                table.push(0u64);
                let mut end = 0u64;
                for len in lengths {
                    end = end.saturating_add(len);
                    table.push(end);
                }
                Bounds::offsets(table, limit)
            }
            Offsets::Listed(list) => {
                let own = list.iter().filter(|[file, ..]| *file == self.file as u64);
                Bounds::pairs(own.map(|[_, begin, end]| [*begin, *end]).collect(), limit)
            }
            Offsets::ListedInOneFile(list) => Bounds::pairs(list.clone(), limit),
        }
    }

    /// The position of the axis `name`: by number, or by what the format calls it.
    pub(crate) fn axis(&self, name: &AxisName) -> Result<usize> {
        let ndim = self.variable.grid.shape.len();
        match name {
            AxisName::Index(index) if *index < ndim => Ok(*index),
            AxisName::Index(index) => {
                Err(Error::new(ErrorKind::Invalid, format!("no axis {index} among {ndim}")))
            }
            AxisName::Name(name) => {
                let labels = &self.variable.dimensions;
                labels.iter().position(|label| label == name).ok_or_else(|| {
                    let error = Error::new(ErrorKind::Invalid, format!("no axis called '{name}'"));
                    if labels.iter().all(String::is_empty) {
                        return error.hint("its axes have no names: give their positions");
                    }
                    error.hint(format!("its axes are called {}", labels.join(", ")))
                })
            }
        }
    }

    /// The length along each axis: what `given` says, or else `default`.
    fn lens(&self, given: &[AxisLen], default: &[u64]) -> Result<Vec<u64>> {
        let mut lens = default.to_vec();
        for AxisLen { axis, len } in given {
            if *len == 0 {
                return Err(Error::new(ErrorKind::Invalid, "a length of 0 along an axis"));
            }
            lens[self.axis(axis)?] = *len;
        }
        Ok(lens)
    }

    fn windows(&self, size: &[AxisLen], stride: &[AxisLen], step: &[AxisLen]) -> Result<SampleIndex> {
        Ok(SampleIndex::Windows(Windows { axes: self.window_axes(size, stride, step, None)? }))
    }

    /// How boxes lie along each axis; along `open`, whose length is not known here, there are none yet.
    pub(crate) fn window_axes(
        &self,
        size: &[AxisLen],
        stride: &[AxisLen],
        step: &[AxisLen],
        open: Option<usize>,
    ) -> Result<Vec<WindowAxis>> {
        let shape = &self.variable.grid.shape;
        let sizes = self.lens(size, shape)?;
        let steps = self.lens(step, &vec![1; shape.len()])?;
        let reaches: Vec<u64> = sizes
            .iter()
            .zip(&steps)
            .map(|(size, step)| size.saturating_sub(1).saturating_mul(*step).saturating_add(1))
            .collect();
        let strides = self.lens(stride, &reaches)?;
        for AxisLen { axis, .. } in stride.iter().chain(step) {
            let at = self.axis(axis)?;
            if !size.iter().any(|sized| self.axis(&sized.axis).is_ok_and(|sized| sized == at)) {
                let what = format!("axis {at} has a stride or a step, and windows have no size along it");
                return Err(Error::new(ErrorKind::Invalid, what).hint("give its size too"));
            }
        }
        let mut axes: Vec<WindowAxis> = shape.iter().map(|len| WindowAxis::whole(*len)).collect();
        for AxisLen { axis, .. } in size {
            let at = self.axis(axis)?;
            if open == Some(at) {
                axes[at] = WindowAxis { size: sizes[at], step: steps[at], stride: strides[at], count: 0 };
                continue;
            }
            if reaches[at] > shape[at] {
                let what = format!(
                    "windows reach over {} elements of axis {at}, which has {}",
                    reaches[at], shape[at]
                );
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            let count = (shape[at] - reaches[at]) / strides[at] + 1;
            axes[at] = WindowAxis { size: sizes[at], step: steps[at], stride: strides[at], count };
        }
        Ok(axes)
    }

    fn centres(&self, at: &Centres, size: &[AxisLen]) -> Result<SampleIndex> {
        let shape = &self.variable.grid.shape;
        let sizes = self.lens(size, shape)?;
        let axes = size.iter().map(|len| self.axis(&len.axis)).collect::<Result<Vec<_>>>()?;
        let centres: Vec<Vec<u64>> = match at {
            Centres::Variable(name) => {
                let (table_shape, table) = integers(self.opened, name)?;
                if table_shape.len() != 2 || table_shape[1] != axes.len() as u64 || axes.is_empty() {
                    let what = format!(
                        "centres '{name}' of shape {table_shape:?} for windows over {} axes",
                        axes.len()
                    );
                    return Err(Error::new(ErrorKind::Invalid, what));
                }
                table.chunks_exact(axes.len()).map(<[u64]>::to_vec).collect()
            }
            Centres::Listed(list) => {
                let own = list.iter().filter(|row| row.first() == Some(&(self.file as u64)));
                own.map(|row| row[1..].to_vec()).collect()
            }
            Centres::ListedInOneFile(list) => list.clone(),
        };
        let mut corners = Vec::with_capacity(centres.len());
        for (number, centre) in centres.iter().enumerate() {
            if centre.len() != axes.len() {
                let what = format!("centre {number} has {} numbers for {} axes", centre.len(), axes.len());
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            let mut corner = vec![0; shape.len()];
            for (axis, middle) in axes.iter().zip(centre) {
                let start = middle.checked_sub(sizes[*axis] / 2);
                let fits = |start: &u64| start.saturating_add(sizes[*axis]) <= shape[*axis];
                corner[*axis] = start.filter(fits).ok_or_else(|| {
                    let what = format!(
                        "a box of {} around index {middle} of axis {axis}, which has {}",
                        sizes[*axis], shape[*axis]
                    );
                    Error::new(ErrorKind::Invalid, what).at(format!("centre {number}"))
                })?;
            }
            corners.push(corner);
        }
        Ok(SampleIndex::Corners(Arc::new(Corners { corners, size: sizes })))
    }
}

/// How many samples of so many rows there are in `row_count`.
fn sample_count(rows: u64, row_count: u64) -> Result<u64> {
    if rows == 0 {
        return Err(Error::new(ErrorKind::Invalid, "samples of 0 rows"));
    }
    if !row_count.is_multiple_of(rows) {
        let what = format!("{row_count} rows are no whole number of samples of {rows}");
        return Err(Error::new(ErrorKind::Invalid, what)
            .hint("take another length, or Windows, which leave a rest out"));
    }
    Ok(row_count / rows)
}

/// How the samples of all files stand in a batch: they must agree.
pub(crate) fn form(boundary: &Boundary, parts: &[ColumnPart]) -> Result<SampleForm> {
    check_offsets(boundary, parts)?;
    let first = part_form(boundary, &parts[0]);
    let is_whole = *boundary == Boundary::Whole || boundary.groups().is_some();
    for part in &parts[1..] {
        let own = part_form(boundary, part);
        if own == first {
            continue;
        }
        // Whole files of different lengths are joined; all else must be equal.
        if let (true, SampleForm::Stacked { shape: one }, SampleForm::Stacked { shape: other }) =
            (is_whole, &first, &own)
            && !one.is_empty()
            && one.len() == other.len()
            && one[1..] == other[1..]
        {
            continue;
        }
        let error = Error::new(
            ErrorKind::Invalid,
            format!("samples {}, in the first file {}", say(&own), say(&first)),
        );
        return Err(part.named(error));
    }
    if let (true, SampleForm::Stacked { shape }) = (is_whole, &first)
        && parts.iter().any(|part| part_form(boundary, part) != first)
    {
        return Ok(SampleForm::Joined { axis: 0, shape: shape.clone() });
    }
    Ok(first)
}

/// Refuses rows of files of which some have samples of one length and others have them flat, with offsets.
fn check_offsets(boundary: &Boundary, parts: &[ColumnPart]) -> Result<()> {
    if matches!(boundary, Boundary::Ragged { .. }) {
        return Ok(());
    }
    let is_flat = |part: &ColumnPart| has(&part.opened, &offsets_name(part.variable()));
    let first = is_flat(&parts[0]);
    let Some(other) = parts[1..].iter().find(|part| is_flat(part) != first) else { return Ok(()) };
    let say = |is_flat| if is_flat { "differ in length" } else { "are of one length" };
    let what = format!("samples {}, those of the first file {}", say(!first), say(first));
    let remedy = format!("Ragged(offsets=\"{}\") takes both", offsets_name(other.variable()));
    Err(other.named(Error::new(ErrorKind::Invalid, what).hint(remedy)))
}

/// What formats call the offsets of samples that lie flat in `variable`.
fn offsets_name(variable: &Variable) -> String {
    format!("{}@offsets", variable.name)
}

fn has(opened: &Opened, name: &str) -> bool {
    opened.container().variables.binary_search_by(|variable| variable.name.as_str().cmp(name)).is_ok()
}

fn part_form(boundary: &Boundary, part: &ColumnPart) -> SampleForm {
    let shape = &part.variable().grid.shape;
    match (&part.index, boundary) {
        // Samples of one length among others that lie flat.
        (SampleIndex::Rows { .. }, Boundary::Ragged { .. }) => SampleForm::Joined { axis: 0, shape: vec![0] },
        (SampleIndex::Rows { rows: 1, .. }, _) => SampleForm::Stacked { shape: shape[1..].to_vec() },
        (SampleIndex::Rows { rows, .. }, _) => {
            SampleForm::Stacked { shape: std::iter::once(*rows).chain(shape[1..].iter().copied()).collect() }
        }
        (SampleIndex::Slabs { axis, rows, .. }, _) => {
            let mut shape = shape.clone();
            match rows {
                1 => drop(shape.remove(*axis)),
                rows => shape[*axis] = *rows,
            }
            SampleForm::Stacked { shape }
        }
        (SampleIndex::Ragged { axis, .. }, _) => {
            let mut shape = shape.clone();
            shape[*axis] = 0;
            SampleForm::Joined { axis: *axis, shape }
        }
        (SampleIndex::Whole, _) => SampleForm::Stacked { shape: shape.clone() },
        (SampleIndex::Windows(windows), _) => {
            SampleForm::Stacked { shape: windows.axes.iter().map(|axis| axis.size).collect() }
        }
        (SampleIndex::Corners(corners), _) => SampleForm::Stacked { shape: corners.size.clone() },
        (SampleIndex::Series(part), _) => SampleForm::Stacked { shape: part.windows().sample_shape() },
        (SampleIndex::Repeated(repeated), _) => {
            SampleForm::Stacked { shape: repeated.axes.iter().map(|axis| axis.window.size).collect() }
        }
    }
}

fn say(form: &SampleForm) -> String {
    match form {
        SampleForm::Stacked { shape } => format!("are of shape {shape:?}"),
        SampleForm::Joined { axis, shape } => format!("are of shape {shape:?}, but for axis {axis}"),
    }
}

/// The integers of the whole of `name`, with its shape.
fn integers(opened: &Opened, name: &str) -> Result<(Vec<u64>, Vec<u64>)> {
    let variable = opened.variable(name)?;
    let named = |error: Error| named(opened, variable, error);
    let array = opened.read(variable, &Selection::all(&variable.grid.shape))?;
    let number = array.dtype.number();
    let (Some(number), Values::Fixed(bytes)) = (number, &array.values) else {
        return Err(named(Error::new(ErrorKind::Invalid, format!("holds {}, not integers", array.dtype))));
    };
    let values = to_unsigned(number, bytes)
        .ok_or_else(|| named(Error::new(ErrorKind::Invalid, "not whole numbers from 0 up")))?;
    Ok((array.shape, values))
}
