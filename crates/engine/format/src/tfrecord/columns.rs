//! What was found of each feature in all records, and the variables that it makes.

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, SourceId};

use forebay_container::{
    ChunkTable, Container, Dtype, Extent, Extents, Filter, Group, Number, Refused, Segments, SourceIndex,
    Variable, names::offsets,
};
use forebay_filter::ListItem;

/// A row of so many bytes costs no more in the description than its place would.
const INLINE_ROW_BYTES: u64 = 32;
/// Values that have no places are kept in the description up to here, for each feature.
const MOST_INLINE_BYTES: usize = 64 << 20;

/// Which of the three lists a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureKind {
    Bytes,
    Float,
    Int64,
}

impl FeatureKind {
    fn dtype(self) -> Dtype {
        Dtype::native(match self {
            Self::Bytes => Number::U8,
            Self::Float => Number::F32,
            Self::Int64 => Number::I64,
        })
    }

    fn element_len(self) -> u64 {
        self.dtype().stored_len() as u64
    }
}

/// The list of a feature in one record.
#[derive(Clone, Debug)]
pub(super) struct List {
    /// The bytes of the whole list.
    pub(super) message: ByteRange,
    /// The values that stand together last.
    pub(super) run: ByteRange,
    /// How many times values stand together.
    pub(super) run_count: u64,
    /// How many values in all.
    pub(super) count: u64,
    /// The numbers themselves, unless there are many.
    pub(super) values: Vec<u8>,
}

impl Default for List {
    fn default() -> Self {
        let none = ByteRange::at(0, 0);
        Self { message: none, run: none, run_count: 0, count: 0, values: Vec::new() }
    }
}

/// A feature in the records that have it.
#[derive(Debug, Default)]
struct FeatureColumn {
    name: String,
    kind: Option<FeatureKind>,
    /// The record of each list below, rising.
    records: Vec<u64>,
    messages: Vec<ByteRange>,
    runs: Vec<ByteRange>,
    counts: Vec<u64>,
    /// All numbers, as long as all of them were read.
    values: Option<Vec<u8>>,
    /// True while the values of every record stand together.
    is_in_runs: bool,
    refused: Option<String>,
}

/// All records and features.
#[derive(Debug, Default)]
pub(super) struct Columns {
    payloads: Vec<ByteRange>,
    columns: Vec<FeatureColumn>,
    numbers: HashMap<String, usize>,
    has_no_features: bool,
    refused: Vec<Refused>,
}

impl Columns {
    pub(super) fn record_count(&self) -> usize {
        self.payloads.len()
    }

    pub(super) fn start_record(&mut self, payload: ByteRange) {
        self.payloads.push(payload);
    }

    /// True while records are Examples.
    pub(super) fn has_features(&self) -> bool {
        !self.has_no_features
    }

    /// Records are no Examples, or not all of them.
    pub(super) fn give_up(&mut self, why: Option<Refused>) {
        self.has_no_features = true;
        self.columns.clear();
        self.numbers.clear();
        self.refused.extend(why);
    }

    /// The position of the feature called `name`.
    pub(super) fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.columns.len();
        self.numbers.insert(name.into(), number);
        self.columns.push(FeatureColumn {
            name: name.into(),
            values: Some(Vec::new()),
            is_in_runs: true,
            ..FeatureColumn::default()
        });
        number
    }

    /// Notes the list that the current record has of feature `number`.
    pub(super) fn note(&mut self, number: usize, kind: FeatureKind, list: List) {
        let record = self.payloads.len().saturating_sub(1) as u64;
        if let Some(column) = self.columns.get_mut(number) {
            column.note(record, kind, list);
        }
    }

    pub(super) fn into_container(self, format: &str, source: SourceId) -> Result<Container> {
        let mut made = BuiltVariables { refused: self.refused, ..BuiltVariables::default() };
        let count = self.payloads.len() as u64;
        made.add_all(
            "record",
            [
                whole_records(&self.payloads)?,
                offsets("record", self.payloads.iter().map(|range| range.len())),
            ],
        );
        // A name that few records have must not cost as much as if all had it, a great many times over.
        let room = source.len.saturating_mul(2).saturating_add(1 << 17);
        let is_sparse = (self.columns.len() as u64).saturating_mul(count) > room;
        for column in self.columns {
            if is_sparse && (column.records.len() as u64) < count {
                let why = format!(
                    "only {} of {count} records have it, among very many features",
                    column.records.len()
                );
                made.refuse(&column.name, why);
                continue;
            }
            let name = column.name.clone();
            if let Err(error) = column.add_to(&mut made, count) {
                made.refuse(&name, error.to_string());
            }
        }
        Ok(made.into_container(format, source))
    }
}

impl FeatureColumn {
    fn note(&mut self, record: u64, kind: FeatureKind, list: List) {
        if self.kind.is_some_and(|known| known != kind) {
            let known = self.kind.map_or("", FeatureKind::name);
            let why =
                format!("is a list of {known} in some records and of {} in record {record}", kind.name());
            self.refused.get_or_insert(why);
            return;
        }
        self.kind = Some(kind);
        // As in every protocol buffer, what comes later counts.
        if self.records.last() == Some(&record) {
            self.refused.get_or_insert(format!("stands twice in record {record}"));
            return;
        }
        let is_whole = list.values.len() as u64 == list.count.saturating_mul(kind.element_len());
        match &mut self.values {
            Some(values) if is_whole && values.len() + list.values.len() <= MOST_INLINE_BYTES => {
                values.extend_from_slice(&list.values);
            }
            values => *values = None,
        }
        self.is_in_runs &= list.run_count <= 1;
        self.records.push(record);
        self.messages.push(list.message);
        self.runs.push(list.run);
        self.counts.push(list.count);
    }

    fn add_to(mut self, made: &mut BuiltVariables, record_count: u64) -> Result<()> {
        let name = std::mem::take(&mut self.name);
        let why = match self.kind {
            _ if name.is_empty() || name.starts_with('/') || name.ends_with('/') => {
                Some(format!("'{name}' is no name a variable can have"))
            }
            None => Some("has no values in any record".to_owned()),
            Some(FeatureKind::Bytes) if self.counts.iter().any(|count| *count > 1) => {
                Some("has several values in a record; read `record` and take them apart".to_owned())
            }
            Some(_) => self.refused.take(),
        };
        let Some(kind) = self.kind.filter(|_| why.is_none()) else {
            made.refuse(&name, why.unwrap_or_default());
            return Ok(());
        };
        let is_in_all = self.records.len() as u64 == record_count;
        let lens: Vec<u64> = match kind {
            FeatureKind::Bytes => self.runs.iter().map(|run| run.len()).collect(),
            _ => std::mem::take(&mut self.counts),
        };
        let first = lens.first().copied().unwrap_or(0);
        let is_even = is_in_all && first > 0 && lens.iter().all(|len| *len == first);
        let variables = match is_even {
            true => self.even(&name, kind, first).map(|variable| vec![variable])?,
            false => match self.ragged(&name, kind, &lens, record_count)? {
                Some(variables) => variables,
                None => {
                    made.refuse(
                        &name,
                        "more numbers of varying count than the description can hold; read `record`".into(),
                    );
                    return Ok(());
                }
            },
        };
        made.add_all(&name, variables);
        Ok(())
    }

    /// The variable of a feature that has `len` values in every record.
    fn even(self, name: &str, kind: FeatureKind, len: u64) -> Result<Variable> {
        let count = self.records.len() as u64;
        let is_scalar = len == 1 && kind != FeatureKind::Bytes;
        let shape = if is_scalar { vec![count] } else { vec![count, len] };
        let mut variable = Variable::new(name, kind.dtype(), shape);
        let row_bytes = len.saturating_mul(kind.element_len());
        if let Some(values) =
            self.values.filter(|_| kind != FeatureKind::Bytes && row_bytes <= INLINE_ROW_BYTES)
        {
            variable.layout = "inline".into();
            variable.extents = Extents::Inline(values);
            return Ok(variable);
        }
        variable.layout = "chunked".into();
        variable.grid.chunk = if is_scalar { vec![1] } else { vec![1, len] };
        let is_plain = kind != FeatureKind::Int64 && self.is_in_runs;
        if !is_plain {
            variable.filters.push(list_filter(kind, len)?);
        }
        variable.extents = Extents::Chunks(table(if is_plain { &self.runs } else { &self.messages })?);
        Ok(variable)
    }

    /// The variables of a feature whose length differs from record to record: all values, and where each starts.
    fn ragged(
        self,
        name: &str,
        kind: FeatureKind,
        lens: &[u64],
        record_count: u64,
    ) -> Result<Option<Vec<Variable>>> {
        let total = lens.iter().try_fold(0u64, |sum, len| sum.checked_add(*len));
        let total = total.ok_or_else(|| Error::new(ErrorKind::Corrupt, "more values than can be counted"))?;
        let mut flat = Variable::new(name, kind.dtype(), vec![total]);
        flat.layout = "records".into();
        flat.extents = match self.values {
            _ if total == 0 => Extents::Chunks(ChunkTable::default()),
            _ if kind != FeatureKind::Int64 && self.is_in_runs => {
                Extents::Segments(Segments::within(SourceIndex(0), self.runs)?)
            }
            Some(values) => {
                flat.layout = "inline".into();
                Extents::Inline(values)
            }
            None => return Ok(None),
        };
        let mut lens_of_all = vec![0; usize::try_from(record_count).unwrap_or(0)];
        for (record, len) in self.records.iter().zip(lens) {
            if let Some(slot) = usize::try_from(*record).ok().and_then(|record| lens_of_all.get_mut(record)) {
                *slot = *len;
            }
        }
        Ok(Some(vec![flat, offsets(name, lens_of_all.into_iter())]))
    }
}

impl FeatureKind {
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Float => "floats",
            Self::Int64 => "whole numbers",
        }
    }
}

/// Variables by name, and what was refused.
#[derive(Debug, Default)]
struct BuiltVariables {
    variables: Vec<Variable>,
    names: std::collections::HashSet<String>,
    refused: Vec<Refused>,
}

impl BuiltVariables {
    /// Adds what was made of `feature`, unless its names are taken.
    fn add_all(&mut self, feature: &str, variables: impl IntoIterator<Item = Variable> + AsRef<[Variable]>) {
        if variables.as_ref().iter().any(|variable| self.names.contains(&variable.name)) {
            return self.refuse(feature, "a feature or record of that name stands here already".into());
        }
        for variable in variables {
            self.names.insert(variable.name.clone());
            self.variables.push(variable);
        }
    }

    fn refuse(&mut self, name: &str, why: String) {
        self.refused.push(Refused { name: name.into(), why, corrupt: false });
    }

    fn into_container(mut self, format: &str, source: SourceId) -> Container {
        self.variables.sort_by(|one, other| one.name.cmp(&other.name));
        let mut groups: Vec<String> = self
            .variables
            .iter()
            .flat_map(|variable| {
                variable.name.match_indices('/').map(|(end, _)| variable.name[..end].to_owned())
            })
            .chain([String::new()])
            .collect();
        groups.sort();
        groups.dedup();
        Container {
            format: format.into(),
            sources: vec![source],
            groups: groups.into_iter().map(|name| Group { name, attributes: Vec::new() }).collect(),
            variables: self.variables,
            refused: self.refused,
            ..Container::default()
        }
    }
}

/// All payloads end to end.
fn whole_records(payloads: &[ByteRange]) -> Result<Variable> {
    let joined = Segments::within(SourceIndex(0), payloads.iter().copied())?;
    let mut variable = Variable::new("record", Dtype::native(Number::U8), vec![joined.stored_len()]);
    variable.layout = "records".into();
    if joined.stored_len() > 0 {
        variable.extents = Extents::Segments(joined);
    }
    Ok(variable)
}

/// The table of chunks at `ranges`; equal distances are worked out, not listed.
fn table(ranges: &[ByteRange]) -> Result<ChunkTable> {
    let extent = |range: ByteRange| Extent { source: SourceIndex(0), range, skipped: 0 };
    let count = ranges.len() as u64;
    if let [first, second, ..] = ranges {
        let stride = second.start.wrapping_sub(first.start);
        let is_regular = ranges.windows(2).all(|two| {
            two[1].start > two[0].start
                && two[1].start - two[0].start == stride
                && two[1].len() == first.len()
        });
        if is_regular {
            return ChunkTable::regular(extent(*first), stride, count);
        }
    }
    ChunkTable::new((0..).zip(ranges.iter().map(|range| extent(*range))).collect(), count)
}

fn list_filter(kind: FeatureKind, len: u64) -> Result<Filter> {
    let count = u32::try_from(len).map_err(|_| Error::unsupported("2^32 values in one record"))?;
    let item = if kind == FeatureKind::Float { ListItem::Float } else { ListItem::Int64 };
    Ok(Filter::MessageList { item, count })
}
