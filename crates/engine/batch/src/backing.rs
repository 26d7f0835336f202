//! Where the memory of an arena comes from: private pages of the system, unless the caller brings others.

#![expect(unsafe_code, reason = "memory is mapped and unmapped by address")]

use std::{
    fmt,
    ptr::{self, NonNull},
};

use forebay_process::{Error, ErrorKind, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What vector units and devices like best.
pub const ALIGNMENT: usize = 64;

/// Memory is mapped in multiples of this: the processor looks up one address for 2 MiB instead of 512.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Blocks shorter than this come from the heap. Longer ones are cut from large pages, which the system clears at once; the
/// heap grows bit by bit, and under one lock.
pub(crate) const LONG: usize = 16 << 10;

/// Where the memory of an [`Arena`](crate::Arena) comes from: private pages, pages that are pinned for a device, or memory that
/// processes share.
///
/// # Contract
///
/// - `map` gives `len` bytes that are zero, aligned to [`ALIGNMENT`], readable and writable, and used by nobody else until
///   `unmap`. `len` is a multiple of 2 MiB, or of 4 KiB where a region is used [`Once`](RegionUse::Once), whose bytes may be
///   anything. Where there is no room, the error is of kind `Full`.
/// - `unmap` is called once for each region, on any thread, after its last block was dropped.
/// - `heap_below` and `region_use` are always the same. Blocks shorter than that come from the heap, all others from regions; 0 has all memory of
///   the arena come from regions.
/// - Nothing here is called in a forked child; what the child finds in the memory is the backing's own business.
///
/// # Safety
///
/// The arena makes slices of what `map` gives: implementers promise what the contract says of it.
pub unsafe trait Backing: fmt::Debug + Send + Sync {
    /// The shortest block that comes from a region.
    fn heap_below(&self) -> usize;

    /// What an arena does with regions.
    fn region_use(&self) -> RegionUse {
        RegionUse::Blocks
    }

    /// A new region of `len` bytes.
    fn map(&self, len: usize) -> Result<NonNull<u8>>;

    /// Gives a region back.
    ///
    /// # Safety
    ///
    /// `start` and `len` are those of one call of `map`, nothing refers to the region any more, and it was not given back.
    unsafe fn unmap(&self, start: NonNull<u8>, len: usize);
}

/// What an arena does with the regions of a backing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegionUse {
    /// Cuts them into blocks, which are used again; each field of a batch has a block of its own.
    #[default]
    Blocks,
    /// The same, but that the fields of a batch lie side by side in one block: one copy moves all of them.
    Batches,
    /// A region is one block for a whole batch and goes back as soon as nobody uses it: its owner knows when it may be used
    /// again.
    Once,
}

/// Private memory of the process, in large pages where the system has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainBacking {
    is_wiped_on_fork: bool,
}

impl PlainBacking {
    /// Memory of which a forked child finds zeros: what the parent fills anew meanwhile would otherwise be copied for the child,
    /// which has no use for it.
    pub fn wiped_on_fork() -> Self {
        Self { is_wiped_on_fork: true }
    }

    #[cfg(target_os = "linux")]
    fn advise(self, start: *mut u8, len: usize) {
        use rustix::mm::Advice::{LinuxHugepage, LinuxWipeOnFork};
        let advice: &[_] =
            if self.is_wiped_on_fork { &[LinuxHugepage, LinuxWipeOnFork] } else { &[LinuxHugepage] };
        for advice in advice {
            // SAFETY: the range is a mapping that was just made; the advice changes no bytes of this process. Where it is
            // refused, small pages do, and a child has copies.
            let _ = unsafe { rustix::mm::madvise(start.cast(), len, *advice) };
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn advise(self, _: *mut u8, _: usize) {}
}

// SAFETY: an anonymous private mapping is zero, page-aligned and nobody else's, and is unmapped by `unmap` alone.
unsafe impl Backing for PlainBacking {
    fn heap_below(&self) -> usize {
        LONG
    }

    fn map(&self, len: usize) -> Result<NonNull<u8>> {
        let padded = len.checked_add(LARGE_PAGE).ok_or_else(|| full(len))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: an anonymous mapping at an address of the system's choice touches no other memory.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), padded, access, MapFlags::PRIVATE) };
        let mapped = mapped.map_err(|_| full(len))?.cast::<u8>();
        // Large pages begin at multiples of their length: what lies before and after goes back.
        let before = mapped.align_offset(LARGE_PAGE).min(LARGE_PAGE);
        // SAFETY: both ranges are the ends of the mapping just made, which nobody has seen.
        let start = unsafe {
            let start = mapped.add(before);
            if before > 0 {
                let _ = munmap(mapped.cast(), before);
            }
            if before < LARGE_PAGE {
                let _ = munmap(start.add(len).cast(), LARGE_PAGE - before);
            }
            start
        };
        self.advise(start, len);
        NonNull::new(start).ok_or_else(|| full(len))
    }

    unsafe fn unmap(&self, start: NonNull<u8>, len: usize) {
        // SAFETY: the caller says that the mapping is `map`'s, of this length, and that nothing refers to it.
        let _ = unsafe { munmap(start.as_ptr().cast(), len) };
    }
}

/// The error for memory that there is not.
pub(crate) fn full(len: usize) -> Error {
    Error::new(ErrorKind::Full, format!("no memory for {len} bytes"))
}
