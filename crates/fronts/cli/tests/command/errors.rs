//! Exit codes and messages.

use std::process::Command;

use crate::ran::{data, run};

/// Runs the command, which must fail with `code` and say `text`, and nothing on standard output.
fn fails(args: &[&str], code: i32, text: &str) {
    let ran = run(args);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
    assert!(ran.err.contains(text), "{args:?}: {}", ran.err);
    assert_eq!(ran.out, "", "{args:?}");
    assert!(!ran.err.contains("panicked"), "{args:?}: {}", ran.err);
}

#[test]
fn a_missing_file_or_variable_is_3_and_a_near_name_is_suggested() {
    fails(&["inspect", "/nowhere/file.h5"], 3, "/nowhere/file.h5: ");
    fails(&["dump", &data("tree.h5"), "imagse"], 3, "tree.h5: no variable 'imagse'; did you mean 'images'?");
    fails(&["inspect", &data("tree.h5"), "imagse"], 3, "did you mean 'images'?");
    fails(
        &["dump", &data("tree.h5"), "grid"],
        3,
        "'grid' is a group, no variable; name a variable, such as 'grid/lat'",
    );
    fails(&["dump", &data("tree.h5"), "images", "--raw", "/nowhere/out"], 3, "/nowhere/out");
}

#[test]
fn a_file_of_another_format_and_values_no_tensor_holds_are_5() {
    fails(&["inspect", &data("make.py")], 5, "make.py: not a file of a format this build reads");
    fails(&["dump", &data("unread.h5"), "pointer"], 5, "variable 'pointer': object references");
    fails(&["dump", &data("tree.h5"), "gone"], 5, "'nowhere' is missing");
}

#[test]
fn a_truncated_file_is_4() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.h5");
    let whole = std::fs::read(data("tree.h5")).unwrap();
    std::fs::write(&path, &whole[..1500]).unwrap();
    fails(&["inspect", path.to_str().unwrap()], 4, "truncated");
}

#[test]
fn a_slice_that_does_not_fit_and_wrong_usage_are_2() {
    for (slice, text) in [
        ("99", "tree.h5: variable 'images': index 99 is outside axis 0, which is 12 long"),
        ("-13", "variable 'images': slice '-13': index -13 is outside an axis 12 long"),
        ("99999999999999999999", "index 99999999999999999999 is outside an axis 12 long"),
        ("0,0,0,0", "4 axes for an array of 3"),
        ("x", "'x' is not a number"),
        ("::0", "the step must be at least 1"),
    ] {
        fails(&["dump", &data("tree.h5"), "images", "--slice", slice], 2, text);
    }
    fails(&["inspect", &data("tree.h5"), "--threads", "0"], 2, "--threads");
    fails(&["dump", &data("tree.h5")], 2, "VARIABLE");
    fails(&["dump", &data("tree.h5"), "--all"], 2, "--sha256");
    fails(&["inspect"], 2, "FILE");
}

#[test]
fn a_folder_or_a_pipe_is_not_a_file_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    fails(&["inspect", folder.path().to_str().unwrap()], 2, "is a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fails(&["inspect", pipe.to_str().unwrap()], 2, "is a pipe");
}

#[test]
fn an_error_in_json_has_its_kind() {
    let ran = run(&["dump", &data("tree.h5"), "imagse", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &json["kind"]), (3, &"NotFound".into()));
}

#[cfg(not(feature = "replay"))]
#[test]
fn bench_says_that_it_was_built_without_the_benchmark() {
    for args in [&["bench"] as &[&str], &["bench", "unet3d_h100", "--ranks", "2"], &["bench", "--help"]] {
        fails(args, 5, "built without the benchmark");
    }
}

/// A file whose compressed chunks are damaged.
fn damaged(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("damaged.h5").display().to_string();
    let mut bytes = std::fs::read(data("tree.h5")).expect("a file beside the tests");
    // Every deflate stream starts with these two bytes at the default level.
    let streams: Vec<usize> =
        (0..bytes.len() - 1).filter(|at| bytes[*at..].starts_with(&[0x78, 0x9c])).collect();
    for at in streams {
        bytes[at + 2..at + 10].fill(0);
    }
    std::fs::write(&path, bytes).expect("a folder to write to");
    path
}

#[test]
fn json_that_breaks_off_is_still_json_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = damaged(&folder);
    let ran = run(&["dump", &path, "images", "--json"]);
    let json: serde_json::Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out));
    assert_eq!((ran.code, &json["kind"]), (4, &"Corrupt".into()), "{json}");
    let text = json["error"].as_str().unwrap();
    assert!(text.contains("damaged.h5: variable 'images': chunk ") && text.contains(" at 0x"), "{text}");
}

#[cfg(not(feature = "remote"))]
#[test]
fn a_url_is_5_in_a_build_without_object_stores_and_the_hint_names_the_feature() {
    fails(&["inspect", "https://host.invalid/a.h5"], 5, "this build of forebay reads no URLs");
}
