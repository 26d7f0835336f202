//! Values as other implementations read them: every data set and attribute of the matrix, bit for bit.
//!
//! The matrix is made by `tests/matrix/make_matrix.py` with h5py, hdf5plugin, netCDF4 and PyTables; its folder is
//! given in `FOREBAY_MATRIX`. `make test` does both.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use forebay_container::{Array, Dtype, Extents, Selection, Span, Values, Variable, native};
use forebay_format::{Opened, describe};
use forebay_source::{FileOrigin, Locator};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

fn matrix() -> PathBuf {
    let folder =
        std::env::var_os("FOREBAY_MATRIX").expect("FOREBAY_MATRIX is the folder make_matrix.py wrote");
    PathBuf::from(folder)
}

#[derive(Debug, serde::Deserialize)]
struct Row {
    file: String,
    variable: String,
    kind: String,
    sha256: String,
}

fn rows(name: &str) -> BTreeMap<String, Vec<Row>> {
    let path = matrix().join(name);
    let mut reader =
        csv::Reader::from_path(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut files: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in reader.deserialize() {
        let row: Row = row.expect("a row of the manifest");
        files.entry(row.file.clone()).or_default().push(row);
    }
    files
}

fn open(file: &str) -> Opened {
    let origin = Arc::new(FileOrigin::under(matrix()));
    let container = describe(&*origin, &Locator::new(file)).unwrap_or_else(|error| panic!("{error}"));
    Opened::new(origin, Arc::new(container))
}

fn checksum(array: &Array) -> String {
    Sha256::digest(native::dump(array)).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_data_set_of_the_matrix_reads_as_the_reference_reads_it() {
    let files = rows("manifest.csv");
    let judge = |(file, rows): (&String, &Vec<Row>)| -> Vec<String> {
        let opened = open(file);
        let read = |row: &Row| {
            let variable = opened.container().variable(&row.variable)?;
            opened.read(variable, &Selection::all(&variable.grid.shape))
        };
        rows.iter()
            .filter_map(|row| match (row.kind.as_str(), read(row)) {
                ("value", Ok(array)) if checksum(&array) == row.sha256 => None,
                ("value", Ok(_)) => Some(format!("{file}: {}: wrong values", row.variable)),
                ("value", Err(error)) => Some(error.to_string()),
                (_, Err(_)) => None,
                (kind, Ok(_)) => Some(format!("{file}: {}: values where {kind} was due", row.variable)),
            })
            .collect()
    };
    let bad: Vec<String> = files.par_iter().flat_map_iter(judge).collect();
    let count: usize = files.values().map(Vec::len).sum();
    assert!(count >= 1500, "the matrix has only {count} data sets");
    assert!(bad.is_empty(), "{} of {count}:\n{}", bad.len(), bad[..bad.len().min(40)].join("\n"));
}

#[derive(Debug, serde::Deserialize)]
struct AttributeRow {
    file: String,
    object: String,
    attribute: String,
    kind: String,
    sha256: String,
}

#[test]
fn every_attribute_of_the_matrix_reads_as_the_reference_reads_it() {
    let path = matrix().join("attributes.csv");
    let mut files: BTreeMap<String, Vec<AttributeRow>> = BTreeMap::new();
    for row in csv::Reader::from_path(path).expect("attributes.csv").deserialize() {
        let row: AttributeRow = row.expect("a row");
        files.entry(row.file.clone()).or_default().push(row);
    }
    let mut bad = Vec::new();
    let mut compared = 0;
    for (file, rows) in &files {
        let opened = open(file);
        let container = opened.container();
        for row in rows {
            let name = row.object.trim_matches('/');
            let group =
                container.groups.iter().find(|group| group.name == name).map(|group| &group.attributes);
            let attributes =
                group.or_else(|| container.variable(&row.object).ok().map(|variable| &variable.attributes));
            // Committed types have attributes too; a container does not list those.
            let Some(attributes) = attributes else { continue };
            let Some(found) = attributes.iter().find(|found| found.name == row.attribute) else {
                bad.push(format!("{file}: {name}: attribute {} is missing", row.attribute));
                continue;
            };
            compared += 1;
            match (&found.value, row.kind.as_str()) {
                (Ok(array), "value") if checksum(array) == row.sha256 => {}
                (Err(_), kind) if kind != "value" => {}
                (value, kind) => bad.push(format!("{file}: {name}: {}: {kind}: {value:?}", row.attribute)),
            }
        }
    }
    assert!(compared > 2000, "only {compared} attributes were compared");
    assert!(bad.is_empty(), "{} of {compared}:\n{}", bad.len(), bad[..bad.len().min(40)].join("\n"));
}

/// Spans that meet borders, skip chunks and take single elements.
fn some_selections(shape: &[u64]) -> Vec<Selection> {
    let spans = |pick: &dyn Fn(u64) -> Span| Selection::new(shape.iter().map(|n| pick(*n)).collect());
    let middle = |n: u64| Span { start: n / 3, count: n.div_ceil(2).min(n - n / 3), step: 1 };
    let stepped = |n: u64| Span { start: n / 5, count: (n - n / 5).div_ceil(3), step: 3 };
    let last = |n: u64| Span { start: n.saturating_sub(1), count: n.min(1), step: 1 };
    let none = |n: u64| Span { start: n, count: 0, step: 1 };
    vec![spans(&middle), spans(&stepped), spans(&last), spans(&none)]
}

/// The elements of `selection` picked one by one from the values of the whole.
fn picked(whole: &[u8], len: usize, shape: &[u64], selection: &Selection) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = vec![0; shape.len()];
    let spans = selection.spans();
    for _ in 0..selection.element_count() {
        let index = at
            .iter()
            .zip(spans)
            .zip(shape)
            .fold(0, |index, ((at, span), n)| index * n + span.start + at * span.step);
        let from = usize::try_from(index).unwrap() * len;
        out.extend_from_slice(&whole[from..from + len]);
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < spans[axis].count {
                break;
            }
            at[axis] = 0;
        }
    }
    out
}

#[test]
fn a_part_is_what_the_whole_has_there() {
    let files = rows("manifest.csv");
    let judge = |file: &String| -> (usize, Vec<String>) {
        let opened = open(file);
        let mut bad = Vec::new();
        let mut compared = 0;
        let fits = |variable: &&Variable| {
            let small = variable.logical_len() < 1 << 20 && variable.grid.shape.len() < 8;
            small && variable.dtype.refusal().is_none() && !matches!(variable.extents, Extents::Opaque(_))
        };
        for variable in opened.container().variables.iter().filter(fits).take(60) {
            let shape = &variable.grid.shape;
            let Ok(whole) = opened.read(variable, &Selection::all(shape)) else { continue };
            let Values::Fixed(whole_bytes) = &whole.values else { continue };
            for selection in some_selections(shape) {
                let part = opened.read(variable, &selection).expect("a part of what was read whole");
                let wanted = picked(whole_bytes, whole.dtype.native_len(), shape, &selection);
                compared += 1;
                if part.values != Values::Fixed(wanted) {
                    bad.push(format!("{file}: {}: {selection:?}", variable.name));
                }
            }
        }
        (compared, bad)
    };
    let judged: Vec<(usize, Vec<String>)> = files.par_iter().map(|(file, _)| judge(file)).collect();
    let compared: usize = judged.iter().map(|(compared, _)| compared).sum();
    let bad: Vec<String> = judged.into_iter().flat_map(|(_, bad)| bad).collect();
    assert!(compared > 10_000, "only {compared} parts were compared");
    assert!(bad.is_empty(), "{} of {compared}:\n{}", bad.len(), bad[..bad.len().min(40)].join("\n"));
}

#[test]
fn a_saved_description_is_the_same_description() {
    for file in rows("manifest.csv").keys().step_by(5) {
        let opened = open(file);
        let saved = forebay_container::save(opened.container()).unwrap();
        assert_eq!(&forebay_container::load(&saved).unwrap(), opened.container(), "{file}");
    }
}

#[test]
fn twenty_threads_read_twenty_variables_of_one_file() {
    let opened = open("filters_latest.h5");
    let container = opened.container();
    let fixed = |variable: &&Variable| {
        !variable.dtype.is_variable() && !matches!(variable.dtype, Dtype::Nonstandard { .. })
    };
    let variables: Vec<&Variable> = container.variables.iter().filter(fixed).take(20).collect();
    assert_eq!(variables.len(), 20);
    let read = &|variable: &Variable| opened.read(variable, &Selection::all(&variable.grid.shape)).unwrap();
    let alone: Vec<Array> = variables.iter().map(|variable| read(variable)).collect();
    std::thread::scope(|scope| {
        for (variable, alone) in variables.iter().zip(&alone) {
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(&read(variable), alone, "{}", variable.name);
                }
            });
        }
    });
}

#[test]
fn rows_by_number_are_the_rows_of_the_whole() {
    let mut compared = 0;
    for file in rows("manifest.csv").keys() {
        let opened = open(file);
        let fits = |variable: &&Variable| {
            let fixed = !variable.dtype.is_variable() && !matches!(variable.dtype, Dtype::Nonstandard { .. });
            let small = variable.logical_len() < 1 << 20 && variable.logical_len() > 0;
            fixed && small && !variable.grid.shape.is_empty() && variable.dtype.refusal().is_none()
        };
        for variable in opened.container().variables.iter().filter(fits) {
            let Ok(whole) = opened.read(variable, &Selection::all(&variable.grid.shape)) else { continue };
            let Values::Fixed(whole) = whole.values else { continue };
            let count = variable.grid.shape[0];
            let row_len = whole.len() / usize::try_from(count).unwrap();
            let wanted: Vec<u64> = [count - 1, 0, count / 2, 0, count / 3, count - 1].into();
            let mut out = vec![0; row_len * wanted.len()];
            opened.read_rows(variable, &wanted, &mut out).unwrap();
            for (row, got) in wanted.iter().zip(out.chunks_exact(row_len)) {
                let from = usize::try_from(*row).unwrap() * row_len;
                assert_eq!(got, &whole[from..from + row_len], "{file}: {}: row {row}", variable.name);
                compared += 1;
            }
            assert!(opened.read_rows(variable, &[count], &mut out[..row_len]).is_err());
        }
    }
    assert!(compared > 1000, "only {compared} rows were compared");
}
