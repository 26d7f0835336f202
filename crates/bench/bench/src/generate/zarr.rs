//! Zarr stores of version 2: the records and labels of DLIO's HDF5 files, one chunk for each sample.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::file::GeneratedFile;

/// Writes a store into the new folder `path`, its chunks deflated at `level`, if there is one.
pub(super) fn write_zarr(path: &Path, file: &GeneratedFile, level: Option<u32>) -> io::Result<()> {
    // What an interrupted run left.
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path.join("records"))?;
    fs::create_dir_all(path.join("labels"))?;
    write_json(&path.join(".zgroup"), &json!({ "zarr_format": 2 }))?;
    let codec = level.map_or(Value::Null, |level| json!({ "id": "gzip", "level": level }));
    let axes = |samples: u64| [samples].into_iter().chain(file.shape.iter().copied()).collect::<Vec<_>>();
    let records = array(&axes(file.samples), &axes(1), super::dtypes::numpy_name(file.element), &codec);
    write_json(&path.join("records/.zarray"), &records)?;
    write_json(&path.join("labels/.zarray"), &array(&[file.samples], &[file.samples], "<i8", &Value::Null))?;
    let zeros = vec![0; usize::try_from(file.samples * 8).map_err(io::Error::other)?];
    fs::write(path.join("labels/0"), zeros)?;
    let mut bytes = file.content();
    let mut record = vec![0; usize::try_from(file.record_len()).map_err(io::Error::other)?];
    for number in 0..file.samples {
        bytes.fill(&mut record);
        let name = path.join(format!("records/{number}{}", ".0".repeat(file.shape.len())));
        match level {
            None => fs::write(name, &record)?,
            Some(level) => {
                let mut encoder = GzEncoder::new(fs::File::create(name)?, Compression::new(level));
                encoder.write_all(&record)?;
                encoder.finish()?;
            }
        }
    }
    Ok(())
}

fn array(shape: &[u64], chunks: &[u64], dtype: &str, compressor: &Value) -> Value {
    json!({ "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "compressor": compressor,
            "fill_value": 0, "order": "C", "filters": null })
}

fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    fs::write(path, value.to_string())
}
