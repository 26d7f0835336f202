//! Whether the first row of a table names its columns.
//!
//! pandas writes column numbers (`,0,1,2`, or `0,1,2` without its index) where columns have no names, and years are common as
//! column names, so a first row of numbers may be a header too. `FOREBAY_CSV_HEADER` settles what is guessed wrongly.

use csv::ByteRecord;
use forebay_process::{Error, ErrorKind, Result};

use forebay_filter::csv_cells::{integer_of, is_missing, number_of};

/// The environment variable that says whether CSV files have a header: `yes`, `no` or `auto`.
pub const SETTING: &str = "FOREBAY_CSV_HEADER";

/// Whether the first row names the columns, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderRow {
    pub(super) is_first_row: bool,
    pub(super) is_set: bool,
}

impl HeaderRow {
    /// What the user has set, or what the first rows look like.
    pub(super) fn of(first: &ByteRecord, body: &[ByteRecord], set: Option<bool>) -> Self {
        let is_first_row = set.unwrap_or_else(|| names_columns(first, body));
        Self { is_first_row, is_set: set.is_some() }
    }

    /// The decision in words, for `inspect`.
    pub(super) fn describe(self) -> String {
        let what = if self.is_first_row { "the first row names the columns" } else { "no header" };
        let by =
            if self.is_set { format!("set by {SETTING}") } else { format!("guessed; {SETTING} sets it") };
        format!("{what} ({by})")
    }
}

/// What the user has set, if anything.
pub(super) fn setting() -> Result<Option<bool>> {
    let Some(value) = std::env::var_os(SETTING) else { return Ok(None) };
    match value.to_string_lossy().to_ascii_lowercase().as_str() {
        "yes" | "1" | "true" => Ok(Some(true)),
        "no" | "0" | "false" => Ok(Some(false)),
        "auto" | "" => Ok(None),
        other => {
            let error = Error::new(ErrorKind::Invalid, format!("{SETTING} is '{other}'"));
            Err(error.hint("it may be yes, no or auto"))
        }
    }
}

/// What a cell is, as far as headers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Number,
    Missing,
    Text,
}

fn cell_of(row: &ByteRecord, index: usize) -> Cell {
    match row.get(index) {
        Some(cell) if is_missing(cell) => Cell::Missing,
        Some(cell) if number_of(cell).is_some() => Cell::Number,
        Some(_) => Cell::Text,
        None => Cell::Missing,
    }
}

fn names_columns(first: &ByteRecord, body: &[ByteRecord]) -> bool {
    let columns = 0..first.len();
    if columns.clone().all(|index| cell_of(first, index) != Cell::Number) {
        return true;
    }
    let has_text = |index: usize| body.iter().any(|row| cell_of(row, index) == Cell::Text);
    let has_number = |index: usize| body.iter().any(|row| cell_of(row, index) == Cell::Number);
    // A word above numbers is their name, whatever its neighbours are called.
    let is_name = |index: usize| cell_of(first, index) == Cell::Text && has_number(index) && !has_text(index);
    if columns.clone().any(is_name) {
        return true;
    }
    // What pandas writes above its index is empty; above an index of words, the name of the index may stand.
    let is_above_index = cell_of(first, 0) != Cell::Number;
    let whole_numbers = |row: &ByteRecord| {
        row.iter().skip(usize::from(is_above_index)).map(integer_of).collect::<Option<Vec<_>>>()
    };
    let Some(labels) = whole_numbers(first).filter(|labels| !labels.is_empty()) else { return false };
    if (0..).zip(&labels).all(|(number, label)| *label == number) {
        // A table of 0, 1, 2, … that goes on with its second row is data; so is one column that begins with 0.
        let next = labels.last().map(|last| last + 1);
        let goes_on = body.first().and_then(whole_numbers).is_some_and(|row| row.first().copied() == next);
        return is_above_index || (labels.len() > 1 && !goes_on);
    }
    are_years(&labels) && !body.iter().any(|row| whole_numbers(row).is_some_and(|row| are_years(&row)))
}

/// True for two years or more in even steps.
fn are_years(labels: &[i64]) -> bool {
    let is_year = |label: &i64| (1000..=3000).contains(label);
    let [first, second, ..] = labels else { return false };
    let step = second - first;
    labels.iter().all(is_year) && step != 0 && labels.windows(2).all(|two| two[1] - two[0] == step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_header(text: &str) -> bool {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let rows: Vec<ByteRecord> = reader.byte_records().map(|row| row.expect("rows")).collect();
        HeaderRow::of(&rows[0], &rows[1..], None).is_first_row
    }

    #[test]
    fn numbers_that_name_columns_are_a_header() {
        for text in [
            ",0,1,2\n0,5,6,7\n1,8,9,10\n",
            ",0\n0,0.5\n1,0.25\n",
            "0,1,2\n5.5,6,7\n",
            "0,1\n7,1\n",
            "country,1990,1991,1992\nChad,1.5,2,3\n",
            ",2000,2010\nChad,1.5,2\n",
            "1990,1991\n0.5,0.25\n",
            "x,1\n5,6\n",
            "x,NA\n5,6\n",
        ] {
            assert!(has_header(text), "{text:?}");
        }
    }

    #[test]
    fn rows_of_data_are_no_header() {
        for text in [
            "1,2\n3,4\n",
            "0,1,2\n3,4,5\n",
            "0\n1\n2\n",
            ",5.1,3.5\n1,2,3\n",
            "1990,1991\n1992,1993\n",
            "5,a\n6,b\n",
            "NA,1.5\n2,3\n",
            "1,2\n0.5,0.25\n",
        ] {
            assert!(!has_header(text), "{text:?}");
        }
    }
}
