//! A place for each libhdf5 of the process: callbacks are compiled once per slot, so that each knows who calls.

use std::{
    ffi::c_void,
    sync::{Mutex, OnceLock, PoisonError},
};

use forebay_process::Result;

use crate::library::Hdf5Library;

/// How many libraries can be served: Python's h5py, netCDF4 and PyTables bring one each.
pub const SLOT_COUNT: usize = 8;

/// Calls `$make::<N>()` for the slot `N` that `$slot` is the number of: callbacks are compiled once for each.
#[macro_export]
macro_rules! in_slot {
    ($slot:expr, $make:ident) => {
        match $slot {
            0 => $make::<0>(),
            1 => $make::<1>(),
            2 => $make::<2>(),
            3 => $make::<3>(),
            4 => $make::<4>(),
            5 => $make::<5>(),
            6 => $make::<6>(),
            _ => $make::<7>(),
        }
    };
}
const _: () = assert!(SLOT_COUNT == 8, "as many as `in_slot` has");

/// What is kept for each libhdf5, by the number of its slot.
#[derive(Debug)]
pub struct LibrarySlots<T> {
    placing: Mutex<()>,
    taken: [OnceLock<(usize, T)>; SLOT_COUNT],
}

impl<T> LibrarySlots<T> {
    /// No slot is taken.
    pub const fn new() -> Self {
        Self { placing: Mutex::new(()), taken: [const { OnceLock::new() }; SLOT_COUNT] }
    }

    /// What slot `number` holds.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        self.taken.get(number)?.get().map(|(_, kept)| kept)
    }

    /// What is kept for the libhdf5 that `address` lies in, made by `make` when that library calls for the first time; `None` where
    /// all slots are taken.
    pub fn for_caller(
        &self,
        address: *const c_void,
        make: impl FnOnce(Hdf5Library, usize) -> Result<T>,
    ) -> Result<Option<&T>> {
        let library = Hdf5Library::of_address(address)?;
        let Some(base) = library.base() else { return Ok(None) };
        let mut failed = None;
        let placed = self.place(base, |slot| make(library, slot).map_err(|error| failed = Some(error)).ok());
        failed.map_or(Ok(placed), Err)
    }

    /// What is kept for the library at `base`, made by `make` for the first free slot if there is nothing yet.
    ///
    /// `None` where all slots are taken, or where `make` gives nothing.
    fn place(&self, base: usize, make: impl FnOnce(usize) -> Option<T>) -> Option<&T> {
        // A panic in `make` leaves the slot free.
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, slot) in self.taken.iter().enumerate() {
            match slot.get() {
                Some((there, kept)) if *there == base => return Some(kept),
                Some(_) => {}
                None => {
                    let made = make(number)?;
                    return Some(&slot.get_or_init(|| (base, made)).1);
                }
            }
        }
        None
    }
}

impl<T> Default for LibrarySlots<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_keeps_its_slot_and_another_gets_the_next() {
        let slots = LibrarySlots::new();
        assert_eq!(slots.place(0x1000, Some), Some(&0));
        assert_eq!(slots.place(0x2000, Some), Some(&1));
        assert_eq!(slots.place(0x1000, |_| None), Some(&0));
        assert_eq!((slots.get(1), slots.get(2)), (Some(&1), None));
    }

    #[test]
    fn a_slot_that_could_not_be_filled_stays_free_and_a_ninth_library_gets_none() {
        let slots = LibrarySlots::new();
        assert_eq!(slots.place(7, |_| None), None);
        for base in 0..SLOT_COUNT {
            assert_eq!(slots.place(base, Some), Some(&base));
        }
        assert_eq!(slots.place(99, Some), None);
    }
}
