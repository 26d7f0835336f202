//! Destinations that updates of this process are changing at this moment, or are still to change: a new file that is to replace one
//! waits, as it could not tell such a change from one by others, and as an update whose file was replaced could never end.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay_process::Error;

use crate::on_disk::stamp::FileStamp;

/// The destinations, each as often as it is being changed.
#[derive(Debug, Default)]
pub(crate) struct DestinationChanges {
    destinations: Mutex<Vec<PathBuf>>,
    awaited: Mutex<AwaitedUpdates>,
}

/// Updates that new files wait for, each with a number of its own.
#[derive(Debug, Default)]
struct AwaitedUpdates {
    next: u64,
    updates: Vec<(u64, UpdateToCome)>,
}

/// An update that is still to reach its destination.
#[derive(Debug)]
struct UpdateToCome {
    destination: PathBuf,
    file: FileStamp,
    failure: Option<Error>,
}

/// New files that are to replace the destination of an update wait for it until this is dropped.
#[derive(Debug)]
pub(crate) struct AwaitedUpdate {
    changes: Arc<DestinationChanges>,
    number: u64,
}

/// What a new file finds before it.
#[derive(Clone, Debug)]
pub(crate) enum UpdateBefore {
    None,
    /// It is still on its way.
    Waits,
    /// The destination refused it.
    Failed(Error),
}

/// A change that is going on until this is dropped.
#[derive(Debug)]
pub(crate) struct DestinationChange {
    changes: Arc<DestinationChanges>,
    destination: PathBuf,
}

impl DestinationChanges {
    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, AwaitedUpdates> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has new files that are to replace `file` at `destination` wait for an update of it.
    pub(crate) fn wait_for(self: &Arc<Self>, destination: &Path, file: FileStamp) -> AwaitedUpdate {
        let mut awaited = self.awaited();
        let number = awaited.next;
        awaited.next += 1;
        let update = UpdateToCome { destination: destination.to_owned(), file, failure: None };
        awaited.updates.push((number, update));
        AwaitedUpdate { changes: Arc::clone(self), number }
    }

    /// Returns what a new file for `destination`, which may be one of `expected`, has to wait for.
    pub(crate) fn update_before(&self, destination: &Path, expected: &[Option<FileStamp>]) -> UpdateBefore {
        let awaited = self.awaited();
        let replaces = |file: &FileStamp| expected.iter().flatten().any(|one| one.is_same_file(file));
        let updates = awaited.updates.iter().map(|(_, update)| update);
        let mut before =
            updates.filter(|update| update.destination == destination && replaces(&update.file)).peekable();
        if before.peek().is_none() {
            return UpdateBefore::None;
        }
        before.find_map(|update| update.failure.clone()).map_or(UpdateBefore::Waits, UpdateBefore::Failed)
    }

    /// Says that `destination` is about to be changed.
    pub(crate) fn begin(self: &Arc<Self>, destination: &Path) -> DestinationChange {
        self.lock().push(destination.to_owned());
        DestinationChange { changes: Arc::clone(self), destination: destination.to_owned() }
    }

    /// Whether `destination` is being changed.
    pub(crate) fn has(&self, destination: &Path) -> bool {
        self.lock().iter().any(|one| one == destination)
    }
}

impl Drop for DestinationChange {
    fn drop(&mut self) {
        let mut destinations = self.changes.lock();
        if let Some(place) = destinations.iter().position(|one| *one == self.destination) {
            destinations.swap_remove(place);
        }
    }
}

impl AwaitedUpdate {
    /// Says why the destination refused the update, or that it is tried again.
    pub(crate) fn set_failure(&self, failure: Option<Error>) {
        let mut awaited = self.changes.awaited();
        if let Some((_, update)) = awaited.updates.iter_mut().find(|(number, _)| *number == self.number) {
            update.failure = failure;
        }
    }
}

impl Drop for AwaitedUpdate {
    fn drop(&mut self) {
        self.changes.awaited().updates.retain(|(number, _)| *number != self.number);
    }
}
