//! Each libhdf5 that has loaded the driver: its callbacks, its error stack, its own driver.

use std::sync::OnceLock;

use forebay_libhdf5::{ErrorStack, Hdf5Library, LibrarySlots};
use forebay_process::{Error, Result, WarnOnce};

use crate::{
    class::H5FD_class_t,
    sec2::{Sec2, Sec2Finder},
};

pub(crate) static LIBRARIES: LibrarySlots<DriverLibrary> = LibrarySlots::new();
static UNUSABLE: WarnOnce = WarnOnce::new();

/// Says once that a library cannot use the driver, and why.
pub(crate) fn say_unusable(error: &Error) {
    UNUSABLE.say(format_args!("the HDF5 file driver cannot be used: {error}"));
}

/// One libhdf5 that has loaded the driver.
#[derive(Debug)]
pub(crate) struct DriverLibrary {
    pub(crate) class: H5FD_class_t,
    pub(crate) stack: ErrorStack,
    finder: Sec2Finder,
    sec2: OnceLock<Option<Sec2>>,
}

impl DriverLibrary {
    /// For `library`, with callbacks of its slot.
    pub(crate) fn new(library: &Hdf5Library, class: H5FD_class_t) -> Result<Self> {
        let stack = ErrorStack::load(library)?;
        Ok(Self { class, stack, finder: Sec2Finder::load(library)?, sec2: OnceLock::new() })
    }

    /// The library's own driver, looked for at the first call.
    pub(crate) fn sec2(&'static self) -> Option<&'static Sec2> {
        let find = || match self.finder.find(&self.stack) {
            Ok(found) => Some(found),
            Err(error) => {
                UNUSABLE.say(format_args!("{error}; no HDF5 file can be opened: unset HDF5_DRIVER"));
                None
            }
        };
        self.sec2.get_or_init(find).as_ref()
    }
}

/// The library that has loaded the driver into `SLOT`.
pub(crate) fn library<const SLOT: usize>() -> Option<&'static DriverLibrary> {
    LIBRARIES.get(SLOT)
}
