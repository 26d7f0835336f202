//! Maps of copies: where the program itself begins to write to the file, they are replaced in place by maps of the origin, so that it reads
//! what it writes.
//!
//! A map is found in `/proc/self/maps` by device and inode of the copy, wherever the program has moved or cut it since, and whether the copy has
//! left its tier or not. A reader-writer lock orders what maps, unmaps and protects memory (readers) and the replacement (the writer): what is
//! replaced is what was found, and nothing is stored to a private map between the look and the replacement. A program may unmap memory with the lock of its
//! allocator: nothing is allocated for that, nor by the writer while it has the lock.

#![expect(unsafe_code, reason = "maps a page of a copy and unmaps it")]

use std::{
    collections::HashMap,
    fs::File,
    mem,
    os::fd::RawFd,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
};

use arc_swap::ArcSwapOption;
use forebay_process::record_locks::LockSafeFile;
use rustix::mm::{MapFlags, ProtFlags};

use crate::{
    engine::inside,
    system::{
        kernel::{self, KernelIdentity},
        map_parts::{self, MappedInode, MapsRead, MapsReader},
        process_lock::ProcessLock,
    },
};

/// What this process has mapped. A forked child has the same maps, but never waits for a lock that a thread of its parent held.
#[derive(Debug)]
struct MapState {
    process: u32,
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

/// Held for reading while memory is mapped, unmapped or protected, for writing while maps are replaced.
static LAYOUT: ProcessLock = ProcessLock::new();
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
    let _layout = LAYOUT.read(inside::known_process());
    HAS_ANY.store(true, SeqCst);
    // A writer lays the origin over numbers, and then looks here; this is stored, and then the number is looked at.
    fence(SeqCst);
    let chosen = choose().and_then(|copy| Some((state.known().key(copy.number)?, copy)));
    let Some((key, copy)) = chosen else { return map(None) };
    let mapped = map(Some(copy.number));
    state.known().add(key, copy.origin);
    mapped
}

/// What [`written`] opens.
pub(crate) trait MapOpener {
    /// The origin, for reading, as an open file description that lasts until the maps are replaced.
    fn origin(&self) -> Option<OriginToMap>;

    /// A file of the kernel's own.
    fn kernel_file(&self, path: &Path) -> Option<File>;
}

/// The origin, to be mapped.
#[derive(Debug)]
pub(crate) enum OriginToMap {
    /// Ours, which no lock of the program is held by.
    Own(LockSafeFile),
    /// A number of the program's.
    Program(RawFd),
}

impl OriginToMap {
    fn number(&self) -> RawFd {
        match self {
            Self::Own(file) => kernel::number(&**file),
            Self::Program(number) => *number,
        }
    }
}

/// The bytes of `identity` change, by this process: its maps of copies show the origin from now on.
pub(crate) fn written(identity: &KernelIdentity, open: &impl MapOpener) {
    fence(SeqCst);
    if !HAS_ANY.load(SeqCst) {
        return;
    }
    let state = state();
    // What was chosen before the numbers were laid on the origin is known from here on.
    drop(LAYOUT.write(inside::known_process()));
    let is_written = |origin: &KernelIdentity| origin.is_same_file(identity);
    let copies: Vec<MappedInode> = state.known().of(is_written);
    if copies.is_empty() || !replaced(&copies, is_written, open) {
        return;
    }
    state.known().origins.retain(|_, origin| !is_written(origin));
    // Not while a map is made that is not known yet. It is not waited for those who allocate.
    let held = LAYOUT.write(inside::known_process());
    if state.known.try_lock().is_ok_and(|known| known.origins.is_empty()) {
        HAS_ANY.store(false, SeqCst);
    }
    drop(held);
}

/// Has the origin be shown in the place of `copies`; false where nobody knows what is mapped.
fn replaced(
    copies: &[MappedInode],
    is_written: impl Fn(&KernelIdentity) -> bool,
    open: &impl MapOpener,
) -> bool {
    let Some(origin) = open.origin() else { return false };
    let (Some(file), Some(found)) = (kernel::borrowed(origin.number()), kernel::identity(origin.number()))
    else {
        return false;
    };
    let Some(mut maps) = MapsReader::new(|path| open.kernel_file(path)).filter(|_| is_written(&found)) else {
        return false;
    };
    loop {
        let held = LAYOUT.write(inside::known_process());
        let read = maps.show(file, |part| part.is_of_tier && copies.contains(&part.file));
        drop(held);
        match read {
            MapsRead::Whole => return true,
            MapsRead::Partly => maps.grow(),
            MapsRead::Failed => return false,
        }
    }
}

/// What `call` gives, which may unmap memory or protect it: not while maps are replaced.
pub(crate) fn changing<R>(call: impl Fn() -> R) -> R {
    if !HAS_ANY.load(Relaxed) {
        return call();
    }
    let called = inside::run(|| {
        let _layout = LAYOUT.read(inside::known_process());
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
    let fresh = Arc::new(MapState { process, known: Mutex::new(known) });
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
    /// The copies whose origins are those.
    fn of(&self, is_origin: impl Fn(&KernelIdentity) -> bool) -> Vec<MappedInode> {
        self.origins.iter().filter(|(_, origin)| is_origin(origin)).map(|(copy, _)| *copy).collect()
    }

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
