//! Pieces of memory: short ones from the heap, long ones cut from regions of a backing.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use forebay_process::Result;

use crate::backing::{ALIGNMENT, Backing, LARGE_PAGE, RegionUse, full};

/// A piece of memory with one owner, zero when it is new.
#[derive(Debug)]
pub(super) struct MemoryBlock {
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
    MemorySlab(Arc<MemorySlab>),
}

// SAFETY: a block is plain memory with one owner; nothing in it belongs to a thread.
unsafe impl Send for MemoryBlock {}
// SAFETY: a shared block gives out its length and address only.
unsafe impl Sync for MemoryBlock {}

impl MemoryBlock {
    /// A block of at least `class` bytes of `backing`, and others like it that came with it.
    pub(super) fn new(class: usize, backing: &Arc<dyn Backing>) -> Result<(Self, Vec<Self>)> {
        if class < backing.heap_below() {
            return Ok((Self::on_heap(class)?, Vec::new()));
        }
        if !Self::comes_in_slab(class, &**backing) {
            return Ok((Self::alone(class, backing)?, Vec::new()));
        }
        let slab = Arc::new(MemorySlab::new(slab_len(class)?, class, Arc::clone(backing))?);
        let (count, len) = (slab.count, Self::len_of(class, backing.heap_below())?);
        let mut blocks = (0..count).map(|index| {
            // SAFETY: the slab has `count` stretches of `len` bytes one after the other.
            let start = unsafe { slab.start.add(index * len) };
            Self { start, class, len, home: Home::MemorySlab(Arc::clone(&slab)) }
        });
        let first = blocks.next().ok_or_else(|| full(class))?;
        Ok((first, blocks.collect()))
    }

    /// Bytes that a block of `class` takes, where those shorter than `heap_below` come from the heap.
    pub(super) fn len_of(class: usize, heap_below: usize) -> Result<usize> {
        if class < heap_below {
            return Ok(class.max(ALIGNMENT));
        }
        let slab_len = slab_len(class)?;
        Ok(slab_len / (slab_len / class) / ALIGNMENT * ALIGNMENT)
    }

    /// True when a new block of `class` brings others with it.
    pub(super) fn comes_in_slab(class: usize, backing: &dyn Backing) -> bool {
        class >= backing.heap_below() && backing.region_use() != RegionUse::Once
    }

    /// Bytes that come from `backing` with a new block of `class`.
    pub(super) fn region_len(class: usize, backing: &dyn Backing) -> Result<usize> {
        if Self::comes_in_slab(class, backing) {
            slab_len(class)
        } else if class < backing.heap_below() {
            Ok(class.max(ALIGNMENT))
        } else {
            class.checked_next_multiple_of(SMALL_PAGE).ok_or_else(|| full(class))
        }
    }

    /// A block that is a region of its own.
    fn alone(class: usize, backing: &Arc<dyn Backing>) -> Result<Self> {
        let len = class.checked_next_multiple_of(SMALL_PAGE).ok_or_else(|| full(class))?;
        let slab = MemorySlab::new(len, len, Arc::clone(backing))?;
        Ok(Self { start: slab.start, class, len, home: Home::MemorySlab(Arc::new(slab)) })
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
        if let Home::MemorySlab(slab) = &self.home {
            slab.idle.fetch_add(1, Relaxed);
        }
    }

    /// Marks it as in use again.
    pub(super) fn become_used(&self) {
        if let Home::MemorySlab(slab) = &self.home {
            slab.idle.fetch_sub(1, Relaxed);
        }
    }

    /// True when dropping it, with its siblings, gives memory back: nobody uses any of them.
    pub(super) fn can_go(&self) -> bool {
        match &self.home {
            Home::Heap(_) => true,
            Home::MemorySlab(slab) => slab.idle.load(Relaxed) == slab.count,
        }
    }

    /// True when it was cut from the same slab as `other`.
    pub(super) fn is_sibling(&self, other: &Self) -> bool {
        matches!((&self.home, &other.home), (Home::MemorySlab(one), Home::MemorySlab(other)) if Arc::ptr_eq(one, other))
    }
}

impl Drop for MemoryBlock {
    fn drop(&mut self) {
        if let Home::Heap(layout) = self.home {
            // SAFETY: `start` came from `alloc_zeroed` with this very layout and is freed once.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Regions that are blocks of their own are multiples of this.
const SMALL_PAGE: usize = 4 << 10;

/// Bytes of the slab that blocks of `class` are cut from.
fn slab_len(class: usize) -> Result<usize> {
    class.checked_next_multiple_of(LARGE_PAGE).ok_or_else(|| full(class))
}

/// A region of a backing that is cut into blocks.
#[derive(Debug)]
struct MemorySlab {
    start: NonNull<u8>,
    len: usize,
    /// Blocks it is cut into.
    count: usize,
    /// Those that nobody uses.
    idle: AtomicUsize,
    backing: Arc<dyn Backing>,
}

// SAFETY: a slab is plain memory that is given back once, by whichever thread is last.
unsafe impl Send for MemorySlab {}
// SAFETY: a shared slab gives out its length and address only.
unsafe impl Sync for MemorySlab {}

impl MemorySlab {
    /// A slab of `len` bytes for blocks of `class`.
    fn new(len: usize, class: usize, backing: Arc<dyn Backing>) -> Result<Self> {
        let start = backing.map(len)?;
        Ok(Self { start, len, count: len / class, idle: AtomicUsize::new(0), backing })
    }
}

impl Drop for MemorySlab {
    fn drop(&mut self) {
        // SAFETY: the region came from `map` with this length, is given back once, and no block of it is left.
        unsafe { self.backing.unmap(self.start, self.len) }
    }
}
