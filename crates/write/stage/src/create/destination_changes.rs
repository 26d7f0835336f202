//! Destinations that updates of this process are changing at this moment: a new file that is to replace one waits, as it could
//! not tell such a change from one by others.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The destinations, each as often as it is being changed.
#[derive(Debug, Default)]
pub(crate) struct DestinationChanges {
    destinations: Mutex<Vec<PathBuf>>,
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
