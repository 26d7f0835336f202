//! `forebay inspect`.

use crate::ran::{command, data, out, run};

/// What is printed of a file, its name shortened to the last part.
fn inspected(name: &str, args: &[&str]) -> String {
    let path = data(name);
    out(&[&["inspect", &path], args].concat()).replace(&path, name)
}

#[test]
fn a_file_is_a_tree_with_the_cost_of_its_rows() {
    let size = std::fs::metadata(data("tree.h5")).unwrap().len() as f64 / 1024.0;
    let expected = "\
tree.h5: hdf5, SIZE KiB, 1 group, 6 variables, 2 aliases, 1 refused
  @title = \"a small file\"
  @levels = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, … 20 in all]
├─ gone refused: link to '/nowhere', where 'nowhere' is missing
├─ grid/
│    @kind = \"regular\"
│  ├─ lat >f8 (3,) contiguous
│  │    24 B, stored in 24 B (1.0x)
│  │    random access good: a row of 8 B takes 8 B (1.0x) read
│  └─ never <i4 (4, 2) chunked (2, 2) 0/2 chunks
│       32 B, never written
│       random access good: a row of 8 B takes 0 B (0.0x) read
├─ images |u1 (12, 4, 4) of (inf, 4, 4) chunked (4, 4, 4) 3/3 chunks shuffle, gzip-6
│    192 B, stored in 219 B (0.9x)
│    random access good: so small that the 73 B are decoded once and kept
│    @units = \"counts\"
│    @scale = 0.1
├─ line\\nfeed |u1 () contiguous
│    1 B, stored in 1 B (1.0x)
├─ scalar <i8 () contiguous
│    8 B, stored in 8 B (1.0x)
├─ second -> grid/lat
├─ soft -> grid/lat
└─ wide <f8 (512, 512) chunked (512, 512) 1/1 chunks gzip-9
     2.0 MiB, stored in 2.0 KiB (1020.5x)
     random access poor: a row of 4.0 KiB takes 2.0 KiB (0.5x) read, 2.0 MiB (512.0x) decoded
     hint: rechunk so that a chunk holds fewer rows than 512, or shuffle in blocks
";
    assert_eq!(inspected("tree.h5", &["--attrs"]), expected.replace("SIZE", &format!("{size:.1}")));
}

#[test]
fn attributes_are_shown_only_when_asked_for() {
    assert!(!inspected("tree.h5", &[]).contains('@'));
    assert!(inspected("varying.h5", &["--attrs"]).contains("  @title = \"a text of any length\"\n"));
}

#[test]
fn a_group_a_variable_or_an_alias_can_be_asked_for() {
    let expected = [
        "└─ grid/\n",
        "   └─ lat >f8 (3,) contiguous\n",
        "        24 B, stored in 24 B (1.0x)\n",
        "        random access good: a row of 8 B takes 8 B (1.0x) read\n",
    ]
    .concat();
    for name in ["grid/lat", "/grid/lat", "soft", "second"] {
        let text = inspected("tree.h5", &[name]);
        assert_eq!(text.split_once('\n').unwrap().1, expected, "{name}");
    }
    let group = inspected("tree.h5", &["grid"]);
    assert!(group.contains("lat") && group.contains("never") && !group.contains("images"), "{group}");
}

#[test]
fn what_cannot_be_read_says_why() {
    let text = inspected("unread.h5", &[]);
    assert!(text.contains("unreadable: object references point into the file and are not values"), "{text}");
    let strange = text.split("strange").nth(1).unwrap();
    assert!(!strange.contains("unreadable"), "no chunk was written, so none needs the filter: {text}");
}

#[test]
fn types_are_shown_in_numpys_notation() {
    let text = inspected("kinds.h5", &[]);
    for title in [
        "bool bool (2,)",
        "complex <c8 (2,)",
        "enum enum |i1 {GREEN=2, RED=1} (3,)",
        "record {a: <i4, b: |S3, c: <f8[2]} (2,)",
        "empty <i4 (0, 3)",
    ] {
        assert!(text.contains(title), "{title} in {text}");
    }
}

#[test]
fn axes_that_have_names_are_shown_with_them() {
    let path = data("../../../../../fuzz/corpus/netcdf3/seed_cdf1_records");
    let text = out(&["inspect", &path]);
    for title in [
        "a |i1 (t: 2, x: 3) of (inf, 3) records",
        "b >f4 (t: 2) of (inf,) records",
        "c >i4 (x: 3) contiguous",
    ] {
        assert!(text.contains(title), "{title} in {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&out(&["inspect", &path, "a", "--json"])).unwrap();
    assert_eq!(json["format"], "netcdf3");
    assert_eq!(json["variables"][0]["dimensions"], serde_json::json!(["t", "x"]));
}

#[test]
fn json_has_everything_under_stable_names() {
    let json: serde_json::Value =
        serde_json::from_str(&out(&["inspect", &data("tree.h5"), "--json"])).unwrap();
    assert_eq!(json["format"], "hdf5");
    assert_eq!(json["source_count"], 1);
    assert_eq!(json["bytes"], std::fs::metadata(data("tree.h5")).unwrap().len());
    let named = |list: &str, name: &str| {
        let found = json[list].as_array().unwrap().iter().find(|one| one["name"] == name);
        found.unwrap().clone()
    };
    assert_eq!(named("groups", "")["attributes"][1]["values"].as_array().unwrap().len(), 20);
    assert_eq!(named("aliases", "soft")["target"], "grid/lat");
    assert_eq!(named("refused", "gone")["corrupt"], false);
    let images = named("variables", "images");
    assert_eq!(images["dtype"], "|u1");
    assert_eq!(images["shape"], serde_json::json!([12, 4, 4]));
    assert_eq!(images["max_shape"], serde_json::json!([null, 4, 4]));
    assert_eq!(images["chunks"], serde_json::json!({ "shape": [4, 4, 4], "written_count": 3, "count": 3 }));
    assert_eq!(images["filters"], serde_json::json!(["shuffle", "gzip-6"]));
    assert_eq!(images["logical_bytes"], 192);
    assert_eq!(images["row"]["read_bytes"], 73);
    assert_eq!(images["row"]["decode_factor"], 4.0);
    let scale = serde_json::json!({ "name": "scale", "dtype": "<f4", "shape": [], "values": [0.1] });
    assert_eq!(images["attributes"][1], scale);
    assert_eq!(named("variables", "wide")["row"]["verdict"], "poor");
    assert_eq!(named("variables", "scalar")["row"], serde_json::Value::Null);
}

#[test]
fn colour_comes_when_wanted_and_never_by_itself_into_a_pipe() {
    let path = data("tree.h5");
    let coloured = |args: &[&str], variable: Option<&str>| {
        let mut command = command(&[&["inspect", &path], args].concat());
        if let Some(name) = variable {
            command.env(name, "1");
        }
        command.output().unwrap().stdout.contains(&0x1b)
    };
    assert!(!coloured(&[], None));
    assert!(!coloured(&[], Some("NO_COLOR")));
    assert!(coloured(&[], Some("CLICOLOR_FORCE")));
    assert!(coloured(&["--color", "always"], Some("NO_COLOR")));
    assert!(!coloured(&["--color", "never"], Some("CLICOLOR_FORCE")));
}

#[test]
fn help_has_examples_and_exit_codes_and_shells_get_completions() {
    assert!(out(&["--help"]).contains("Exit codes:"));
    for name in ["inspect", "dump", "load", "plan", "config", "doctor"] {
        assert!(out(&[name, "--help"]).contains("Examples:"), "{name}");
    }
    assert!(out(&["--version"]).starts_with("forebay "));
    assert!(out(&["completions", "bash"]).contains("inspect"));
    assert_eq!(run(&["completions", "abacus"]).code, 2);
}
