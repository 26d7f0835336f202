//! What property lists say of MPI: the communicator of a file, and whether a transfer is collective.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    collections::VecDeque,
    ffi::{CStr, c_int, c_void},
    ptr::{self, NonNull, null_mut},
    sync::{Mutex, PoisonError, RwLock},
};

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};
use forebay_mpi::{MpiComm, MpiHandle, MpiOptions};
use forebay_process::Result;
use forebay_store::Wait;

use crate::slots::LoadedLibrary;

/// `H5FD_MPIO_INDEPENDENT`
const INDEPENDENT: c_int = 0;
/// `H5FD_MPIO_COLLECTIVE`
const COLLECTIVE: c_int = 1;

/// The functions of each libhdf5, which stays where it is.
static FOUND_LISTS: RwLock<Vec<(usize, Option<MpiLists>)>> = RwLock::new(Vec::new());
/// Lists that were used, the oldest first.
static KEPT_LISTS: Mutex<VecDeque<KeptList>> = Mutex::new(VecDeque::new());
/// More than any one call uses.
const MOST_KEPT: usize = 256;

#[derive(Debug)]
struct KeptList {
    list: hid_t,
    close: unsafe extern "C" fn(hid_t) -> herr_t,
}

/// A libhdf5 ends, and its lists with it.
pub(crate) fn forget_lists() {
    KEPT_LISTS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

type GetCommunicator = unsafe extern "C" fn(hid_t, *mut usize, *mut c_void) -> herr_t;
type GetMode = unsafe extern "C" fn(hid_t, *mut c_int) -> herr_t;
type SetMode = unsafe extern "C" fn(hid_t, c_int) -> herr_t;
type GetFlag = unsafe extern "C" fn(hid_t, *mut bool) -> herr_t;

/// The functions of a parallel libhdf5 that a serial one lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MpiLists {
    communicator: GetCommunicator,
    mode: GetMode,
    set_mode: SetMode,
    collective_metadata: GetFlag,
}

/// The function `name` of `library`.
///
/// # Safety
/// It has the type `F`, a function pointer.
unsafe fn function<F: Copy>(library: &LoadedLibrary, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    let symbol = library.library.symbol(name)?;
    // SAFETY: as promised by the caller; both are addresses.
    Some(unsafe { std::mem::transmute_copy::<NonNull<c_void>, F>(&symbol) })
}

impl MpiLists {
    /// Those of `library`; `None` where it is a serial one. Looked for once: the loader takes longer than a read.
    pub(crate) fn of(library: &LoadedLibrary) -> Option<Self> {
        let name = ptr::from_ref(library).addr();
        let known = |all: &Vec<(usize, Option<Self>)>| {
            all.iter().find(|(known, _)| *known == name).map(|(_, lists)| *lists)
        };
        if let Some(lists) = known(&FOUND_LISTS.read().unwrap_or_else(PoisonError::into_inner)) {
            return lists;
        }
        let found = Self::find(library);
        FOUND_LISTS.write().unwrap_or_else(PoisonError::into_inner).push((name, found));
        found
    }

    fn find(library: &LoadedLibrary) -> Option<Self> {
        // SAFETY: the signatures of HDF5's headers; an MPI_Comm has the width of a pointer or less.
        unsafe {
            Some(Self {
                communicator: function(library, c"H5Pget_fapl_mpio")?,
                mode: function(library, c"H5Pget_dxpl_mpio")?,
                set_mode: function(library, c"H5Pset_dxpl_mpio")?,
                collective_metadata: function(library, c"H5Pget_all_coll_metadata_ops")?,
            })
        }
    }

    /// The ranks that open a file with the list `access` by MPI-IO, with messages of their own; `None` for another driver.
    /// Collective over them.
    pub(crate) fn ranks_of(&self, library: &LoadedLibrary, access: hid_t) -> Option<Result<MpiComm>> {
        let mut handle = 0_usize;
        // SAFETY: a list that HDF5 handed to a callback, and a place for a communicator; no place for hints is allowed.
        if library.quietly(|| unsafe { (self.communicator)(access, &raw mut handle, null_mut()) }) < 0 {
            return None;
        }
        // SAFETY: HDF5 has made this communicator for the caller, who frees it.
        let own = unsafe { MpiHandle::of_communicator(handle) };
        Some(MpiComm::from_made_handle(own, MpiOptions::default(), &Wait::while_ranks_live()))
    }

    /// True when all metadata of a file opened with `access` is read by all ranks together.
    pub(crate) fn has_collective_metadata(&self, library: &LoadedLibrary, access: hid_t) -> bool {
        let mut is_collective = true;
        // SAFETY: a list that HDF5 handed to a callback, and a place for the answer.
        let answer =
            library.quietly(|| unsafe { (self.collective_metadata)(access, &raw mut is_collective) });
        answer < 0 || is_collective
    }

    /// True when a transfer with this list is made by all ranks of the file.
    pub(crate) fn is_collective(&self, library: &LoadedLibrary, transfer: hid_t) -> bool {
        if transfer == 0 || transfer == library.default_transfer() {
            return false;
        }
        let mut mode = INDEPENDENT;
        // SAFETY: a list that HDF5 handed to a callback, and a place for the answer.
        let answer = library.quietly(|| unsafe { (self.mode)(transfer, &raw mut mode) });
        answer >= 0 && mode == COLLECTIVE
    }

    /// Keeps `list` open until long after the call of HDF5 in which it was used: when that ends, HDF5 writes to the list that was
    /// used last.
    unsafe fn keep(&self, library: &LoadedLibrary, list: hid_t) {
        let mut kept = KEPT_LISTS.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(KeptList { list, close: library.functions.H5Pclose });
        if kept.len() > MOST_KEPT
            && let Some(oldest) = kept.pop_front()
        {
            // SAFETY: a list of our own, of the library whose function this is.
            unsafe { (oldest.close)(oldest.list) };
        }
    }

    /// What `body` gives with a copy of `transfer` that is independent.
    pub(crate) fn independently<R>(
        &self,
        library: &LoadedLibrary,
        transfer: hid_t,
        body: impl FnOnce(hid_t) -> R,
    ) -> R {
        if !self.is_collective(library, transfer) {
            return body(transfer);
        }
        // SAFETY: a list that HDF5 handed to a callback; the copy is ours, and closed again.
        unsafe {
            let copy = (library.functions.H5Pcopy)(transfer);
            if copy < 0 || (self.set_mode)(copy, INDEPENDENT) < 0 {
                return body(0);
            }
            let answer = body(copy);
            library.errors.kept(|| self.keep(library, copy));
            answer
        }
    }
}

/// What `body` gives with a copy of `transfer` that is independent, where `library` is a parallel one.
pub(crate) fn independently<R>(library: &LoadedLibrary, transfer: hid_t, body: impl FnOnce(hid_t) -> R) -> R {
    match MpiLists::of(library) {
        Some(lists) => lists.independently(library, transfer, body),
        None => body(transfer),
    }
}
