//! Memory that a device copies from by itself: pages that the system keeps where they are.

#![expect(unsafe_code, reason = "memory is registered with a driver by its address")]

use std::{
    collections::HashSet,
    fmt,
    ptr::NonNull,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, AtomicU64, Ordering::Relaxed},
    },
};

use forebay_process::Result;
use serde::Serialize;

use crate::backing::{Backing, PlainBacking, RegionUse};

/// Has a driver keep pages where they are.
///
/// # Contract
///
/// - After `register` gave `Ok`, the device may copy from the region by itself until `unregister`. An error is the driver's
///   number; the memory is as it was.
/// - Both may be called on any thread, for several regions at once.
pub trait RegisterMemory: fmt::Debug + Send + Sync {
    /// Registers `len` bytes from `start`.
    fn register(&self, start: NonNull<u8>, len: usize) -> Result<(), i32>;

    /// Ends the registration of the region at `start`.
    fn unregister(&self, start: NonNull<u8>);
}

/// Private memory that is registered with a driver, region by region. What the driver refuses is pageable memory: copies from
/// it are slower, and right all the same.
///
/// A forked child finds zeros in it, so that no page that a device knows is ever copied for writing.
#[derive(Debug)]
pub struct PinnedBacking {
    plain: PlainBacking,
    driver: Option<Box<dyn RegisterMemory>>,
    registered: Mutex<HashSet<usize>>,
    pinned_bytes: AtomicU64,
    pageable_bytes: AtomicU64,
    refusals: AtomicU64,
    last_error: AtomicI32,
}

/// How much memory is pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PinnedStats {
    /// Bytes that are registered now.
    pub pinned_bytes: u64,
    /// Bytes of regions that the driver refused, now.
    pub pageable_bytes: u64,
    /// Regions that it refused so far.
    pub refusals: u64,
    /// The driver's number for why it last refused one.
    pub last_error: i32,
}

impl PinnedBacking {
    /// Memory that `driver` registers.
    pub fn new(driver: Box<dyn RegisterMemory>) -> Self {
        Self { driver: Some(driver), ..Self::unregistered() }
    }

    /// The same without a driver: all of it is pageable, and none was refused.
    pub fn unregistered() -> Self {
        Self {
            plain: PlainBacking::wiped_on_fork(),
            driver: None,
            registered: Mutex::default(),
            pinned_bytes: AtomicU64::new(0),
            pageable_bytes: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            last_error: AtomicI32::new(0),
        }
    }

    /// How much is pinned now.
    pub fn stats(&self) -> PinnedStats {
        PinnedStats {
            pinned_bytes: self.pinned_bytes.load(Relaxed),
            pageable_bytes: self.pageable_bytes.load(Relaxed),
            refusals: self.refusals.load(Relaxed),
            last_error: self.last_error.load(Relaxed),
        }
    }

    fn registered(&self) -> MutexGuard<'_, HashSet<usize>> {
        // Addresses alone: each is put in and taken out whole.
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: regions are those of the plain backing; a registration changes neither their bytes nor their owner, and ends before
// they are unmapped.
unsafe impl Backing for PinnedBacking {
    /// All of it is pinned.
    fn heap_below(&self) -> usize {
        0
    }

    fn region_use(&self) -> RegionUse {
        RegionUse::Batches
    }

    fn map(&self, len: usize) -> Result<NonNull<u8>> {
        let start = self.plain.map(len)?;
        match self.driver.as_ref().map(|driver| driver.register(start, len)) {
            Some(Ok(())) => {
                self.registered().insert(start.as_ptr().addr());
                self.pinned_bytes.fetch_add(len as u64, Relaxed);
            }
            Some(Err(number)) => {
                self.refusals.fetch_add(1, Relaxed);
                self.last_error.store(number, Relaxed);
                self.pageable_bytes.fetch_add(len as u64, Relaxed);
            }
            None => {
                self.pageable_bytes.fetch_add(len as u64, Relaxed);
            }
        }
        Ok(start)
    }

    unsafe fn unmap(&self, start: NonNull<u8>, len: usize) {
        let is_registered = self.registered().remove(&start.as_ptr().addr());
        match self.driver.as_ref().filter(|_| is_registered) {
            Some(driver) => {
                driver.unregister(start);
                self.pinned_bytes.fetch_sub(len as u64, Relaxed);
            }
            None => {
                self.pageable_bytes.fetch_sub(len as u64, Relaxed);
            }
        }
        // SAFETY: the caller says that the region is `map`'s, of this length, and that nothing refers to it.
        unsafe { self.plain.unmap(start, len) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Arena;

    /// A driver that registers so many regions and no more.
    #[derive(Debug, Default)]
    struct Few {
        left: Arc<Mutex<i64>>,
    }

    impl RegisterMemory for Few {
        fn register(&self, _: NonNull<u8>, _: usize) -> Result<(), i32> {
            let mut left = self.left.lock().unwrap();
            if *left == 0 {
                return Err(2);
            }
            *left -= 1;
            Ok(())
        }

        fn unregister(&self, _: NonNull<u8>) {
            *self.left.lock().unwrap() += 1;
        }
    }

    #[test]
    fn what_the_driver_refuses_is_pageable_and_counted_and_all_registrations_end() {
        let left = Arc::new(Mutex::new(2));
        let backing = Arc::new(PinnedBacking::new(Box::new(Few { left: Arc::clone(&left) })));
        let arena = Arena::over(1 << 30, Arc::clone(&backing) as _);
        let mut buffers: Vec<_> = (0..3).map(|_| arena.take(3 << 20).unwrap()).collect();
        buffers.iter_mut().for_each(|buffer| buffer.fill(7));
        let expected =
            PinnedStats { pinned_bytes: 8 << 20, pageable_bytes: 4 << 20, refusals: 1, last_error: 2 };
        assert_eq!(backing.stats(), expected);
        drop(buffers);
        arena.release();
        assert_eq!(backing.stats(), PinnedStats { refusals: 1, last_error: 2, ..PinnedStats::default() });
        assert_eq!(*left.lock().unwrap(), 2);
    }
}
