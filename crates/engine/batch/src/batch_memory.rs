//! Memory for the fields of one batch: apart, or side by side where one copy is to move all of them.

use std::{cell::RefCell, fmt, sync::Arc};

use forebay_process::Result;

use crate::{
    arena::{Arena, Buffer, LentBlock, side_by_side},
    backing::RegionUse,
};

/// Memory for the fields of one batch, of the arena of its maker.
///
/// Where the backing of the arena asks for it, all fields lie in one block. How long that has to be is learnt from the batches
/// before: those that find no room in it have blocks of their own.
pub struct BatchMemory<'a> {
    arena: &'a Arc<Arena>,
    joint: Option<RefCell<JointBlock>>,
}

#[derive(Default)]
struct JointBlock {
    block: Option<Arc<LentBlock>>,
    /// Bytes that all fields take side by side.
    len: usize,
}

impl<'a> BatchMemory<'a> {
    /// Memory of `arena` for the next batch.
    pub fn new(arena: &'a Arc<Arena>) -> Self {
        let joint = (arena.region_use() != RegionUse::Blocks).then(RefCell::default);
        Self { arena, joint }
    }

    /// Memory for `len` bytes of a field, whose values are anything.
    pub fn take(&self, len: usize) -> Result<Buffer> {
        let Some(joint) = &self.joint else { return self.arena.take(len) };
        let joint = &mut *joint.borrow_mut();
        joint.len = joint.len.saturating_add(side_by_side(len));
        let first = match &joint.block {
            Some(block) => block,
            None => joint.block.insert(self.arena.batch_block(len)?),
        };
        match first.cut(len) {
            Some(buffer) => Ok(buffer),
            None => self.arena.take(len),
        }
    }
}

impl fmt::Debug for BatchMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchMemory(of {:?})", self.arena.region_use())
    }
}

impl Drop for BatchMemory<'_> {
    fn drop(&mut self) {
        if let Some(joint) = &self.joint {
            self.arena.note_batch(joint.borrow().len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pinned::PinnedBacking;

    fn joint_arena() -> Arc<Arena> {
        Arena::over(64 << 20, Arc::new(PinnedBacking::unregistered()))
    }

    #[test]
    fn fields_of_one_length_lie_side_by_side_from_the_second_batch_on() {
        let arena = joint_arena();
        for round in 0..3 {
            let memory = BatchMemory::new(&arena);
            let mut fields: Vec<_> = [100_000, 60_000, 0, 333].map(|len| memory.take(len).unwrap()).into();
            drop(memory);
            for (number, field) in (1u8..).zip(&mut fields) {
                field.fill(number);
            }
            assert!(fields.iter().all(|field| field.address().addr() % 64 == 0));
            let beside = fields[0].beside(800);
            assert!(round == 0 || beside.is_some(), "there is room for offsets");
            let (spans, places) = Buffer::spanning(fields);
            assert_eq!(spans.len() == 1, round > 0, "the first batch teaches how long they are");
            for (number, (len, (span, at))) in (1u8..).zip([100_000, 60_000, 0, 333].into_iter().zip(places))
            {
                assert!(spans[span][at..at + len].iter().all(|byte| *byte == number));
            }
            drop(beside);
        }
    }

    #[test]
    fn the_block_goes_back_when_the_last_field_does() {
        let arena = joint_arena();
        drop(BatchMemory::new(&arena).take(1 << 20).unwrap());
        let memory = BatchMemory::new(&arena);
        let (one, other) = (memory.take(1000).unwrap(), memory.take(1000).unwrap());
        drop(memory);
        let address = one.address().addr();
        drop(one);
        assert!(arena.lent() > 0);
        assert_eq!(other.address().addr(), address + 1024);
        drop(other);
        assert_eq!(arena.lent(), 0);
    }

    #[test]
    fn after_one_long_batch_the_others_take_no_more_than_they_need() {
        let arena = joint_arena();
        let batch = |lens: &[usize]| {
            let memory = BatchMemory::new(&arena);
            let fields: Vec<_> = lens.iter().map(|len| memory.take(*len).unwrap()).collect();
            (Buffer::spanning(fields).0, arena.lent())
        };
        for _ in 0..3 {
            drop(batch(&[4 << 20, 2 << 20]));
        }
        drop(batch(&[40 << 20, 2 << 20]));
        for _ in 0..3 {
            let (spans, lent) = batch(&[4 << 20, 2 << 20]);
            assert_eq!((spans.len(), lent <= 8 << 20), (1, true), "{lent} bytes");
        }
    }

    #[test]
    fn room_that_a_batch_may_not_need_is_taken_within_the_limit_alone() {
        let arena = joint_arena();
        let batch = |len: usize| {
            let memory = BatchMemory::new(&arena);
            [len, len].map(|len| memory.take(len).unwrap())
        };
        drop(batch(20 << 20));
        let held: Vec<_> = (0..3).map(|_| batch(1 << 20)).collect();
        assert!(arena.lent() <= 64 << 20, "{} bytes for batches of 2 MiB", arena.lent());
        drop(held);
    }

    #[test]
    fn plain_memory_has_each_field_apart() {
        let arena = Arena::new(1 << 20);
        let memory = BatchMemory::new(&arena);
        let (one, other) = (memory.take(1000).unwrap(), memory.take(1000).unwrap());
        drop(memory);
        assert_eq!(Buffer::spanning(vec![one, other]).0.len(), 2);
    }
}
