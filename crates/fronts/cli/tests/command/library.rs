//! What is said when only libhdf5 could read a variable, and there is none.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::ran::{command, data};

/// What the command says of a variable behind an unknown filter when the library is set to `setting`.
fn error_with(setting: &Path) -> String {
    let done = command(&["dump", &data("unknown_filter.h5"), "needed", "--sha256"])
        .env("FOREBAY_LIBHDF5", setting)
        .output()
        .unwrap();
    let text = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(5), "{text}");
    assert!(text.contains("variable 'needed': chunk 0 at 0x21b: filter 4242 is not supported"), "{text}");
    assert!(text.contains("libhdf5 was tried"), "{text}");
    text
}

#[test]
fn without_a_library_the_error_names_the_filter_and_the_packages() {
    let text = error_with(Path::new("off"));
    for remedy in ["libhdf5-103-1", "pip install h5py", "FOREBAY_LIBHDF5"] {
        assert!(text.contains(remedy), "{text}");
    }
}

#[test]
fn inspect_says_what_is_left_to_the_library_and_whether_there_is_one() {
    let done =
        command(&["inspect", &data("unknown_filter.h5")]).env("FOREBAY_LIBHDF5", "off").output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let [left_out, needed, never_met] = ["left_out", "needed", "never_met"]
        .map(|name| text.split(name).nth(1).unwrap().split("─ ").next().unwrap());
    assert!(needed.contains("unreadable: no decoder for filter 4242, and no libhdf5 was found"), "{text}");
    assert!(!left_out.contains("unreadable") && !never_met.contains("unreadable"), "{text}");
}

#[test]
fn what_is_no_library_is_a_clear_error_and_a_relative_path_is_never_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("libhdf5.so.310");
    fs::write(&garbage, b"not a library").unwrap();
    let text = error_with(&garbage);
    assert!(
        text.contains("is not a library that can be loaded") && text.contains("libhdf5.so.310"),
        "{text}"
    );
    assert!(error_with(Path::new("/nowhere/libhdf5.so")).contains("/nowhere/libhdf5.so"));
    assert!(error_with(Path::new("libhdf5.so")).contains("not an absolute path"));
}

#[test]
fn a_library_that_anyone_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libhdf5.so.310");
    fs::write(&library, b"").unwrap();
    fs::set_permissions(&library, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(error_with(&library).contains("can be written by anyone"));
}
