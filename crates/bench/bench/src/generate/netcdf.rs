//! NetCDF files of the classic format with 64-bit lengths (CDF-5): the records and labels of DLIO's HDF5 files.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::{file::GeneratedFile, npy::write_random};

const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const INT64: u32 = 10;

/// A variable: name, axes, type, bytes.
type Entry<'a> = (&'a str, &'a [u64], u32, u64);

/// Writes a NetCDF file whose variables are `records` and `labels`.
pub(super) fn write_netcdf(path: &Path, file: &GeneratedFile) -> io::Result<()> {
    let padded = |len: u64| len.next_multiple_of(4);
    let data_len = file.data_len();
    let numbers: Vec<u64> = (0..=file.shape.len() as u64).collect();
    let kind = super::dtypes::netcdf_kind(file.element)
        .ok_or_else(|| io::Error::other(format!("NetCDF has no type {}", file.element)))?;
    let variables: [Entry<'_>; 2] =
        [("records", &numbers, kind, data_len), ("labels", &[0], INT64, file.samples * 8)];
    let names = (0..file.shape.len()).map(|axis| format!("axis_{axis}"));
    let axes: Vec<(String, u64)> = [("sample".to_owned(), file.samples)]
        .into_iter()
        .chain(names.zip(file.shape.iter().copied()))
        .collect();
    let len = header(&axes, &variables, 0).len() as u64;
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&header(&axes, &variables, len))?;
    write_random(&mut out, file)?;
    out.write_all(&[0; 4][..usize::try_from(padded(data_len) - data_len).unwrap_or(0)])?;
    for _ in 0..file.samples {
        out.write_all(&[0; 8])?;
    }
    out.into_inner()?.sync_data()
}

/// The header of a file whose first variable begins at `begin`.
fn header(axes: &[(String, u64)], variables: &[Entry<'_>], begin: u64) -> Vec<u8> {
    let mut header = b"CDF\x05".to_vec();
    header.extend(0u64.to_be_bytes());
    list(&mut header, DIMENSIONS, axes.len());
    for (axis, len) in axes {
        name(&mut header, axis);
        header.extend(len.to_be_bytes());
    }
    list(&mut header, 0, 0);
    list(&mut header, VARIABLES, variables.len());
    let mut offset = begin;
    for (variable, axes, kind, len) in variables {
        name(&mut header, variable);
        header.extend((axes.len() as u64).to_be_bytes());
        header.extend(axes.iter().flat_map(|axis| axis.to_be_bytes()));
        list(&mut header, 0, 0);
        header.extend(kind.to_be_bytes());
        let stored = len.next_multiple_of(4);
        header.extend(stored.to_be_bytes());
        header.extend(offset.to_be_bytes());
        offset += stored;
    }
    header
}

fn list(header: &mut Vec<u8>, tag: u32, count: usize) {
    header.extend(tag.to_be_bytes());
    header.extend((count as u64).to_be_bytes());
}

fn name(header: &mut Vec<u8>, text: &str) {
    header.extend((text.len() as u64).to_be_bytes());
    header.extend(text.as_bytes());
    header.resize(header.len().next_multiple_of(4), 0);
}
