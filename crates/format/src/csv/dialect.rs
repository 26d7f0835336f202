//! How a table is written: what stands between cells, and what its columns are called.

use csv::{ByteRecord, ReaderBuilder};

use super::header::Header;
use crate::filter::number_of;

/// How a table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) header: Header,
    /// What the columns are called, by the first row or by their numbers.
    pub(super) names: Vec<String>,
    /// Bytes of a row, more or less.
    pub(super) row_len: u64,
}

/// Rows that are looked at.
const MOST_ROWS: usize = 20;

impl Dialect {
    /// The dialect of a file of `file_len` bytes that starts with `head`; `None` for what is no table of numbers.
    ///
    /// `header` is whether its first row names the columns, where the user has said so.
    pub(super) fn of(head: &[u8], file_len: u64, header: Option<bool>) -> Option<Self> {
        let is_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\t' | b'\r' | b'\n');
        // JSON and XML have commas too.
        let first = head.iter().find(|byte| !byte.is_ascii_whitespace())?;
        if !head.iter().all(is_text) || matches!(first, b'{' | b'[' | b'<') {
            return None;
        }
        let whole = match file_len > head.len() as u64 {
            // The last line may be cut.
            true => &head[..=head.iter().rposition(|byte| *byte == b'\n')?],
            false => head,
        };
        [b',', b';', b'\t']
            .iter()
            .find_map(|delimiter| Self::with(*delimiter, whole, 2, header))
            .or_else(|| Self::with(b',', whole, 1, header))
    }

    fn with(delimiter: u8, text: &[u8], least_columns: usize, header: Option<bool>) -> Option<Self> {
        let mut reader =
            ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(text);
        let rows: Vec<ByteRecord> = reader.byte_records().take(MOST_ROWS).collect::<Result<_, _>>().ok()?;
        let first = rows.first()?;
        let is_even = rows.iter().all(|row| row.len() == first.len());
        if first.len() < least_columns || !is_even {
            return None;
        }
        let header = Header::of(first, &rows[1..], header);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Dialect> {
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
        for text in [
            "",
            "{\"a\": 1, \"b\": 2}",
            "a,b\nc,d\n",
            "1,2\n3\n",
            "a\u{0},1\n",
            "words, and words\n",
            "<a>,1\n",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }
}
