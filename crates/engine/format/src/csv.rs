//! CSV: tables of numbers as text, one variable per column and `data` for all of them.
//!
//! The file is read once when it is described: every cell is looked at, and where each few hundred rows start is noted.
//! Those rows are a chunk, and a filter turns its text into numbers; so rows are read by reading their chunk alone.

mod columns;
mod dialect;
mod header;

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use crate::{Format, Found};
use columns::{CellKind, CsvColumn};
use dialect::Dialect;
use forebay_container::{
    ChunkTable, Container, Dtype, Extent, Extents, Filter, Number, Refused, SourceIndex, Variable,
    names::{container, text_attribute},
};
use forebay_filter::CsvRows;
pub use header::SETTING as CSV_HEADER;

/// Tables of numbers as text, with commas, semicolons or tabs between them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Csv;

/// What is read at a time.
const READ_BYTES: u64 = 1 << 20;
/// Text of one chunk: 64 KiB are parsed in about 0.3 ms.
const CHUNK_BYTES: u64 = 64 << 10;
/// A chunk's place takes 32 bytes in every column's table: all tables together stay below a hundredth of the file.
const CHUNK_BYTES_PER_COLUMN: u64 = 3200;
/// What is looked at where the first line is longer than what every format looks at.
const LONG_ROW_BYTES: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];
/// Of more columns only the matrix of all is made.
const MOST_COLUMNS: usize = 1024;
/// What the matrix of all numeric columns is called.
const MATRIX: &str = "data";

impl Format for Csv {
    fn name(&self) -> &str {
        "csv"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        if found.file.is_none() {
            return Ok(false);
        }
        // Much text has commas: a name that says so is asked for as well.
        Ok(is_named_so(found) && dialect_of(found)?.is_ok())
    }

    fn why_not(&self, found: &Found<'_>) -> Result<Option<Error>> {
        match found.file.is_some() && is_named_so(found) {
            true => Ok(dialect_of(found)?.err()),
            false => Ok(None),
        }
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let file = found.need_file()?;
        let dialect = dialect_of(found)??;
        let table = scan(&**file, &dialect)?;
        let mut refused = Vec::new();
        let variables = table.variables(&dialect, &mut refused)?;
        let mut described = container(self.name(), vec![file.id().clone()], variables);
        described.groups[0].attributes.push(text_attribute("csv_header", &dialect.header.describe()));
        Ok(Container { refused, ..described })
    }
}

fn is_named_so(found: &Found<'_>) -> bool {
    let name = found.at.as_str().to_ascii_lowercase();
    [".csv", ".tsv"].iter().any(|ending| name.ends_with(ending))
}

/// How the file that was found is written, or why it is no table; of one with long rows more is looked at.
fn dialect_of(found: &Found<'_>) -> Result<Result<Dialect>> {
    let file = found.need_file()?;
    let file_len = file.id().len;
    let mut head = found.head.clone();
    for more in LONG_ROW_BYTES {
        if head.contains(&b'\n') || head.len() as u64 == file_len || head.contains(&0) {
            break;
        }
        head = file.fetch_one(ByteRange::at(0, file_len.min(more)))?;
    }
    Ok(Dialect::of(&head, file_len, header::setting()?))
}

/// What one pass over the file gives.
struct Table {
    columns: Vec<CsvColumn>,
    row_count: u64,
    /// Rows of every chunk but the last.
    chunk_rows: u64,
    chunks: Vec<ByteRange>,
}

fn scan(file: &dyn Source, dialect: &Dialect) -> Result<Table> {
    let file_len = file.id().len;
    let from = SourceReader { file, at: 0 };
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).delimiter(dialect.delimiter).from_reader(from);
    let column_count = dialect.names.len() as u64;
    let table_count = if dialect.names.len() > MOST_COLUMNS { 1 } else { column_count + 1 };
    let chunk_bytes = CHUNK_BYTES.max(CHUNK_BYTES_PER_COLUMN * table_count);
    let mut table = Table {
        columns: dialect.names.iter().map(|name| CsvColumn::new(name)).collect(),
        row_count: 0,
        chunk_rows: (chunk_bytes / dialect.row_len.max(1)).clamp(1, 1 << 20),
        chunks: Vec::new(),
    };
    let mut starts = Vec::new();
    let mut record = ByteRecord::new();
    let mut is_header = dialect.header.is_first_row;
    while reader.read_byte_record(&mut record).map_err(bad_csv)? {
        if std::mem::take(&mut is_header) {
            continue;
        }
        let (byte, line) = record.position().map_or((0, 0), |at| (at.byte(), at.line()));
        if record.len() as u64 != column_count {
            let what = format!("line {line} has {} cells where {column_count} belong", record.len());
            return Err(Error::new(ErrorKind::Corrupt, what).at(format!("{byte:#x}")));
        }
        for (cell, column) in record.iter().zip(&mut table.columns) {
            column.look(cell, line);
        }
        if table.row_count.is_multiple_of(table.chunk_rows) {
            starts.push(byte);
        }
        table.row_count += 1;
    }
    starts.push(file_len);
    table.chunks = starts.windows(2).map(|two| ByteRange { start: two[0], end: two[1] }).collect();
    Ok(table)
}

impl Table {
    fn variables(&self, dialect: &Dialect, refused: &mut Vec<Refused>) -> Result<Vec<Variable>> {
        let mut variables = Vec::new();
        let mut numeric = Vec::new();
        let mut bad = None;
        for (index, column) in (0..).zip(&self.columns) {
            let number = match &column.kind {
                CellKind::Integer => Number::I64,
                CellKind::Float => Number::F64,
                CellKind::Text | CellKind::Bad(_) => {
                    let corrupt = matches!(column.kind, CellKind::Bad(_));
                    let why = column.why().unwrap_or_default();
                    bad = bad.or(corrupt.then(|| why.clone()));
                    refused.push(Refused { name: column.name.clone(), why, corrupt });
                    continue;
                }
            };
            numeric.push(index);
            if self.columns.len() > MOST_COLUMNS {
                continue;
            }
            if column.name == MATRIX || variables.iter().any(|known: &Variable| known.name == column.name) {
                let place = numeric.len() - 1;
                let why = format!(
                    "another variable has this name; read it as column {place} of `{MATRIX}`, counted from 0"
                );
                refused.push(Refused { name: column.name.clone(), why, corrupt: false });
                continue;
            }
            let variable = Variable::new(&column.name, Dtype::native(number), vec![self.row_count]);
            variables.push(self.placed(variable, dialect, &[index])?);
        }
        match bad {
            // A matrix without the column would be another one than the user thinks.
            Some(why) => refused.push(Refused { name: MATRIX.into(), why, corrupt: true }),
            None if numeric.is_empty() => {}
            None => {
                let shape = vec![self.row_count, numeric.len() as u64];
                let matrix = Variable::new(MATRIX, Dtype::native(Number::F64), shape);
                variables.push(self.placed(matrix, dialect, &numeric)?);
            }
        }
        Ok(variables)
    }

    /// `variable` with its values in the text of `columns`.
    fn placed(&self, mut variable: Variable, dialect: &Dialect, columns: &[u32]) -> Result<Variable> {
        if self.row_count == 0 {
            return Ok(variable);
        }
        let chunk_rows = self.chunk_rows.min(self.row_count);
        let last_rows = self.row_count - (self.chunks.len() as u64 - 1) * chunk_rows;
        variable.grid.chunk[0] = chunk_rows;
        variable.layout = "chunked".into();
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        variable.filters = vec![Filter::CsvRows(CsvRows {
            integers: matches!(variable.dtype, Dtype::Number { number: Number::I64, .. }),
            delimiter: dialect.delimiter,
            chunk_rows: small(chunk_rows),
            last_rows: small(last_rows),
            cell_count: small(dialect.names.len() as u64),
            columns: columns.to_vec(),
        })];
        let extent = |range: &ByteRange| Extent { source: SourceIndex(0), range: *range, skipped: 0 };
        let pairs = (0..).zip(self.chunks.iter().map(extent)).collect();
        variable.extents = Extents::Chunks(ChunkTable::new(pairs, self.chunks.len() as u64)?);
        Ok(variable)
    }
}

fn bad_csv(error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Error::from_io(error),
        other => Error::new(ErrorKind::Corrupt, format!("{other:?}")),
    }
}

/// A source as the standard library reads one.
struct SourceReader<'a> {
    file: &'a dyn Source,
    at: u64,
}

impl Read for SourceReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = self.file.id().len - self.at;
        let len = left.min(READ_BYTES).min(into.len() as u64);
        let bytes = self.file.fetch_one(ByteRange::at(self.at, len)).map_err(std::io::Error::other)?;
        into[..bytes.len()].copy_from_slice(&bytes);
        self.at += len;
        Ok(bytes.len())
    }
}
