//! `forebay doctor`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;

use crate::ran::{command, data, out, run};

/// The report in JSON, whatever the exit code.
fn report(args: &[&str], environment: &[(&str, &str)]) -> (i32, serde_json::Value) {
    let mut command = command(&[&["doctor", "--json"], args].concat());
    let done = command.envs(environment.iter().copied()).output().unwrap();
    (done.status.code().unwrap(), serde_json::from_slice(&done.stdout).unwrap())
}

fn warnings(report: &serde_json::Value) -> String {
    report["warnings"].to_string()
}

#[test]
fn the_machine_its_places_and_the_system_are_told() {
    let text = out(&["doctor", "--config", "none"]);
    assert!(text.starts_with(concat!("forebay ", env!("CARGO_PKG_VERSION"), " on Linux ")), "{text}");
    for title in
        ["\nmachine\n", "\nconfiguration\n", "\nplaces for copies\n", "\nsystem\n", "libhdf5", "open files"]
    {
        assert!(text.contains(title), "{title}: {text}");
    }
    assert!(!text.contains("\ndata\n"), "nothing was asked of any path: {text}");
}

#[test]
fn json_has_everything_under_stable_names() {
    let (code, report) = report(&["--config", "none", &data("tree.h5")], &[("FOREBAY_LIBHDF5", "off")]);
    assert_eq!(code, 0, "{report}");
    let machine = &report["machine"];
    assert!(machine["cores"].as_u64().unwrap() <= machine["cores_of_machine"].as_u64().unwrap());
    assert!(
        machine["memory_budget_bytes"].as_u64().unwrap() < machine["memory_limit_bytes"].as_u64().unwrap()
    );
    for place in report["places"].as_array().unwrap() {
        assert!(!place["why"].as_str().unwrap().is_empty(), "{place}");
        assert!(["suitable", "unfit"].contains(&place["verdict"].as_str().unwrap()), "{place}");
    }
    assert_eq!(report["settings"]["config"]["placement"]["policy"], "auto");
    assert_eq!(report["paths"][0]["format"], "hdf5");
    assert_eq!(report["paths"][0]["copied"], false, "no tier is configured");
    assert!(report["paths"][0]["near"].is_boolean());
    assert!(report["libraries"][0]["why"].as_str().unwrap().contains("FOREBAY_LIBHDF5=off"), "{report}");
    assert!(report["kernel"]["open_files"].is_u64());
    assert!(report["hdf5_plugins"]["why"].as_str().unwrap().contains("FOREBAY_PLUGINS"), "{report}");
}

#[test]
fn a_tier_that_is_refused_keeps_no_copies() {
    let path = data("tree.h5");
    let (code, report) = report(&["--config", "none", "--tier", "/proc/none", &path], &[]);
    assert_eq!((code, &report["paths"][0]["copied"]), (0, &false.into()), "{report}");
    assert!(!report["paths"][0]["why"].as_str().unwrap().contains("copies are kept"), "{report}");
}

#[test]
fn a_path_that_cannot_be_read_is_warned_of_and_decides_the_exit_code() {
    let ran = run(&["doctor", "--config", "none", &data("tree.h5"), "/nowhere/train.h5"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("/nowhere/train.h5: "), "{}", ran.err);
    assert!(ran.out.contains("warning: /nowhere/train.h5: "), "{}", ran.out);
    assert!(ran.out.contains("tree.h5"), "the others are listed all the same: {}", ran.out);
    let (code, report) =
        report(&["--config", "none", "http://127.0.0.1:9/x"], &[("FOREBAY_REMOTE_WAIT", "1")]);
    assert_ne!(code, 0);
    assert!(report["paths"][0]["error"].as_str().unwrap().contains("127.0.0.1:9"), "{report}");
}

#[test]
fn a_tier_in_memory_is_used_and_one_on_a_file_system_in_memory_is_warned_of() {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let flags = ["--config", "none", "--tier", "memory:1GiB", "--tier", "/dev/shm/copies"];
    let (code, report) = report(&flags, &[]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(
        (&report["tiers"][0]["verdict"], &report["tiers"][0]["quota_bytes"]),
        (&"used".into(), &(1 << 30).into())
    );
    assert_eq!(report["tiers"][1]["verdict"], "used", "the user has said so: {report}");
    let why = report["tiers"][1]["why"].as_str().unwrap();
    assert!(why.contains("a memory tier does the same"), "{report}");
    assert_eq!(report["suggestion"], serde_json::Value::Null, "the user has chosen");
}

#[test]
fn a_wrong_configuration_and_a_misspelt_variable_are_warned_of_and_the_rest_is_told() {
    let (code, report) =
        report(&["--config", "none"], &[("FOREBAY_POLICY", "lur"), ("FOREBAY_TEIRS", "memory")]);
    assert_eq!(code, 0, "{report}");
    assert!(report["settings_error"].as_str().unwrap().contains("did you mean 'lru'?"), "{report}");
    assert!(warnings(&report).contains("FOREBAY_TEIRS is set, and nobody reads it"), "{report}");
    assert!(warnings(&report).contains("FOREBAY_TIERS is read"), "{report}");
}

#[test]
fn few_open_files_and_no_mapping_are_told_with_the_reason() {
    let script = format!(
        "ulimit -n 256 && FOREBAY_MAP=off exec {} doctor --config none --json",
        env!("CARGO_BIN_EXE_forebay")
    );
    let done = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["kernel"]["open_files"], 256);
    assert!(warnings(&report).contains("only 256 files may be open at once"), "{report}");
    assert_eq!(
        (&report["kernel"]["mapping"], &report["kernel"]["mapping_why"]),
        (&false.into(), &"FOREBAY_MAP=off".into())
    );
}
