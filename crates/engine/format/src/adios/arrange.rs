//! From steps and blocks to variables.
//!
//! ```text
//! NAME          the value at the last step
//! NAME@steps    all steps, stacked along the axis "step", where each has the same shape
//! NAME@step3    one step, where they have not
//! NAME@offsets  where the blocks of an array without a global shape begin, if they are of different shapes
//! ```

use std::collections::{BTreeMap, BTreeSet};

use forebay_process::{Error, ErrorKind, Result};

use super::{
    block_array::{BlockArray, Piece},
    data::DataFiles,
    index::Attributes,
    kind::BpType,
    series::{AllSeries, BlockPlace, Filtered, Series},
};
use forebay_container::{
    Attribute, ByteOrder, Container, Dtype, Extents, Filter, Group, Number, PlacedBlock, Refused, Variable,
    lay_out_boxes, shape::product,
};

/// Texts of all steps take elements of one length. Where that is more than so many times what they have, and more than a
/// little, they are not stacked.
const MOST_PADDING: u64 = 64;
const FEW_TEXT_BYTES: u64 = 1 << 20;

/// What a file says, read.
#[derive(Debug)]
pub(super) struct BpContents {
    pub(super) format: &'static str,
    pub(super) order: ByteOrder,
    pub(super) series: AllSeries,
    pub(super) attributes: Attributes,
}

/// The container of what a file says.
pub(super) fn container(said: BpContents, files: DataFiles<'_>) -> Container {
    let mut arranged = Arranged { order: said.order, files, variables: BTreeMap::new(), refused: Vec::new() };
    let mut extra = Vec::new();
    for (name, series) in said.series.series {
        match series.and_then(|series| arranged.last_step(&name, series)) {
            Ok(steps) => extra.extend(steps),
            Err(error) => arranged.refuse(stored_name(&name), &error),
        }
    }
    // A variable may be called as one of these would be: then it keeps its name.
    for (name, kind, array) in extra {
        if arranged.variables.contains_key(&name) {
            continue;
        }
        if let Err(error) = arranged.add(&name, kind, array) {
            arranged.refuse(name, &error);
        }
    }
    let groups = give(said.attributes, &mut arranged.variables);
    Container {
        format: said.format.into(),
        sources: arranged.files.into_sources(),
        groups,
        variables: arranged.variables.into_values().collect(),
        refused: arranged.refused,
        ..Container::default()
    }
}

/// What a container calls something: names there begin with no slash.
fn stored_name(name: &str) -> String {
    name.trim_matches('/').to_owned()
}

struct Arranged<'a> {
    order: ByteOrder,
    files: DataFiles<'a>,
    variables: BTreeMap<String, Variable>,
    refused: Vec<Refused>,
}

type Extra = (String, BpType, BlockArray);

impl Arranged<'_> {
    fn refuse(&mut self, name: String, error: &Error) {
        self.refused.push(Refused::of(name, error));
    }

    /// Adds the variable `name` as it was at the last step, and gives what else is to be added of its steps.
    fn last_step(&mut self, name: &str, series: Series) -> Result<Vec<Extra>> {
        let (name, kind) = (stored_name(name), series.kind);
        let numbers: Vec<u64> = series.steps.keys().copied().collect();
        let arrays = series.steps.into_iter().map(BlockArray::of).collect::<Result<Vec<_>>>()?;
        let last = arrays.last().cloned().ok_or_else(|| Error::corrupt("was written at no step"))?;
        self.add(&name, kind, last)?;
        if arrays.len() < 2 {
            return Ok(Vec::new());
        }
        if let Some(all) = BlockArray::stack(&arrays) {
            return Ok(vec![(format!("{name}@steps"), kind, all)]);
        }
        let each = numbers.into_iter().zip(arrays);
        Ok(each.map(|(number, array)| (format!("{name}@step{number}"), kind, array)).collect())
    }

    /// Adds the variable `name` of the values in `array`.
    fn add(&mut self, name: &str, kind: BpType, array: BlockArray) -> Result<()> {
        let variables = self.make(name, kind, array)?;
        self.variables.extend(variables.into_iter().map(|variable| (variable.name.clone(), variable)));
        Ok(())
    }

    fn make(&mut self, name: &str, kind: BpType, array: BlockArray) -> Result<Vec<Variable>> {
        let BlockArray { shape, dimensions, pieces, offsets } = array;
        let dtype = kind.dtype(self.order, longest(&pieces)?)?;
        let mut variable = Variable::new(name, dtype, shape);
        if variable.logical_len() == u64::MAX {
            return Err(Error::corrupt(format!(
                "an array of shape {:?}, more than can be counted",
                variable.grid.shape
            )));
        }
        if dimensions.iter().any(|name| !name.is_empty()) {
            variable.dimensions = dimensions.into_iter().map(str::to_owned).collect();
        }
        if pieces.iter().any(|piece| matches!(piece.place, BlockPlace::Value(_))) {
            variable.extents = Extents::Inline(inline(&variable, &pieces)?);
            variable.layout = "metadata".into();
            return Ok(vec![variable]);
        }
        let (boxes, filters) = self.boxes(&variable, pieces)?;
        lay_out_boxes(&mut variable, boxes, &filters)?;
        let offsets = offsets.map(|offsets| offsets_variable(&format!("{name}@offsets"), &offsets));
        Ok([Some(variable), offsets].into_iter().flatten().collect())
    }

    /// Where `pieces` lie, and how they were changed.
    fn boxes(&mut self, variable: &Variable, pieces: Vec<Piece>) -> Result<(Vec<PlacedBlock>, Vec<Filter>)> {
        let mut boxes = Vec::with_capacity(pieces.len());
        let mut filters: Option<Vec<Filter>> = None;
        for Piece { start, count, place } in pieces.into_iter().filter(|piece| !piece.count.contains(&0)) {
            let len = product(&count).saturating_mul(variable.dtype.stored_len() as u64);
            let (placed, applied) = match place {
                BlockPlace::Stored { file, at } => (self.files.place(file, at, len)?, vec![]),
                BlockPlace::Filtered { file, at, len, filter } => {
                    // Heads of operators are in the writer's byte order, which none was ever seen of but this.
                    if self.order == ByteOrder::Big {
                        return Err(operator("of a big-endian machine"));
                    }
                    (self.files.place(file, at, len)?, vec![undone(filter)])
                }
                BlockPlace::Operator(name) => return Err(operator(&name)),
                BlockPlace::Value(_) => return Err(Error::corrupt("values both in the index and beside it")),
            };
            if filters.get_or_insert_with(|| applied.clone()) != &applied {
                let what = "some of its blocks are compressed and others are not";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            let (source, range) = placed;
            boxes.push(PlacedBlock { start, count, source, range });
        }
        Ok((boxes, filters.unwrap_or_default()))
    }
}

fn undone(filter: Filtered) -> Filter {
    match filter {
        Filtered::Bzip2 => Filter::Bzip2,
        Filtered::Operator => Filter::AdiosOperator,
    }
}

fn operator(name: &str) -> Error {
    let what = format!("written through the operator {name}, which forebay does not undo");
    let remedy = "rewrite it without operators, with adios2_reorganize or the adios2 Python package";
    Error::new(ErrorKind::Unsupported, what).hint(remedy)
}

/// The bytes of the longest value that stands in the index, where all of them at that length are not far too many.
fn longest(pieces: &[Piece]) -> Result<usize> {
    let lens = pieces.iter().map(|piece| match &piece.place {
        BlockPlace::Value(bytes) => bytes.len() as u64,
        _ => 0,
    });
    let (most, all) = lens.fold((0, 0u64), |(most, all), len| (len.max(most), all.saturating_add(len)));
    let padded = most.saturating_mul(pieces.len() as u64);
    if padded > FEW_TEXT_BYTES && padded > all.saturating_mul(MOST_PADDING) {
        let what = format!("{} texts of {all} bytes, the longest of {most}, are not stacked", pieces.len());
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(usize::try_from(most).unwrap_or(usize::MAX))
}

/// Values that stand in the index, as the elements of `variable`.
fn inline(variable: &Variable, pieces: &[Piece]) -> Result<Vec<u8>> {
    let element_len = variable.dtype.stored_len();
    // One piece for each element, in order: that is how steps and writers are stacked.
    if variable.grid.element_count() != pieces.len() as u64 {
        return Err(Error::corrupt(format!(
            "{} values for {} elements",
            pieces.len(),
            variable.grid.element_count()
        )));
    }
    let mut bytes = Vec::with_capacity(element_len.saturating_mul(pieces.len()));
    for piece in pieces {
        let BlockPlace::Value(value) = &piece.place else {
            return Err(Error::corrupt("values both in the index and beside it"));
        };
        if value.len() > element_len
            || (value.len() < element_len && !matches!(variable.dtype, Dtype::Text { .. }))
        {
            return Err(Error::corrupt(format!(
                "a value of {} bytes where {element_len} belong",
                value.len()
            )));
        }
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len() + element_len - value.len(), 0);
    }
    Ok(bytes)
}

fn offsets_variable(name: &str, offsets: &[u64]) -> Variable {
    let mut variable = Variable::new(name, Dtype::native(Number::I64), vec![offsets.len() as u64]);
    variable.extents = Extents::Inline(offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect());
    variable.layout = "metadata".into();
    variable
}

/// Gives `attributes` to the variables or groups they are named after, and all groups.
fn give(attributes: Attributes, variables: &mut BTreeMap<String, Variable>) -> Vec<Group> {
    let mut names = BTreeSet::from([String::new()]);
    for name in variables.keys() {
        names.extend(name.match_indices('/').map(|(at, _)| name[..at].to_owned()));
    }
    let mut groups: BTreeMap<String, Vec<Attribute>> =
        names.into_iter().map(|name| (name, Vec::new())).collect();
    for (full, value) in attributes {
        let full = stored_name(&full);
        let (owner, name) = full.rsplit_once('/').unwrap_or(("", &full));
        let attribute = |name: &str| Attribute { name: name.to_owned(), value: value.clone() };
        if variables.contains_key(owner) {
            for owner in [owner.to_owned(), format!("{owner}@steps")] {
                if let Some(variable) = variables.get_mut(&owner) {
                    variable.attributes.push(attribute(name));
                }
            }
        } else if let Some(group) = groups.get_mut(owner) {
            group.push(attribute(name));
        } else {
            groups.entry(String::new()).or_default().push(attribute(&full));
        }
    }
    groups.into_iter().map(|(name, attributes)| Group { name, attributes }).collect()
}
