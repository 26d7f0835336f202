//! Which variables go on from file to file, and whether all files agree on them.

use std::collections::HashMap;

use forebay_container::{
    Array, Container, Refused, Selection, SlabSizes, Variable, cf::TimeUnits, native, slabs,
};
use forebay_format::Opened;
use forebay_loader::AxisName;
use forebay_process::{Error, ErrorKind, Result};

use super::{
    joined_variable::{JoinedVariable, own, place},
    time_shift::TimeShift,
};

/// Attributes by which stored numbers become values: rows of one variable have these in common.
const PACKING: [&str; 8] =
    ["scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "calendar", "units", "dtype"];

/// What is compared at once of variables that are to be the same in all files.
const COMPARED_BYTES: u64 = 16 << 20;

/// How files are joined.
pub(super) struct JoinPlan<'a> {
    files: &'a [Opened],
    /// The stored names of the variables that are joined; nothing else is looked at.
    chosen: Vec<String>,
    /// Variables that only files after the first have, and that nobody asked for.
    of_later_files: Vec<Refused>,
    axis: AxisName,
    /// Rows of the largest of them in each file, by which an axis without a name is known.
    most_rows: Vec<u64>,
}

impl<'a> JoinPlan<'a> {
    /// How the variables `names`, or all that are `wanted`, go on along `axis`.
    pub(super) fn new(
        files: &'a [Opened],
        axis: Option<&AxisName>,
        names: &[String],
        wanted: &dyn Fn(&Variable) -> bool,
    ) -> Result<Self> {
        let first = files[0].container();
        let (chosen, of_later_files) = match names {
            [] => {
                let chosen = first.listed().filter(|one| wanted(one)).map(|one| one.name.clone()).collect();
                (chosen, of_later_files(files, wanted)?)
            }
            names => {
                let found = names.iter().map(|name| first.variable(name).map(|one| one.name.clone()));
                let found = found.collect::<Result<Vec<_>>>();
                (found.map_err(|error| at_file(&files[0], error))?, Vec::new())
            }
        };
        let own_of = |file: &'a Opened| -> Vec<&'a Variable> {
            // What a file lacks is told when the variable is joined.
            chosen.iter().filter_map(|name| own(file, name).ok()).collect()
        };
        let axis = match axis {
            Some(AxisName::Index(index)) if *index > 0 => {
                let error = Error::new(ErrorKind::Unsupported, format!("files joined along axis {index}"));
                return Err(error.hint("they are joined along the first axis of their variables"));
            }
            Some(axis) => axis.clone(),
            None => usual_axis(&own_of(&files[0]))?,
        };
        let rows = |file: &'a Opened| {
            let variables = own_of(file).into_iter().filter(|variable| !variable.grid.shape.is_empty());
            variables
                .max_by_key(|variable| variable.logical_len())
                .map_or(0, |variable| variable.grid.shape[0])
        };
        let most_rows = files.iter().map(rows).collect();
        Ok(Self { files, chosen, of_later_files, axis, most_rows })
    }

    /// What all files together are, and how their variables go on.
    pub(super) fn join(self) -> Result<(Container, HashMap<String, JoinedVariable>)> {
        let mut whole = self.files[0].container().clone();
        let of_first = self.chosen.iter().map(|name| self.begins_with_axis(own(&self.files[0], name)?, 0));
        if !of_first.collect::<Result<Vec<_>>>()?.contains(&true) {
            let what = format!("no variable begins with the axis {}", self.shown());
            let error = Error::new(ErrorKind::NotFound, what).hint("name another with --files-axis");
            return Err(at_file(&self.files[0], error));
        }
        let mut joined = HashMap::new();
        for name in &self.chosen {
            if let Some(one) = self.variable(name)? {
                joined.insert(name.clone(), one);
            }
        }
        self.share_shifts(&mut joined)?;
        whole.refused.extend(self.of_later_files);
        for variable in &mut whole.variables {
            let Some(one) = joined.get(&variable.name) else { continue };
            let rows = one.starts.last().copied().unwrap_or(0);
            variable.grid.shape[0] = rows;
            if let Some(most) = variable.max_shape.first_mut() {
                *most = most.map(|most| most.max(rows));
            }
        }
        Ok((whole, joined))
    }

    /// How the variable `name` goes on; nothing where it lacks the axis, and is the same in all files.
    fn variable(&self, name: &str) -> Result<Option<JoinedVariable>> {
        let first = own(&self.files[0], name)?;
        let is_joined = self.begins_with_axis(first, 0)?;
        let mut one = JoinedVariable { starts: vec![0], shifts: Vec::new() };
        for (number, opened) in self.files.iter().enumerate() {
            let named = |error: Error| place(opened, name, error);
            let variable = own(opened, name).map_err(|error| at_file(opened, error))?;
            if self.begins_with_axis(variable, number)? != is_joined {
                let what = format!("the axis {} is in some files its first, in others not", self.shown());
                return Err(named(Error::new(ErrorKind::Invalid, what)));
            }
            same_form(variable, first, is_joined).map_err(named)?;
            let shift = TimeShift::of(variable, first).map_err(named)?;
            same_packing(variable, first, is_joined).map_err(named)?;
            if !is_joined {
                if number > 0 {
                    self.same_values(opened, variable, first, shift.as_ref())?;
                }
                continue;
            }
            let before = one.starts.last().copied().unwrap_or(0);
            let end = before.checked_add(variable.grid.shape[0]);
            one.starts.push(end.ok_or_else(|| named(Error::corrupt("more rows than can be counted")))?);
            one.shifts.push(shift);
        }
        Ok(is_joined.then_some(one))
    }

    /// Bounds of times, which have no units of their own, are moved as the times are, whether these are chosen or not.
    fn share_shifts(&self, joined: &mut HashMap<String, JoinedVariable>) -> Result<()> {
        for times in self.files[0].container().listed() {
            let group = times.name.rsplit_once('/').map_or(String::new(), |(group, _)| format!("{group}/"));
            let of_times = ["bounds", "climatology"].iter().filter_map(|key| times.text_attribute(key));
            for bounds in of_times.map(|bounds| format!("{group}{bounds}")) {
                let Some(one) = joined.get_mut(&bounds) else { continue };
                if own(&self.files[0], &bounds)?.text_attribute("units").is_none() {
                    one.shifts = self.shifts_of(times)?;
                }
            }
        }
        Ok(())
    }

    /// By how much `times`, a variable of the first file, are moved in each file.
    fn shifts_of(&self, times: &Variable) -> Result<Vec<Option<TimeShift>>> {
        let shifts = self.files.iter().map(|opened| {
            let shift = TimeShift::of(own(opened, &times.name)?, times);
            shift.map_err(|error| place(opened, &times.name, error))
        });
        shifts.collect()
    }

    /// True when `variable` of file `number` goes on from file to file.
    fn begins_with_axis(&self, variable: &Variable, number: usize) -> Result<bool> {
        let AxisName::Name(axis) = &self.axis else {
            return Ok(variable.grid.shape.first() == Some(&self.most_rows[number]));
        };
        let at = variable.dimensions.iter().position(|name| name == axis);
        if at.is_some_and(|at| at > 0) {
            let what = format!("has the axis '{axis}', and not as its first");
            let error = Error::new(ErrorKind::Unsupported, what).hint("name the variables to be joined");
            return Err(place(&self.files[number], &variable.name, error));
        }
        Ok(at.is_some())
    }

    /// Refuses a variable without the axis whose values, its times moved by `shift`, are not those of the first file.
    fn same_values(
        &self,
        opened: &Opened,
        variable: &Variable,
        first: &Variable,
        shift: Option<&TimeShift>,
    ) -> Result<()> {
        let all = Selection::all(&first.grid.shape);
        let sizes = SlabSizes { wanted: COMPARED_BYTES, most: u64::MAX };
        for slab in slabs(first, &all, sizes) {
            let (one, mut other) = (self.files[0].read(first, &slab)?, opened.read(variable, &slab)?);
            let moved = shift.map_or(Ok(()), |shift| shift.apply(&mut other));
            moved.map_err(|error| place(opened, &variable.name, error))?;
            if one.values != other.values {
                let what = format!("lacks the axis {}, and differs from the first file", self.shown());
                let error = Error::new(ErrorKind::Invalid, what).hint("name the variables to be joined");
                return Err(place(opened, &variable.name, error));
            }
        }
        Ok(())
    }

    fn shown(&self) -> String {
        match &self.axis {
            AxisName::Name(name) => format!("'{name}'"),
            AxisName::Index(index) => index.to_string(),
        }
    }
}

/// Variables of files after the first that this lacks: an error where they are `wanted`, and else what is to be told of them.
fn of_later_files(files: &[Opened], wanted: &dyn Fn(&Variable) -> bool) -> Result<Vec<Refused>> {
    let mut found: Vec<Refused> = Vec::new();
    for opened in &files[1..] {
        let container = opened.container();
        let lacks = |name: &str| own(&files[0], name).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        for variable in container.listed().filter(|one| lacks(&one.name)) {
            if wanted(variable) {
                let error = Error::new(ErrorKind::Invalid, "the first file has no such variable");
                let error = error.hint("name the variables to be joined");
                return Err(place(opened, &variable.name, error));
            }
            found.push(Refused {
                name: variable.name.clone(),
                why: "the first file has no such variable".to_owned(),
                corrupt: false,
            });
        }
        found.extend(container.refused.iter().filter(|refused| lacks(&refused.name)).cloned());
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    Ok(found)
}

/// The axis that files of one record go on along: the first axis of `variables` that can grow, or is called `time`; without names,
/// the first.
fn usual_axis(variables: &[&Variable]) -> Result<AxisName> {
    let first_axes = variables.iter().filter_map(|variable| {
        let name = variable.dimensions.first().filter(|name| !name.is_empty())?;
        Some((name.as_str(), variable.max_shape.first() == Some(&None)))
    });
    let first_axes: Vec<(&str, bool)> = first_axes.collect();
    let mut growing: Vec<&str> =
        first_axes.iter().filter(|(_, grows)| *grows).map(|(name, _)| *name).collect();
    growing.sort_unstable();
    growing.dedup();
    if let [name] = growing[..] {
        return Ok(AxisName::Name(name.to_owned()));
    }
    if first_axes.iter().any(|(name, _)| *name == "time") {
        return Ok(AxisName::Name("time".to_owned()));
    }
    if first_axes.is_empty() {
        return Ok(AxisName::Index(0));
    }
    let mut names: Vec<&str> = first_axes.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    let error = Error::new(ErrorKind::Invalid, "along which axis do the files follow each other?");
    Err(error.hint(format!("name it with --files-axis: there are {}", names.join(", "))))
}

/// Refuses another type, or another shape but for the rows that are joined.
fn same_form(variable: &Variable, first: &Variable, is_joined: bool) -> Result<()> {
    let skipped = usize::from(is_joined);
    let shapes = [variable, first].map(|one| one.grid.shape.get(skipped..).unwrap_or_default());
    if native::same_native(&variable.dtype, &first.dtype) && shapes[0] == shapes[1] {
        return Ok(());
    }
    let what = format!(
        "is {} of shape {:?}, in the first file {} of shape {:?}",
        variable.dtype, variable.grid.shape, first.dtype, first.grid.shape
    );
    Err(Error::new(ErrorKind::Invalid, what).hint("name the variables to be joined"))
}

/// Refuses numbers that stand for other values than those of the first file.
fn same_packing(variable: &Variable, first: &Variable, is_joined: bool) -> Result<()> {
    // One date is written in many ways, and a calendar has several names: times count alike, or a shift makes them.
    let are_times = TimeShift::is_between(variable, first);
    // Of what is the same in all files, units may be spelt in several ways.
    let has_units = is_joined || [variable, first].iter().any(|one| TimeUnits::text_of(one).is_some());
    for name in PACKING {
        let is_compared = match name {
            "units" => has_units && !are_times,
            "calendar" => !are_times,
            _ => true,
        };
        if !is_compared || are_alike(variable.attribute(name), first.attribute(name)) {
            continue;
        }
        let what = format!("its {name} is not that of the first file");
        let error = Error::new(ErrorKind::Unsupported, what);
        return Err(
            error.hint("convert files that are packed alike, or open them as one set, which unpacks each")
        );
    }
    Ok(())
}

/// True when two attributes say the same: texts by their letters, for there are several types of them.
fn are_alike(one: Option<&Array>, other: Option<&Array>) -> bool {
    let texts = |array: Option<&Array>| array.and_then(Array::texts);
    one == other || texts(one).is_some_and(|one| texts(other).is_some_and(|other| one == other))
}

fn at_file(opened: &Opened, error: Error) -> Error {
    match opened.container().sources.first() {
        Some(id) => error.at(&id.locator),
        None => error,
    }
}
