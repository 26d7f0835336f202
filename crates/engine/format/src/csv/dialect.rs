//! How a table is written: what stands between cells, and what its columns are called.

use std::fmt::Display;

use csv::{ByteRecord, ReaderBuilder};
use forebay_process::{Error, ErrorKind, Result};

use super::header::HeaderRow;
use forebay_filter::csv_cells::number_of;

/// How a table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) header: HeaderRow,
    /// What the columns are called, by the first row or by their numbers.
    pub(super) names: Vec<String>,
    /// Bytes of a row, more or less.
    pub(super) row_len: u64,
}

/// Rows that are looked at.
const MOST_ROWS: usize = 20;

impl Dialect {
    /// The dialect of a file of `file_len` bytes that starts with `head`, or why it is no table of numbers.
    ///
    /// `header` is whether its first row names the columns, where the user has said so.
    pub(super) fn of(head: &[u8], file_len: u64, header: Option<bool>) -> Result<Self> {
        let is_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\t' | b'\r' | b'\n');
        let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
        let first = first.ok_or_else(|| no_table("its first lines are empty"))?;
        if !head.iter().all(is_text) {
            return Err(no_table("it is not text"));
        }
        // JSON and XML have commas too.
        if matches!(first, b'{' | b'[' | b'<') {
            return Err(no_table(format!("it begins with {}", char::from(*first))));
        }
        let whole = match head.iter().rposition(|byte| *byte == b'\n') {
            // The last line may be cut.
            Some(end) if file_len > head.len() as u64 => &head[..=end],
            None if file_len > head.len() as u64 => return Err(no_table("its first line is too long")),
            _ => head,
        };
        let dialects = [(b',', 2), (b';', 2), (b'\t', 2), (b',', 1)];
        let found =
            dialects.iter().find_map(|(delimiter, least)| Self::with(*delimiter, whole, *least, header));
        found.ok_or_else(|| why_no_table(whole))
    }

    fn with(delimiter: u8, text: &[u8], least_columns: usize, header: Option<bool>) -> Option<Self> {
        let rows = rows_of(text, delimiter)?;
        let first = rows.first()?;
        let is_even = rows.iter().all(|row| row.len() == first.len());
        if first.len() < least_columns || !is_even {
            return None;
        }
        let header = HeaderRow::of(first, &rows[1..], header);
        let columns = 0..first.len();
        let body = &rows[usize::from(header.is_first_row)..];
        if !body.iter().any(|row| row.iter().any(|cell| number_of(cell).is_some())) {
            return None;
        }
        let name = |index: usize| {
            let cell =
                first.get(index).filter(|_| header.is_first_row).map(|cell| String::from_utf8_lossy(cell));
            let cell =
                cell.map(|cell| cell.trim().trim_matches('/').to_owned()).filter(|cell| !cell.is_empty());
            cell.unwrap_or_else(|| format!("column_{index}"))
        };
        let row_len = text.len() as u64
            / rows.len().max(text.iter().filter(|byte| **byte == b'\n').count()).max(1) as u64;
        Some(Self { delimiter, header, names: columns.map(name).collect(), row_len })
    }
}

/// The first rows of `text`.
fn rows_of(text: &[u8], delimiter: u8) -> Option<Vec<ByteRecord>> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(text);
    reader.byte_records().take(MOST_ROWS).collect::<Result<_, _>>().ok()
}

fn no_table(why: impl Display) -> Error {
    Error::new(ErrorKind::Unsupported, format!("named as CSV, but no table of numbers: {why}"))
}

/// Why the first rows of a text are no table of numbers, by the delimiter that is most frequent there.
fn why_no_table(text: &[u8]) -> Error {
    let count = |delimiter: &u8| text.iter().filter(|byte| *byte == delimiter).count();
    let delimiter = [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let rows = rows_of(text, delimiter).unwrap_or_default();
    if rows.iter().any(|row| row.get(0).is_some_and(|cell| cell.starts_with(b"#"))) {
        return no_table("it has lines that begin with #").hint("remove its comment lines");
    }
    let Some(first) = rows.first() else { return no_table("it has no rows") };
    let line_of = |row: &ByteRecord| row.position().map_or(0, csv::Position::line);
    match rows.iter().find(|row| row.len() != first.len()) {
        Some(odd) => {
            let (line, cells, wanted) = (line_of(odd), odd.len(), first.len());
            no_table(format!("line {line} has {cells} cells, line {} has {wanted}", line_of(first)))
        }
        None if rows.len() == 1 => no_table("it has one row, and that names the columns"),
        None => no_table(format!("its first {} rows have no number", rows.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Dialect> {
        Dialect::of(text.as_bytes(), text.len() as u64, None)
    }

    #[test]
    fn delimiters_and_headers_are_told_from_the_first_rows() {
        let found = of("a;b\n1;2,5\n3;4\n").unwrap();
        assert_eq!(
            (found.delimiter, found.header.is_first_row, found.names),
            (b';', true, vec!["a".into(), "b".into()])
        );
        let found = of("1,2\n3,4").unwrap();
        assert_eq!(
            (found.header.is_first_row, found.names),
            (false, vec!["column_0".into(), "column_1".into()])
        );
        assert_eq!(of("\"x, y\"\tz\n1\t2\n").unwrap().names, ["x, y", "z"]);
        assert_eq!(of("x\n1\n2\n").unwrap().names, ["x"]);
    }

    #[test]
    fn what_is_no_table_of_numbers_is_not_taken() {
        for (text, why) in [
            ("", "its first lines are empty"),
            ("{\"a\": 1, \"b\": 2}", "it begins with {"),
            ("<a>,1\n", "it begins with <"),
            ("a\u{0},1\n", "it is not text"),
            ("a,b\nc,d\n", "its first 2 rows have no number"),
            ("a,b\n", "it has one row, and that names the columns"),
            ("words, and words\n", "it has one row, and that names the columns"),
            ("1,2\n3\n", "line 2 has 1 cells, line 1 has 2"),
            ("# made by hand\na,b\n1,2\n", "it has lines that begin with #"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
