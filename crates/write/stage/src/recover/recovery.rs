//! What is known and decided about an item that a killed process left.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::OwnFolder;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{
    create::destination::Destination,
    on_disk::{journal::Journal, stamp::FileStamp},
};

/// What is to become of an item.
#[derive(Debug)]
pub(crate) enum RecoverVerdict {
    /// Its bytes go to the destination.
    Finish,
    /// Its bytes go to the destination as they are, though they were changed after their seal.
    SealAnew,
    /// It was never promised to anybody, or is there already.
    Discard,
    /// Somebody has to choose.
    Refuse(Error),
}

/// What a killed process knew of the destination of an update.
#[derive(Clone, Debug)]
pub(crate) struct UpdateSibling {
    pub(crate) folder: Arc<OwnFolder>,
    pub(crate) id: String,
    pub(crate) destination: PathBuf,
    pub(crate) stamp: FileStamp,
    /// The time up to which the process may have changed the destination without saying so, where it may have.
    pub(crate) until_ns: Option<u64>,
}

impl UpdateSibling {
    /// Whether the process may have left the destination so.
    pub(crate) fn may_have_left(&self, found: &FileStamp) -> bool {
        let is_in_time = self.until_ns.is_some_and(|until| found.modified_ns <= until);
        *found == self.stamp || found.is_same_file(&self.stamp) && is_in_time
    }
}

/// Lock of an area's directory, by which one `recover` at a time works in it, until this is dropped: each would take the directories of some
/// processes, and none would know the order of the updates in all of them.
#[derive(Debug)]
pub(crate) struct RecoverTurn {
    area: Arc<OwnFolder>,
}

impl RecoverTurn {
    /// Waits for the turn in `area`, which was opened for this; `wait` is called before each further look, and may end the wait.
    pub(crate) fn take(area: &Arc<OwnFolder>, wait: &dyn Fn() -> Result<()>) -> Result<Self> {
        // Some file systems have no locks, or none for directories.
        while flock(area.descriptor(), FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            wait()?;
        }
        Ok(Self { area: Arc::clone(area) })
    }
}

impl Drop for RecoverTurn {
    fn drop(&mut self) {
        let _no_locks = flock(self.area.descriptor(), FlockOperation::Unlock);
    }
}

/// The error where the user wants no more.
pub(crate) fn interrupted() -> Error {
    let error = Error::new(ErrorKind::Unavailable, "recover was interrupted");
    error.hint("run it again: what is left is still there")
}

/// The recovery of one item.
pub(crate) struct Recovery<'a> {
    pub(crate) area: &'a Arc<OwnFolder>,
    pub(crate) folder: &'a OwnFolder,
    pub(crate) id: &'a str,
    pub(crate) is_same_boot: bool,
    /// Whether the user has said that the destination may be overwritten.
    pub(crate) is_forced: bool,
    /// The updates of the same destination that killed processes left, this one among them.
    pub(crate) siblings: &'a [UpdateSibling],
    /// Whether an update of the same destination was refused before.
    pub(crate) follows_refused_update: bool,
    /// All items that killed processes left, in the order of their recovery.
    pub(crate) items: &'a [(Arc<OwnFolder>, String)],
    pub(crate) progress: &'a dyn Fn(u64) -> ControlFlow<()>,
}

impl Recovery<'_> {
    /// Says that `bytes` more are done; an error where the user wants no more.
    pub(crate) fn tell(&self, bytes: u64) -> Result<()> {
        match (self.progress)(bytes) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(interrupted()),
        }
    }

    /// Opens the destination of `journal`; an error where another directory has the path of the one that it was for.
    pub(crate) fn destination(&self, journal: &Journal) -> Result<Destination> {
        let place = Destination::open(&journal.destination()).map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.hint(format!(
                "create it and publish with '--apply {0}'; '--discard {0}' forgets what was staged",
                self.id
            )),
            _ => error,
        })?;
        let expected = journal.directory.filter(|_| !self.is_forced);
        let is_other = match expected {
            Some(expected) => !place.directory_stamp()?.may_be_same_directory(&expected),
            None => false,
        };
        if is_other {
            Err(self.changed("its directory was replaced by another one since"))
        } else {
            Ok(place)
        }
    }

    /// What to do with an item that cannot be finished.
    pub(crate) fn discard_hint(&self) -> String {
        format!("'--discard {}' forgets what was staged", self.id)
    }

    /// The refusal of a destination that others have changed.
    pub(crate) fn changed(&self, what: &str) -> Error {
        let id = self.id;
        let hint = format!("'--apply {id}' writes over it, '--discard {id}' forgets what was staged");
        Error::new(ErrorKind::Unavailable, what).hint(hint)
    }
}
