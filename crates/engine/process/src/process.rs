//! The identity of this process without a system call, and state that a forked child makes anew.

use std::{mem, num::NonZeroU64, ops::Deref, sync::Arc};

use arc_swap::ArcSwapOption;
use rustix::process::getpid;

#[cfg(target_os = "linux")]
pub use remembered::{current, forked_token};

/// Which process this is: no two processes have the same, though their numbers (pids) may be, one after the other or in
/// two namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity(NonZeroU64);

impl ProcessIdentity {
    /// The number of the process, where nothing better can be had: it differs in every child while its parent lives.
    fn by_number() -> Self {
        Self(NonZeroU64::from(getpid().as_raw_nonzero().cast_unsigned()))
    }
}

/// The process that calls.
#[cfg(not(target_os = "linux"))]
pub fn current() -> ProcessIdentity {
    ProcessIdentity::by_number()
}

/// State that belongs to the process that made it.
///
/// A forked child finds the parent's as some thread of the parent left it, perhaps locked for ever. It never
/// touches that, and makes its own.
#[derive(Debug)]
pub struct PerProcess<T> {
    current: ArcSwapOption<Owned<T>>,
}

/// State and the process it belongs to.
#[derive(Debug)]
pub struct Owned<T> {
    process: ProcessIdentity,
    state: T,
}

impl<T> Owned<T> {
    /// Process that the state belongs to.
    pub fn process(&self) -> ProcessIdentity {
        self.process
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> PerProcess<T> {
    /// No state yet, whichever process asks.
    pub const fn empty() -> Self {
        Self { current: ArcSwapOption::const_empty() }
    }

    /// `state`, of the process that calls.
    pub fn new(state: T) -> Self {
        Self { current: ArcSwapOption::from_pointee(Owned { process: current(), state }) }
    }

    /// The state of this process, if it has one.
    pub fn peek(&self) -> Option<Arc<Owned<T>>> {
        let seen = self.current.load_full()?;
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
        if let Some(own) = &*seen
            && own.process == current()
        {
            return use_it(&own.state);
        }
        mem::forget(seen);
        use_it(&self.get(make))
    }

    /// The state of this process, made by `make` when it has none yet.
    pub fn get(&self, make: impl FnOnce() -> T) -> Arc<Owned<T>> {
        let process = current();
        let seen = match self.current.load_full() {
            Some(seen) if seen.process == process => return seen,
            seen => seen,
        };
        // Forked. What the parent had may be half-changed, so even dropping it would be wrong: it is leaked.
        mem::forget(seen.clone());
        let fresh = Arc::new(Owned { process, state: make() });
        let before = self.current.compare_and_swap(&seen, Some(Arc::clone(&fresh)));
        match &*before {
            // Another thread of this process was faster.
            Some(there) if there.process == process => Arc::clone(there),
            _ => fresh,
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let state = self.current.swap(None);
        if state.as_ref().is_some_and(|state| state.process != current()) {
            // The parent's, perhaps locked for ever by a thread that is not here: to drop it might wait for that.
            mem::forget(state);
        }
    }
}

/// `getpid` costs 115 to 230 ns here, half as much as all else around a small copy. So a random token is kept in a
/// page that the kernel clears in every child, whichever call made it; `pthread_atfork` would miss a bare `clone`.
#[cfg(target_os = "linux")]
mod remembered {
    #![expect(unsafe_code, reason = "a page that is cleared by fork comes from mmap and madvise alone")]

    use std::{
        num::NonZeroU64,
        ptr,
        sync::atomic::{
            AtomicPtr, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    };

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::ProcessIdentity;

    const PAGE_BYTES: usize = 4096;

    /// The token of this process, or 0; null before the first call. Points into a page that is never unmapped,
    /// or to [`NOWHERE`].
    static PLACE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

    /// Where the kernel has no such pages: stays 0, so that every call asks the kernel.
    static NOWHERE: AtomicU64 = AtomicU64::new(0);

    /// The process that calls.
    #[inline]
    pub fn current() -> ProcessIdentity {
        let place = PLACE.load(Acquire);
        // SAFETY: a place, once set, is valid and aligned for as long as the process lives.
        let known = unsafe { place.as_ref() }.and_then(|place| NonZeroU64::new(place.load(Relaxed)));
        known.map_or_else(ask, ProcessIdentity)
    }

    /// A number that no forked child shares, whichever call made it, and that a child of `vfork` does, as it has this memory; nothing where the kernel
    /// cannot tell.
    pub fn forked_token() -> Option<NonZeroU64> {
        let identity = current();
        (!ptr::eq(PLACE.load(Acquire), &raw const NOWHERE)).then_some(identity.0)
    }

    #[cold]
    fn ask() -> ProcessIdentity {
        let place = place();
        if ptr::eq(place, &raw const NOWHERE) {
            return ProcessIdentity::by_number();
        }
        let fresh = random().map_or_else(ProcessIdentity::by_number, ProcessIdentity);
        // Of threads that ask at once, the first decides for all.
        match place.compare_exchange(0, fresh.0.get(), Relaxed, Relaxed) {
            Ok(_) => fresh,
            Err(there) => NonZeroU64::new(there).map_or(fresh, ProcessIdentity),
        }
    }

    fn random() -> Option<NonZeroU64> {
        let mut bytes = [0; 8];
        // SAFETY: the call writes at most so many bytes to memory of our own.
        let len = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        (len == 8).then(|| NonZeroU64::new(u64::from_ne_bytes(bytes))).flatten()
    }

    fn place() -> &'static AtomicU64 {
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

    fn page() -> Option<*mut AtomicU64> {
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
    fn a_process_has_one_identity_on_all_its_threads() {
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(current)).collect();
        for thread in threads {
            assert_eq!(thread.join().expect("a thread"), current());
        }
        #[cfg(target_os = "linux")]
        assert_ne!(current(), ProcessIdentity::by_number(), "numbers of processes are used again");
    }
}
