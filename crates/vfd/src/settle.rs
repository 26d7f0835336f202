//! A file that is opened again while what was written to it is still on its way.

use std::{
    fs, io,
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
/// How long other processes may take to forget what is staged for a file that they replace too.
const DISCARD_LIMIT: Duration = Duration::from_secs(5);
/// How long between two looks.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Who waits longer than this is told why.
const SILENT: Duration = Duration::from_secs(5);

static WAITING: WarnOnce = WarnOnce::new();
static LEFT_OVER: WarnOnce = WarnOnce::new();

/// What is wanted of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettledOpening {
    /// It is only read.
    Reading,
    /// It is changed.
    Changing,
    /// Whatever it holds goes.
    Replacing,
}

/// Returns when `destination` holds all that was written to it and closed, by whichever process of the node.
pub(crate) fn wait_until_settled(slot: usize, destination: &Path, opening: SettledOpening) -> Result<()> {
    let state = process::state();
    if let Ok(file) = fs::metadata(destination) {
        // HDF5 opens a file a second time to find out that it has it open already.
        if state.is_active(slot, &file) {
            return Ok(());
        }
        state.drain_others(slot, &file)?;
    }
    match state.area() {
        Some(area) => wait(area, destination, opening),
        None => Ok(()),
    }
}

fn wait(area: &Area, destination: &Path, opening: SettledOpening) -> Result<()> {
    let start = Instant::now();
    loop {
        // A file that a process still has open is left to HDF5's locks, as ever.
        let trouble = match area.pending(destination) {
            Ok(None) => return Ok(()),
            Ok(Some(ItemState::Failed)) => Some(refused(destination)),
            Ok(Some(_)) => None,
            Err(error) => Some(error),
        };
        match trouble {
            // Tried again later, they would go over the new file.
            Some(error) if opening == SettledOpening::Replacing && error.kind() == ErrorKind::Unavailable => {
                let discarded = area.discard(destination);
                // Processes that replace it at once are in each other's way for a moment.
                if start.elapsed() > DISCARD_LIMIT {
                    discarded?;
                }
            }
            Some(error) => return left_over(opening, error),
            None => {}
        }
        if start.elapsed() > SILENT {
            let what = "waits until what another process has written to it is drained";
            WAITING.say(format_args!("{}: {what}; `forebay stage ls` shows it", destination.display()));
        }
        if start.elapsed() > LIMIT {
            let what = format!("still being drained after {} s", LIMIT.as_secs());
            let error = Error::new(ErrorKind::Unavailable, what).at(destination.display());
            return Err(error.because(system(libc::EAGAIN)).hint("see `forebay stage ls`"));
        }
        // A signal that the program handles ends the wait: it may want to stop.
        if poll(&mut [] as &mut [PollFd<'_>], Some(&STEP)) == Err(rustix::io::Errno::INTR) {
            return Err(Error::from_io(system(libc::EINTR)).at(destination.display()));
        }
    }
}

fn refused(destination: &Path) -> Error {
    let what = "writes to it are staged, and it refused them";
    let error = Error::new(ErrorKind::Unavailable, what).at(destination.display());
    error.because(system(libc::EBUSY)).hint("`forebay stage drain` tries again")
}

/// Writes of a process that was killed, or that the file refused: who only reads is told, who would change the file has to
/// decide about them first. Who replaces it has decided, and they are forgotten.
fn left_over(opening: SettledOpening, error: Error) -> Result<()> {
    match opening {
        // Trouble with the area itself is told when it is written to.
        _ if error.kind() != ErrorKind::Unavailable => Ok(()),
        SettledOpening::Replacing => Err(error),
        SettledOpening::Reading => {
            LEFT_OVER.say(format_args!("{error}"));
            Ok(())
        }
        SettledOpening::Changing => Err(error),
    }
}

fn system(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
