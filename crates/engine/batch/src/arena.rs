//! Memory for batches and decoded units: aligned, used again, counted.

#![expect(unsafe_code, reason = "memory that is handed to others by address and used again")]

mod memory_block;
mod recent_lens;

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut},
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use forebay_process::Result;

use self::{memory_block::MemoryBlock, recent_lens::RecentLens};
use crate::backing::{ALIGNMENT, Backing, LONG, PlainBacking, RegionUse, full};

/// Lends memory and takes it back to lend it again: fresh pages cost four times as much to fill.
#[derive(Debug)]
pub struct Arena {
    free: Mutex<FreeBlocks>,
    /// Memory came back while somebody waited for it.
    returned: Condvar,
    /// Held while a slab comes from the backing.
    growing: Mutex<()>,
    lent: AtomicU64,
    backing: Arc<dyn Backing>,
    /// The process that lends.
    process: u32,
}

#[derive(Debug, Default)]
struct FreeBlocks {
    /// By the length they were asked for; of equal ones the last returned goes first, as the caches may still have it.
    by_len: BTreeMap<usize, Vec<MemoryBlock>>,
    len: u64,
    /// The most that is kept, together with what is lent.
    limit: u64,
    /// Bytes that are set aside and not yet taken.
    reserved: u64,
    /// Threads that wait for memory to come back.
    waiting: usize,
    /// Bytes that the fields of batches took side by side.
    batch_lens: RecentLens,
    /// Bytes that were added behind them.
    added_lens: RecentLens,
}

impl Arena {
    /// An arena of private memory that keeps what nobody uses as long as it comes, with what is lent, to no more than `limit`
    /// bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Self::over(limit, Arc::new(PlainBacking::default()))
    }

    /// As [`new`](Self::new), of the memory of `backing`.
    pub fn over(limit: u64, backing: Arc<dyn Backing>) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(FreeBlocks { limit, ..FreeBlocks::default() }),
            returned: Condvar::new(),
            growing: Mutex::new(()),
            lent: AtomicU64::new(0),
            backing,
            process: process::id(),
        })
    }

    /// Memory for `len` bytes, whose values are anything.
    pub fn take(self: &Arc<Self>, len: usize) -> Result<Buffer> {
        let block = Arc::new(self.lend(len, usize::MAX)?);
        Ok(Buffer { block, offset: 0, len })
    }

    /// What is done with the regions of its backing.
    pub fn region_use(&self) -> RegionUse {
        self.backing.region_use()
    }

    /// A block for a batch whose first field takes `len` bytes: with room for the others where they are as long as before. Room that
    /// the batch may not need is taken within the limit alone.
    pub(crate) fn batch_block(self: &Arc<Self>, len: usize) -> Result<Arc<LentBlock>> {
        let free = self.lock();
        let expected = free.batch_lens.usual().saturating_add(free.added_lens.usual());
        let taken = free.reserved.saturating_add(self.lent()).saturating_add(room(expected) as u64);
        // Of batches that are all as long as this one, as many are lent as the limit was made for.
        let has_room = free.batch_lens.is_steady() || taken <= free.limit;
        drop(free);
        self.lend(if has_room { len.max(expected) } else { len }, 0).map(Arc::new)
    }

    /// Notes that the fields of a batch took `len` bytes side by side.
    pub(crate) fn note_batch(&self, len: usize) {
        self.lock().batch_lens.note(len);
    }

    /// Notes that `len` bytes were to be added behind a batch; not where another thread has the lock, which in a forked child it
    /// may have for ever.
    fn note_added(&self, len: usize) {
        if let Ok(mut free) = self.free.try_lock() {
            free.added_lens.note(len);
        }
    }

    /// A block of at least `len` bytes, of which `used` are taken.
    fn lend(self: &Arc<Self>, len: usize, used: usize) -> Result<LentBlock> {
        let wanted = rounded(len);
        if wanted > isize::MAX.unsigned_abs() / 2 {
            return Err(full(len));
        }
        let block = match self.take_idle(wanted) {
            Some(block) => block,
            None => self.grow(wanted)?,
        };
        Ok(LentBlock { block: Some(block), used: AtomicUsize::new(used), arena: Arc::clone(self) })
    }

    /// Takes an idle block of at least `wanted` bytes, counted as lent.
    fn take_idle(&self, wanted: usize) -> Option<MemoryBlock> {
        let mut free = self.lock();
        // What is a little longer will do as well.
        let fitting =
            free.by_len.range_mut(wanted..=wanted + wanted / 4).find(|(_, blocks)| !blocks.is_empty());
        let block = fitting.and_then(|(_, blocks)| blocks.pop())?;
        block.become_used();
        free.len -= block.len() as u64;
        // Under the lock: between the two counts another thread would see less memory than there is.
        self.lent.fetch_add(block.len() as u64, Relaxed);
        Some(block)
    }

    /// Allocates a block of `wanted` bytes that nobody had before; others that come with it are kept for later.
    fn grow(&self, wanted: usize) -> Result<MemoryBlock> {
        if !MemoryBlock::comes_in_slab(wanted, &*self.backing) {
            return self.allocate(wanted);
        }
        // One thread at a time: a second one then finds what came with the first one's slab. Nothing is half-done while it is held.
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.take_idle(wanted) {
            Some(block) => Ok(block),
            None => self.allocate(wanted),
        }
    }

    /// Allocates a region, which counts as lent while it is mapped: of threads that counted theirs only afterwards, four passed a
    /// limit of 12 MiB by 4 MiB.
    fn allocate(&self, wanted: usize) -> Result<MemoryBlock> {
        let coming = MemoryBlock::region_len(wanted, &*self.backing)? as u64;
        let gone = {
            let mut free = self.lock();
            let lent = self.lent.fetch_add(coming, Relaxed);
            free.shrink(lent.saturating_add(coming))
        };
        // Memory goes back to the system without the lock.
        drop(gone);
        let allocated = MemoryBlock::new(wanted, &self.backing);
        let mut free = self.lock();
        self.lent.fetch_sub(coming, Relaxed);
        let (first, more) = allocated?;
        more.into_iter().for_each(|block| free.put(block));
        self.lent.fetch_add(first.len() as u64, Relaxed);
        self.tell_of_return(free);
        Ok(first)
    }

    /// Keeps no more than `limit` bytes from now on, with what is lent.
    pub fn set_limit(&self, limit: u64) {
        let gone = {
            let mut free = self.lock();
            free.limit = limit;
            free.shrink(self.lent())
        };
        drop(gone);
    }

    /// Gives what nobody uses back to the system.
    pub fn release(&self) {
        let gone = {
            let mut free = self.lock();
            let limit = std::mem::take(&mut free.limit);
            let gone = free.shrink(self.lent());
            free.limit = limit;
            gone
        };
        drop(gone);
    }

    /// Bytes that are lent now.
    pub fn lent(&self) -> u64 {
        self.lent.load(Relaxed)
    }

    fn give_back(&self, block: MemoryBlock) {
        if self.process != process::id() {
            // In a forked child the lock may be held by a thread that is not there: the memory is leaked.
            return std::mem::forget(block);
        }
        let mut gone = Vec::new();
        let mut free = self.lock();
        self.lent.fetch_sub(block.len() as u64, Relaxed);
        if self.region_use() == RegionUse::Once {
            gone.push(block);
        } else {
            free.put(block);
            gone.extend(free.shrink(self.lent()));
        }
        self.tell_of_return(free);
        // Memory goes back to the system without the lock.
        drop(gone);
    }

    /// Sets `len` bytes aside, where they and as many again fit the limit together with what is lent and set aside, or where `is_due`
    /// says that they need not. Otherwise gives the bytes that are lent and set aside.
    pub(crate) fn set_aside(&self, len: u64, is_due: bool) -> std::result::Result<(), u64> {
        let mut free = self.lock();
        let taken = free.reserved.saturating_add(self.lent());
        if !is_due && taken.saturating_add(len.saturating_mul(2)) > free.limit {
            return Err(taken);
        }
        free.reserved = free.reserved.saturating_add(len);
        Ok(())
    }

    /// Gives up `len` bytes that were set aside.
    pub(crate) fn give_up(&self, len: u64) {
        let mut free = self.lock();
        free.reserved = free.reserved.saturating_sub(len);
        self.tell_of_return(free);
    }

    /// Waits for `patience` at the most, unless less than `taken` bytes are lent and set aside by now.
    pub(crate) fn wait_for_return(&self, taken: u64, patience: Duration) {
        let mut free = self.lock();
        if free.reserved.saturating_add(self.lent()) >= taken {
            free.waiting += 1;
            let waited = self.returned.wait_timeout(free, patience);
            waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
        }
    }

    /// Wakes threads that wait for memory.
    fn tell_of_return(&self, free: MutexGuard<'_, FreeBlocks>) {
        let is_awaited = free.waiting > 0;
        drop(free);
        if is_awaited {
            self.returned.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, FreeBlocks> {
        // Blocks are whole or gone: a panic elsewhere cannot leave one half-made.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeBlocks {
    fn put(&mut self, block: MemoryBlock) {
        block.become_idle();
        self.len += block.len() as u64;
        self.by_len.entry(block.class()).or_default().push(block);
    }

    /// Takes out what is more than the limit, as far as it is whole: one block of a slab alone frees nothing.
    fn shrink(&mut self, lent: u64) -> Vec<MemoryBlock> {
        let mut gone = Vec::new();
        while self.len > 0 && self.len.saturating_add(lent) > self.limit {
            let mut found = self.by_len.values_mut().filter_map(|blocks| {
                let at = blocks.iter().position(MemoryBlock::can_go)?;
                Some((blocks, at))
            });
            let Some((blocks, at)) = found.next() else { break };
            let first = blocks.swap_remove(at);
            let siblings: Vec<_> = blocks.extract_if(.., |block| block.is_sibling(&first)).collect();
            self.len -= siblings.iter().map(|block| block.len() as u64).sum::<u64>() + first.len() as u64;
            gone.push(first);
            gone.extend(siblings);
        }
        self.by_len.retain(|_, blocks| !blocks.is_empty());
        gone
    }
}

/// Lengths are rounded so that blocks of nearly equal lengths serve each other.
fn rounded(len: usize) -> usize {
    let step = (len.checked_next_power_of_two().unwrap_or(0) / 16).max(ALIGNMENT);
    len.max(1).div_ceil(step).saturating_mul(step)
}

/// Bytes that a buffer for `len` bytes of private memory takes when it is fresh.
pub fn room(len: usize) -> usize {
    MemoryBlock::len_of(rounded(len), LONG).unwrap_or(usize::MAX)
}

/// A block of an arena, which goes back to it when the last buffer that lies in it is dropped.
pub(crate) struct LentBlock {
    /// Always there until it is dropped.
    block: Option<MemoryBlock>,
    /// Bytes from its start that buffers have.
    used: AtomicUsize,
    arena: Arc<Arena>,
}

/// Where buffers of one block begin: what devices like as well as the start of an allocation.
const FIELD_ALIGNMENT: usize = 256;

impl LentBlock {
    /// The next `len` bytes of the block that no buffer has; nothing where there are not so many.
    pub(crate) fn cut(self: &Arc<Self>, len: usize) -> Option<Buffer> {
        let end_of = |used: usize| {
            let start = used.checked_next_multiple_of(FIELD_ALIGNMENT)?;
            start.checked_add(len).filter(|end| *end <= self.capacity()).map(|end| (start, end))
        };
        let before = self.used.fetch_update(Relaxed, Relaxed, |used| Some(end_of(used)?.1)).ok()?;
        let (offset, _) = end_of(before)?;
        Some(Buffer { block: Arc::clone(self), offset, len })
    }

    fn capacity(&self) -> usize {
        self.block.as_ref().map_or(0, MemoryBlock::len)
    }
}

impl Drop for LentBlock {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.arena.give_back(block);
        }
    }
}

/// Bytes that `len` bytes take in a block where others follow.
pub(crate) fn side_by_side(len: usize) -> usize {
    len.checked_next_multiple_of(FIELD_ALIGNMENT).unwrap_or(usize::MAX)
}

/// Memory of an arena, which goes back to it when dropped.
pub struct Buffer {
    block: Arc<LentBlock>,
    /// Where it begins in the block: no other buffer has these bytes.
    offset: usize,
    len: usize,
}

impl Buffer {
    /// Keeps the first `len` bytes alone; the others are free when it is dropped.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Its address, good as long as the buffer lives.
    pub fn address(&self) -> *mut u8 {
        let block =
            self.block.block.as_ref().expect("a block is there until the last of its buffers is gone");
        // SAFETY: the offset lies within the block.
        unsafe { block.start().as_ptr().add(self.offset) }
    }

    /// The same bytes in other memory of the same arena.
    pub fn copied(&self) -> Result<Self> {
        let mut copy = self.block.arena.take(self.len)?;
        copy.copy_from_slice(self);
        Ok(copy)
    }

    /// Bytes that its block takes, at least as many as were asked for.
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Memory for `len` more bytes in the block of a batch; nothing where it has no room, which the next batch then has.
    pub fn beside(&self, len: usize) -> Option<Self> {
        if self.block.arena.region_use() != RegionUse::Blocks {
            self.block.arena.note_added(side_by_side(len));
        }
        self.block.cut(len)
    }

    /// Memory for `len` bytes of the same arena.
    pub fn elsewhere(&self, len: usize) -> Result<Self> {
        self.block.arena.take(len)
    }

    /// One buffer for those of `buffers` that lie in the same block, from the start of the first to the end of the last, and
    /// for each of them which one that is and where it begins there. What lies between is anything.
    pub fn spanning(buffers: Vec<Self>) -> (Vec<Self>, Vec<(usize, usize)>) {
        let mut spans: Vec<Self> = Vec::new();
        let mut places = Vec::with_capacity(buffers.len());
        for Self { block, offset, len } in buffers {
            let known = spans.iter_mut().enumerate().find(|(_, span)| Arc::ptr_eq(&span.block, &block));
            if let Some((number, span)) = known {
                let end = (span.offset + span.len).max(offset + len);
                span.offset = span.offset.min(offset);
                span.len = end - span.offset;
                places.push((number, offset));
            } else {
                places.push((spans.len(), offset));
                spans.push(Self { block, offset, len });
            }
        }
        for (number, offset) in &mut places {
            *offset -= spans[*number].offset;
        }
        for span in &mut spans {
            // Whole elements of any type.
            span.len = span.len.next_multiple_of(ALIGNMENT).min(span.capacity() - span.offset);
        }
        (spans, places)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block has these bytes, zeroed when it was made and written as bytes since, no other buffer has them, and
        // they are borrowed through `self`.
        unsafe { std::slice::from_raw_parts(self.address(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_used_again() {
        let arena = Arena::new(1 << 20);
        let first = arena.take(1000).unwrap();
        let address = first.address() as usize;
        assert_eq!(address % ALIGNMENT, 0);
        assert_eq!(first.len(), 1000);
        drop(first);
        assert_eq!(arena.take(990).unwrap().address() as usize, address);
        assert_eq!(arena.lent(), 0);
    }

    #[test]
    fn no_more_is_kept_than_the_limit_with_what_is_lent() {
        let arena = Arena::new(4096);
        let mut buffers: Vec<_> = (0..10).map(|_| arena.take(1024).unwrap()).collect();
        buffers.truncate(2);
        assert!(arena.lock().len <= 2048);
        // Another length pushes the idle ones out.
        drop(arena.take(2048).unwrap());
        assert!(arena.lock().by_len.contains_key(&2048));
    }

    #[test]
    fn blocks_of_a_slab_go_together_or_not_at_all() {
        let arena = Arena::new(0);
        // Eight to a slab of 2 MiB: as long as one is lent, the others can be had for nothing.
        let first = arena.take(256 << 10).unwrap();
        let held = arena.take(256 << 10).unwrap();
        let address = first.address() as usize;
        drop(first);
        assert_eq!(arena.take(256 << 10).unwrap().address() as usize, address);
        drop(held);
        assert_eq!(arena.lock().len, 0);
    }

    #[test]
    fn an_empty_buffer_is_fine() {
        assert!(Arena::new(0).take(0).unwrap().is_empty());
    }
}
