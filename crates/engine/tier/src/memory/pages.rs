//! The memory of a tier: pages cut from large slabs, used again and again.
//!
//! A block that had a mapping of its own would cost the process one of its 65,530, and every hole between two of them
//! another; a slab costs one for 64 MiB.

use std::{fmt, sync::Arc};

use bytes::{Bytes, BytesMut};

use crate::{
    memory::large_pages::prefer_large_pages,
    sync::{Mutex, lock},
};

/// Bytes of a page: of a block of 128 KiB at most one in sixteen is lost at its end.
const PAGE_BYTES: usize = 8 << 10;
/// Bytes of a slab, always a mapping of its own: the C library maps what is longer than 32 MiB.
const SLAB_BYTES: usize = 64 << 20;
/// Shorter blocks come from the heap: the C library gives no mapping to what is shorter than that.
const LEAST_PAGED_BYTES: usize = 128 << 10;

/// Pages that no block uses.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Nothing once the tier is closed: what comes back then goes to the system.
    free: Mutex<Option<Vec<BytesMut>>>,
    slab_bytes: usize,
}

/// The bytes of a block, in memory of the tier.
pub(crate) enum StoredBlock {
    /// A block from the heap.
    Short(Bytes),
    /// A block in pages, of which all but the last are full.
    Paged {
        /// The pages.
        pages: Vec<BytesMut>,
        /// Bytes of the block.
        len: usize,
        /// Where the pages go when the block leaves.
        home: Arc<Pages>,
    },
}

impl Pages {
    /// Memory for blocks of at most `quota` bytes in all. A page becomes resident when it is first used.
    pub(crate) fn new(quota: u64) -> Self {
        let quota = usize::try_from(quota).unwrap_or(usize::MAX);
        let slab_bytes = quota.clamp(LEAST_PAGED_BYTES, SLAB_BYTES).next_multiple_of(PAGE_BYTES);
        Self { free: Mutex::new(Some(Vec::new())), slab_bytes }
    }

    /// A copy of `bytes` in this memory; nothing where memory is short.
    pub(crate) fn store(self: &Arc<Self>, bytes: &[u8]) -> Option<StoredBlock> {
        if bytes.len() < LEAST_PAGED_BYTES {
            return Some(StoredBlock::Short(Bytes::copy_from_slice(bytes)));
        }
        let count = bytes.len().div_ceil(PAGE_BYTES);
        let mut guard = lock(&self.free);
        let free = guard.as_mut()?;
        while free.len() < count {
            free.extend(slab(self.slab_bytes)?);
        }
        let first = free.len() - count;
        let mut pages = free.split_off(first);
        drop(guard);
        for (page, part) in pages.iter_mut().zip(bytes.chunks(PAGE_BYTES)) {
            page.clear();
            page.extend_from_slice(part);
        }
        Some(StoredBlock::Paged { pages, len: bytes.len(), home: Arc::clone(self) })
    }

    fn take_back(&self, pages: &mut Vec<BytesMut>) {
        if let Some(free) = lock(&self.free).as_mut() {
            free.append(pages);
        }
    }

    /// Gives the memory back to the system: that of free pages now, that of blocks when they are dropped.
    pub(crate) fn close(&self) {
        lock(&self.free).take();
    }
}

/// The pages of a new slab.
fn slab(len: usize) -> Option<impl Iterator<Item = BytesMut>> {
    // `BytesMut` ends the process where memory is short; a tier only keeps less then.
    let mut probe = Vec::<u8>::new();
    probe.try_reserve_exact(len).ok()?;
    drop(std::hint::black_box(probe));
    let mut rest = BytesMut::with_capacity(len);
    prefer_large_pages(rest.spare_capacity_mut());
    Some((0..len / PAGE_BYTES).map(move |_| {
        let after = rest.split_off(PAGE_BYTES);
        std::mem::replace(&mut rest, after)
    }))
}

impl StoredBlock {
    /// Bytes of the block.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Short(bytes) => bytes.len() as u64,
            Self::Paged { len, .. } => *len as u64,
        }
    }

    /// Fills `into` with the bytes from `from` on; false where the block ends before.
    pub(crate) fn read(&self, from: u64, into: &mut [u8]) -> bool {
        let end = from.checked_add(into.len() as u64).filter(|end| *end <= self.len());
        let (Some(_), Ok(from)) = (end, usize::try_from(from)) else { return false };
        match self {
            Self::Short(bytes) => into.copy_from_slice(&bytes[from..from + into.len()]),
            Self::Paged { pages, .. } => copy_pages(pages, from, into),
        }
        true
    }

    /// The bytes as one piece.
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Self::Short(bytes) => bytes.clone(),
            Self::Paged { pages, len, .. } => {
                let mut whole = Vec::with_capacity(*len);
                pages.iter().for_each(|page| whole.extend_from_slice(page));
                whole.into()
            }
        }
    }
}

fn copy_pages(pages: &[BytesMut], from: usize, into: &mut [u8]) {
    let (mut page, mut start, mut rest) = (from / PAGE_BYTES, from % PAGE_BYTES, into);
    while !rest.is_empty() {
        let part = &pages[page][start..];
        let count = part.len().min(rest.len());
        let (now, after) = rest.split_at_mut(count);
        now.copy_from_slice(&part[..count]);
        (page, start, rest) = (page + 1, 0, after);
    }
}

impl Drop for StoredBlock {
    fn drop(&mut self) {
        if let Self::Paged { pages, home, .. } = self {
            home.take_back(pages);
        }
    }
}

impl fmt::Debug for StoredBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13).to_le_bytes()[0]).collect()
    }

    #[test]
    fn what_is_stored_is_read_back_from_any_byte_on_and_no_further_than_it_goes() {
        let pages = Arc::new(Pages::new(1 << 20));
        for len in [0, 1, 5000, LEAST_PAGED_BYTES - 1, LEAST_PAGED_BYTES, LEAST_PAGED_BYTES + 1, 300_000] {
            let bytes = pattern(len);
            let stored = pages.store(&bytes).unwrap();
            assert_eq!((stored.len(), &stored.bytes()[..]), (len as u64, &bytes[..]));
            for from in [0, 1, PAGE_BYTES - 1, PAGE_BYTES, len / 2, len] {
                let part = bytes.get(from..).unwrap_or_default();
                let mut into = vec![0; part.len().min(20_000)];
                assert_eq!(stored.read(from as u64, &mut into), from <= len, "{from} of {len}");
                assert!(from > len || into == part[..into.len()], "{from} of {len}");
                assert!(!stored.read(from as u64, &mut vec![0; part.len() + 1]));
            }
        }
        let stored = pages.store(&pattern(300_000)).unwrap();
        assert!(!stored.read(u64::MAX, &mut [0]));
    }

    #[test]
    fn pages_are_used_again() {
        let pages = Arc::new(Pages::new(1 << 20));
        let count = || lock(&pages.free).as_ref().map_or(0, Vec::len);
        drop(pages.store(&pattern(1 << 20)).unwrap());
        let first = count();
        assert_eq!(first, (1 << 20) / PAGE_BYTES);
        for _ in 0..10 {
            let held: Vec<_> = (0..4).map(|_| pages.store(&pattern(200_000)).unwrap()).collect();
            assert_eq!(count(), first - 4 * 200_000_usize.div_ceil(PAGE_BYTES));
            drop(held);
            assert_eq!(count(), first);
        }
    }

    #[test]
    fn closed_pages_keep_no_memory_and_take_no_blocks() {
        let pages = Arc::new(Pages::new(1 << 20));
        let held = pages.store(&pattern(300_000)).unwrap();
        pages.close();
        assert!(pages.store(&pattern(300_000)).is_none());
        assert_eq!(&held.bytes()[..], &pattern(300_000)[..], "a block that is read on stays right");
        drop(held);
        assert!(lock(&pages.free).is_none());
    }
}
