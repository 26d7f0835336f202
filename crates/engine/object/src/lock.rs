//! Locks that a panic of another thread does not spoil.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic elsewhere cannot leave a map half-changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
