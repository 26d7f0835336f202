//! `forebay dump`.

use std::{io::Read, process::Stdio};

use sha2::{Digest, Sha256};

use crate::ran::{command, data, out};

fn dumped(file: &str, args: &[&str]) -> String {
    out(&[&["dump", &data(file)], args].concat())
}

#[test]
fn every_kind_of_element_has_its_text() {
    for (file, variable, text) in [
        ("kinds.h5", "bool", "true false\n"),
        ("kinds.h5", "enum", "GREEN RED 9\n"),
        ("kinds.h5", "half", "0.1 1.0 inf -65500.0\n"),
        ("kinds.h5", "single", "0.1 nan\n1e-10 -inf\n"),
        ("kinds.h5", "unsigned", "18446744073709551615\n"),
        ("kinds.h5", "complex", "(1+2j) (0.5-1j)\n"),
        ("kinds.h5", "fixed", "\"ab\" \"c\"\n"),
        ("kinds.h5", "opaque", "0x0102 0xff00\n"),
        ("kinds.h5", "record", "{a: 1, b: \"x\", c: [0.5, 2.0]} {a: 2, b: \"yz\", c: [3.0, 4.0]}\n"),
        ("kinds.h5", "cube", "0 1 2\n3 4 5\n6 7 8\n9 10 11\n"),
        ("kinds.h5", "empty", ""),
        ("varying.h5", "text", "\"plain\" \"a \\\"quote\\\"\\n\" \"straße\"\n"),
        ("varying.h5", "sequence", "[1, 2, 3] [4] []\n"),
        ("varying.h5", "mixed", "{n: 1, s: \"one\"} {n: 2, s: \"\"}\n"),
        ("tree.h5", "scalar", "-3\n"),
        ("tree.h5", "soft", "-45.0 0.0 45.5\n"),
        ("tree.h5", "grid/never", "7 7\n7 7\n7 7\n7 7\n"),
    ] {
        assert_eq!(dumped(file, &[variable]), text, "{variable}");
    }
}

#[test]
fn a_slice_is_dumped_in_rows_of_its_own_last_axis() {
    assert_eq!(dumped("kinds.h5", &["cube", "--slice", ":,1,::2"]), "3 5\n9 11\n");
    assert_eq!(dumped("kinds.h5", &["cube", "--slice", "-1,0"]), "6 7 8\n");
}

#[test]
fn json_is_one_object_with_a_flat_list() {
    let json = |file: &str, args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&dumped(file, &[args, &["--json"]].concat())).unwrap()
    };
    let single = json("kinds.h5", &["single"]);
    assert_eq!(single["variable"], "single");
    assert_eq!(single["dtype"], "<f4");
    assert_eq!(single["shape"], serde_json::json!([2, 2]));
    assert_eq!(single["values"], serde_json::json!([0.1, "NaN", 1e-10, "-Infinity"]));
    assert_eq!(json("kinds.h5", &["complex"])["values"], serde_json::json!([[1.0, 2.0], [0.5, -1.0]]));
    assert_eq!(
        json("varying.h5", &["mixed", "--slice", "0"])["values"],
        serde_json::json!([{ "n": 1, "s": "one" }])
    );
    assert_eq!(json("kinds.h5", &["empty"])["values"], serde_json::json!([]));
}

#[test]
fn raw_bytes_are_exact_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lat.bin");
    assert_eq!(dumped("tree.h5", &["grid/lat", "--raw", path.to_str().unwrap()]), "");
    let expected: Vec<u8> = [-45.0f64, 0.0, 45.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let piped = command(&["dump", &data("tree.h5"), "grid/lat", "--raw", "-"]).output().unwrap();
    assert_eq!(piped.stdout, expected);
}

#[test]
fn a_failed_dump_leaves_the_old_file_and_no_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.bin");
    std::fs::write(&path, "old").unwrap();
    let args = ["dump", &data("unread.h5"), "pointer", "--raw", path.to_str().unwrap()];
    assert_eq!(command(&args).output().unwrap().status.code(), Some(5));
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_checksum_is_that_of_the_raw_bytes() {
    let bytes: Vec<u8> = (0..192).collect();
    let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(dumped("tree.h5", &["images", "--sha256"]), format!("{sum}  images\n"));
    let json: serde_json::Value =
        serde_json::from_str(&dumped("tree.h5", &["images", "--sha256", "--json"])).unwrap();
    assert_eq!(json["sha256"], sum);
}

#[test]
fn every_variable_has_one_line_whatever_its_name() {
    let text = dumped("tree.h5", &["--all", "--sha256"]);
    let names: Vec<_> = text.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    let expected =
        ["grid/lat", "grid/never", "images", "line\\nfeed", "scalar", "second", "soft", "wide", "gone"];
    assert_eq!(names, expected);
    assert!(text.ends_with("error: link to '/nowhere', where 'nowhere' is missing  gone\n"), "{text}");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = command(&["dump", &data("tree.h5"), "wide"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 7];
    let mut reader = child.stdout.take().unwrap();
    reader.read_exact(&mut first).unwrap();
    drop(reader);
    let done = child.wait_with_output().unwrap();
    assert_eq!(&first, b"0.0 0.0");
    assert_eq!((done.status.code(), done.stderr), (Some(0), Vec::new()));
}

#[test]
fn raw_bytes_go_into_a_pipe_or_device_that_is_there_and_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let raw = |to: &std::path::Path| dumped("kinds.h5", &["cube", "--raw", to.to_str().unwrap()]);
    let wanted = command(&["dump", &data("kinds.h5"), "cube", "--raw", "-"]).output().unwrap().stdout;

    assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = path("pipe");
        move || std::fs::read(pipe).unwrap()
    });
    raw(&path("pipe"));
    assert_eq!(reader.join().unwrap(), wanted);
    assert!(!path("pipe").metadata().unwrap().is_file(), "the pipe is still one");

    std::fs::write(path("target"), "old").unwrap();
    std::os::unix::fs::symlink(path("target"), path("link")).unwrap();
    raw(&path("link"));
    assert!(path("link").is_symlink());
    assert_eq!(std::fs::read(path("target")).unwrap(), wanted);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing temporary is left");
}
