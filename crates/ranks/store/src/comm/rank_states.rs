//! What is known of every rank: whether it runs, has left in order, or is gone.
//!
//! A byte per rank in a memory file: forked children see what a thread of their parent finds out, and the ranks of a host
//! what the others say of themselves.

#![expect(
    unsafe_code,
    reason = "other processes write the same memory, so it is read by address, as atomics"
)]

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU8, Ordering::SeqCst},
};

use forebay_process::Result;

use crate::store::shard_memory::{ShardMemory, ShardPlace};

/// What is known of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankState {
    /// It runs, for all that is known.
    Running,
    /// It has said that it needs the others no more.
    Left,
    /// It has ended without saying so.
    Gone,
}

/// The states of ranks, by their place in a list of them. A state that is not `Running` never changes.
#[derive(Debug)]
pub struct RankStates {
    /// A byte per rank, and one that says whether any of them is not `Running`.
    memory: ShardMemory,
    count: usize,
}

impl RankStates {
    /// All of `count` ranks run.
    pub fn new(count: usize) -> Result<Self> {
        Ok(Self { memory: ShardMemory::new(count as u64 + 1, &ShardPlace::Memory)?, count })
    }

    /// The states that another process made, for `count` ranks.
    pub(crate) fn shared(file: OwnedFd, count: usize) -> Result<Self> {
        Ok(Self { memory: ShardMemory::map(file.as_fd(), count as u64 + 1)?, count })
    }

    /// What another process of the host maps.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.memory.descriptor()
    }

    /// What is known of one.
    pub fn get(&self, index: usize) -> RankState {
        match self.byte(index).filter(|_| index < self.count).map_or(0, |byte| byte.load(SeqCst)) {
            0 => RankState::Running,
            1 => RankState::Left,
            _ => RankState::Gone,
        }
    }

    /// Says that one runs no more; true when nobody had said so before.
    pub fn end(&self, index: usize, is_in_order: bool) -> bool {
        let ended = if is_in_order { 1 } else { 2 };
        let byte = self.byte(index).filter(|_| index < self.count);
        let is_new = byte.is_some_and(|byte| byte.compare_exchange(0, ended, SeqCst, SeqCst).is_ok());
        if let (true, Some(any)) = (is_new, self.byte(self.count)) {
            any.store(1, SeqCst);
        }
        is_new
    }

    /// True while all ranks run, for all that is known: one load.
    pub fn all_run(&self) -> bool {
        self.byte(self.count).is_none_or(|any| any.load(SeqCst) == 0)
    }

    fn byte(&self, index: usize) -> Option<&AtomicU8> {
        if index as u64 >= self.memory.len() {
            return None;
        }
        // SAFETY: the byte lies within the mapping, which lives as long as `self`; all processes access it as an atomic.
        Some(unsafe { AtomicU8::from_ptr(self.memory.address().add(index)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_says_how_a_rank_ended_is_heard_in_every_mapping() {
        let states = RankStates::new(3).expect("memory");
        let file = states.descriptor().expect("a file").try_clone_to_owned().expect("a descriptor");
        let other = RankStates::shared(file, 3).expect("the same");
        assert!(states.all_run() && other.all_run());
        assert!(states.end(1, true) && !other.end(1, false) && other.end(2, false));
        let seen: Vec<_> = (0..4).map(|index| states.get(index)).collect();
        assert_eq!(seen, [RankState::Running, RankState::Left, RankState::Gone, RankState::Running]);
        assert!(!states.end(3, false), "there is no such rank");
        assert!(!states.all_run() && !other.all_run());
    }
}
