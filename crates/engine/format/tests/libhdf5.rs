//! Values read by libhdf5, held against what h5py read: every data set of the matrix, whatever we could do ourselves.
//!
//! `FOREBAY_MATRIX` is the folder that `tests/matrix/make_matrix.py` filled. `FOREBAY_LIBHDF5` names the library,
//! or `VIRTUAL_ENV` an environment with h5py in it, where the usual search finds none.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
};

use forebay_container::{Array, Extents, Filter, Opaque, Selection, SourceIndex, Values, Variable, native};
use forebay_format::{Opened, describe};
use forebay_source::{FileOrigin, Locator, Version};
use sha2::{Digest, Sha256};

/// Filters that libhdf5 has built in; all others need plug-ins.
const BUILT_IN: [&str; 6] = ["deflate", "shuffle", "fletcher32", "szip", "nbit", "scaleoffset"];
/// Files of the matrix with plain values, as they are and deflated.
const PLAIN: &str = "numbers_latest_contiguous.h5";
const FILTERED: &str = "numbers_latest_deflate.h5";

#[derive(serde::Deserialize)]
struct Row {
    file: String,
    kind: String,
    variable: String,
    sha256: String,
}

fn matrix() -> PathBuf {
    let folder = env::var_os("FOREBAY_MATRIX").expect("FOREBAY_MATRIX must name what make_matrix.py made");
    fs::canonicalize(folder).expect("FOREBAY_MATRIX must exist")
}

/// The values of the manifest, by file.
fn manifest(folder: &Path) -> BTreeMap<String, Vec<Row>> {
    let mut reader = csv::Reader::from_path(folder.join("manifest.csv")).expect("the matrix has a manifest");
    let mut files: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in reader.deserialize() {
        let row: Row = row.expect("a row of the manifest");
        if row.kind == "value" {
            files.entry(row.file.clone()).or_default().push(row);
        }
    }
    files
}

fn open(path: &Path) -> Opened {
    let origin = Arc::new(FileOrigin::new());
    let container = describe(&*origin, &Locator::new(path.to_str().unwrap()));
    Opened::new(origin, Arc::new(container.unwrap_or_else(|error| panic!("{error}"))))
}

fn all(variable: &Variable) -> Selection {
    Selection::all(&variable.grid.shape)
}

/// These tests need a library: its absence must be seen, not passed over.
fn need_library() {
    let found = forebay_format::libhdf5_version();
    let remedy = "`pip install h5py` in the active environment, or set FOREBAY_LIBHDF5";
    assert!(found.is_some(), "these tests need a libhdf5: {remedy}");
    println!("{}", found.unwrap_or_default());
}

fn sha256(array: &Array) -> String {
    Sha256::digest(native::dump(array)).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True for what the library cannot read: all that needs plug-ins, and with plug-ins the filter only h5py has.
fn needs_plug_in(opened: &Opened, variable: &Variable) -> bool {
    let has_plug_ins = env::var_os("HDF5_PLUGIN_PATH").is_some();
    let is_known =
        |filter: &Filter| BUILT_IN.contains(&filter.name()) || (has_plug_ins && *filter != Filter::Lzf);
    let has = |variable: &Variable| variable.filters.iter().any(|filter| !is_known(filter));
    has(variable) || (variable.layout == "virtual" && opened.container().parts.iter().any(has))
}

#[test]
fn every_value_of_the_matrix_is_what_the_reference_read() {
    need_library();
    let folder = matrix();
    let (mut equal, mut left_out, mut wrong) = (0, 0, Vec::new());
    for (file, rows) in manifest(&folder) {
        let opened = open(&folder.join(&file));
        for row in rows {
            let place = format!("{file} {}", row.variable);
            let variable = match opened.container().variable(&row.variable) {
                Ok(variable) => variable,
                Err(error) => {
                    wrong.push(format!("{place}: not described: {error}"));
                    continue;
                }
            };
            if needs_plug_in(&opened, variable) {
                left_out += 1;
                continue;
            }
            match opened.read_by_library(variable, &all(variable)) {
                Ok(array) if sha256(&array) == row.sha256 => equal += 1,
                Ok(array) => wrong.push(format!("{place}: other values, {} {:?}", array.dtype, array.shape)),
                Err(error) => wrong.push(format!("{place}: {error}")),
            }
        }
    }
    println!("{equal} equal, {left_out} left out for want of plug-ins, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal > 1000, "only {equal} data sets in the matrix");
}

#[test]
fn hyperslabs_are_those_that_are_read_natively() {
    need_library();
    let folder = matrix();
    let mut equal = 0;
    for file in manifest(&folder).keys().step_by(3) {
        let opened = open(&folder.join(file));
        for variable in opened.container().variables.iter().step_by(5) {
            let slices = variable.grid.shape.iter().map(|len| if *len > 2 { "1:-1:2" } else { ":" });
            let text = slices.collect::<Vec<_>>().join(",");
            let selection = Selection::parse(&text, &variable.grid.shape).unwrap();
            let Ok(ours) = opened.read(variable, &selection) else { continue };
            if needs_plug_in(&opened, variable) {
                continue;
            }
            let theirs = opened.read_by_library(variable, &selection).unwrap();
            assert_eq!(native::dump(&theirs), native::dump(&ours), "{file} {} [{text}]", variable.name);
            assert_eq!(theirs.shape, ours.shape);
            equal += 1;
        }
    }
    println!("{equal} equal");
    assert!(equal > 100, "only {equal} compared");
}

#[test]
fn eight_threads_at_once_get_the_right_values() {
    need_library();
    let folder = matrix();
    let files = manifest(&folder);
    let chosen: Vec<(&String, &Vec<Row>)> = files.iter().filter(|(_, rows)| rows.len() < 200).collect();
    let barrier = Barrier::new(8);
    let work = |thread: usize| {
        let mut equal = 0;
        barrier.wait();
        for (file, rows) in chosen.iter().cycle().skip(7 * thread).take(24) {
            let opened = open(&folder.join(file));
            for row in rows.iter().take(12) {
                let Ok(variable) = opened.container().variable(&row.variable) else { continue };
                if needs_plug_in(&opened, variable) {
                    continue;
                }
                let array = opened.read_by_library(variable, &all(variable)).unwrap();
                assert_eq!(sha256(&array), row.sha256, "{file} {}", row.variable);
                equal += 1;
            }
        }
        equal
    };
    let equal: usize = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{equal} equal");
    assert!(equal > 500, "only {equal} compared");
}

#[test]
fn a_selection_beyond_the_extent_of_the_library_is_an_error_that_names_both_shapes() {
    need_library();
    let opened = open(&matrix().join(PLAIN));
    let mut variable = opened.container().variables[0].clone();
    variable.grid.shape[0] += 1000;
    let error = opened.read_by_library(&variable, &all(&variable)).unwrap_err().to_string();
    assert!(error.contains("described as"), "{error}");
}

/// The filtered variables of a container, and each with a filter that forebay does not know.
fn with_unknown_filter(opened: &Opened) -> Vec<(&Variable, Variable)> {
    let unknown = |variable: &Variable| {
        let mut variable = variable.clone();
        variable.filters[0] = Filter::from_hdf5(40_000, "", Vec::new());
        variable
    };
    let filtered = opened.container().variables.iter().filter(|variable| !variable.filters.is_empty());
    let pairs: Vec<_> = filtered.map(|variable| (variable, unknown(variable))).collect();
    assert!(!pairs.is_empty());
    pairs
}

#[test]
fn a_filter_that_only_the_library_knows_is_undone_by_it() {
    need_library();
    let opened = open(&matrix().join(FILTERED));
    for (variable, unknown) in with_unknown_filter(&opened) {
        let ours = opened.read(variable, &all(variable)).unwrap();
        assert_eq!(opened.read(&unknown, &all(variable)).unwrap(), ours, "{}", variable.name);
        let Values::Fixed(bytes) = ours.values else { continue };
        let mut out = vec![1; bytes.len()];
        opened.read_into(&unknown, &all(variable), &mut out).unwrap();
        assert!(out == bytes, "{}", variable.name);
    }
}

#[test]
fn a_variable_without_extents_is_read_by_the_library() {
    need_library();
    let opened = open(&matrix().join(FILTERED));
    for variable in &opened.container().variables {
        let opaque = Opaque {
            library: "libhdf5".into(),
            why: "a test".into(),
            name: variable.name.clone(),
            source: SourceIndex(0),
        };
        let without = Variable { extents: Extents::Opaque(opaque), ..variable.clone() };
        let ours = opened.read(variable, &all(variable)).unwrap();
        assert_eq!(opened.read(&without, &all(variable)).unwrap(), ours, "{}", variable.name);
    }
}

#[test]
fn a_file_that_is_not_local_is_refused() {
    let opened = open(&matrix().join(PLAIN));
    let mut container = opened.container().clone();
    container.sources[0].version = Version::named("an etag");
    let elsewhere = Opened::new(Arc::new(FileOrigin::new()), Arc::new(container));
    let variable = &opened.container().variables[0];
    let error = elsewhere.read_by_library(variable, &all(variable)).unwrap_err();
    assert!(error.to_string().contains("local files only"), "{error}");
}

/// Files below `folder` that this process has open.
fn open_files(folder: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| fs::read_link(entry.path()));
    links.flatten().filter(|path| path.starts_with(folder)).count()
}

#[test]
fn what_the_library_reads_stays_open_and_only_the_last_few() {
    need_library();
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    for number in 0..20 {
        let path = root.join(format!("{number}.h5"));
        fs::copy(matrix().join(FILTERED), &path).unwrap();
        let opened = open(&path);
        for variable in opened.container().variables.iter().take(2) {
            let ours = opened.read(variable, &all(variable)).unwrap();
            for _ in 0..3 {
                assert_eq!(
                    opened.read_by_library(variable, &all(variable)).unwrap(),
                    ours,
                    "{}",
                    variable.name
                );
            }
        }
        drop(opened);
        let open = open_files(&root);
        // Other tests of this process read beside this one, and have theirs open.
        assert!(open <= 8, "{open} are open");
    }
}

#[test]
fn a_file_that_is_read_again_and_again_is_not_opened_again() {
    need_library();
    let folder = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(folder.path()).unwrap().join("kept.h5");
    fs::copy(matrix().join(FILTERED), &path).unwrap();
    // Reads of other tests may close it in between.
    let is_kept = (0..100).any(|_| {
        let opened = open(&path);
        let variable = &opened.container().variables[0];
        let ours = opened.read(variable, &all(variable)).unwrap();
        assert_eq!(opened.read_by_library(variable, &all(variable)).unwrap(), ours);
        drop(opened);
        open_files(path.parent().unwrap()) > 0
    });
    assert!(is_kept);
}

#[test]
fn a_file_that_was_written_anew_is_read_anew() {
    need_library();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changing.h5");
    for from in [PLAIN, FILTERED, PLAIN] {
        // Into the same file, which the library may have open.
        fs::write(&path, fs::read(matrix().join(from)).unwrap()).unwrap();
        let opened = open(&path);
        for variable in &opened.container().variables {
            let ours = opened.read(variable, &all(variable)).unwrap();
            assert_eq!(
                opened.read_by_library(variable, &all(variable)).unwrap(),
                ours,
                "{from} {}",
                variable.name
            );
        }
    }
}

#[test]
fn a_filter_of_a_silo_file_that_only_the_library_knows_is_undone_by_it() {
    need_library();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.silo");
    fs::write(&path, include_bytes!("../../../../fuzz/corpus/silo/seed_hdf5")).unwrap();
    let opened = open(&path);
    assert_eq!(opened.container().format, "silo");
    let mut count = 0;
    for variable in &opened.container().variables {
        let Extents::Chunks(_) = &variable.extents else { continue };
        let mut unknown = variable.clone();
        unknown.filters = vec![Filter::from_hdf5(40_000, "own", Vec::new())];
        let ours = opened.read(variable, &all(variable)).unwrap();
        assert_eq!(opened.read(&unknown, &all(variable)).unwrap(), ours, "{}", variable.name);
        count += 1;
        let shape = &variable.grid.shape;
        if shape.is_empty() {
            continue;
        }
        let odd: Vec<_> = shape.iter().map(|len| if *len > 1 { "1::2" } else { ":" }).collect();
        let odd = Selection::parse(&odd.join(", "), shape).unwrap();
        assert_eq!(
            opened.read(&unknown, &odd).unwrap(),
            opened.read(variable, &odd).unwrap(),
            "{}",
            variable.name
        );
    }
    assert!(count > 3, "only {count} were compared");
}
