//! What a child says of a libhdf5, held against a real one.

use std::path::Path;

use forebay_launch::probe;
use forebay_libhdf5::{Hdf5Library, check::needed_libhdf5};

fn said(library: &Path, file: Option<&Path>) -> Vec<String> {
    let mut out = Vec::new();
    probe(library, file, &mut out).expect("a library that works");
    String::from_utf8(out).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn a_library_tells_its_version_and_where_it_looks_for_plug_ins() {
    let path = needed_libhdf5();
    let [major, minor, release] = Hdf5Library::load_alone(&path).expect("it can be loaded").version();
    let said = said(&path, None);
    assert_eq!(said[0], format!("version {major}.{minor}.{release}"));
    assert!(said.iter().any(|line| line.starts_with("thread-safe ")), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("plugin-folder /")), "{said:?}");
}

#[test]
fn a_library_that_works_writes_and_reads_a_file_and_tells_which_plug_ins_it_saw() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.h5");
    let said = said(&needed_libhdf5(), Some(&file));
    assert_eq!(said.last().map(String::as_str), Some("saw no plug-in"), "{said:?}");
    assert!(file.is_file());
}

#[test]
fn a_file_that_cannot_be_made_fails_the_probe() {
    let mut out = Vec::new();
    let error = probe(&needed_libhdf5(), Some(Path::new("/nowhere/a.h5")), &mut out).expect_err("no folder");
    assert_eq!(error.to_string(), "making a file did not work");
}
