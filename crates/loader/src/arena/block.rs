//! Pieces of memory: short ones from the heap, long ones cut from large pages.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use forebay_source::{Error, ErrorKind, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::ALIGNMENT;

/// What a forked child finds in long blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterFork {
    /// What was in them.
    Kept,
    /// Zeros: what the parent fills anew meanwhile would otherwise stay in memory for the child, which has no use for it.
    Wiped,
}

impl AfterFork {
    #[cfg(target_os = "linux")]
    fn advice(self) -> &'static [rustix::mm::Advice] {
        use rustix::mm::Advice::{LinuxHugepage, LinuxWipeOnFork};
        match self {
            Self::Kept => &[LinuxHugepage],
            Self::Wiped => &[LinuxHugepage, LinuxWipeOnFork],
        }
    }
}

/// A piece of memory with one owner, zero when it is new.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    class: usize,
    len: usize,
    home: Home,
}

/// Where a block comes from, and goes back to.
#[derive(Debug)]
enum Home {
    Heap(Layout),
    /// A slab goes when its last block does.
    Slab(Arc<Slab>),
}

/// From this length on blocks are cut from large pages: the processor looks up one address for 2 MiB instead of 512,
/// and the system fills them at once. Shorter ones come from the heap, which threads that take many of them grow bit by bit
/// and one after the other.
const LONG: usize = 16 << 10;
const LARGE_PAGE: usize = 2 << 20;

// SAFETY: a block is plain memory with one owner; nothing in it belongs to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out its length and address only.
unsafe impl Sync for Block {}

impl Block {
    /// A block of at least `class` bytes, and others like it that came with it.
    pub(super) fn new(class: usize, after_fork: AfterFork) -> Result<(Self, Vec<Self>)> {
        if class < LONG {
            return Ok((Self::on_heap(class)?, Vec::new()));
        }
        let slab = Arc::new(Slab::new(slab_len(class)?, class, after_fork)?);
        let (count, len) = (slab.count, Self::len_of(class)?);
        let mut blocks = (0..count).map(|index| {
            // SAFETY: the slab has `count` stretches of `len` bytes one after the other.
            let start = unsafe { slab.start.add(index * len) };
            Self { start, class, len, home: Home::Slab(Arc::clone(&slab)) }
        });
        let first = blocks.next().ok_or_else(|| full(class))?;
        Ok((first, blocks.collect()))
    }

    /// Bytes that a block of `class` takes.
    pub(super) fn len_of(class: usize) -> Result<usize> {
        if class < LONG {
            return Ok(class.max(ALIGNMENT));
        }
        let slab_len = slab_len(class)?;
        Ok(slab_len / (slab_len / class) / ALIGNMENT * ALIGNMENT)
    }

    fn on_heap(class: usize) -> Result<Self> {
        let layout = Layout::from_size_align(class.max(ALIGNMENT), ALIGNMENT).map_err(|_| full(class))?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| full(class))?;
        Ok(Self { start, class, len: layout.size(), home: Home::Heap(layout) })
    }

    /// Its address.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length it was made for.
    pub(super) fn class(&self) -> usize {
        self.class
    }

    /// Bytes it takes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Says that nobody uses it.
    pub(super) fn become_idle(&self) {
        if let Home::Slab(slab) = &self.home {
            slab.idle.fetch_add(1, Relaxed);
        }
    }

    /// Says that somebody uses it again.
    pub(super) fn leave_idleness(&self) {
        if let Home::Slab(slab) = &self.home {
            slab.idle.fetch_sub(1, Relaxed);
        }
    }

    /// True when dropping it, with its siblings, gives memory back: nobody uses any of them.
    pub(super) fn can_go(&self) -> bool {
        match &self.home {
            Home::Heap(_) => true,
            Home::Slab(slab) => slab.idle.load(Relaxed) == slab.count,
        }
    }

    /// True when it was cut from the same slab as `other`.
    pub(super) fn is_sibling(&self, other: &Self) -> bool {
        matches!((&self.home, &other.home), (Home::Slab(one), Home::Slab(other)) if Arc::ptr_eq(one, other))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Home::Heap(layout) = self.home {
            // SAFETY: `start` came from `alloc_zeroed` with this very layout and is freed once.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Bytes of the slab that blocks of `class` are cut from.
fn slab_len(class: usize) -> Result<usize> {
    class.checked_next_multiple_of(LARGE_PAGE).ok_or_else(|| full(class))
}

/// Large pages of the system.
#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    len: usize,
    /// Blocks it is cut into.
    count: usize,
    /// Those that nobody uses.
    idle: AtomicUsize,
}

// SAFETY: a slab is plain memory that is unmapped once, by whichever thread is last.
unsafe impl Send for Slab {}
// SAFETY: a shared slab gives out its length and address only.
unsafe impl Sync for Slab {}

impl Slab {
    /// A slab of `len` bytes for blocks of `class`.
    fn new(len: usize, class: usize, after_fork: AfterFork) -> Result<Self> {
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
        #[cfg(target_os = "linux")]
        for advice in after_fork.advice() {
            // SAFETY: the range is the mapping just made; the advice changes no bytes of this process. Where it is refused,
            // small pages do, and a child has copies.
            let _ = unsafe { rustix::mm::madvise(start.cast(), len, *advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = after_fork;
        let start = NonNull::new(start).ok_or_else(|| full(len))?;
        Ok(Self { start, len, count: len / class, idle: AtomicUsize::new(0) })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping is the slab's own, of this length, and no block of it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn full(len: usize) -> Error {
    Error::new(ErrorKind::Full, format!("no memory for {len} bytes"))
}
