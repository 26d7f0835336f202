//! Memory that the library fills with values of variable length.

#![expect(unsafe_code, reason = "a C library calls back for memory")]

use std::{collections::BTreeMap, ffi::c_void};

/// Values are many and short: they are cut from blocks this long.
const BLOCK_BYTES: usize = 1 << 20;
/// What any C type may be aligned to.
const UNIT_BYTES: usize = size_of::<u128>();

/// Memory lent to the library up to a limit, taken back all at once.
#[derive(Debug)]
pub struct LibraryArena {
    /// By the address of their first byte.
    blocks: BTreeMap<usize, Vec<u128>>,
    /// Where the last block has room, and how many units.
    room: (usize, usize),
    left_bytes: usize,
}

impl LibraryArena {
    /// An arena of at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Self { blocks: BTreeMap::new(), room: (0, 0), left_bytes: most_bytes }
    }

    /// True when the library was refused memory.
    pub fn is_spent(&self) -> bool {
        self.left_bytes == 0
    }

    /// The bytes from `address` to the end of its block, if they are in here.
    pub fn at_address(&self, address: usize) -> Option<&[u8]> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        bytes(block).get(address - start..)
    }

    /// Room for `len` bytes, or nothing.
    fn take(&mut self, len: usize) -> Option<usize> {
        let units = len.div_ceil(UNIT_BYTES).max(1);
        let Some(left) = self.left_bytes.checked_sub(units.checked_mul(UNIT_BYTES)?) else {
            self.left_bytes = 0;
            return None;
        };
        self.left_bytes = left;
        if self.room.1 < units {
            let count = units.max(BLOCK_BYTES / UNIT_BYTES);
            let mut block: Vec<u128> = Vec::new();
            block.try_reserve_exact(count).ok()?;
            block.resize(count, 0);
            self.room = (block.as_mut_ptr().expose_provenance(), count);
            self.blocks.insert(self.room.0, block);
        }
        let (address, room) = self.room;
        self.room = (address + units * UNIT_BYTES, room - units);
        Some(address)
    }

    /// The library's request for memory (`H5MM_allocate_t`).
    ///
    /// # Safety
    /// `arena` must point to an `Arena` that nobody else uses meanwhile.
    pub(crate) unsafe extern "C" fn alloc(len: usize, arena: *mut c_void) -> *mut c_void {
        // SAFETY: the caller guarantees it.
        let arena = unsafe { &mut *arena.cast::<Self>() };
        arena.take(len).map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut)
    }

    /// The library's return of memory (`H5MM_free_t`): it all goes when the arena goes.
    pub(crate) unsafe extern "C" fn free(_memory: *mut c_void, _arena: *mut c_void) {}
}

fn bytes(block: &[u128]) -> &[u8] {
    // SAFETY: any initialised memory is bytes, and a byte needs no alignment.
    unsafe { std::slice::from_raw_parts(block.as_ptr().cast(), size_of_val(block)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_its_address_and_only_there() {
        let mut arena = LibraryArena::new(8 << 20);
        let small = arena.take(5).unwrap();
        let large = arena.take(3 << 20).unwrap();
        assert_eq!(small % UNIT_BYTES, 0);
        assert_eq!(arena.at_address(small).unwrap().len(), BLOCK_BYTES);
        assert_eq!(arena.at_address(large + 1).unwrap().len(), (3 << 20) - 1);
        assert!(arena.at_address(0).is_none());
        assert!(arena.at_address(large.max(small) + (4 << 20)).is_none());
    }

    #[test]
    fn the_limit_holds() {
        let mut arena = LibraryArena::new(64);
        assert!(arena.take(48).is_some());
        assert!(arena.take(17).is_none());
        assert!(arena.is_spent());
    }
}
