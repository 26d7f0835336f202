//! The columns of a set: each field found in its files, cut into samples, its types joined.

use std::sync::{Arc, OnceLock, atomic::AtomicUsize};

use forebay_container::{
    Dtype, Variable,
    cf::ValueKind,
    native,
    sample_index::SampleIndex,
    sample_starts::SampleStarts,
    unpack::{Unpacked, Unpacker, widest},
};
use forebay_format::Opened;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::{
        boundary::{self, BoundsCache},
        column::{Column, ColumnPart, DenseColumn, MemberPlace, SampleForm, named},
        group_parts, join,
        ride::{self, Leading},
        series, sparse, variable,
    },
    spec::{Boundary, Centres, FieldSpec, Offsets},
};

/// The columns of `fields`: first those by which samples are counted, then those that lack an axis and come along.
pub(crate) fn columns(fields: &[FieldSpec], files: &[Vec<Arc<Opened>>]) -> Result<Vec<Column>> {
    let at = |field: &FieldSpec| format!("field '{}'", field.name);
    let mut lists = Vec::with_capacity(fields.len());
    for (number, field) in fields.iter().enumerate() {
        if fields[..number].iter().any(|other| other.name == field.name) {
            let what = format!("two fields are called '{}'", field.name);
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let list = files.get(field.files).filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| Error::new(ErrorKind::Invalid, "no files").at(at(field)))?;
        lists.push((field, list, ride::rides(field, list) || ride::rides_in_groups(field, fields)));
    }
    let all_ride = lists.iter().all(|(.., rides)| *rides);
    if let Some((field, ..)) =
        lists.iter().find(|(field, ..)| all_ride && field.samples == Boundary::Constant)
    {
        let what = "comes with every sample, and no field says how many there are";
        return Err(Error::new(ErrorKind::Invalid, what)
            .at(at(field))
            .hint("name a field that is cut into samples"));
    }
    let mut bounds = BoundsCache::new();
    let mut leads: Vec<Option<Column>> = Vec::with_capacity(fields.len());
    for (field, list, rides) in &lists {
        let is_later = *rides && !all_ride;
        let made = (!is_later).then(|| column(field, list, &mut bounds, None)).transpose();
        leads.push(made.map_err(|error| error.at(at(field)))?);
    }
    let Some(first) = leads.iter().flatten().next() else { return Ok(Vec::new()) };
    ride::check_groups(leads.iter().flatten())?;
    let leading = Leading::of(first);
    let mut riding = Vec::new();
    for (field, list, _) in lists.iter().zip(&leads).filter(|(_, made)| made.is_none()).map(|(list, _)| list)
    {
        let made = column(field, list, &mut bounds, Some(&leading));
        riding.push(made.map_err(|error| error.at(at(field)))?);
    }
    let mut riding = riding.into_iter();
    Ok(leads.into_iter().filter_map(|made| made.or_else(|| riding.next())).collect())
}

fn column(
    field: &FieldSpec,
    files: &[Arc<Opened>],
    bounds: &mut BoundsCache,
    leading: Option<&Leading<'_>>,
) -> Result<Column> {
    let mut column = plain_column(field, &field.variable, files, bounds, leading)?;
    let Some(dense) = &field.dense else { return Ok(column) };
    let is_flat = matches!(&column.form, SampleForm::Joined { axis: 0, shape } if shape.len() == 1)
        && column.elements.is_none();
    if column.has_mask() {
        let what = "sparse rows have no mask";
        return Err(Error::new(ErrorKind::Unsupported, what).hint("unpack them without one"));
    }
    if !is_flat || field.convert.axes.is_some() {
        let what = "sparse rows need values of one axis, with offsets";
        return Err(Error::new(ErrorKind::Invalid, what).hint("give Ragged(offsets=the row pointers)"));
    }
    let bare = FieldSpec { convert: crate::spec::Convert::default(), member: None, ..field.clone() };
    let indices = plain_column(&bare, &dense.indices, files, bounds, leading)?;
    let is_integer = indices.dtype.number().is_some_and(|number| {
        !matches!(number.size(), 0)
            && forebay_container::Number::integer(number.size(), number.is_signed_integer()) == Some(number)
    });
    if !is_integer {
        let what = format!("'{}' holds {}, not column numbers", dense.indices, indices.dtype);
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    let columns = sparse::columns(dense.columns, &column.parts)?;
    column.dense = Some(DenseColumn { indices: Box::new(indices), columns });
    Ok(column)
}

fn plain_column(
    field: &FieldSpec,
    variable: &str,
    files: &[Arc<Opened>],
    bounds: &mut BoundsCache,
    leading: Option<&Leading<'_>>,
) -> Result<Column> {
    let own = leading.map(|leading| ride::own_boundary(field, leading, files));
    let samples = own.as_ref().unwrap_or(&field.samples);
    check_listed(samples, files.len())?;
    let mut parts = parts(field, variable, samples, files, bounds)?;
    match (samples, leading) {
        (Boundary::Series(series), _) => series::cut(field, series, &mut parts, bounds, leading)?,
        (Boundary::Constant, Some(leading)) => ride::repeat(field, &mut parts[0], leading)?,
        (Boundary::Groups { .. }, Some(leading)) => ride::repeat_groups(&mut parts, leading)?,
        _ => {}
    }
    let elements = variable::elements(field, &parts)?;
    let (dtype, categories) = join::types(field, &mut parts)?;
    let counts = match &parts[0].index {
        SampleIndex::Series(part) => part.windows().begins(),
        _ => parts.iter().map(|part| part.index.count()).collect(),
    };
    let starts = SampleStarts::new(counts)
        .ok_or_else(|| Error::new(ErrorKind::Invalid, "more samples than can be counted"))?;
    let (form, elements) =
        variable::form(elements, boundary::form(samples, &parts)?).map_err(|error| parts[0].named(error))?;
    let element_len = parts.iter().map(ColumnPart::element_len).max().unwrap_or(0);
    let own = parts[0].dtype();
    let is_mixed = parts.iter().any(|part| !native::same_native(part.dtype(), own));
    let is_recoded = parts.iter().any(|part| part.recode.is_some());
    let unpacked = unpacked(&dtype, is_mixed, &mut parts)?;
    let column = Column {
        name: field.name.clone(),
        dtype,
        element_len,
        is_mixed,
        is_recoded,
        categories,
        convert: field.convert.clone(),
        unpacked,
        form,
        parts,
        starts,
        dense: None,
        is_grouped: samples.groups().is_some(),
        elements,
        usual_items: OnceLock::new(),
        read_len: AtomicUsize::new(0),
    };
    check_convert(&column).map_err(|error| column.parts[0].named(error))?;
    Ok(column)
}

/// The variables that a field is read from: one in each file, in each group that is a sample, or in the first file that has it
/// where it is the same for all.
fn parts(
    field: &FieldSpec,
    variable: &str,
    samples: &Boundary,
    files: &[Arc<Opened>],
    bounds: &mut BoundsCache,
) -> Result<Vec<ColumnPart>> {
    let mut parts = Vec::with_capacity(files.len());
    if *samples == Boundary::Constant {
        let has = |opened: &&Arc<Opened>| opened.container().variable(variable).is_ok();
        let at = files.iter().position(|opened| has(&opened)).unwrap_or(0);
        parts.push(part(field, variable, samples, (at, &files[at]), bounds)?);
        return Ok(parts);
    }
    for (file, opened) in files.iter().enumerate() {
        if let Some(pattern) = samples.groups() {
            for name in group_parts::members(opened, pattern, variable)? {
                parts.push(part(field, &name, samples, (file, opened), bounds)?);
            }
            continue;
        }
        parts.push(part(field, variable, samples, (file, opened), bounds)?);
    }
    Ok(parts)
}

/// The variable `name` of one file, by its number in the list.
fn part(
    field: &FieldSpec,
    name: &str,
    samples: &Boundary,
    (file, opened): (usize, &Arc<Opened>),
    bounds: &mut BoundsCache,
) -> Result<ColumnPart> {
    let found = opened.variable(name)?;
    let named = |error: Error| named(opened, found, error);
    readable(found, samples).map_err(named)?;
    let variables = &opened.container().variables;
    let position = variables.binary_search_by(|one| one.name.cmp(&found.name)).ok();
    let variable = position.ok_or_else(|| Error::new(ErrorKind::Bug, "a variable of another file"))?;
    let request = boundary::IndexRequest { field, file, opened, variable: found };
    let index = request.index(samples, bounds).map_err(named)?;
    let member = field.member.as_ref().map(|name| member(&found.dtype, name).map(Box::new));
    let member = member.transpose().map_err(named)?;
    let unpacker = match field.convert.unpack {
        Some(unpack) if member.is_none() => Unpacker::of(found, unpack).map_err(named)?.map(Box::new),
        _ => None,
    };
    Ok(ColumnPart { opened: Arc::clone(opened), variable, index, unpacker, recode: None, member })
}

/// What the values of all files are once they are unpacked; files whose values stay as they are need no unpacking.
fn unpacked(dtype: &Dtype, is_mixed: bool, parts: &mut [ColumnPart]) -> Result<Option<Unpacked>> {
    let Some(stored) = dtype.number().filter(|_| !dtype.is_bool()) else { return Ok(None) };
    let mut all: Option<Unpacked> = None;
    let first = parts.first().and_then(|part| part.unpacker.as_deref());
    for part in parts.iter() {
        let Some(unpacker) = &part.unpacker else { return Ok(None) };
        if let Some(error) = first.and_then(|first| unpacker.conflict(first)) {
            return Err(part.named(error));
        }
        let (number, kind, has_mask) = (unpacker.to(), unpacker.kind(), unpacker.has_mask());
        let so_far = *all.get_or_insert(Unpacked { number, kind, has_mask });
        let number = widest(so_far.number, number);
        all = Some(Unpacked { number, kind, has_mask: so_far.has_mask || has_mask });
    }
    let has_mask = all.is_some_and(|unpacked| unpacked.has_mask);
    for part in parts.iter_mut() {
        match &mut part.unpacker {
            // A mask asks every file what is missing, be it nothing.
            Some(unpacker) if has_mask => unpacker.set_masked(),
            // Numbers of several types are made one, be nothing else done to them.
            idle => drop(idle.take_if(|unpacker| !is_mixed && unpacker.is_idle(stored))),
        }
    }
    let is_idle = !has_mask && parts.iter().all(|part| part.unpacker.is_none());
    Ok(all.filter(|_| !is_idle))
}

/// Where the member `name` lies in elements of `dtype`.
fn member(dtype: &Dtype, name: &str) -> Result<MemberPlace> {
    let mut place = MemberPlace { offset: 0, dtype: dtype.clone() };
    for one in name.split('.') {
        let Dtype::Compound { fields, .. } = &place.dtype else {
            let what = format!("holds {}, which has no member '{one}'", place.dtype);
            return Err(Error::new(ErrorKind::Invalid, what));
        };
        let Some(found) = fields.iter().find(|field| field.name == one) else {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let error = Error::new(ErrorKind::NotFound, format!("no member '{one}'"));
            return Err(error.hint(format!("its members are called {}", names.join(", "))));
        };
        place = MemberPlace { offset: place.offset + found.offset, dtype: found.dtype.clone() };
    }
    Ok(place)
}

fn readable(variable: &Variable, samples: &Boundary) -> Result<()> {
    if let Some(why) = variable.dtype.refusal() {
        return Err(Error::new(ErrorKind::Unsupported, why));
    }
    variable::check(&variable.dtype, samples)?;
    let takes_scalars = matches!(samples, Boundary::Whole | Boundary::Groups { .. } | Boundary::Constant);
    if variable.grid.shape.is_empty() && !takes_scalars {
        let error = Error::new(ErrorKind::Invalid, "a scalar has no samples");
        return Err(error.hint("take all of each file as one: samples=Whole(), --samples whole"));
    }
    Ok(())
}

fn check_convert(column: &Column) -> Result<()> {
    let convert = &column.convert;
    let is_text = matches!(column.kind(), ValueKind::Text | ValueKind::Texts);
    if convert.changes_values() && (is_text || column.dtype.number().is_none()) {
        let named = if is_text { "text".to_owned() } else { column.dtype.to_string() };
        let what = format!("{named} is no number that can be cast or scaled");
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    let Some(axes) = &convert.axes else { return Ok(()) };
    let SampleForm::Stacked { shape } = &column.form else {
        return Err(Error::new(ErrorKind::Invalid, "samples of different lengths keep their axes"));
    };
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().ne(0..shape.len()) {
        let what = format!("axes {axes:?} for samples of {} axes", shape.len());
        return Err(Error::new(ErrorKind::Invalid, what).hint("name each axis of one sample once"));
    }
    Ok(())
}

/// Refuses a list that names a file there is not, and one that names no files where there are several.
fn check_listed(samples: &Boundary, file_count: usize) -> Result<()> {
    let named: Box<dyn Iterator<Item = u64>> = match samples {
        Boundary::Ragged { offsets: Offsets::Listed(list), .. } => Box::new(list.iter().map(|row| row[0])),
        Boundary::Centres { at: Centres::Listed(list), .. } => {
            Box::new(list.iter().filter_map(|row| row.first().copied()))
        }
        Boundary::Ragged { offsets: Offsets::ListedInOneFile(_), .. } if file_count > 1 => {
            return Err(names_no_file("offsets", "rows of file number, begin and end", file_count));
        }
        Boundary::Centres { at: Centres::ListedInOneFile(_), .. } if file_count > 1 => {
            return Err(names_no_file(
                "centres",
                "the file number before the indexes of each row",
                file_count,
            ));
        }
        _ => return Ok(()),
    };
    let mut last = 0;
    for (number, file) in named.enumerate() {
        if file >= file_count as u64 || file < last {
            let what =
                format!("sample {number} is in file {file} of {file_count}, the one before it in {last}");
            return Err(Error::new(ErrorKind::Invalid, what).hint("list samples file by file, files from 0"));
        }
        last = file;
    }
    Ok(())
}

fn names_no_file(what: &str, rows: &str, file_count: usize) -> Error {
    let what = format!("an array of {what} for {file_count} files does not say which file each sample is in");
    Error::new(ErrorKind::Invalid, what)
        .hint(format!("give {rows}, files from 0, or the name of a variable of each file"))
}
