//! Several files as one, whose rows follow each other along an axis: such as months of one record.
//!
//! Variables that lack the axis are those of the first file, and have to be the same in all. Times that count from another date in
//! each file are counted from that of the first.

mod join_plan;
mod joined_variable;
mod time_shift;

use std::collections::HashMap;

use forebay_container::{Array, Container, Selection, Span, Values, Variable};
use forebay_format::Opened;
use forebay_loader::AxisName;
use forebay_process::{Error, ErrorKind, Result};

use self::{
    join_plan::JoinPlan,
    joined_variable::{JoinedVariable, own, place},
};

/// Several files as one, whose rows follow each other along an axis; or one file as it is.
#[derive(Debug)]
pub struct JoinedFiles {
    files: Vec<Opened>,
    /// What all files together are; nothing of one file, which is what it is.
    container: Option<Container>,
    joined: HashMap<String, JoinedVariable>,
}

impl JoinedFiles {
    /// `files` as one along `axis`, by default along the axis that can grow, or the one called `time`. Only the variables `names`
    /// are looked at, or all that are `wanted` where none are named; a wanted one that only later files have is an error.
    pub fn new(
        files: Vec<Opened>,
        axis: Option<&AxisName>,
        names: &[String],
        wanted: &dyn Fn(&Variable) -> bool,
    ) -> Result<Self> {
        if files.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "no files are named"));
        }
        if files.len() == 1 {
            return Ok(Self { files, container: None, joined: HashMap::new() });
        }
        let (container, joined) = JoinPlan::new(&files, axis, names, wanted)?.join()?;
        Ok(Self { files, container: Some(container), joined })
    }

    /// What all files together are: rows of all where a variable goes on from file to file.
    pub fn container(&self) -> &Container {
        self.container.as_ref().unwrap_or_else(|| self.files[0].container())
    }

    /// The files, in their order.
    pub fn files(&self) -> &[Opened] {
        &self.files
    }

    /// The variable called `name`, as all files together have it.
    pub fn variable(&self, name: &str) -> Result<&Variable> {
        if self.container.is_none() {
            return self.files[0].variable(name);
        }
        self.container().variable(name)
    }

    /// Selections that together make up `selection`, in C order, each of about `wanted_bytes` where chunks allow.
    pub fn slabs<'a>(
        &self,
        variable: &'a Variable,
        selection: &Selection,
        wanted_bytes: u64,
    ) -> impl Iterator<Item = Selection> + use<'a> {
        self.files[0].slabs(variable, selection, wanted_bytes)
    }

    /// The values of `selection` of `variable`, which is one of [`container`](Self::container).
    pub fn read(&self, variable: &Variable, selection: &Selection) -> Result<Array> {
        let (Some(_), first) = (&self.container, &self.files[0]) else {
            return self.files[0].read(variable, selection);
        };
        let Some(joined) = self.joined.get(&variable.name) else {
            return first.read(own(first, &variable.name)?, selection);
        };
        let Some(rows) = selection.spans().first().filter(|rows| rows.step == 1) else {
            return Err(Error::new(ErrorKind::Unsupported, "rows in steps from several files"));
        };
        selection.check(&variable.grid.shape)?;
        let mut whole: Option<Array> = None;
        for (number, part) in joined.parts(rows.start..rows.start + rows.count) {
            let opened = &self.files[number];
            let mut spans = selection.spans().to_vec();
            spans[0] = Span::range(part);
            let mut array = opened.read(own(opened, &variable.name)?, &Selection::new(spans))?;
            if let Some(shift) = &joined.shifts[number] {
                shift.apply(&mut array).map_err(|error| place(opened, &variable.name, error))?;
            }
            match &mut whole {
                None => whole = Some(array),
                Some(whole) => append(whole, array)?,
            }
        }
        Ok(whole.unwrap_or_else(|| empty(variable, selection)))
    }
}

/// Appends the rows of `more` to those of `whole`.
fn append(whole: &mut Array, more: Array) -> Result<()> {
    match (&mut whole.values, more.values) {
        (Values::Fixed(bytes), Values::Fixed(more)) => bytes.extend_from_slice(&more),
        (Values::Variable { offsets, bytes }, Values::Variable { offsets: ends, bytes: more }) => {
            let before = bytes.len() as u64;
            offsets.extend(ends.iter().skip(1).map(|end| end + before));
            bytes.extend_from_slice(&more);
        }
        _ => return Err(Error::new(ErrorKind::Bug, "rows of different types")),
    }
    if let (Some(rows), Some(more)) = (whole.shape.first_mut(), more.shape.first()) {
        *rows += more;
    }
    Ok(())
}

fn empty(variable: &Variable, selection: &Selection) -> Array {
    let values = match variable.dtype.is_variable() {
        true => Values::Variable { offsets: vec![0], bytes: Vec::new() },
        false => Values::Fixed(Vec::new()),
    };
    Array { dtype: variable.dtype.clone(), shape: selection.shape(), values }
}
