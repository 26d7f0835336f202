//! When MPI begins and ends in this process, and what has to be given back before it ends.
//!
//! MPI may be initialised and finalised by others, such as mpi4py, in any order with the end of what is made here. An attribute
//! of `MPI_COMM_SELF` tells: MPI deletes it first of all when it is finalised. Afterwards nothing here calls MPI again.

#![expect(unsafe_code, reason = "is called by MPI and by the C library at the end of the process")]

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_void},
    panic,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use forebay_source::{Error, ErrorKind, Result};
use forebay_store::ShardMemory;

use crate::{abi::MpiHandle, ffi::LoadedMpi, library::MpiLibrary};

/// What MPI still has of this process, by the order in which it was made, which is the same on every rank.
static OPEN: Mutex<OpenObjects> = Mutex::new(OpenObjects::new());

struct OpenObjects {
    next: u64,
    windows: BTreeMap<u64, OpenWindow>,
    comms: Vec<MpiHandle>,
    is_watched: bool,
    /// This process initialised MPI through us, and has to finalise it.
    is_ours: bool,
    is_over: bool,
    /// Why collective calls would wait for ever, once a rank is lost.
    lost_rank: Option<String>,
    watches: Vec<Weak<dyn RankWatch>>,
}

/// What knows whether ranks are lost.
pub(crate) trait RankWatch: Send + Sync {
    /// Which one is, or why some must be.
    fn lost_rank(&self) -> Option<String>;
}

/// A window and the memory that other ranks read through it, which stays as long as it.
struct OpenWindow {
    handle: MpiHandle,
    _memory: Arc<ShardMemory>,
}

impl OpenObjects {
    const fn new() -> Self {
        Self {
            next: 0,
            windows: BTreeMap::new(),
            comms: Vec::new(),
            is_watched: false,
            is_ours: false,
            is_over: false,
            lost_rank: None,
            watches: Vec::new(),
        }
    }
}

fn open() -> MutexGuard<'static, OpenObjects> {
    // Each change is one insertion, removal or flag: a panic elsewhere leaves it whole.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes sure that MPI can be called: where nobody initialised it, `may_begin` says whether it is done here.
pub(crate) fn begin(library: &'static MpiLibrary, may_begin: bool) -> Result<()> {
    let mpi = &library.loaded;
    let mut open = open();
    if open.is_over || mpi.is_finalized()? {
        return Err(Error::invalid("MPI was finalised").hint("make the store before MPI_Finalize"));
    }
    if !mpi.is_initialized()? {
        if !may_begin {
            return Err(Error::invalid("MPI is not initialised, so there is no communicator")
                .at(library.path().display()));
        }
        mpi.init_thread()?;
        open.is_ours = true;
        // SAFETY: the function may be called at any time; it never unwinds.
        unsafe { libc::atexit(at_exit) };
    }
    if !open.is_watched {
        mpi.before_finalize(at_finalize)?;
        open.is_watched = true;
    }
    Ok(())
}

/// Finalises MPI if it was initialised here; the end of the process does so too. Collective.
pub fn finalize() -> Result<()> {
    let is_due = {
        let open = open();
        open.is_ours && !open.is_over
    };
    if let Some(reason) = lost_rank().filter(|_| is_due) {
        let what = format!("MPI cannot be finalised any more: {reason}");
        return Err(Error::new(ErrorKind::Unavailable, what).hint("end the process as it is"));
    }
    if is_due { MpiLibrary::find()?.loaded.finalize() } else { Ok(()) }
}

/// Remembers a window until it is closed.
pub(crate) fn add_window(handle: MpiHandle, memory: Arc<ShardMemory>) -> u64 {
    let mut open = open();
    let number = open.next;
    open.next += 1;
    open.windows.insert(number, OpenWindow { handle, _memory: memory });
    number
}

/// Frees the window `number`. Collective; nothing happens when MPI is over, or was already told.
pub(crate) fn free_window(mpi: &LoadedMpi, number: u64) -> Result<()> {
    let window = {
        let mut open = open();
        if open.is_over || open.lost_rank.is_some() {
            return Ok(());
        }
        open.windows.remove(&number)
    };
    window.map_or(Ok(()), |window| free(mpi, window.handle))
}

/// Frees a communicator that is used no more, or leaves that to the end where this thread may not call MPI.
pub(crate) fn free_comm(mpi: &LoadedMpi, comm: MpiHandle, may_call: bool) {
    let mut open = open();
    if open.is_over || open.lost_rank.is_some() {
        return;
    }
    if may_call {
        drop(open);
        // Where it cannot be freed, MPI_Finalize does.
        let _ = mpi.comm_free(comm);
    } else {
        open.comms.push(comm);
    }
}

/// Has `watch` asked for lost ranks when MPI ends.
pub(crate) fn add_watch(watch: Weak<dyn RankWatch>) {
    let mut open = open();
    open.watches.retain(|watch| watch.strong_count() > 0);
    open.watches.push(watch);
}

/// Why collective calls would wait for ever: which rank is lost.
pub(crate) fn lost_rank() -> Option<String> {
    let watches = open().watches.clone();
    let lost = watches.iter().filter_map(Weak::upgrade).find_map(|watch| watch.lost_rank());
    let mut open = open();
    if open.lost_rank.is_none() {
        open.lost_rank = lost;
    }
    open.lost_rank.clone()
}

/// Remembers that a rank is lost: what is collective is left alone from now on.
pub(crate) fn lose_rank(reason: String) {
    let mut open = open();
    open.lost_rank.get_or_insert(reason);
}

/// Ends the process at once, where MPI would wait for ever.
pub(crate) fn end_process(reason: &str) -> ! {
    eprintln!("forebay: {reason}; this process ends");
    // SAFETY: writes out what the program printed through the C library, and ends.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(1)
    }
}

fn free(mpi: &LoadedMpi, mut window: MpiHandle) -> Result<()> {
    // SAFETY: a window of this library, within the epoch that began when it was made; nothing uses it any more.
    let codes = unsafe { [(mpi.calls.win_unlock_all)(window), (mpi.calls.win_free)(&raw mut window)] };
    mpi.check("Win_unlock_all", codes[0])?;
    mpi.check("Win_free", codes[1])
}

/// What MPI calls before it is finalised.
unsafe extern "C" fn at_finalize(_: MpiHandle, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    let ended = panic::catch_unwind(|| {
        if let Some(reason) = lost_rank() {
            // Open MPI 4.1 and 5.0 and MPICH 5.0 wait for lost ranks in MPI_Finalize, without end.
            end_process(&format!("MPI_Finalize would wait for a lost rank: {reason}"));
        }
        let (windows, comms) = {
            let mut open = open();
            open.is_over = true;
            (std::mem::take(&mut open.windows), std::mem::take(&mut open.comms))
        };
        let mpi = &MpiLibrary::find()?.loaded;
        for window in windows.values() {
            free(mpi, window.handle)?;
        }
        for comm in comms {
            mpi.comm_free(comm)?;
        }
        Ok::<_, Error>(())
    });
    // MPI goes on in any case: an error here would make it abort the process.
    let _ = ended;
    0
}

/// What the C library calls at the end of the process.
extern "C" fn at_exit() {
    let _ = panic::catch_unwind(|| {
        // With a lost rank MPI_Finalize would wait for ever.
        let is_whole = lost_rank().is_none();
        let is_due = {
            let open = open();
            open.is_ours && !open.is_over && is_whole
        };
        let Ok(library) = MpiLibrary::find() else { return };
        if is_due && library.loaded.is_thread_main().unwrap_or(false) {
            let _ = library.loaded.finalize();
        }
    });
}

/// The error for a call after MPI was finalised.
pub(crate) fn check_not_over() -> Result<()> {
    match open().is_over {
        false => Ok(()),
        true => Err(Error::new(ErrorKind::Invalid, "MPI was finalised: its ranks can be read no more")),
    }
}
