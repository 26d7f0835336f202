//! Devices that copies lie on which this process has had open: only where there are any is it asked whether a path leads to a copy.

use std::{
    os::fd::RawFd,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use crate::{engine::inside, system::kernel};

/// Devices of copies that this process has had open; 0 where there is none.
static DEVICES: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
/// True where there are more.
static HAS_MORE: AtomicBool = AtomicBool::new(false);

/// Notes that this process has a copy open that lies on `device`.
pub(crate) fn know(device: u64) {
    let is_noted = |place: &AtomicU64| match place.compare_exchange(0, device, AcqRel, Acquire) {
        Ok(_) => true,
        Err(there) => there == device,
    };
    if !DEVICES.iter().any(is_noted) {
        HAS_MORE.store(true, Relaxed);
    }
}

/// True where this process has ever had a copy open.
#[inline]
pub(crate) fn knows_any() -> bool {
    DEVICES[0].load(Relaxed) != 0
}

/// True where copies may lie on `device`.
pub(crate) fn may_hold_copies(device: u64) -> bool {
    HAS_MORE.load(Relaxed) || DEVICES.iter().any(|known| known.load(Relaxed) == device)
}

/// True where `fd`, which was just opened by whichever path, may be open on a copy.
#[inline]
pub(crate) fn may_be_copy(fd: RawFd) -> bool {
    knows_any() && lies_beside_copies(fd)
}

#[cold]
fn lies_beside_copies(fd: RawFd) -> bool {
    let found = inside::run(|| kernel::identity(fd));
    found.is_some_and(|found| may_hold_copies(found.device))
}
