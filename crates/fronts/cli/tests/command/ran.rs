//! How the tests run the real command.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// What the command said and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A file beside the tests.
pub(crate) fn data(name: &str) -> String {
    std::path::absolute(Path::new("tests/data").join(name))
        .expect("a working directory")
        .display()
        .to_string()
}

/// The command, with an environment that decides nothing.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("--no-index").args(args).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    for name in
        ["FOREBAY_CONFIG", "FOREBAY_TIERS", "FOREBAY_PLUGINS"].into_iter().chain(forebay::config::variables())
    {
        command.env_remove(name);
    }
    for name in ["HDF5_PLUGIN_PATH", "HDF5_DRIVER", "HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PRELOAD"] {
        command.env_remove(name);
    }
    command
}

/// Runs the command to its end.
pub(crate) fn run(args: &[&str]) -> Ran {
    let done = command(args).output().expect("the command is built");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { code: done.status.code().unwrap_or(-1), out: text(done.stdout), err: text(done.stderr) }
}

/// Runs the command, which must succeed in silence, and gives what it printed.
pub(crate) fn out(args: &[&str]) -> String {
    let ran = run(args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    ran.out
}
