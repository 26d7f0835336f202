//! Boxes that go on from file to file: which rows they may have, and where the axis has a gap.

use std::{ops::Range, sync::Arc};

use forebay_container::{
    Scalar, Selection,
    gaps::stretches,
    repeated::RepeatedAxis,
    sample_index::{Bounds, SampleIndex},
    series::{SeriesPart, SeriesWindows, WindowShape},
    unpack::{Unpack, UnpackKind, unpack},
    window_axis::WindowAxis,
};
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::{
        boundary::{BoundsCache, IndexRequest},
        column::ColumnPart,
        ride::Leading,
    },
    spec::{AxisName, FieldSpec, FilesAxis, SeriesSpec},
};

/// Gives `parts` of `field` the boxes of `series`; a field that lacks axes of `leading` has its boxes as often as that.
pub(crate) fn cut(
    field: &FieldSpec,
    series: &SeriesSpec,
    parts: &mut [ColumnPart],
    cache: &mut BoundsCache,
    leading: Option<&Leading<'_>>,
) -> Result<()> {
    let first = &parts[0];
    let request = IndexRequest { field, file: 0, opened: &first.opened, variable: first.variable() };
    let axes = series_axes(&request, series).map_err(|error| first.named(error))?;
    let (along, inner) = (axes[0], &axes[1..]);
    let shape = &first.variable().grid.shape;
    if let Some(other) = parts.iter().find(|part| part.variable().grid.shape[1..] != shape[1..]) {
        let what = format!(
            "is of shape {:?}, in the first file {shape:?}: only axis 0 may differ",
            other.variable().grid.shape
        );
        return Err(other.named(Error::new(ErrorKind::Invalid, what)));
    }
    let has_whole_rows = inner
        .iter()
        .zip(&shape[1..])
        .all(|(axis, len)| axis.count == 1 && axis.step == 1 && axis.size == *len);
    let (rows, reach) = window_rows(series, along).map_err(|error| first.named(error))?;
    let (mut inner, mut each) = RepeatedAxis::all(inner);
    if let Some(leading) = leading {
        each = leading.each;
        let names = &first.variable().dimensions;
        for (axis, name) in inner.iter_mut().zip(names.iter().skip(1)) {
            axis.every = leading.axis(name).map_or(1, |axis| axis.every);
        }
    }
    let file_rows: Vec<u64> = parts.iter().map(|part| part.variable().grid.shape[0]).collect();
    let stretches = match &series.files {
        Some(files) => joined(field, files, parts, &file_rows, cache)?,
        None => ranges(&file_rows),
    };
    let wanted = WindowShape { rows, reach, stride: along.stride, inner, each, has_whole_rows };
    let windows = SeriesWindows::new(wanted, &file_rows, &stretches)
        .ok_or_else(|| Error::new(ErrorKind::Invalid, "more samples than can be counted"))?;
    if windows.sample_count() == 0 {
        let longest = stretches.iter().map(|rows| rows.end - rows.start).max().unwrap_or(0);
        let what = format!(
            "a window with its targets takes {reach} rows, and no more than {longest} follow each other"
        );
        let error = Error::new(ErrorKind::Invalid, what);
        let remedy = match &series.files {
            None => "take shorter ones, or let them go on from file to file: files_axis=",
            Some(files) if !files.crosses_gaps => "take shorter ones, or let them cross gaps: gaps=\"cross\"",
            Some(_) => "take shorter ones",
        };
        return Err(parts[0].named(error.hint(remedy)));
    }
    let windows = Arc::new(windows);
    for (file, part) in parts.iter_mut().enumerate() {
        part.index = SampleIndex::Series(SeriesPart::new(Arc::clone(&windows), file));
    }
    Ok(())
}

/// How boxes lie along each axis; along axis 0 it is not yet known how many there are.
fn series_axes(request: &IndexRequest<'_>, series: &SeriesSpec) -> Result<Vec<WindowAxis>> {
    let axes = request.window_axes(&series.size, &series.stride, &series.step, Some(0))?;
    let is_first = |axis: &AxisName| request.axis(axis).map(|at| at == 0);
    let mut is_sized = false;
    for sized in &series.size {
        is_sized |= is_first(&sized.axis)?;
    }
    if !is_sized {
        return Err(Error::new(ErrorKind::Invalid, "windows have no size along axis 0").hint("give it"));
    }
    if let Some(files) = &series.files
        && !is_first(&files.axis)?
    {
        let what = format!("files_axis={} is not its first axis", say(&files.axis));
        return Err(Error::new(ErrorKind::Unsupported, what)
            .hint("files can follow each other along the first axis of every field alone"));
    }
    if let Some(leads) = &series.targets
        && !is_first(&leads.axis)?
    {
        let what = format!("targets along {}, which is not its first axis", say(&leads.axis));
        return Err(Error::new(ErrorKind::Unsupported, what).hint("lead times count along the first axis"));
    }
    Ok(axes)
}

fn say(axis: &AxisName) -> String {
    match axis {
        AxisName::Index(index) => index.to_string(),
        AxisName::Name(name) => format!("'{name}'"),
    }
}

/// The rows of a box, or of what follows it, and how many rows both take.
fn window_rows(series: &SeriesSpec, along: WindowAxis) -> Result<(Vec<u64>, u64)> {
    let last = along.size.saturating_sub(1).saturating_mul(along.step);
    let boxed = (0..along.size).map(|at| at * along.step).collect();
    let Some(leads) = &series.targets else { return Ok((boxed, last + 1)) };
    if !leads.after.is_sorted_by(|one, next| one < next) || leads.after.is_empty() {
        let what = format!("lead times {:?}", leads.after);
        return Err(Error::new(ErrorKind::Invalid, what).hint("name each once, in rising order"));
    }
    let targets: Vec<u64> = leads.after.iter().map(|lead| last.saturating_add(*lead)).collect();
    let reach = targets.last().copied().unwrap_or(0).max(last).saturating_add(1);
    Ok((if series.is_target { targets } else { boxed }, reach))
}

/// The rows of each file, counted over all.
fn ranges(file_rows: &[u64]) -> Vec<Range<u64>> {
    let mut end = 0u64;
    let next = |rows: &u64| {
        let start = end;
        end = end.saturating_add(*rows);
        start..end
    };
    file_rows.iter().map(next).collect()
}

/// The stretches without a gap of files that follow each other.
fn joined(
    field: &FieldSpec,
    files: &FilesAxis,
    parts: &[ColumnPart],
    file_rows: &[u64],
    cache: &mut BoundsCache,
) -> Result<Vec<Range<u64>>> {
    let total = file_rows.iter().fold(0u64, |sum, rows| sum.saturating_add(*rows));
    let name = match &files.axis {
        AxisName::Name(name) => Some(name.as_str()),
        AxisName::Index(_) => parts[0].variable().dimensions.first().map(String::as_str),
    };
    let Some(name) = name.filter(|name| !name.is_empty() && !files.crosses_gaps) else {
        return Ok(std::iter::once(0..total).collect());
    };
    let group = parts[0].variable().name.rsplit_once('/').map_or("", |(group, _)| group);
    // Several fields have one axis, whose values are read once.
    let key = (field.files, usize::MAX, format!("g{group}\0{name}"), total);
    if let Some(known) = cache.get(&key) {
        return Ok(known.ranges());
    }
    let stretches = without_gaps(name, group, parts, file_rows)?;
    let pairs = stretches.iter().map(|range| [range.start, range.end]).collect();
    cache.insert(key, Arc::new(Bounds::pairs(pairs, total)?));
    Ok(stretches)
}

/// The stretches of the coordinate `name` without a gap: all of it where some file has no such coordinate.
fn without_gaps(name: &str, group: &str, parts: &[ColumnPart], file_rows: &[u64]) -> Result<Vec<Range<u64>>> {
    let total: u64 = file_rows.iter().sum();
    let mut values = Vec::new();
    for (part, rows) in parts.iter().zip(file_rows).filter(|(_, rows)| **rows > 0) {
        let Some(own) = coordinate(name, group, part, *rows)? else {
            return Ok(std::iter::once(0..total).collect());
        };
        values.extend(own);
    }
    let borders = ranges(file_rows);
    stretches(&values, &borders).map_err(|file| {
        let what = format!("'{name}' goes back where this file follows the one before it");
        parts[file].named(Error::new(ErrorKind::Invalid, what).hint(format!(
            "list the files in the order of '{name}', each row once, or take them as they come: gaps=\"cross\""
        )))
    })
}

/// The values of the coordinate `name` of the file of `part`, times as days; nothing where it has none of so many rows.
fn coordinate(name: &str, group: &str, part: &ColumnPart, rows: u64) -> Result<Option<Vec<f64>>> {
    let container = part.opened.container();
    let beside = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
    let place = |name: &str| container.variables.binary_search_by(|one| one.name.as_str().cmp(name));
    let Ok(at) = place(&beside).or_else(|_| place(name)) else { return Ok(None) };
    let variable = &container.variables[at];
    if variable.grid.shape != [rows] || variable.dtype.number().is_none() || variable.is_bare_dimension() {
        return Ok(None);
    }
    let array = part.opened.read(variable, &Selection::all(&variable.grid.shape))?;
    let days = Unpack { kind: UnpackKind::Days, valid: false };
    // Units of time that are not understood leave the numbers as they are.
    let array = unpack(variable, array.clone(), days).map_or(array, |unpacked| unpacked.array);
    Ok(array.scalars().map(|scalars| scalars.into_iter().map(Scalar::to_f64).collect()))
}
