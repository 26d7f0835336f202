//! What keeps a vanished page from ending the process.
//!
//! A read of a mapped page that is no longer in the file raises SIGBUS. The handler here looks the address up
//! in a table of our own mappings. One of ours is marked torn and covered with empty memory, so that the copy
//! runs on; the copier sees the mark and throws away what it copied. Any other address, and any signal that
//! another process sent, goes to whichever handler stood here before.
#![expect(unsafe_code, reason = "a signal handler is installed and called through C")]

use std::{
    cell::Cell,
    env, fs, mem, ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        fence,
    },
    thread,
};

use forebay_process::{Event, EventKind, ProcessIdentity, current_process};
use libc::{c_int, c_void, sigaction, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The most mappings at once: a data set of a few thousand files.
const MOST_MAPPINGS: usize = 4096;

/// Of the mappings that the kernel lets a process have, one in so many may be ours: the program around us needs some.
const MAPPINGS_PER_OURS: usize = 16;

/// What the kernel allows where it does not tell.
const DEFAULT_MAP_COUNT: usize = 65_530;

/// After so many copies a thread makes sure again that the handler is in place. Asking costs 0.5 us, so less than
/// a nanosecond per copy.
const COPIES_PER_LOOK: u32 = 1024;

static TABLE: [Slot; MOST_MAPPINGS] = [const { Slot::new() }; MOST_MAPPINGS];

/// How many mappings may be guarded, and how many are.
static LIMIT: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Where the next free slot is looked for first.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The place of one mapping in the table. Readers are signal handlers: they never wait.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    taken: AtomicBool,
    /// Odd while `start` and `end` change, so that no handler pairs an old one with a new one.
    turn: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    torn: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            torn: AtomicBool::new(false),
        }
    }

    /// Guards `len` bytes of memory from `start`, which the caller mapped from a file and shares with nobody;
    /// nothing where there are as many as may be.
    ///
    /// # Safety
    /// The memory is read by nobody who does not look at [`is_torn`](Self::is_torn) afterwards: the handler puts
    /// other memory in its place. The slot is freed before the memory is unmapped.
    pub(super) unsafe fn take(start: *const u8, len: usize) -> Option<&'static Self> {
        let one_more = |count: usize| (count < LIMIT.load(Relaxed)).then_some(count + 1);
        COUNT.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        let first = NEXT.fetch_add(1, Relaxed);
        let mut slots = (0..MOST_MAPPINGS).filter_map(|index| TABLE.get((first + index) % MOST_MAPPINGS));
        let is_free = |slot: &&Self| !slot.taken.load(Relaxed) && !slot.taken.swap(true, AcqRel);
        let Some(slot) = slots.find(is_free) else {
            COUNT.fetch_sub(1, Relaxed);
            return None;
        };
        slot.torn.store(false, Relaxed);
        slot.set(start.addr(), start.addr() + len);
        Some(slot)
    }

    /// Gives the slot back; its mapping is no longer guarded.
    pub(super) fn free(&self) {
        self.set(0, 0);
        self.taken.store(false, Release);
        COUNT.fetch_sub(1, Relaxed);
    }

    /// True when a page of the mapping had vanished: nothing that was read from it is to be believed.
    #[inline]
    pub(super) fn is_torn(&self) -> bool {
        // What was copied before stays before: the mark precedes the memory that covers the mapping.
        fence(Acquire);
        self.torn.load(Acquire)
    }

    /// Called only by the owner of the slot.
    fn set(&self, start: usize, end: usize) {
        let turn = self.turn.load(Relaxed);
        self.turn.store(turn.wrapping_add(1), Relaxed);
        fence(Release);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
        self.turn.store(turn.wrapping_add(2), Release);
    }

    /// The mapping in this slot, if `address` lies in it.
    ///
    /// A copier that faults holds its mapping, so its slot stands still and is found.
    fn holding(&self, address: usize) -> Option<(usize, usize)> {
        let turn = self.turn.load(Acquire);
        let (start, end) = (self.start.load(Relaxed), self.end.load(Relaxed));
        fence(Acquire);
        let stands_still = turn.is_multiple_of(2) && self.turn.load(Relaxed) == turn;
        (stands_still && (start..end).contains(&address)).then_some((start, end))
    }
}

/// How far the handler is.
static STATE: AtomicU8 = AtomicU8::new(UNTRIED);
const UNTRIED: u8 = 0;
const INSTALLING: u8 = 1;
const INSTALLED: u8 = 2;
/// Switched off, refused by the system, or replaced by other code: not tried again. To put ours back over one that
/// calls it in turn would make a circle.
const GONE: u8 = 3;

/// What stood here before us. Points to memory that is never freed; null before the handler is installed.
static BEFORE: AtomicPtr<sigaction> = AtomicPtr::new(ptr::null_mut());

// SAFETY: zeros are a valid `sigaction`: the default action, no flags, an empty set.
static DEFAULT: sigaction = unsafe { mem::zeroed() };

/// What a thread found when it last looked for the handler.
#[derive(Clone, Copy)]
struct Look {
    copies_left: u32,
    found: bool,
    /// A forked child looks for itself: a program may give handlers to its workers, as PyTorch does.
    process: Option<ProcessIdentity>,
}

thread_local! {
    static LOOK: Cell<Look> = const { Cell::new(Look { copies_left: 0, found: false, process: None }) };
}

/// True when this thread may read mapped memory: the handler is in place and SIGBUS is not blocked.
#[inline]
pub(super) fn stands() -> bool {
    let last = LOOK.get();
    if last.copies_left == 0 || last.process != Some(current_process()) {
        return look();
    }
    LOOK.set(Look { copies_left: last.copies_left - 1, ..last });
    last.found && STATE.load(Relaxed) == INSTALLED
}

#[cold]
fn look() -> bool {
    let found = is_installed() && !is_blocked();
    LOOK.set(Look { copies_left: COPIES_PER_LOOK, found, process: Some(current_process()) });
    found
}

/// Makes sure that our handler is the one that is called, and puts it there the first time.
pub(super) fn is_installed() -> bool {
    match STATE.load(Acquire) {
        UNTRIED => install(),
        INSTALLED => {
            let stands = asked().is_some_and(|found| is_ours(&found));
            if !stands {
                STATE.store(GONE, Relaxed);
                tell("another handler for SIGBUS took the place of ours");
            }
            stands
        }
        _ => false,
    }
}

/// True when no mapping is ever guarded any more, so that nothing need be known of the page cache. Installs no handler.
pub(super) fn is_off() -> bool {
    match STATE.load(Acquire) {
        GONE => true,
        UNTRIED => is_switched_off() && !install(),
        _ => false,
    }
}

fn is_switched_off() -> bool {
    env::var_os("FOREBAY_MAP").is_some_and(|value| value == "off")
}

fn install() -> bool {
    // Not a lock: a child forked at this moment would wait for ever. It reads without mappings.
    if STATE.compare_exchange(UNTRIED, INSTALLING, AcqRel, Acquire).is_err() {
        for _ in 0..1000 {
            if STATE.load(Acquire) != INSTALLING {
                break;
            }
            thread::yield_now();
        }
        return STATE.load(Acquire) == INSTALLED;
    }
    let is_off = is_switched_off();
    LIMIT.store((max_map_count() / MAPPINGS_PER_OURS).min(MOST_MAPPINGS), Relaxed);
    let installed = !is_off && put_handler().is_some();
    STATE.store(if installed { INSTALLED } else { GONE }, Release);
    if !installed {
        let why = if is_off { "FOREBAY_MAP=off" } else { "the system refused a handler for SIGBUS" };
        tell(why);
    }
    installed
}

/// Tells that files are read without mappings from now on, and why.
pub(super) fn tell(why: &str) {
    Event::new(
        EventKind::Mapping,
        format!("files are read by system calls, not copied from mappings: {why}"),
    )
    .emit();
}

fn max_map_count() -> usize {
    let written = fs::read_to_string("/proc/sys/vm/max_map_count");
    written.ok().and_then(|written| written.trim().parse().ok()).unwrap_or(DEFAULT_MAP_COUNT)
}

fn put_handler() -> Option<()> {
    let before = asked()?;
    let mut ours = before;
    ours.sa_sigaction = address();
    // The mask and the deferring are those of the handler before us, so that it is called as it wished. It runs
    // on the alternate stack even if it did not ask: a thread that has one may have no room on its own.
    ours.sa_flags =
        libc::SA_SIGINFO | libc::SA_ONSTACK | (before.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART));
    // Known before the handler can be called.
    BEFORE.store(Box::leak(Box::new(before)), Release);
    let mut replaced = DEFAULT;
    // SAFETY: both point to valid structures; `on_bus_error` has the signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(libc::SIGBUS, &ours, &mut replaced) } != 0 {
        return None;
    }
    if replaced.sa_sigaction != before.sa_sigaction {
        BEFORE.store(Box::leak(Box::new(replaced)), Release);
    }
    Some(())
}

fn address() -> usize {
    on_bus_error as *const () as usize
}

fn is_ours(found: &sigaction) -> bool {
    found.sa_sigaction == address()
}

/// The action for SIGBUS as it is now.
fn asked() -> Option<sigaction> {
    let mut found = DEFAULT;
    // SAFETY: nothing is set; `found` is a valid place for the answer.
    (unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &mut found) } == 0).then_some(found)
}

/// A thread that blocks SIGBUS is killed by a fault, whatever handler there is.
fn is_blocked() -> bool {
    // SAFETY: zeros are a valid, empty set.
    let mut blocked = unsafe { mem::zeroed() };
    // SAFETY: nothing is set; `blocked` is a valid place for the answer.
    let asked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut blocked) };
    // SAFETY: `blocked` is a valid set.
    asked != 0 || unsafe { libc::sigismember(&blocked, libc::SIGBUS) } != 0
}

/// Called by the kernel on any thread at any instruction: touches atomics and makes plain system calls only.
extern "C" fn on_bus_error(signal: c_int, details: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid details to a handler installed with SA_SIGINFO; for the codes below `si_addr`
    // is the field it filled in.
    let (code, address) = unsafe { ((*details).si_code, (*details).si_addr().addr()) };
    let by_access = matches!(code, libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR);
    if by_access && tear(address) {
        return;
    }
    // SAFETY: the arguments are those the kernel passed.
    unsafe { pass_on(signal, details, context) };
}

/// Marks the mapping that holds `address` as torn and covers it; false when there is none.
fn tear(address: usize) -> bool {
    let Some((slot, (start, end))) = TABLE.iter().find_map(|slot| Some((slot, slot.holding(address)?)))
    else {
        return false;
    };
    // First, so that nobody sees the empty memory without the mark.
    slot.torn.store(true, SeqCst);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // All of it: the rest of a file that was cut is gone too, and to replace a whole mapping never takes another
    // of the process's limited number of mappings.
    // SAFETY: the range is a mapping of ours: the thread that faulted in it holds it, so it is not undone now, and
    // readers look at the mark afterwards (the contract of `Slot::take`).
    let covered = unsafe {
        mmap_anonymous(ptr::with_exposed_provenance_mut(start), end - start, ProtFlags::READ, flags)
    };
    covered.is_ok()
}

/// Does what would have happened without us.
///
/// # Safety
/// The arguments are those of a signal handler installed with SA_SIGINFO.
unsafe fn pass_on(signal: c_int, details: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: set before the handler was installed, and never freed.
    let Some(before) = (unsafe { BEFORE.load(Acquire).as_ref() }) else { return };
    // SAFETY: `details` are valid.
    let was_sent = !(libc::BUS_ADRALN..=libc::BUS_MCEERR_AR).contains(&unsafe { (*details).si_code });
    match before.sa_sigaction {
        // The kernel lets nobody ignore a fault.
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // A fault is repeated on return; what was sent has to be sent again, and comes on return.
            // SAFETY: both calls may be made from a handler; `DEFAULT` is a valid action.
            unsafe {
                libc::sigaction(signal, &DEFAULT, ptr::null_mut());
                if was_sent {
                    libc::raise(signal);
                }
            }
        }
        handler => {
            if before.sa_flags & libc::SA_RESETHAND != 0 {
                BEFORE.store((&raw const DEFAULT).cast_mut(), Release);
            }
            if before.sa_flags & libc::SA_SIGINFO == 0 {
                // SAFETY: without SA_SIGINFO the action is a function of the signal alone.
                let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
                return handler(signal);
            }
            // SAFETY: with SA_SIGINFO the action is a function of these three.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { mem::transmute(handler) };
            handler(signal, details, context);
        }
    }
}
