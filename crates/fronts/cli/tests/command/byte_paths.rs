//! Paths that are not UTF-8, from the command line to the tiers.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::ran::{command, data};

/// Two files whose names differ in bytes that are not UTF-8, in a folder of such a name.
fn files(folder: &Path) -> [PathBuf; 2] {
    let inside = folder.join(OsStr::from_bytes(b"d\xfd"));
    fs::create_dir(&inside).unwrap();
    [&b"a\xfe.h5"[..], b"a\xff.h5"].map(|name| {
        let path = inside.join(OsStr::from_bytes(name));
        fs::copy(data("tree.h5"), &path).unwrap();
        path
    })
}

fn json(args: &[&OsStr]) -> Value {
    let done = command(&[]).args(args).arg("--json").output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

fn word(text: &str) -> &OsStr {
    OsStr::new(text)
}

#[test]
fn a_file_whose_path_is_not_utf8_is_inspected_and_shown_with_its_bytes_written_out() {
    let folder = tempfile::tempdir().unwrap();
    let [one, _] = files(folder.path());
    let facts = json(&[word("inspect"), one.as_os_str()]);
    assert_eq!(facts["file"], format!(r"{}/d\xfd/a\xfe.h5", folder.path().display()));
    let of_plain = json(&[word("inspect"), word(&data("tree.h5"))]);
    assert_eq!(facts["variables"], of_plain["variables"]);
    let doctor = json(&[word("doctor"), one.as_os_str()]);
    assert_eq!((&doctor["paths"][0]["format"], &doctor["paths"][0]["error"]), (&"hdf5".into(), &Value::Null));
    let none = one.with_file_name(OsStr::from_bytes(b"none\xff.h5"));
    let refused = command(&["inspect"]).arg(none).output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains(r"/d\xfd/none\xff.h5: "), "{message}");
}

#[test]
fn copies_of_files_whose_paths_are_not_utf8_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let tiers = tempfile::tempdir_in("/dev/shm").unwrap();
    let paths = files(folder.path());
    let tier = format!("disk:{}:1GiB:keep", tiers.path().display());
    // Old enough to be copied.
    thread::sleep(Duration::from_millis(2100));
    let folder_of_both = paths[0].parent().unwrap();
    for (named, counted) in [(&paths[0].as_path(), 1), (&folder_of_both, 2)] {
        json(&[word("tier"), word("warm"), named.as_os_str(), word("--tier"), word(&tier)]);
        let listed = json(&[word("tier"), word("ls"), word("--tier"), word(&tier)]);
        let mirrors = listed["tiers"][0]["mirrors"].as_array().unwrap().clone();
        assert_eq!(mirrors.len(), counted, "{mirrors:?}");
        assert!(mirrors.iter().all(|mirror| mirror["whole"] == true), "{mirrors:?}");
    }
}
