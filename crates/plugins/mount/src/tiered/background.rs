//! A mount that is held by a process in the background.

use std::{
    ffi::OsString,
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};

use crate::fuse::mountpoint::{TIERED_NAME, is_dead, name_at};

/// How long the process may take to mount: tiers on a slow disk are looked through first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the command line `command`, which mounts at `mountpoint` and stays, in the background, and waits until it has
/// mounted; gives a line that says so.
pub fn mount_in_background(command: &[OsString], mountpoint: &Path) -> Result<String> {
    let (program, arguments) = command.split_first().ok_or_else(|| Error::invalid("no command"))?;
    // Below, that one would be taken for the one that is started here.
    if name_at(mountpoint).is_some() && !is_dead(mountpoint) {
        let error = Error::new(ErrorKind::Unavailable, "another `forebay mount` stands here");
        return Err(error.hint("end that one, or take another folder").at(mountpoint.display()));
    }
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C in this terminal is not for it.
        .process_group(0)
        .spawn()
        .map_err(|error| Error::from_io(error).at(program.display()))?;
    let until = Instant::now() + PATIENCE;
    while name_at(mountpoint) != Some(TIERED_NAME) || is_dead(mountpoint) {
        if child.try_wait().map_err(Error::from_io)?.is_some() {
            return Err(said_by(&mut child));
        }
        if Instant::now() > until {
            // It may end by itself meanwhile.
            let _ = child.kill();
            let error =
                Error::new(ErrorKind::Unavailable, "the process in the background did not mount in time");
            return Err(error.at(mountpoint.display()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(format!("process {} shows it at {}", child.id(), mountpoint.display()))
}

/// The error that the process ended with, in its own words.
fn said_by(child: &mut Child) -> Error {
    let mut said = String::new();
    if let Some(errors) = &mut child.stderr {
        // What cannot be read leaves the text short.
        let _ = errors.read_to_string(&mut said);
    }
    let said = said.trim().trim_start_matches("forebay: ").trim_start_matches("error: ");
    Error::new(
        ErrorKind::Unavailable,
        if said.is_empty() { "the process in the background ended" } else { said },
    )
}
