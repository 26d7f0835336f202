//! `forebay hdf5-env` and `forebay run`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::ran::command;

/// A folder with plug-ins that are none.
fn plugins() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["vfd", "vol"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join(format!("libforebay_{name}.so")), "no library").unwrap();
    }
    folder
}

/// The command with those plug-ins, no configuration and no libhdf5.
fn with(plugins: &Path, args: &[&str]) -> Command {
    let mut command = command(args);
    command.current_dir(plugins).env("FOREBAY_PLUGINS", plugins).env("FOREBAY_CONFIG", "none");
    command.env("FOREBAY_LIBHDF5", "off");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn done(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn a_shell_takes_the_lines_and_programs_get_the_variables() {
    let plugins = plugins();
    let folder = plugins.path().display();
    let flags =
        ["hdf5-env", "--hdf5=both", "--hdf5-paths", "/lustre/it's:/x", "--stage", "memory", "--delay-close"];
    let (code, lines, said) = done(with(plugins.path(), &flags));
    assert_eq!((code, said.as_str()), (Some(0), ""), "{lines}");
    let script = format!(
        "{lines}\necho \"$HDF5_PLUGIN_PATH|$HDF5_DRIVER|$HDF5_VOL_CONNECTOR|$FOREBAY_HDF5_PATHS|$FOREBAY_STAGE|$FOREBAY_DELAY_CLOSE\""
    );
    let ran = Command::new("sh").arg("-c").arg(script).env_clear().output().unwrap();
    let values = text(&ran.stdout);
    let expected = format!("{folder}/vfd:{folder}/vol:/usr/local/hdf5/lib/plugin");
    assert!(values.starts_with(&expected), "{values}");
    assert!(values.trim_end().ends_with("|forebay|forebay|/lustre/it's:/x|memory|true"), "{values}");
}

#[test]
fn json_has_the_variables_by_their_names_and_a_warning_where_nothing_is_managed() {
    let plugins = plugins();
    let (code, out, said) = done(with(plugins.path(), &["hdf5-env", "--json"]));
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(facts["plugins"], plugins.path().display().to_string());
    assert_eq!(facts["variables"]["HDF5_DRIVER"], "forebay");
    assert_eq!(facts["variables"]["HDF5_VOL_CONNECTOR"], serde_json::Value::Null);
    assert!(facts["warnings"][0].as_str().unwrap().contains("--hdf5-paths"), "{facts}");
    let (_, _, said) = done(with(plugins.path(), &["hdf5-env"]));
    assert!(said.starts_with("forebay: warning: no paths are configured"), "{said}");
}

#[test]
fn the_path_of_plugins_keeps_what_it_held() {
    let plugins = plugins();
    let mut command = with(plugins.path(), &["hdf5-env", "--hdf5-paths", "/x", "--json"]);
    command.env("HDF5_PLUGIN_PATH", "/site/filters");
    let (_, out, _) = done(command);
    let facts: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = format!("{}/vfd:/site/filters", plugins.path().display());
    assert_eq!(facts["variables"]["HDF5_PLUGIN_PATH"], expected);
}

#[test]
fn without_plugins_it_is_said_what_to_do() {
    let mut command = command(&["hdf5-env"]);
    let (code, out, said) = done({
        command.env_remove("FOREBAY_PLUGINS").env("FOREBAY_LIBHDF5", "off");
        command
    });
    assert_eq!((code, out.as_str()), (Some(3), ""));
    assert!(said.contains("the HDF5 plug-ins are in none of") && said.contains("FOREBAY_PLUGINS"), "{said}");
    let empty = tempfile::tempdir().unwrap();
    let (code, _, said) = done(with(empty.path(), &["run", "--hdf5", "--", "true"]));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("FOREBAY_PLUGINS: no vfd/libforebay_vfd.so"), "{said}");
}

#[test]
fn a_program_runs_with_the_variables_its_arguments_and_its_own_exit_code() {
    let plugins = plugins();
    let script = "echo \"$HDF5_DRIVER:$FOREBAY_STAGE:$1\"; echo to stderr >&2; exit 42";
    let args = [
        "run",
        "--hdf5",
        "--hdf5-paths",
        "/x",
        "--stage",
        "memory",
        "--",
        "sh",
        "-c",
        script,
        "sh",
        "--hdf5",
    ];
    let (code, out, said) = done(with(plugins.path(), &args));
    assert_eq!((code, out.as_str(), said.as_str()), (Some(42), "forebay:memory:--hdf5\n", "to stderr\n"));
    let (code, out, _) = done(with(
        plugins.path(),
        &[
            "run",
            "--hdf5=vol",
            "--hdf5-paths",
            "/x",
            "--",
            "sh",
            "-c",
            "echo ${HDF5_DRIVER-none}:$HDF5_VOL_CONNECTOR",
        ],
    ));
    assert_eq!((code, out.as_str()), (Some(0), "none:forebay\n"));
}

#[test]
fn signals_reach_the_program_and_its_end_by_one_is_seen() {
    let plugins = plugins();
    let mut command = with(plugins.path(), &["run", "--hdf5", "--hdf5-paths", "/x", "--", "sleep", "600"]);
    let mut child = command.spawn().unwrap();
    // The program has taken the command's place once it has its name.
    let name = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while name().trim() != "sleep" && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_may_not_run_126() {
    let plugins = plugins();
    let fails = |program: &str, expected: i32, why: &str| {
        let (code, out, said) =
            done(with(plugins.path(), &["run", "--hdf5", "--hdf5-paths", "/x", "--", program]));
        assert_eq!((code, out.as_str()), (Some(expected), ""), "{said}");
        assert!(said.contains(why), "{why}\n{said}");
    };
    fails("forebay-no-such-program", 127, "there is no program 'forebay-no-such-program'; is it on PATH?");
    fails("/dev/null", 126, "may you run it?");
    let (code, _, said) = done(with(plugins.path(), &["run", "--", "true"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("--hdf5"), "{said}");
    let (code, _, said) = done(with(plugins.path(), &["run", "--hdf5"]));
    assert_eq!(code, Some(2));
    assert!(said.contains("PROGRAM"), "{said}");
}

#[test]
fn another_driver_of_the_users_is_not_replaced() {
    let plugins = plugins();
    let mut command = with(plugins.path(), &["run", "--hdf5", "--", "true"]);
    command.env("HDF5_DRIVER", "core");
    let (code, _, said) = done(command);
    assert_eq!(code, Some(2));
    assert!(said.contains("HDF5_DRIVER: is set to 'core' already"), "{said}");
}
