//! All samples of a spec over its files, under one global index.

use std::sync::Arc;

use forebay_container::{
    Dtype, Member, Variable,
    cf::ValueKind,
    native,
    unpack::{Unpacked, Unpacker, widest},
};
use forebay_format::Opened;
use forebay_source::{Error, ErrorKind, Result};

use crate::{
    boundary::{self, BoundsCache},
    column::{Column, ColumnPart, DenseColumn, SampleForm, Starts, named},
    fingerprint::Fingerprints,
    join, sparse,
    spec::{Boundary, Centres, FieldSpec, Offsets, SampleSpec},
};

/// All samples of a spec over its files, under one global index.
#[derive(Debug)]
pub struct SampleSet {
    spec: SampleSpec,
    pub(crate) columns: Vec<Column>,
    len: u64,
    fingerprints: Fingerprints,
}

impl SampleSet {
    /// The samples of `spec`; `files` are the lists that [`FieldSpec::files`] counts.
    ///
    /// Reads offsets and centres; no other values.
    pub fn new(spec: SampleSpec, files: &[Vec<Arc<Opened>>]) -> Result<Self> {
        if spec.fields.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "no fields").hint("name at least one variable"));
        }
        let mut bounds = BoundsCache::new();
        let mut columns: Vec<Column> = Vec::with_capacity(spec.fields.len());
        for field in &spec.fields {
            if columns.iter().any(|column| column.name == field.name) {
                let what = format!("two fields are called '{}'", field.name);
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            let list = files.get(field.files).filter(|list| !list.is_empty()).ok_or_else(|| {
                Error::new(ErrorKind::Invalid, "no files").at(format!("field '{}'", field.name))
            })?;
            let column = column(field, list, &mut bounds);
            columns.push(column.map_err(|error| error.at(format!("field '{}'", field.name)))?);
        }
        check_masks(&columns)?;
        let len = columns[0].len();
        if let Some(other) = columns.iter().find(|column| column.len() != len) {
            let what = format!(
                "field '{}' has {len} samples, and field '{}' has {}",
                columns[0].name,
                other.name,
                other.len()
            );
            return Err(Error::new(ErrorKind::Invalid, what).hint("every field needs as many samples"));
        }
        let fingerprints = Fingerprints::of(&spec, &columns);
        Ok(Self { spec, columns, len, fingerprints })
    }

    /// What a sample is.
    pub fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    /// How many samples there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Differs when the files, or what a sample is, are not the same; a file that was written or touched
    /// since is another.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprints.version
    }

    /// Differs when what a sample is, or names, lengths, types or counts of the files are not the same: that of a copy in
    /// another folder is the same.
    pub fn content_fingerprint(&self) -> &str {
        &self.fingerprints.content
    }

    /// The files of all fields, each once.
    pub fn files(&self) -> Vec<&Arc<Opened>> {
        let mut seen = std::collections::HashSet::new();
        let parts = self.columns.iter().flat_map(|column| &column.parts);
        parts.map(|part| &part.opened).filter(|opened| seen.insert(Arc::as_ptr(opened))).collect()
    }

    /// Samples of each file of the field with the most bytes.
    pub(crate) fn part_lens(&self) -> Vec<u64> {
        self.largest_column().map_or_else(Vec::new, |column| column.starts.counts())
    }

    /// The field with the most bytes in a sample.
    pub(crate) fn largest_column(&self) -> Option<&Column> {
        self.columns.iter().max_by_key(|column| column.mean_sample_len())
    }

    /// Bytes all samples take in batches.
    pub fn delivered_len(&self) -> u64 {
        self.columns
            .iter()
            .fold(0, |sum, column| sum.saturating_add(column.mean_sample_len().saturating_mul(self.len)))
    }

    /// How long each sample of field `number` of [`fields`](Self::fields) is along the axis that differs; nothing where all have
    /// one shape.
    pub fn joined_lens(&self, number: usize) -> Option<Vec<u64>> {
        let of_fields = self
            .columns
            .iter()
            .flat_map(|column| std::iter::repeat_n(column, 1 + usize::from(column.has_mask())));
        let column = of_fields.into_iter().nth(number).filter(|column| column.dense.is_none())?;
        let SampleForm::Joined { axis, .. } = &column.form else { return None };
        let lens = column
            .parts
            .iter()
            .flat_map(|part| (0..part.sample_count()).map(|sample| column.len_along(part, sample, *axis)));
        Some(lens.collect())
    }

    /// Each field's name, type and the shape of one sample: `None` along the axis that differs.
    pub fn fields(&self) -> Vec<FieldFacts> {
        self.columns.iter().flat_map(FieldFacts::of).collect()
    }
}

/// What a field gives.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldFacts {
    /// Its name.
    pub name: String,
    /// The type of its elements in a batch.
    pub dtype: Dtype,
    /// What its elements stand for.
    pub kind: ValueKind,
    /// The shape of one sample; `None` along the axis whose length differs.
    pub sample_shape: Vec<Option<u64>>,
    /// The names its integers stand for, by code and the same in all files; empty where they stand for none.
    pub categories: Vec<Member>,
}

impl FieldFacts {
    /// The field of `column`, and its mask where it has one.
    fn of(column: &Column) -> Vec<Self> {
        let sample_shape = match &column.form {
            _ if column.dense.is_some() => {
                vec![column.dense.as_ref().map(|dense| dense.columns)]
            }
            SampleForm::Stacked { shape } => {
                let axes = column.convert.axes.clone().unwrap_or_else(|| (0..shape.len()).collect());
                axes.iter().map(|axis| Some(shape[*axis])).collect()
            }
            SampleForm::Joined { axis, shape } => {
                shape.iter().enumerate().map(|(at, len)| (at != *axis).then_some(*len)).collect()
            }
        };
        let mask = column.has_mask().then(|| Self {
            name: column.mask_name(),
            dtype: Dtype::boolean(),
            kind: ValueKind::Bool,
            sample_shape: sample_shape.clone(),
            categories: Vec::new(),
        });
        let values = Self {
            name: column.name.clone(),
            dtype: column.final_dtype(),
            kind: column.kind(),
            sample_shape,
            categories: column.categories.as_ref().map_or_else(Vec::new, |all| all.members.clone()),
        };
        std::iter::once(values).chain(mask).collect()
    }
}

fn column(field: &FieldSpec, files: &[Arc<Opened>], bounds: &mut BoundsCache) -> Result<Column> {
    let mut column = plain_column(field, &field.variable, files, bounds)?;
    let Some(dense) = &field.dense else { return Ok(column) };
    let is_flat = matches!(&column.form, SampleForm::Joined { axis: 0, shape } if shape.len() == 1);
    if column.has_mask() {
        let what = "sparse rows have no mask";
        return Err(Error::new(ErrorKind::Unsupported, what).hint("unpack them without one"));
    }
    if !is_flat || field.convert.axes.is_some() {
        let what = "sparse rows need values of one axis, with offsets";
        return Err(Error::new(ErrorKind::Invalid, what).hint("give Ragged(offsets=the row pointers)"));
    }
    let bare = FieldSpec { convert: crate::spec::Convert::default(), ..field.clone() };
    let indices = plain_column(&bare, &dense.indices, files, bounds)?;
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
) -> Result<Column> {
    check_listed(&field.samples, files.len())?;
    let mut parts = Vec::with_capacity(files.len());
    for (file, opened) in files.iter().enumerate() {
        let found = opened.variable(variable)?;
        let named = |error: Error| named(opened, found, error);
        readable(found, &field.samples).map_err(named)?;
        let variables = &opened.container().variables;
        let position = variables.iter().position(|one| std::ptr::eq(one, found));
        let variable = position.ok_or_else(|| Error::new(ErrorKind::Bug, "a variable of another file"))?;
        let request = boundary::IndexRequest { field, file, opened, variable: found };
        let index = request.index(bounds).map_err(named)?;
        let unpacker = match field.convert.unpack {
            Some(unpack) => Unpacker::of(found, unpack).map_err(named)?.map(Box::new),
            None => None,
        };
        parts.push(ColumnPart { opened: Arc::clone(opened), variable, index, unpacker, recode: None });
    }
    let (dtype, categories) = join::types(field, &mut parts)?;
    let starts = Starts::new(parts.iter().map(|part| part.index.count()))
        .ok_or_else(|| Error::new(ErrorKind::Invalid, "more samples than can be counted"))?;
    let form = boundary::form(&field.samples, &parts)?;
    let element_len = parts.iter().map(ColumnPart::element_len).max().unwrap_or(0);
    let own = &parts[0].variable().dtype;
    let is_mixed = parts.iter().any(|part| !native::same_native(&part.variable().dtype, own));
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
    };
    check_convert(&column)?;
    Ok(column)
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

/// Refuses a mask that is called as another field is.
fn check_masks(columns: &[Column]) -> Result<()> {
    for column in columns.iter().filter(|column| column.has_mask()) {
        let mask = column.mask_name();
        if columns.iter().any(|other| other.name == mask) {
            let what = format!("the mask of field '{}' is called '{mask}', as another field is", column.name);
            return Err(Error::new(ErrorKind::Invalid, what).hint("give one of them another name"));
        }
    }
    Ok(())
}

fn readable(variable: &Variable, samples: &Boundary) -> Result<()> {
    if let Some(why) = variable.dtype.refusal() {
        return Err(Error::new(ErrorKind::Unsupported, why));
    }
    if variable.dtype.is_variable() {
        let what = format!("holds {}, whose elements differ in length", variable.dtype);
        return Err(Error::new(ErrorKind::Unsupported, what).hint("a tensor needs elements of one length"));
    }
    if variable.grid.shape.is_empty() && *samples != Boundary::Whole {
        let error = Error::new(ErrorKind::Invalid, "a scalar has no samples");
        return Err(error.hint("take all of each file as one: samples=Whole(), --samples whole"));
    }
    Ok(())
}

fn check_convert(column: &Column) -> Result<()> {
    let convert = &column.convert;
    if convert.changes_values() && column.dtype.number().is_none() {
        let what = format!("{} is no number that can be cast or scaled", column.dtype);
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
