//! Maps of copies: where the program itself begins to write to the file, they are replaced in place by maps of the origin, so that it reads
//! what it writes.
//!
//! A map is found in `/proc/self/maps` by device and inode of the copy, wherever the program has moved or cut it since, and whether the copy has
//! left its tier or not. A reader-writer lock orders what maps, unmaps and protects memory (readers) and the replacement (the writer): what is
//! replaced is what was found, and nothing is stored to a private map between the look and the replacement.

#![expect(unsafe_code, reason = "maps a page of a copy and unmaps it")]

use std::{
    collections::HashMap,
    fs::File,
    mem,
    os::fd::RawFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
};

use arc_swap::ArcSwapOption;
use forebay_source::record_locks::LockSafeFile;
use rustix::mm::{MapFlags, ProtFlags};

use crate::{
    inside,
    kernel::{self, KernelIdentity},
    map_parts::{self, MappedInode},
};

/// What this process has mapped. A forked child has the same maps, but never waits for a lock that a thread of its parent held.
#[derive(Debug)]
struct MapState {
    process: u32,
    /// Held for reading while memory is mapped, unmapped or protected, for writing while maps are replaced.
    layout: RwLock<()>,
    known: Mutex<KnownCopies>,
}

/// Copies that were mapped.
#[derive(Clone, Debug, Default)]
struct KnownCopies {
    /// The origin's file, by the copy's.
    origins: HashMap<MappedInode, KernelIdentity>,
    /// How many there were after the last sweep.
    swept: usize,
    /// The device that maps of a file show, by the one that `stat` does.
    devices: HashMap<u64, Option<u64>>,
}

static STATE: ArcSwapOption<MapState> = ArcSwapOption::const_empty();
static HAS_ANY: AtomicBool = AtomicBool::new(false);

/// So many copies are known before it is looked which of them are not mapped any more. Later that is done when there are twice as many as were
/// left, so that each costs the same whatever their number.
const SWEEP_AT: usize = 64;

/// What is to be mapped.
#[derive(Debug)]
pub(crate) struct CopyToMap {
    pub(crate) number: RawFd,
    pub(crate) origin: KernelIdentity,
}

/// Maps by `map` what `choose` gives, and notes it; the call is made without a number where nothing was chosen, or where the map could
/// not be found again.
pub(crate) fn mapping<R>(
    choose: impl FnOnce() -> Option<CopyToMap>,
    map: impl FnOnce(Option<RawFd>) -> R,
) -> R {
    let state = state();
    let _layout = state.layout.read().unwrap_or_else(PoisonError::into_inner);
    HAS_ANY.store(true, SeqCst);
    // A writer lays the origin over numbers, and then looks here; this is stored, and then the number is looked at.
    fence(SeqCst);
    let chosen = choose().and_then(|copy| Some((state.known().key(copy.number)?, copy)));
    let Some((key, copy)) = chosen else { return map(None) };
    let mapped = map(Some(copy.number));
    state.known().add(key, copy.origin);
    mapped
}

/// The bytes of `identity` change, by this process: its maps of copies show the origin from now on, which `open` opens for reading, as an open
/// file description of its own that no lock of the program is held by.
pub(crate) fn written(identity: &KernelIdentity, open: impl FnOnce() -> Option<LockSafeFile>) {
    fence(SeqCst);
    if !HAS_ANY.load(SeqCst) {
        return;
    }
    let state = state();
    let _layout = state.layout.write().unwrap_or_else(PoisonError::into_inner);
    let is_written = |origin: &KernelIdentity| origin.is_same_file(identity);
    if !state.known().origins.values().any(is_written) {
        return;
    }
    let is_origin =
        |file: &File| kernel::identity(kernel::number(file)).is_some_and(|found| is_written(&found));
    let Some(origin) = open().filter(|file| is_origin(file)) else { return };
    let mut known = state.known();
    let parts = map_parts::all();
    for part in
        parts.iter().filter(|part| part.is_of_tier && known.origins.get(&part.file).is_some_and(is_written))
    {
        part.show(&origin);
    }
    known.origins.retain(|_, origin| !is_written(origin));
    HAS_ANY.store(!known.origins.is_empty(), SeqCst);
}

/// What `call` gives, which may unmap memory or protect it: not while maps are replaced.
pub(crate) fn changing<R>(call: impl Fn() -> R) -> R {
    if !HAS_ANY.load(Relaxed) {
        return call();
    }
    let called = inside::run(|| {
        let state = state();
        let _layout = state.layout.read().unwrap_or_else(PoisonError::into_inner);
        Some((call(), inside::errno()))
    });
    match called {
        Some((answer, number)) => {
            inside::set_errno(number);
            answer
        }
        // Work of ours, which touches no map of the program's, or a child of `vfork`.
        None => call(),
    }
}

/// The state of this process.
fn state() -> Arc<MapState> {
    let process = std::process::id();
    let seen = STATE.load_full();
    if let Some(own) = seen.as_ref().filter(|seen| seen.process == process) {
        return Arc::clone(own);
    }
    // Forked: what a thread of the parent was changing at that moment is not known here.
    let known = match seen.as_ref().map(|parent| parent.known.try_lock()) {
        Some(Ok(known)) => known.clone(),
        Some(Err(TryLockError::Poisoned(poisoned))) => poisoned.into_inner().clone(),
        Some(Err(TryLockError::WouldBlock)) | None => KnownCopies::default(),
    };
    // The parent's is not to be dropped here, as it may be half-changed.
    mem::forget(seen.clone());
    let fresh = Arc::new(MapState { process, layout: RwLock::new(()), known: Mutex::new(known) });
    let before = STATE.compare_and_swap(&seen, Some(Arc::clone(&fresh)));
    match &*before {
        // Another thread of this process was faster.
        Some(there) if there.process == process => Arc::clone(there),
        _ => fresh,
    }
}

impl MapState {
    fn known(&self) -> MutexGuard<'_, KnownCopies> {
        // Copies are added and removed as a whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownCopies {
    /// What maps of the file that `copy` is open on are found by; nothing where that is not known.
    fn key(&mut self, copy: RawFd) -> Option<MappedInode> {
        let found = kernel::identity(copy)?;
        let device = self.devices.entry(found.device).or_insert_with(|| device_in_maps(copy, &found));
        Some(MappedInode { device: (*device)?, inode: found.inode })
    }

    fn add(&mut self, copy: MappedInode, origin: KernelIdentity) {
        self.origins.insert(copy, origin);
        if self.origins.len() >= SWEEP_AT.max(self.swept.saturating_mul(2)) {
            let mapped = map_parts::mapped_files();
            self.origins.retain(|copy, _| mapped.contains(copy));
            self.swept = self.origins.len();
        }
    }
}

/// The device that `/proc/self/maps` shows for maps of `copy`, a file of `identity`.
fn device_in_maps(copy: RawFd, identity: &KernelIdentity) -> Option<u64> {
    let page = rustix::param::page_size();
    // SAFETY: the kernel chooses the address, so no other memory is touched, and nobody reads what is mapped.
    let at = unsafe {
        let file = kernel::borrowed(copy)?;
        rustix::mm::mmap(std::ptr::null_mut(), page, ProtFlags::READ, MapFlags::PRIVATE, file, 0).ok()?
    };
    let part = map_parts::all().into_iter().find(|part| part.start == at.addr());
    // SAFETY: it was mapped above, and nobody else knows of it.
    let _unmapped = unsafe { rustix::mm::munmap(at, page) };
    part.filter(|part| part.is_of_tier && part.file.inode == identity.inode).map(|part| part.file.device)
}
