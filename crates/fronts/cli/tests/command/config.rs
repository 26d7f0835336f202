//! `forebay config`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{fs, path::Path, process::Output};

use crate::ran::command;

/// Runs `forebay config` in `folder`, with these flags and this environment.
fn configured(folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = command(&[&["config"], args].concat());
    command.current_dir(folder).env("HOME", folder).env_remove("XDG_CONFIG_HOME");
    command.envs(environment.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_is_printed_says_where_values_come_from_and_is_read_back_by_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forebay.toml");
    fs::write(&file, "[placement]\nthreads = 3\n").unwrap();
    let flags = ["--tier", "memory:4GiB", "--tier", "disk:/nvme/${WHO}:50%"];
    let done = configured(folder.path(), &flags, &[("WHO", "ada"), ("FOREBAY_POLICY", "lfu")]);
    let printed = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    // Remarks stand below each other, as far to the right as the longest value needs.
    let found: Vec<(&str, &str)> = printed
        .lines()
        .filter_map(|line| line.split_once(" # "))
        .map(|(value, why)| (value.trim(), why))
        .collect();
    for (value, why) in [
        ("quota = \"4GiB\"", "flag --tier"),
        ("path = \"/nvme/ada\"", "flag --tier"),
        ("policy = \"lfu\"", "environment FOREBAY_POLICY"),
        ("threads = 3", &format!("{}, line 2", file.display())),
        ("block = \"1MiB\"", "default"),
        ("drainers = 2", "default"),
    ] {
        assert!(found.contains(&(value, why)), "{value} {why}\n{printed}");
    }
    let columns: std::collections::BTreeSet<_> =
        printed.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.find(" # ")).collect();
    assert_eq!(columns.len(), 1, "{printed}");
    fs::write(&file, &printed).unwrap();
    let again = configured(folder.path(), &["--json"], &[]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    let first = configured(folder.path(), &["--json", "--config", "none"], &[]);
    let first: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(first["file"], serde_json::Value::Null);
    assert_eq!(again["file"], file.display().to_string());
    assert_eq!(again["config"]["tier"][1]["path"], "/nvme/ada");
    assert_eq!(again["config"]["tier"][1]["quota"], "50%");
    assert_eq!(again["config"]["placement"]["policy"], "lfu");
    assert!(again["value_origins"]["placement.policy"].as_str().unwrap().contains("forebay.toml, line "));
}

#[test]
fn a_slip_in_a_file_is_2_and_a_missing_file_3_and_an_unsafe_one_8() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forebay.toml");
    fs::write(&file, "[[tier]]\nkind = \"disk\"\npath = \"/x\"\nquotta = 5\n").unwrap();
    let fails = |args: &[&str], code: i32, why: &str| {
        let done = configured(folder.path(), args, &[]);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{said}");
        assert!(said.contains(why), "{why}\n{said}");
    };
    fails(&[], 2, "forebay.toml: line 4: [[tier]]: unknown key 'quotta'; did you mean 'quota'?");
    fails(&["--config", "none", "--policy", "fast"], 2, "--policy: unknown policy 'fast'");
    fails(&["--config", "missing.toml"], 3, "missing.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    fails(&[], 8, "others may write to it (mode 666)");
}
