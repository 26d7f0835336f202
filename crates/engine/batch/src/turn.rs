//! Whether a batch that is made ahead may take memory that is short.

use std::{fmt, time::Duration};

/// Whether a batch may take memory beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryTurn {
    /// Not yet: others come before it, and their memory comes back once the consumer has had them.
    Later,
    /// It may: it is what the consumer has next.
    Now,
    /// Nobody wants it any more.
    Never,
}

/// Tells a batch whether its turn has come.
pub trait BatchTurn: fmt::Debug + Sync {
    /// How it stands now.
    fn turn(&self) -> MemoryTurn;

    /// Notes that the thread of the batch waited for memory for so long.
    fn note_wait(&self, _time: Duration) {}
}

/// The turn of a batch that is made for a caller who waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOnce;

impl BatchTurn for AtOnce {
    fn turn(&self) -> MemoryTurn {
        MemoryTurn::Now
    }
}
