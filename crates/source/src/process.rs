//! Which process this is, told without a system call, and state that a forked child makes anew.

use std::{mem, ops::Deref, sync::Arc};

use arc_swap::ArcSwap;
use rustix::process::Pid;

#[cfg(not(target_os = "linux"))]
pub use rustix::process::getpid as current;

#[cfg(target_os = "linux")]
pub use remembered::current;

/// State that belongs to the process that made it.
///
/// A forked child finds the parent's as some thread of the parent left it, perhaps locked for ever. It never
/// touches that, and makes its own.
#[derive(Debug)]
pub struct PerProcess<T> {
    current: ArcSwap<Owned<T>>,
}

/// State and the process it belongs to.
#[derive(Debug)]
pub struct Owned<T> {
    pub(crate) process: Pid,
    state: T,
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> PerProcess<T> {
    /// `state`, of the process that calls.
    pub fn new(state: T) -> Self {
        Self { current: ArcSwap::from_pointee(Owned { process: current(), state }) }
    }

    /// The state of this process, if it has one.
    pub fn peek(&self) -> Option<Arc<Owned<T>>> {
        let seen = self.current.load_full();
        if seen.process == current() {
            return Some(seen);
        }
        // The parent's: not to be dropped here.
        mem::forget(seen);
        None
    }

    /// What `use_it` makes of the state of this process, made by `make` when it has none yet; threads that do so at once
    /// do not count each other.
    #[inline]
    pub fn with<R>(&self, make: impl FnOnce() -> T, use_it: impl FnOnce(&T) -> R) -> R {
        let seen = self.current.load();
        if seen.process == current() {
            return use_it(&seen.state);
        }
        mem::forget(seen);
        use_it(&self.get(make))
    }

    /// The state of this process, made by `make` when it has none yet.
    pub fn get(&self, make: impl FnOnce() -> T) -> Arc<Owned<T>> {
        let process = current();
        let seen = self.current.load_full();
        if seen.process == process {
            return seen;
        }
        // Forked. What the parent had may be half-changed, so even dropping it would be wrong: it is leaked.
        mem::forget(Arc::clone(&seen));
        self.current.compare_and_swap(&seen, Arc::new(Owned { process, state: make() }));
        self.current.load_full()
    }
}

/// `getpid` costs 115 to 230 ns here, half as much as all else around a small copy. So the number is kept in a
/// page that the kernel clears in every child, whichever call made it; `pthread_atfork` would miss a bare `clone`.
#[cfg(target_os = "linux")]
mod remembered {
    #![expect(unsafe_code, reason = "a page that is cleared by fork comes from mmap and madvise alone")]

    use std::{
        ptr,
        sync::atomic::{
            AtomicI32, AtomicPtr,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    };

    use rustix::{
        mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap},
        process::{Pid, getpid},
    };

    const PAGE_BYTES: usize = 4096;

    /// The number of this process, or 0; null before anybody asked. Points into a page that is never unmapped,
    /// or to [`NOWHERE`].
    static PLACE: AtomicPtr<AtomicI32> = AtomicPtr::new(ptr::null_mut());

    /// Where the kernel has no such pages: stays 0, so that everybody asks.
    static NOWHERE: AtomicI32 = AtomicI32::new(0);

    /// The process that calls.
    #[inline]
    pub fn current() -> Pid {
        let place = PLACE.load(Acquire);
        // SAFETY: a place, once set, is valid and aligned for as long as the process lives.
        let known = unsafe { place.as_ref() }.and_then(|place| Pid::from_raw(place.load(Relaxed)));
        known.unwrap_or_else(ask)
    }

    #[cold]
    fn ask() -> Pid {
        let process = getpid();
        let place = place();
        if !ptr::eq(place, &raw const NOWHERE) {
            place.store(process.as_raw_nonzero().get(), Relaxed);
        }
        process
    }

    fn place() -> &'static AtomicI32 {
        let there = PLACE.load(Acquire);
        // SAFETY: as in `current`.
        if let Some(there) = unsafe { there.as_ref() } {
            return there;
        }
        let fresh = page().unwrap_or((&raw const NOWHERE).cast_mut());
        match PLACE.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
            // SAFETY: `fresh` is a mapped page that nobody unmaps any more, or a static.
            Ok(_) => unsafe { &*fresh },
            Err(there) => {
                if !ptr::eq(fresh, &raw const NOWHERE) {
                    // SAFETY: the page was mapped above and nobody else has seen it.
                    let _unmapped = unsafe { munmap(fresh.cast(), PAGE_BYTES) };
                }
                // SAFETY: as in `current`.
                unsafe { &*there }
            }
        }
    }

    fn page() -> Option<*mut AtomicI32> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no other memory is touched.
        let page =
            unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: the page was just mapped, holds zeros and is in nobody's use.
        if unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_ok() {
            return Some(page.cast());
        }
        // SAFETY: as above.
        let _unmapped = unsafe { munmap(page, PAGE_BYTES) };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remembered_number_is_the_kernels() {
        for _ in 0..3 {
            assert_eq!(current(), rustix::process::getpid());
        }
    }
}
