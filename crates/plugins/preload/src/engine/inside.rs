//! Work of our own on a thread of the program.
//!
//! While it lasts, hooks that the work itself calls are plain calls, and so they are on threads of our own, whose names begin
//! with `forebay-`. A panic ends the work and not the program; `errno` is what it was; signals wait until the work is done, and so does `pthread_cancel`, which would
//! unwind through it. In a child of `vfork`, which shares our
//! memory but not our descriptors, nothing of ours is done.

#![expect(unsafe_code, reason = "the error number of a thread is known by its address")]

use std::{
    cell::Cell,
    num::NonZeroU64,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Once,
        atomic::{
            AtomicI32, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use forebay_process::forked_token;
use forebay_scratch::RunCounter;

use crate::engine::run_counts;

/// What a thread is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadRole {
    Unknown,
    Program,
    /// It does work of ours.
    Inside,
    /// It is one of ours.
    Own,
}

thread_local! {
    static ROLE: Cell<ThreadRole> = const { Cell::new(ThreadRole::Unknown) };
}

/// The process that the tables of this library are about.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// What tells it from children that no handler of a fork sees.
static TOKEN: AtomicU64 = AtomicU64::new(0);
/// Grows with every fork: descriptors of before are shared with another process.
static FORKS: AtomicU32 = AtomicU32::new(0);
static REGISTERED: Once = Once::new();

/// What `work` gives; nothing where it panics, and without a call where this thread must not do it.
pub(crate) fn run<R>(work: impl FnOnce() -> Option<R>) -> Option<R> {
    let role = ROLE.get();
    let role = if role == ThreadRole::Unknown { ask_role() } else { role };
    if role != ThreadRole::Program || !is_this_process() {
        return None;
    }
    let errno = errno();
    let held = ThreadHeld::new();
    ROLE.set(ThreadRole::Inside);
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        run_counts::add(RunCounter::Fallbacks, 1);
        None
    });
    ROLE.set(ThreadRole::Program);
    drop(held);
    set_errno(errno);
    done
}

/// What `work` gives, which ends something of ours, on whichever thread: hooks that it calls are plain calls.
pub(crate) fn finish<R>(work: impl FnOnce() -> R) -> R {
    let role = ROLE.replace(ThreadRole::Inside);
    let held = (role != ThreadRole::Inside).then(ThreadHeld::new);
    let done = work();
    drop(held);
    ROLE.set(role);
    done
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
    fn pthread_testcancel();
}

/// Ends this thread, if it is cancelled: what is done here in the place of a call at which threads are cancelled begins with it. The caller has nothing to drop.
#[inline]
pub(crate) fn end_if_cancelled() {
    // SAFETY: the call takes nothing; it unwinds the stack through functions of ours that have nothing to be dropped.
    unsafe { pthread_testcancel() };
}

/// `PTHREAD_CANCEL_DISABLE` of the C library.
const NOT_CANCELLED: libc::c_int = 1;

/// Signals of the program, held back from this thread: a handler would find locks of ours taken, and threads that are started
/// meanwhile never get any, as a program may count on its own threads to have them blocked. Neither is the thread cancelled, which would end the process: the
/// C library unwinds the stack by an exception that must not be caught.
struct ThreadHeld {
    signals: libc::sigset_t,
    cancelling: libc::c_int,
}

impl ThreadHeld {
    fn new() -> Self {
        // SAFETY: sets and state are memory of our own, all zeros are a set, and the calls only fill them.
        unsafe {
            let mut wanted: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut wanted);
            // What a fault of the thread itself raises cannot wait.
            for fault in
                [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT]
            {
                libc::sigdelset(&raw mut wanted, fault);
            }
            let mut cancelling = 0;
            pthread_setcancelstate(NOT_CANCELLED, &raw mut cancelling);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const wanted, &raw mut before);
            Self { signals: before, cancelling }
        }
    }
}

impl Drop for ThreadHeld {
    fn drop(&mut self) {
        // SAFETY: set and state are those that the thread had. Nothing of ours is left to be unwound, should it be cancelled here.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.signals, std::ptr::null_mut());
            pthread_setcancelstate(self.cancelling, std::ptr::null_mut());
        }
    }
}

/// True where the program itself makes a call, and not work of ours.
pub(crate) fn is_program() -> bool {
    let role = ROLE.get();
    let role = if role == ThreadRole::Unknown { ask_role() } else { role };
    role == ThreadRole::Program
}

/// What `call` of the program gives while signals wait, with its own error; by itself where this thread is at work of ours.
pub(crate) fn uninterrupted<R>(call: impl Fn() -> R) -> R {
    let called = run(|| {
        let answer = call();
        Some((answer, errno()))
    });
    match called {
        Some((answer, number)) => {
            set_errno(number);
            answer
        }
        None => call(),
    }
}

/// Notes that this process is the one to work in, once.
pub(crate) fn begin_process() {
    REGISTERED.call_once(|| {
        know_process();
        // SAFETY: the functions have the types that are asked for, and this library is never unloaded.
        unsafe { libc::pthread_atfork(None, Some(after_fork_in_parent), Some(after_fork_in_child)) };
    });
}

/// How many forks there were: a descriptor opened at another count is shared with another process.
pub(crate) fn forks() -> u32 {
    FORKS.load(Relaxed)
}

/// What tells this process from the one that forked it, within work of ours: children in a name space of their own may have the same number.
pub(crate) fn known_process() -> u32 {
    let token = TOKEN.load(Relaxed);
    let number = PROCESS.load(Relaxed).cast_unsigned();
    u32::try_from(token & u64::from(u32::MAX)).ok().filter(|token| *token != 0).unwrap_or(number)
}

/// False in a child of `vfork`.
pub(crate) fn is_this_process() -> bool {
    let known = PROCESS.load(Acquire);
    known == 0 || known == process_number() || is_forked_unseen()
}

/// True in a child that was forked by a call that runs no handlers, such as `_Fork` or a bare `clone`: it is the process from now on. A child of
/// `vfork` has the memory of its parent, and so its token.
#[cold]
fn is_forked_unseen() -> bool {
    let is_forked = forked_token().is_some_and(|token| token.get() != TOKEN.load(Acquire));
    if is_forked {
        FORKS.fetch_add(1, Relaxed);
        know_process();
    }
    is_forked
}

fn know_process() {
    PROCESS.store(process_number(), Release);
    TOKEN.store(forked_token().map_or(0, NonZeroU64::get), Release);
}

/// The number of this process, without a system call once it was noted.
pub(crate) fn process() -> u32 {
    match PROCESS.load(Acquire) {
        0 => process_number().cast_unsigned(),
        known => known.cast_unsigned(),
    }
}

fn process_number() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

extern "C" fn after_fork_in_parent() {
    FORKS.fetch_add(1, Relaxed);
}

extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Relaxed);
    know_process();
    // The thread that forked may have been at work of ours; what it was at is gone with the parent.
    if ROLE.get() == ThreadRole::Own {
        ROLE.set(ThreadRole::Program);
    }
}

/// Asks for the thread's name, once.
#[cold]
fn ask_role() -> ThreadRole {
    let mut name = [0_u8; 16];
    // SAFETY: the call writes at most 16 bytes to memory of our own.
    let asked = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    // SAFETY: the call takes nothing and changes nothing.
    let is_first = unsafe { libc::syscall(libc::SYS_gettid) } == libc::c_long::from(process_number());
    let is_own = asked == 0 && name.starts_with(b"forebay-") && !is_first;
    let role = if is_own { ThreadRole::Own } else { ThreadRole::Program };
    ROLE.set(role);
    role
}

/// The error of the last call of this thread.
pub(crate) fn errno() -> i32 {
    // SAFETY: the address is that of this thread's own number.
    unsafe { *libc::__errno_location() }
}

/// Has a call of this thread fail with `number`.
pub(crate) fn set_errno(number: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which signals this thread holds back, and whether it may be cancelled.
    fn held() -> (Vec<i32>, i32) {
        let mut cancelling = 0;
        // SAFETY: sets and state are memory of our own, which the calls fill.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut signals);
            pthread_setcancelstate(NOT_CANCELLED, &raw mut cancelling);
            pthread_setcancelstate(cancelling, std::ptr::null_mut());
            let blocked = (1..32).filter(|signal| libc::sigismember(&raw const signals, *signal) == 1);
            (blocked.collect(), cancelling)
        }
    }

    #[test]
    fn a_panic_gives_nothing_and_leaves_the_thread_as_it_was() {
        let before = held();
        for _ in 0..3 {
            set_errno(libc::ENOTTY);
            let done: Option<()> = run(|| {
                assert!(!is_program() && held() != before);
                set_errno(libc::EIO);
                panic!("as a mistake of ours would")
            });
            assert_eq!((done, errno()), (None, libc::ENOTTY));
            assert!(is_program());
            assert_eq!(held(), before);
        }
        assert_eq!(run(|| Some(7)), Some(7), "the next work is done");
        let called = uninterrupted(|| {
            set_errno(libc::EBADF);
            -1
        });
        assert_eq!((called, errno()), (-1, libc::EBADF), "a call has its own error");
    }

    #[test]
    fn a_panic_while_a_call_is_made_has_it_made_once_more() {
        let turns = Cell::new(0);
        let answer = uninterrupted(|| {
            turns.set(turns.get() + 1);
            assert!(turns.get() > 1, "the first one goes wrong");
            turns.get()
        });
        assert_eq!((answer, held().0.len()), (2, 0));
    }

    #[test]
    fn work_within_work_is_left_to_the_plain_call() {
        assert_eq!(run(|| Some(run(|| Some(1)))), Some(None));
        assert_eq!(finish(|| run(|| Some(1))), None);
        assert_eq!(run(|| Some(1)), Some(1));
    }
}
