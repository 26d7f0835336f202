//! The handle that a libhdf5 has for this project's file driver.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use forebay_libhdf5::hdf5_types::hid_t;

/// No driver was looked for.
const UNKNOWN: hid_t = 0;
/// There is none.
const ABSENT: hid_t = -1;

/// The handle of the driver in one libhdf5.
#[derive(Debug)]
pub(crate) struct DriverHandle(AtomicI64);

impl DriverHandle {
    /// Not looked for yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicI64::new(UNKNOWN))
    }

    /// The handle, if the driver was registered.
    pub(crate) fn known(&self) -> Option<hid_t> {
        Some(self.0.load(Relaxed)).filter(|driver| *driver > UNKNOWN)
    }

    /// The handle, by `register` if it was not looked for before.
    pub(crate) fn get_or_register(&self, register: impl FnOnce() -> Option<hid_t>) -> Option<hid_t> {
        if self.0.load(Relaxed) == UNKNOWN {
            self.0.store(register().unwrap_or(ABSENT), Relaxed);
        }
        self.known()
    }

    /// Forgets the handle: the library that gave it ends.
    pub(crate) fn forget(&self) {
        self.0.store(UNKNOWN, Relaxed);
    }
}
