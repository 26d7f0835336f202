//! What the values of a stored variable are: type, shape, names. The store itself knows bytes alone.

use forebay_container::{Dtype, Member, cf::ValueKind};
use forebay_loader::FieldFacts;
use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{StoredVariable, VariableSpec};
use serde::{Deserialize, Serialize};

/// What the values of a stored variable are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredField {
    /// The type of an element; bytes are in native order.
    pub dtype: Dtype,
    /// What elements stand for.
    pub kind: ValueKind,
    /// The shape of one sample; `None` along the axis whose length differs.
    pub sample_shape: Vec<Option<u64>>,
    /// The names its integers stand for.
    pub categories: Vec<Member>,
}

impl StoredField {
    /// The field of a set, as it is in batches.
    pub fn of(facts: &FieldFacts) -> Self {
        let FieldFacts { dtype, kind, sample_shape, categories, .. } = facts.clone();
        Self { dtype, kind, sample_shape, categories: categories.unwrap_or_default() }
    }

    /// What the maker of `variable` said of it.
    pub fn described(variable: &StoredVariable) -> Result<Self> {
        postcard::from_bytes(variable.description()).map_err(|error| {
            let corrupt = Error::corrupt("the description of its values cannot be read").because(error);
            corrupt.at(format!("variable '{}'", variable.name()))
        })
    }

    /// The axis along which samples differ.
    pub fn ragged_axis(&self) -> Option<usize> {
        self.sample_shape.iter().position(Option::is_none)
    }

    /// How the variable `name` of such values is stored: rows and runs.
    pub fn spec(&self, name: &str) -> Result<VariableSpec> {
        let bug = |error: postcard::Error| {
            Error::new(ErrorKind::Bug, "a description cannot be written").because(error)
        };
        let description = postcard::to_stdvec(self).map_err(bug)?;
        let too_long = || {
            Error::invalid("a sample has more bytes than can be addressed").at(format!("variable '{name}'"))
        };
        let product = |axes: &[Option<u64>]| {
            axes.iter().flatten().try_fold(1u64, |product, len| product.checked_mul(*len))
        };
        let axis = self.ragged_axis().unwrap_or(0);
        // Of samples of one shape a row is a whole sample.
        let (before, after) = self.sample_shape.split_at(if self.ragged_axis().is_some() { axis } else { 0 });
        let row_len = product(after).and_then(|count| count.checked_mul(self.dtype.native_len() as u64));
        Ok(VariableSpec {
            name: name.to_owned(),
            description,
            row_len: row_len.ok_or_else(too_long)?,
            runs: product(before).ok_or_else(too_long)?,
        })
    }

    /// Bytes of a row, along the axis that samples differ in or else of a whole sample, and how many runs of rows a sample has.
    pub(super) fn row_and_runs(&self) -> (usize, usize) {
        let axis = self.ragged_axis();
        let (before, after) = self.sample_shape.split_at(axis.unwrap_or(0));
        let product = |axes: &[Option<u64>]| {
            let lens = axes.iter().flatten().map(|len| usize::try_from(*len).unwrap_or(usize::MAX));
            lens.fold(1usize, usize::saturating_mul)
        };
        (product(after).saturating_mul(self.dtype.native_len()), product(before))
    }

    /// The shape of a batch of `samples` samples that have `rows` rows between them.
    pub fn batch_shape(&self, samples: u64, rows: u64) -> Vec<u64> {
        match self.ragged_axis() {
            Some(_) => self.sample_shape.iter().map(|len| len.unwrap_or(rows)).collect(),
            None => std::iter::once(samples).chain(self.sample_shape.iter().flatten().copied()).collect(),
        }
    }
}
