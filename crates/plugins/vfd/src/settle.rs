//! A file that is opened again while what was written to it is still on its way.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result, WarnOnce};
use forebay_stage::{Area, AwaitedDrains, ItemState, PreparedDiscard};
use rustix::event::{PollFd, Timespec, poll};

use crate::process;

/// How long an open waits for another process to drain the file.
const LIMIT: Duration = Duration::from_secs(300);
/// How long other processes may take that replace the same file, or bring it what they have staged.
const DISCARD_LIMIT: Duration = Duration::from_secs(5);
/// How long between two looks.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Who waits longer than this is told why.
const SILENT: Duration = Duration::from_secs(5);

static WAITING: WarnOnce = WarnOnce::new();

/// How a file is about to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettledOpening {
    /// With its bytes, to read or change them.
    Existing,
    /// Whatever it holds goes.
    Replacing,
}

/// A file that may be opened now, or removed.
#[derive(Debug, Default)]
#[must_use = "what is staged for a file that is replaced has to be forgotten"]
pub(crate) struct SettledFile {
    discard: Option<(Arc<Area>, PreparedDiscard)>,
}

impl SettledFile {
    /// Forgets what killed processes have staged for the file, which was replaced or removed: `recover` would write it over the new
    /// one. Called once that has succeeded; until then the staged writes are all that is left of what was flushed.
    pub(crate) fn replaced(self) -> Result<()> {
        let Some((area, prepared)) = self.discard else { return Ok(()) };
        let start = Instant::now();
        loop {
            // Processes that replace it at once are in each other's way for a moment.
            match area.discard_prepared(&prepared) {
                Err(_) if start.elapsed() <= DISCARD_LIMIT => pause()?,
                discarded => return discarded,
            }
        }
    }
}

/// Returns when `destination` holds all that was written to it and closed, by whichever process of the node.
///
/// An error where a killed process has left writes for it, or where it has refused some, unless it is replaced.
pub(crate) fn wait_until_settled(
    slot: usize,
    destination: &Path,
    opening: SettledOpening,
) -> Result<SettledFile> {
    let state = process::state();
    if let Ok(file) = fs::metadata(destination) {
        // HDF5 opens a file a second time to find out that it has it open already.
        if state.is_active(slot, &file) {
            return Ok(SettledFile::default());
        }
        state.drain_others(slot, &file)?;
    }
    match state.area() {
        Some(area) => wait(area, destination, opening),
        None => Ok(SettledFile::default()),
    }
}

fn wait(area: &Arc<Area>, destination: &Path, opening: SettledOpening) -> Result<SettledFile> {
    let start = Instant::now();
    let mut awaited = None;
    loop {
        // A file that a process still has open is left to HDF5's locks, as ever.
        let trouble = match area.pending(destination) {
            Ok(None) => return Ok(SettledFile::default()),
            Ok(Some(ItemState::Failed)) => Some(refused(destination)),
            Ok(Some(_)) => None,
            Err(error) => Some(error),
        };
        match trouble {
            // The directory that the file would be in is not there: HDF5 says so itself.
            Some(error) if error.kind() == ErrorKind::NotFound => return Ok(SettledFile::default()),
            // Nor can a file have such a name.
            Some(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                return Ok(SettledFile::default());
            }
            Some(error) if opening == SettledOpening::Existing => return Err(error),
            Some(_) => match area.prepare_discard(destination) {
                Ok(prepared) => return Ok(SettledFile { discard: Some((Arc::clone(area), prepared)) }),
                // Trouble with the area itself is told when it is written to: recover writes over no file that was replaced since.
                Err(error) if error.kind() != ErrorKind::Unavailable => return Ok(SettledFile::default()),
                Err(error) if start.elapsed() > DISCARD_LIMIT => return Err(error),
                Err(_) => {}
            },
            // Nobody resumes the drains of this process while it waits here: they go on as in a flush.
            None if awaited.is_none() => awaited = area.await_drains(destination)?,
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
        if !awaited.as_ref().is_some_and(AwaitedDrains::work) {
            pause().map_err(|error| error.at(destination.display()))?;
        }
    }
}

/// Waits for the next look. A signal that the program handles ends the wait: it may want to stop.
fn pause() -> Result<()> {
    match poll(&mut [] as &mut [PollFd<'_>], Some(&STEP)) {
        Err(rustix::io::Errno::INTR) => Err(Error::from_io(system(libc::EINTR))),
        _ => Ok(()),
    }
}

fn refused(destination: &Path) -> Error {
    let what = "writes to it are staged, and it refused them";
    let error = Error::new(ErrorKind::Unavailable, what).at(destination.display());
    error.because(system(libc::EBUSY)).hint("`forebay stage drain` tries again")
}

fn system(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
