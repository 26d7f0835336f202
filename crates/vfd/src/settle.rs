//! A file that is opened again while what was written to it is still on its way.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use forebay_plugin::WarnOnce;
use forebay_source::{Error, ErrorKind, Result};
use forebay_stage::{Area, ItemState};
use rustix::event::{PollFd, Timespec, poll};

use crate::process;

/// How long an open waits for another process to drain the file.
const LIMIT: Duration = Duration::from_secs(300);
/// How long between two looks.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

static DESERTED: WarnOnce = WarnOnce::new();

/// What is wanted of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It is only read.
    Reading,
    /// It is changed.
    Changing,
    /// Whatever it holds goes.
    Replacing,
}

/// Returns when `destination` holds all that was written to it and closed, by whichever process of the node.
pub(crate) fn wait_until_settled(slot: usize, destination: &Path, opening: Opening) -> Result<()> {
    let state = process::state();
    // HDF5 opens a file a second time to find out that it has it open already.
    if state.is_active(slot, destination) {
        return Ok(());
    }
    state.drain_others(slot, destination)?;
    match state.area() {
        Some(area) => wait(area, destination, opening),
        None => Ok(()),
    }
}

fn wait(area: &Area, destination: &Path, opening: Opening) -> Result<()> {
    let start = Instant::now();
    loop {
        match area.pending(destination)? {
            // A file that another process has open is left to HDF5's locks, as ever.
            None | Some(ItemState::Open) => return Ok(()),
            Some(ItemState::Failed) => return left_over(destination, opening),
            Some(ItemState::Sealed | ItemState::Draining | ItemState::Settled) => {}
        }
        if area.items()?.iter().any(|item| item.is_deserted && item.destination == destination) {
            return left_over(destination, opening);
        }
        if start.elapsed() > LIMIT {
            let what = format!("still being drained after {} s", LIMIT.as_secs());
            return Err(Error::new(ErrorKind::Unavailable, what)
                .at(destination.display())
                .because(io::Error::from_raw_os_error(libc::EAGAIN))
                .hint("see `forebay stage ls`"));
        }
        // A signal that the program handles ends the wait: it may want to stop.
        if poll(&mut [] as &mut [PollFd<'_>], Some(&STEP)) == Err(rustix::io::Errno::INTR) {
            return Err(Error::from_io(io::Error::from_raw_os_error(libc::EINTR)).at(destination.display()));
        }
    }
}

/// Writes of a process that was killed, or that the file refused: only `forebay recover` finishes them.
fn left_over(destination: &Path, opening: Opening) -> Result<()> {
    let what = "writes to it are staged and were not finished";
    match opening {
        Opening::Replacing => Ok(()),
        Opening::Reading => {
            DESERTED.say(format_args!("{}: {what}; run `forebay recover`", destination.display()));
            Ok(())
        }
        Opening::Changing => Err(Error::new(ErrorKind::Unavailable, what)
            .at(destination.display())
            .because(io::Error::from_raw_os_error(libc::EBUSY))
            .hint("run `forebay recover` first")),
    }
}
