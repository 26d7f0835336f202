//! Fields that lack the axis samples are cut along, such as a map or a mask: they come with every sample.

use std::sync::Arc;

use forebay_container::{
    Variable,
    repeated::{RepeatedAxis, RepeatedBox},
    sample_index::SampleIndex,
    window_axis::WindowAxis,
};
use forebay_format::Opened;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::column::{Column, ColumnPart},
    spec::{AxisName, Boundary, FieldSpec, SeriesSpec},
};

/// The field by which samples are counted.
#[derive(Debug)]
pub(crate) struct Leading<'a> {
    column: &'a Column,
    /// How its boxes lie along each axis.
    axes: Vec<RepeatedAxis>,
    /// Samples of one window along axis 0.
    pub(crate) each: u64,
}

impl<'a> Leading<'a> {
    pub(crate) fn of(column: &'a Column) -> Self {
        let (axes, each) = match column.parts.first().map(|part| &part.index) {
            Some(SampleIndex::Windows(windows)) => {
                let (axes, _) = RepeatedAxis::all(&windows.axes);
                let each = axes.first().map_or(1, |first| first.every);
                (axes, each)
            }
            Some(SampleIndex::Series(part)) => {
                let windows = part.windows();
                // Nothing that is the same for all samples has the axis that goes on from file to file.
                let first = RepeatedAxis { window: WindowAxis::whole(1), every: windows.each() };
                (std::iter::once(first).chain(windows.inner().iter().copied()).collect(), windows.each())
            }
            _ => (Vec::new(), 1),
        };
        Self { column, axes, each }
    }

    fn dimensions(&self) -> &[String] {
        self.column.parts.first().map_or(&[], |part| &part.variable().dimensions)
    }

    /// How boxes lie along the axis `name`, where it is not the first.
    pub(crate) fn axis(&self, name: &str) -> Option<RepeatedAxis> {
        let at = self.dimensions().iter().position(|own| own == name && !own.is_empty())?;
        self.axes.get(at).copied().filter(|_| at > 0)
    }

    /// How long the axis `name` is.
    fn len_of(&self, name: &str) -> Option<u64> {
        let at = self.dimensions().iter().position(|own| own == name)?;
        self.column.parts.first()?.variable().grid.shape.get(at).copied()
    }
}

/// True when the variable of `field` lacks some axis that its samples are cut along, or is to come with every sample as it is.
pub(crate) fn rides(field: &FieldSpec, files: &[Arc<Opened>]) -> bool {
    if field.samples == Boundary::Constant {
        return true;
    }
    let names = named_axes(&field.samples);
    if names.is_empty() {
        return false;
    }
    found(&field.variable, files).is_some_and(|variable| names.iter().any(|name| lacks(variable, name)))
}

/// True when `field` is all of a member of groups of which other `fields` have a sample for each row: it comes with every row.
pub(crate) fn rides_in_groups(field: &FieldSpec, fields: &[FieldSpec]) -> bool {
    let Boundary::Groups { pattern } = &field.samples else { return false };
    fields
        .iter()
        .any(|other| matches!(&other.samples, Boundary::GroupRows { pattern: own } if own == pattern))
}

/// Refuses members of one group that have different numbers of rows.
pub(crate) fn check_groups<'a>(columns: impl Iterator<Item = &'a Column>) -> Result<()> {
    let mut grouped = columns.filter(|column| column.is_grouped);
    let Some(first) = grouped.next() else { return Ok(()) };
    for (one, other) in grouped.flat_map(|column| first.parts.iter().zip(&column.parts)) {
        if one.index.count() != other.index.count() {
            let what =
                format!("has {} rows, '{}' {}", other.index.count(), one.variable().name, one.index.count());
            let error = Error::new(ErrorKind::Invalid, what);
            return Err(other.named(error.hint("a member without that axis takes samples=Groups(pattern)")));
        }
    }
    Ok(())
}

/// Makes each of `parts` come with every row of its group.
pub(crate) fn repeat_groups(parts: &mut [ColumnPart], leading: &Leading<'_>) -> Result<()> {
    if !leading.column.is_grouped || leading.column.parts.len() != parts.len() {
        let what = format!("comes with rows of groups, and field '{}' has others", leading.column.name);
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    for (part, own) in parts.iter_mut().zip(&leading.column.parts) {
        let whole = RepeatedBox::whole(&part.variable().grid.shape, own.index.count());
        part.index = SampleIndex::Repeated(Arc::new(whole));
    }
    Ok(())
}

/// The variable `name` of the first file that has it.
fn found<'a>(name: &str, files: &'a [Arc<Opened>]) -> Option<&'a Variable> {
    files.iter().find_map(|opened| opened.container().variable(name).ok())
}

/// `fields` without the targets of those that lack the axis along which targets lie, and so have none. One that is asked for
/// by itself stays.
pub(crate) fn without_idle_targets(fields: Vec<FieldSpec>, files: &[Vec<Arc<Opened>>]) -> Vec<FieldSpec> {
    let is_idle = |field: &FieldSpec| {
        let Boundary::Series(SeriesSpec { targets: Some(leads), is_target: true, .. }) = &field.samples
        else {
            return false;
        };
        let AxisName::Name(axis) = &leads.axis else { return false };
        let is_second = |other: &FieldSpec| {
            other.variable == field.variable && format!("{}_target", other.name) == field.name
        };
        let variable = files.get(field.files).and_then(|list| found(&field.variable, list));
        fields.iter().any(is_second) && variable.is_some_and(|variable| lacks(variable, axis))
    };
    let idle: Vec<bool> = fields.iter().map(is_idle).collect();
    fields.into_iter().zip(idle).filter(|(_, idle)| !idle).map(|(field, _)| field).collect()
}

/// The axes that samples are cut along, by name.
fn named_axes(samples: &Boundary) -> Vec<&str> {
    fn by_name(axis: &AxisName) -> Option<&str> {
        match axis {
            AxisName::Name(name) => Some(name),
            AxisName::Index(_) => None,
        }
    }
    match samples {
        Boundary::Along { axis, .. } => by_name(axis).into_iter().collect(),
        Boundary::Windows { size, .. } | Boundary::Series(SeriesSpec { size, .. }) => {
            size.iter().filter_map(|sized| by_name(&sized.axis)).collect()
        }
        _ => Vec::new(),
    }
}

/// True when the axes of `variable` have names, and none is `name`.
fn lacks(variable: &Variable, name: &str) -> bool {
    let has_names = variable.dimensions.iter().any(|own| !own.is_empty());
    (has_names || variable.grid.shape.is_empty()) && !variable.dimensions.iter().any(|own| own == name)
}

/// What a field that rides along is cut by: the axes it has.
pub(crate) fn own_boundary(field: &FieldSpec, leading: &Leading<'_>, files: &[Arc<Opened>]) -> Boundary {
    if field.samples.groups().is_some() {
        return field.samples.clone();
    }
    let (Some(variable), Some(first)) = (found(&field.variable, files), leading.dimensions().first()) else {
        return Boundary::Constant;
    };
    let has_first = variable.dimensions.first() == Some(first) && !first.is_empty();
    let mut series = match &field.samples {
        Boundary::Series(series) if has_first => series.clone(),
        Boundary::Windows { size, stride, step } if has_first => SeriesSpec {
            size: size.clone(),
            stride: stride.clone(),
            step: step.clone(),
            files: None,
            targets: None,
            is_target: false,
        },
        _ => return Boundary::Constant,
    };
    for lens in [&mut series.size, &mut series.stride, &mut series.step] {
        lens.retain(|sized| !matches!(&sized.axis, AxisName::Name(name) if lacks(variable, name)));
    }
    Boundary::Series(series)
}

/// Makes `part` one box, or all there is, for each of the samples of `leading`. Boxes are cut where those of `leading` are, if
/// `field` is to be cut at all.
pub(crate) fn repeat(field: &FieldSpec, part: &mut ColumnPart, leading: &Leading<'_>) -> Result<()> {
    let variable = part.variable();
    let is_cut = field.samples != Boundary::Constant;
    let mut axes = Vec::with_capacity(variable.grid.shape.len());
    let mut is_whole = true;
    for (at, len) in variable.grid.shape.iter().enumerate() {
        let name = variable.dimensions.get(at).filter(|name| is_cut && !name.is_empty());
        let own = name.and_then(|name| leading.axis(name));
        let Some(axis) = own.filter(|axis| axis.window.count > 1 || axis.window.size != *len) else {
            axes.push(RepeatedAxis { window: WindowAxis::whole(*len), every: 1 });
            continue;
        };
        if leading.len_of(name.map_or("", String::as_str)) != Some(*len) {
            let what = format!("axis {at} is {len} long, and another in field '{}'", leading.column.name);
            return Err(
                part.named(Error::new(ErrorKind::Invalid, what).hint("take all of it: samples=Constant()"))
            );
        }
        is_whole = false;
        axes.push(axis);
    }
    let count = leading.column.len();
    part.index = SampleIndex::Repeated(Arc::new(RepeatedBox { count, axes, is_whole }));
    Ok(())
}
