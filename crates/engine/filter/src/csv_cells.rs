//! Rows of CSV text, turned into numbers.

use csv::{ByteRecord, ReaderBuilder};
use forebay_process::{Error, Result};

use crate::{CsvRows, error::too_long};

/// The whole number that `cell` has.
pub fn integer_of(cell: &[u8]) -> Option<i64> {
    std::str::from_utf8(cell).ok()?.trim().parse().ok()
}

/// The words that pandas takes for a missing value, and the dash that tables in print have.
const MISSING: [&str; 18] = [
    "", "-", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "None", "n/a", "null",
];

/// True for an empty cell and for a word that says that the value is missing; NaN is a number.
pub fn is_missing(cell: &[u8]) -> bool {
    std::str::from_utf8(cell).is_ok_and(|text| MISSING.contains(&text.trim()))
}

/// The number that is written in `cell`, if there is one.
pub fn number_of(cell: &[u8]) -> Option<f64> {
    std::str::from_utf8(cell).ok()?.trim().parse().ok()
}

/// The number that `cell` stands for: NaN where it is missing.
pub fn float_of(cell: &[u8]) -> Option<f64> {
    number_of(cell).or_else(|| is_missing(cell).then_some(f64::NAN))
}

pub(crate) fn decode(rows: &CsvRows, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let CsvRows { delimiter, chunk_rows, last_rows, cell_count, ref columns, .. } = *rows;
    let mut places = out.as_chunks_mut::<8>().0.iter_mut();
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(input);
    let mut record = ByteRecord::new();
    let mut row = 0;
    while reader
        .read_byte_record(&mut record)
        .map_err(|error| Error::corrupt("is no table").because(error))?
    {
        row += 1;
        if record.len() != cell_count as usize {
            return Err(Error::corrupt(format!(
                "row {row} of it has {} cells where {cell_count} belong",
                record.len()
            )));
        }
        for column in columns {
            let cell =
                record.get(*column as usize).ok_or_else(|| Error::corrupt("a column that is not there"))?;
            let number = match rows.integers {
                true => integer_of(cell).map(i64::to_le_bytes),
                false => float_of(cell).map(f64::to_le_bytes),
            };
            let number = number.ok_or_else(|| {
                let cell: String = String::from_utf8_lossy(cell).chars().take(40).collect();
                Error::corrupt(format!("row {row} of it, column {column}: '{cell}' is no number"))
            })?;
            *places.next().ok_or_else(too_long)? = number;
        }
    }
    if row != chunk_rows && row != last_rows {
        return Err(Error::corrupt(format!("{row} rows where {chunk_rows} belong")));
    }
    // Only the last chunk has fewer rows; what it lacks lies outside the array.
    places.for_each(|place| *place = [0; 8]);
    Ok((chunk_rows as usize).saturating_mul(columns.len()).saturating_mul(8).min(out.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_text_become_numbers() {
        let mut out = [0; 32];
        let rows = CsvRows {
            integers: false,
            delimiter: b';',
            chunk_rows: 2,
            last_rows: 1,
            cell_count: 3,
            columns: vec![2, 0],
        };
        assert_eq!(decode(&rows, b"1;x;\"2.5\"\r\n3;y;4\r\n", &mut out).unwrap(), 32);
        assert_eq!(out[..16], [2.5f64.to_le_bytes(), 1f64.to_le_bytes()].concat());
        assert_eq!(decode(&rows, b"1;x;2.5\n", &mut out).unwrap(), 32, "the last chunk");
        assert!(decode(&rows, b"1;x;y\n1;x;2\n", &mut out).is_err());
        assert!(decode(&rows, b"1;2\n1;2\n", &mut out).is_err());
        assert!(decode(&rows, b"1;x;1\n1;x;1\n1;x;1\n", &mut out).is_err());
    }
}
