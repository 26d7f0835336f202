//! Where the values of a classic file lie.
//!
//! ```text
//! header │ fixed variables │ record 0: a b c │ record 1: a b c │ …
//! ```
//!
//! Each variable's part of a record is filled up to a multiple of four bytes, unless it is the only one.

use forebay_process::{Error, Result};
use forebay_source::{ByteRange, SourceId};

use super::{
    cursor::corrupt,
    header::{ClassicHeader, HeaderVariable},
};
use forebay_container::{
    Array, ChunkTable, Container, Extent, Extents, Grid, Group, Refused, SourceIndex, Values, Variable,
    names::names_given_twice, native, shape::product,
};

/// Names of axes are said once per variable that has them: a small file can say far more of them than it holds.
const NAME_BYTES_PER_BYTE: u64 = 64;
const LEAST_NAME_BYTES: u64 = 16 << 20;

/// Describes a file whose header is `header`.
pub(super) fn describe(header: &ClassicHeader, id: &SourceId) -> Result<Container> {
    check_names(header, id.len)?;
    let layout = RecordLayout::new(header, id.len);
    let twice = names_given_twice(header.variables.iter().map(|entry| entry.name.as_str()));
    let mut variables = Vec::new();
    let mut refused = Vec::new();
    for entry in header.variables.iter().filter(|entry| !twice.contains(&entry.name)) {
        match layout.variable(entry) {
            Ok(variable) => variables.push(variable),
            Err(error) => {
                refused.push(Refused { name: entry.name.clone(), why: error.to_string(), corrupt: true });
            }
        }
    }
    refused.extend(twice.into_iter().map(|name| {
        let why = format!("two variables are called '{name}'");
        Refused { name, why, corrupt: true }
    }));
    refused.sort_by(|left, right| left.name.cmp(&right.name));
    let mut container = Container {
        format: "netcdf3".into(),
        sources: vec![id.clone()],
        groups: vec![Group { name: String::new(), attributes: header.attributes.clone() }],
        variables,
        refused,
        ..Container::default()
    };
    container.sort_variables();
    Ok(container)
}

fn check_names(header: &ClassicHeader, file_len: u64) -> Result<()> {
    let axes = header.variables.iter().flat_map(|entry| &entry.axes);
    let said = axes.fold(0, |sum: u64, axis| sum + header.dimensions[*axis].name.len() as u64);
    if said > file_len.saturating_mul(NAME_BYTES_PER_BYTE).max(LEAST_NAME_BYTES) {
        return Err(corrupt(format!("{said} bytes of names of axes in a file of {file_len}")));
    }
    Ok(())
}

/// How the records of a file lie.
struct RecordLayout<'a> {
    header: &'a ClassicHeader,
    file_len: u64,
    /// Bytes from one record to the next and how many there are, or why that cannot be known.
    records: std::result::Result<(u64, u64), String>,
}

impl<'a> RecordLayout<'a> {
    fn new(header: &'a ClassicHeader, file_len: u64) -> Self {
        let mut layout = Self { header, file_len, records: Ok((0, 0)) };
        layout.records = layout.measured().map_err(|error| error.to_string());
        layout
    }

    /// Length and number of the records. All variables that have records make them up: where one of them cannot be
    /// made out, none of them can be found.
    fn measured(&self) -> Result<(u64, u64)> {
        let mut parts = Vec::new();
        for entry in &self.header.variables {
            // A variable that may have records counts as one that has them.
            let is_unknown = entry.defect.is_some() && entry.axes.is_empty();
            if self.has_records(entry) || is_unknown {
                parts.push((entry.begin, self.part_len(entry)?));
            }
        }
        let record_len = match parts[..] {
            [(_, only)] => only,
            _ => parts
                .iter()
                .try_fold(0u64, |sum, (_, len)| sum.checked_add(len.checked_next_multiple_of(4)?))
                .ok_or_else(|| corrupt("records longer than any file"))?,
        };
        let known = self.header.record_count;
        Ok((record_len, known.unwrap_or_else(|| self.complete_records(record_len, &parts))))
    }

    /// How many records a file that does not say it has whole.
    fn complete_records(&self, record_len: u64, parts: &[(u64, u64)]) -> u64 {
        let has = |(begin, len): &(u64, u64)| {
            let room = self.file_len.checked_sub(begin.saturating_add(*len))?;
            Some(room / record_len.max(1) + 1)
        };
        parts.iter().map(|part| has(part).unwrap_or(0)).min().unwrap_or(0)
    }

    fn has_records(&self, entry: &HeaderVariable) -> bool {
        entry.axes.first().is_some_and(|axis| self.header.dimensions[*axis].len.is_none())
    }

    /// Bytes of one record of `entry`, or of all its values where it has no records.
    fn part_len(&self, entry: &HeaderVariable) -> Result<u64> {
        if let Some(defect) = &entry.defect {
            return Err(in_variable(entry, corrupt(defect.clone())));
        }
        let inner = &entry.axes[usize::from(self.has_records(entry))..];
        let mut len = entry.kind.len();
        for axis in inner {
            let dimension = &self.header.dimensions[*axis];
            let Some(more) = dimension.len else {
                let what = format!("dimension '{}' grows, and is not the first of its axes", dimension.name);
                return Err(in_variable(entry, corrupt(what)));
            };
            len = len
                .checked_mul(more)
                .ok_or_else(|| in_variable(entry, corrupt("a shape of more bytes than 64 bits count")))?;
        }
        Ok(len)
    }

    fn variable(&self, entry: &HeaderVariable) -> Result<Variable> {
        let dimensions = &self.header.dimensions;
        let part_len = self.part_len(entry)?;
        let has_records = self.has_records(entry);
        let (record_len, record_count) = match &self.records {
            Err(why) if has_records => return Err(corrupt(format!("its records cannot be found: {why}"))),
            records => records.clone().unwrap_or_default(),
        };
        let shape = entry.axes.iter().map(|axis| dimensions[*axis].len.unwrap_or(record_count));
        let mut variable = Variable::new(&entry.name, entry.kind.dtype(), shape.collect());
        variable.max_shape = entry.axes.iter().map(|axis| dimensions[*axis].len).collect();
        variable.dimensions = entry.axes.iter().map(|axis| dimensions[*axis].name.clone()).collect();
        variable.fill = fill(entry);
        variable.attributes.clone_from(&entry.attributes);
        if has_records {
            variable.layout = "records".into();
        }
        let (stride, count) = if has_records { (record_len, record_count) } else { (part_len, 1) };
        if count == 0 || product(&variable.grid.shape) == 0 {
            return Ok(variable);
        }
        self.check(entry, part_len, stride, count)?;
        // Records that follow each other without a gap are one stretch, and any part of it can be read at once.
        if stride == part_len || count == 1 {
            let range = ByteRange::at(entry.begin, part_len * count);
            variable.extents = Extents::Chunks(ChunkTable::one(extent(range)));
            return Ok(variable);
        }
        let chunk = std::iter::once(1).chain(variable.grid.shape[1..].iter().copied()).collect();
        variable.grid = Grid { chunk, ..variable.grid };
        let first = extent(ByteRange::at(entry.begin, part_len));
        variable.extents = Extents::Chunks(ChunkTable::regular(first, stride, count)?);
        Ok(variable)
    }

    /// Refuses values that lie in the header or past the end of the file.
    fn check(&self, entry: &HeaderVariable, part_len: u64, stride: u64, count: u64) -> Result<()> {
        let place = |error: Error| error.at(format!("values at {:#x}", entry.begin));
        if entry.begin < self.header.len {
            return Err(place(corrupt(format!("they lie inside the header of {} bytes", self.header.len))));
        }
        let end = stride.checked_mul(count - 1).and_then(|last| last.checked_add(part_len));
        let end = end.and_then(|len| entry.begin.checked_add(len));
        if end.is_some_and(|end| end <= self.file_len) {
            return Ok(());
        }
        let until = end.map_or("no file can be as long".to_owned(), |end| format!("they end at {end:#x}"));
        let what =
            format!("{until}, and the file at {:#x}: it was cut short, or never written", self.file_len);
        Err(place(
            Error::new(forebay_process::ErrorKind::Corrupt, what).hint("fetch or write the file again"),
        ))
    }
}

fn in_variable(entry: &HeaderVariable, error: Error) -> Error {
    error.at(format!("variable '{}'", entry.name))
}

fn extent(range: ByteRange) -> Extent {
    Extent { source: SourceIndex(0), range, skipped: 0 }
}

/// What stands where nothing was written: the variable's own fill value, or its type's.
fn fill(entry: &HeaderVariable) -> Vec<u8> {
    let own = entry.attributes.iter().find(|attribute| attribute.name == "_FillValue");
    match own.and_then(|attribute| attribute.value.as_ref().ok()) {
        Some(Array { dtype, values: Values::Fixed(native), .. })
            if *dtype == entry.kind.dtype() && native.len() as u64 == entry.kind.len() =>
        {
            let mut stored = native.clone();
            // What makes stored bytes native makes native bytes stored.
            native::make_native(dtype, &mut stored);
            stored
        }
        _ => entry.kind.default_fill(),
    }
}
