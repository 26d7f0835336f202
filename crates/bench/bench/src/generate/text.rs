//! CSV files as DLIO lays them out: a row of numbers for each sample, with the header and the row numbers that pandas writes.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::file::GeneratedFile;

/// Writes a CSV file.
pub(super) fn write_csv(path: &Path, file: &GeneratedFile) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let len = usize::try_from(file.record_len()).map_err(io::Error::other)?;
    let mut line = String::new();
    for column in 0..len {
        line.push(',');
        line.push_str(&column.to_string());
    }
    writeln!(out, "{line}")?;
    let mut bytes = file.content();
    let mut record = vec![0; len];
    for number in 0..file.samples {
        bytes.fill(&mut record);
        line.clear();
        line.push_str(&number.to_string());
        for value in &record {
            line.push(',');
            line.push_str(&value.to_string());
        }
        writeln!(out, "{line}")?;
    }
    out.into_inner()?.sync_data()
}
