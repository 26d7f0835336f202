//! The locks of this crate: those of the standard library, or those of a checker that tries all orders.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, RwLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard, RwLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use std::sync::PoisonError;

/// Locks `mutex`; what it guards is changed as a whole, so that a panic elsewhere leaves nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
