//! When MPI begins and ends in this process, and what has to be given back before it ends.
//!
//! MPI may be initialised and finalised by others, such as mpi4py, in any order with the end of what is made here. An attribute
//! of `MPI_COMM_SELF` tells: MPI deletes it first of all when it is finalised. Afterwards nothing here calls MPI again.

#![expect(unsafe_code, reason = "is called by MPI and by the C library at the end of the process")]

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_void},
    panic,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, atomic::Ordering::SeqCst},
    time::Duration,
};

use forebay_process::{Error, ErrorKind, ProcessIdentity, Result, current_process};
use forebay_store::{ShardMemory, Wait};

use crate::{
    calls::{
        stall::{CallLimit, RankWatch, end_process, watched},
        window_use::WindowUse,
    },
    library::{MpiLibrary, abi::MpiHandle, ffi::LoadedMpi},
};

/// What MPI still has of this process, by the order in which it was made, which is the same on every rank.
static OPEN: Mutex<OpenObjects> = Mutex::new(OpenObjects::new());
/// The process that MPI was initialised in: a forked child has its connections and locks, and may touch none of them.
static PROCESS: OnceLock<ProcessIdentity> = OnceLock::new();

/// How long readers of other threads may take to see that MPI ends: they look every few milliseconds.
const READERS_LEAVE: Duration = Duration::from_secs(10);

struct OpenObjects {
    next: u64,
    windows: BTreeMap<u64, OpenWindow>,
    comms: Vec<MpiHandle>,
    is_watched: bool,
    /// This process initialised MPI through us, and has to finalise it.
    is_ours: bool,
    is_over: bool,
    /// Why collective calls would wait for ever, once a rank is lost for good.
    lost_rank: Option<String>,
    watches: Vec<Weak<dyn RankWatch>>,
}

/// A window, who reads through it, and the memory that other ranks read, which stays as long as it.
struct OpenWindow {
    handle: MpiHandle,
    usage: Arc<WindowUse>,
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

/// The objects of this process; `None` in a forked child, where a thread of the parent may have held the lock for ever.
fn open() -> Option<MutexGuard<'static, OpenObjects>> {
    let is_own = PROCESS.get().is_none_or(|process| *process == current_process());
    // Each change is one insertion, removal or flag: a panic elsewhere leaves it whole.
    is_own.then(|| OPEN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The error for a call in a process that was forked after MPI was initialised.
fn in_child() -> Error {
    Error::invalid("this process was forked from one that MPI runs in, and cannot call it")
        .hint("use num_workers=0 or a forebay Loader, whose threads read in the process of the rank")
}

/// Makes sure that MPI can be called: where nobody initialised it, `may_begin` says whether it is done here.
pub(crate) fn begin(library: &'static MpiLibrary, may_begin: bool) -> Result<()> {
    let mpi = &library.loaded;
    let mut open = open().ok_or_else(in_child)?;
    if open.is_over || mpi.is_finalized()? {
        return Err(Error::invalid("MPI was finalised").hint("make the store before MPI_Finalize"));
    }
    if !mpi.is_initialized()? {
        if !may_begin {
            return Err(Error::invalid("MPI is not initialised, so there is no communicator")
                .at(library.path().display()));
        }
        mpi.init_thread()?;
        PROCESS.get_or_init(current_process);
        open.is_ours = true;
        // SAFETY: the function may be called at any time; it never unwinds.
        unsafe { libc::atexit(at_exit) };
    }
    if !open.is_watched {
        mpi.before_finalize(at_finalize)?;
        PROCESS.get_or_init(current_process);
        open.is_watched = true;
    }
    Ok(())
}

/// Finalises MPI if it was initialised here; the end of the process does so too. Collective.
pub fn finalize() -> Result<()> {
    let is_due = {
        let open = open().ok_or_else(in_child)?;
        open.is_ours && !open.is_over
    };
    if let Some(reason) = lost_rank().filter(|_| is_due) {
        let what = format!("MPI cannot be finalised any more: {reason}");
        return Err(Error::new(ErrorKind::Unavailable, what).hint("end the process as it is"));
    }
    if is_due { finalize_watched(MpiLibrary::find()?) } else { Ok(()) }
}

fn finalize_watched(library: &MpiLibrary) -> Result<()> {
    // MPICH takes no locks any more by the time it says that it ends.
    let usages = open().map(|open| open.windows.values().map(|window| Arc::clone(&window.usage)).collect());
    dismiss_readers(usages.unwrap_or_default());
    // Ranks that have more to do come later, at any time.
    watched("Finalize", CallLimit::None, Some(Arc::new(AnyRank)), |_| library.loaded.finalize())
}

/// Remembers a window until it is closed.
pub(crate) fn add_window(
    handle: MpiHandle,
    usage: &Arc<WindowUse>,
    memory: &Arc<ShardMemory>,
) -> Result<u64> {
    let mut open = open().ok_or_else(in_child)?;
    let number = open.next;
    open.next += 1;
    let window = OpenWindow { handle, usage: Arc::clone(usage), _memory: Arc::clone(memory) };
    open.windows.insert(number, window);
    Ok(number)
}

/// Frees the window `number`, which nobody reads any more. Collective; nothing happens when MPI is over.
pub(crate) fn free_window(mpi: &LoadedMpi, number: u64) -> Result<()> {
    let window = match open() {
        Some(mut open) if !open.is_over => open.windows.remove(&number),
        _ => None,
    };
    window.map_or(Ok(()), |window| free(mpi, window.handle))
}

/// Frees a communicator that is used no more, or leaves that to the end where this thread may not call MPI.
pub(crate) fn free_comm(mpi: &LoadedMpi, comm: MpiHandle, may_call: bool) {
    let Some(mut open) = open() else { return };
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
    let Some(mut open) = open() else { return };
    open.watches.retain(|watch| watch.strong_count() > 0);
    open.watches.push(watch);
}

/// Why collective calls would wait for ever: which rank is lost for good.
pub(crate) fn lost_rank() -> Option<String> {
    let watches = open()?.watches.clone();
    if let Some(reason) = watches.iter().filter_map(Weak::upgrade).find_map(|watch| watch.lost_rank()) {
        lose_rank(reason);
    }
    open()?.lost_rank.clone()
}

/// Remembers that a rank is lost: what is collective is left alone from now on.
pub(crate) fn lose_rank(reason: String) {
    if let Some(mut open) = open() {
        open.lost_rank.get_or_insert(reason);
    }
}

/// Has this process end without `MPI_Finalize`, which waits for all ranks: for one that gives up while others go on. The launcher
/// then ends those.
pub fn leave_unfinalized(reason: &str) {
    lose_rank(reason.to_owned());
}

/// The ranks of all communicators.
struct AnyRank;

impl RankWatch for AnyRank {
    fn lost_rank(&self) -> Option<String> {
        lost_rank()
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
    // MPI goes on in any case: an error here would make it abort the process.
    let _ = panic::catch_unwind(give_all_back);
    0
}

fn give_all_back() {
    if open().is_none() {
        return;
    }
    if let Some(reason) = lost_rank() {
        // Open MPI 4.1 and 5.0 and MPICH 5.0 wait for lost ranks in MPI_Finalize, without end.
        end_process(&format!("MPI_Finalize would wait for a lost rank: {reason}"));
    }
    let Some(mut open) = open() else { return };
    open.is_over = true;
    let (windows, comms) = (std::mem::take(&mut open.windows), std::mem::take(&mut open.comms));
    drop(open);
    dismiss_readers(windows.values().map(|window| Arc::clone(&window.usage)).collect());
    let Ok(library) = MpiLibrary::find() else { return };
    // Other ranks may come later, at any time; but one that has not answered a get may never come.
    let is_late = windows.values().any(|window| window.usage.late.load(SeqCst) > 0);
    let limit = if is_late { CallLimit::TwoMinutes } else { CallLimit::None };
    watched("Finalize", limit, Some(Arc::new(AnyRank)), |_| {
        for window in windows.values() {
            // Each is tried: one that cannot be freed is MPI's to deal with.
            let _ = free(&library.loaded, window.handle);
        }
        for comm in comms {
            let _ = library.loaded.comm_free(comm);
        }
    });
}

/// Closes windows to the threads that read through them, and returns when they have left.
fn dismiss_readers(usages: Vec<Arc<WindowUse>>) {
    for usage in &usages {
        usage.close();
    }
    let wait = Wait::at_most(READERS_LEAVE);
    if let Some(error) = usages.iter().find_map(|usage| usage.await_readers(&wait).err()) {
        end_process(&format!("MPI_Finalize while MPI is called: {error}"));
    }
}

/// What the C library calls at the end of the process, and of forked children that end by `exit`.
extern "C" fn at_exit() {
    let _ = panic::catch_unwind(|| {
        // With a lost rank MPI_Finalize would wait for ever.
        let is_whole = lost_rank().is_none();
        let is_due = open().is_some_and(|open| open.is_ours && !open.is_over && is_whole);
        if !is_due {
            return;
        }
        let Ok(library) = MpiLibrary::find() else { return };
        if library.loaded.is_thread_main().unwrap_or(false) {
            let _ = finalize_watched(library);
        }
    });
}

/// An error where MPI was finalised, or runs in the process that forked this one.
pub(crate) fn check_callable() -> Result<()> {
    match open().ok_or_else(in_child)?.is_over {
        false => Ok(()),
        true => Err(Error::new(ErrorKind::Invalid, "MPI was finalised: its ranks can be read no more")),
    }
}
