//! All samples of a spec over its files, under one global index.
//!
//! | file | idea |
//! |---|---|
//! | `boundary` | which part of a variable a sample is |
//! | `series`, `ride`, `group_parts`, `origins` | boxes that go on from file to file; fields that are the same for all; groups that are samples; where boxes lie |
//! | `column`, `columns`, `fingerprint` | one field over all files; by what samples are known again |
//! | `join`, `categories`, `sparse`, `variable` | files that differ as one field: types, integers that stand for names, columns of sparse rows; texts and sequences |
//! | `references` | how long texts and sequences are, before any is read |
//! | `shuffle_group` | which samples a block shuffle keeps together; the order itself is the crate `plan`'s |

pub(crate) mod boundary;
pub(crate) mod categories;
pub(crate) mod column;
pub(crate) mod columns;
pub(crate) mod fingerprint;
pub(crate) mod group_parts;
pub(crate) mod join;
pub(crate) mod origins;
pub(crate) mod references;
pub(crate) mod ride;
pub(crate) mod series;
pub(crate) mod shuffle_group;
pub(crate) mod sparse;
pub(crate) mod variable;

use std::sync::Arc;

use forebay_container::{Dtype, Member, cf::ValueKind, sample_index::SampleIndex};
use forebay_format::Opened;
use forebay_plan::SetIdentity;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::{
        column::{Column, SampleForm},
        columns::columns,
        fingerprint::Fingerprints,
    },
    spec::{FieldSpec, SampleSpec},
};

/// All samples of a spec over its files, under one global index.
#[derive(Debug)]
pub struct SampleSet {
    spec: SampleSpec,
    pub(crate) columns: Vec<Column>,
    len: u64,
    fingerprints: Fingerprints,
    /// By what orders and states know the samples, where it is not what follows from these fields.
    pub(crate) identity: Option<SetIdentity>,
}

impl SampleSet {
    /// The samples of `spec`; `files` are the lists that [`FieldSpec::files`] counts.
    ///
    /// Reads offsets and centres; no other values.
    pub fn new(spec: SampleSpec, files: &[Vec<Arc<Opened>>]) -> Result<Self> {
        if spec.fields.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "no fields").hint("name at least one variable"));
        }
        let spec = SampleSpec { fields: ride::without_idle_targets(spec.fields, files) };
        let columns = columns(&spec.fields, files)?;
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
        Ok(Self { spec, columns, len, fingerprints, identity: None })
    }

    /// The same files with the fields `names` alone; an error where these do not stand by themselves.
    pub fn of_fields(&self, names: &[String]) -> Result<Self> {
        let (mut fields, mut files) = (Vec::new(), Vec::new());
        let known = self.spec.fields.iter().zip(&self.columns);
        for (field, column) in known.filter(|(field, _)| names.contains(&field.name)) {
            let mut opened: Vec<_> = column.parts.iter().map(|part| Arc::clone(&part.opened)).collect();
            // Groups of one file are parts of their own.
            opened.dedup_by(|one, other| Arc::ptr_eq(one, other));
            fields.push(FieldSpec { files: files.len(), ..field.clone() });
            files.push(opened);
        }
        Self::new(SampleSpec { fields }, &files)
    }

    /// The same, known to orders and states by `identity`: that of a set of these fields and others.
    #[must_use]
    pub fn known_as(self, identity: SetIdentity) -> Self {
        Self { identity: Some(identity), ..self }
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
        if let Some(identity) = &self.identity {
            return identity.part_lens.clone();
        }
        self.largest_column().map_or_else(Vec::new, Column::file_lens)
    }

    /// The field with the most bytes in a sample, of those that are not the same for all.
    pub(crate) fn largest_column(&self) -> Option<&Column> {
        let is_cut = |column: &&Column| !matches!(column.parts[0].index, SampleIndex::Repeated(_));
        self.columns.iter().filter(is_cut).max_by_key(|column| column.mean_sample_len())
    }

    /// Bytes all samples take in batches; of texts and sequences, what a few of them say.
    pub fn delivered_len(&self) -> u64 {
        self.fixed_len().saturating_add(self.usual_variable_len()).saturating_mul(self.len)
    }

    /// Bytes that a sample takes in a batch on average, without its texts and sequences.
    pub(crate) fn fixed_len(&self) -> u64 {
        let fixed = self.columns.iter().filter(|column| column.elements.is_none());
        fixed.map(Column::mean_sample_len).fold(0, u64::saturating_add)
    }

    /// Bytes that the texts and sequences of a sample usually take in a batch, as a few samples say.
    pub(crate) fn usual_variable_len(&self) -> u64 {
        let variable = self.columns.iter().filter(|column| column.elements.is_some());
        let usual = |column: &Column| column.usual_items().saturating_mul(column.final_len() as u64);
        variable.map(usual).fold(0, u64::saturating_add)
    }

    /// As [`delivered_len`](Self::delivered_len), with every text and sequence as long as its reference says: no less than they take,
    /// but where only reading them shows that.
    pub fn most_delivered_len(&self) -> Result<u64> {
        let mut sum = self.fixed_len().saturating_mul(self.len);
        for column in self.columns.iter().filter(|column| column.elements.is_some()) {
            let items = match column.all_item_counts()? {
                Some(counts) => counts.into_iter().fold(0, u64::saturating_add),
                None => column.usual_items().saturating_mul(self.len),
            };
            sum = sum.saturating_add(items.saturating_mul(column.final_len() as u64));
        }
        Ok(sum)
    }

    /// How long each sample of field `number` of [`fields`](Self::fields) is along the axis that differs; nothing where all have one
    /// shape, and where only reading a sample shows it: that of texts, which end at the first NUL of what is stored.
    pub fn joined_lens(&self, number: usize) -> Result<Option<Vec<u64>>> {
        let of_fields = self
            .columns
            .iter()
            .flat_map(|column| std::iter::repeat_n(column, 1 + usize::from(column.has_mask())));
        let column = of_fields.into_iter().nth(number).filter(|column| column.dense.is_none());
        let Some((column, SampleForm::Joined { axis, .. })) = column.map(|column| (column, &column.form))
        else {
            return Ok(None);
        };
        match column.elements {
            Some(ValueKind::Number) => return column.all_item_counts(),
            Some(_) => return Ok(None),
            None => {}
        }
        let lens = column
            .parts
            .iter()
            .flat_map(|part| (0..part.sample_count()).map(|sample| column.len_along(part, sample, *axis)));
        Ok(Some(lens.collect()))
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
    /// The names its integers stand for, by code and the same in all files; `None` where they stand for none.
    pub categories: Option<Vec<Member>>,
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
            categories: None,
        });
        let values = Self {
            name: column.name.clone(),
            dtype: column.final_dtype(),
            kind: column.kind(),
            sample_shape,
            categories: column.categories.as_ref().map(|all| all.members.clone()),
        };
        std::iter::once(values).chain(mask).collect()
    }
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
