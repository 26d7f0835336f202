//! The contract of a place for copies.

use std::{fmt, os::fd::OwnedFd, sync::Arc, time::Instant};

use bytes::Bytes;
use forebay_source::{Source, SourceId};

use crate::memory::pages::StoredBlock;

/// A place for copies of sources.
///
/// # Contract
/// - It may lose bytes at any time and may never change them: what is read back is what was put, or a miss.
/// - A failure of its own, such as a full or broken disk, is a refusal or a miss, and counted; never an error.
/// - Two ids never share copies, so that nothing has to be invalidated.
pub trait Tier: Send + Sync + fmt::Debug {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// The copies of `source`, of which there may be none yet; nothing where it keeps none of this source.
    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>>;

    /// How full it is, and what went wrong.
    fn usage(&self) -> Usage;

    /// Why it is not used at all, where it could not be opened.
    fn left_out(&self) -> Option<&str>;

    /// Waits until what it does in the background is done, not past `until`; false when that was not enough.
    fn wait(&self, until: Instant) -> bool;

    /// Ends its work in the background, not much past `until`, and gives back what it holds: memory, and the folder of a
    /// job. Later claims are refused and later reads may miss; what was leased is read on. May be called more than once.
    fn close(&self, until: Instant);
}

/// A part of one block that a reader wants.
#[derive(Debug, Default)]
pub struct BlockPiece<'a> {
    /// Which block.
    pub block: u64,
    /// The first byte wanted, counted from the start of the block.
    pub from: u64,
    /// Where the bytes go: as many as it is long.
    pub into: &'a mut [u8],
    /// True once `into` holds the bytes.
    pub is_filled: bool,
}

/// The copies that a tier has of one source.
///
/// # Contract
/// - Many threads may call at once, and each call sees what was put before it began.
/// - A failure of the tier (a disk that fails, a peer that is gone) is a miss; it is counted, and never an error.
pub trait Copies: Send + Sync + fmt::Debug {
    /// Fills the pieces that are here, vectored: one call for all that a reader wants of the source, so that a tier can
    /// merge neighbours into one request, or send many requests before it waits for the first.
    ///
    /// # Contract
    /// - The pieces may come in any order, overlap within blocks and be empty; the tier fills them in whatever order it
    ///   likes, and never changes `block`, `from`, or which memory `into` is.
    /// - A piece whose `is_filled` is set is passed over, so that the same pieces can be handed to one tier after another.
    /// - The answer may be partial: `is_filled` is set for each piece that holds its bytes, compared as far as the tier
    ///   compares any; the others are misses, and what their `into` holds then means nothing. A piece that reaches past the
    ///   end of its block is a miss.
    /// - After `deadline` at most one more request is begun, and the call returns when that is answered: what is not
    ///   filled by then is a miss. Without one it may wait as long as its device does.
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], deadline: Option<Instant>);

    /// The bytes of `block`, if they are there.
    fn get(&self, block: u64) -> Option<Bytes>;

    /// True when `block` is there, as far as is known without reading it.
    fn has(&self, block: u64) -> bool;

    /// Bytes of the source that are here, and of other versions of it, which are evicted before anything else.
    fn held(&self) -> u64;

    /// Whether there seems to be room for `block`, which has `len` bytes.
    fn room(&self, block: u64, len: u64) -> Room;

    /// Takes room for `block`, which has `len` bytes, and the lock by which one process of the machine fetches it for all.
    /// Other copies are evicted for it only if `may_replace`.
    fn claim(self: Arc<Self>, block: u64, len: u64, may_replace: bool) -> Claim;

    /// The whole source, where all of it is here, compared and sealed. Asked often: a copy that another process completed
    /// may take a moment to be noticed.
    fn whole(&self) -> Option<Arc<dyn WholeCopy>>;

    /// True when another process places `block`, where this one can read it: [`has`](Self::has) may not know of it yet.
    fn is_elsewhere(&self, block: u64) -> bool;

    /// True when other processes read what this one places: blocks are then placed though nobody here reads them.
    fn serves_others(&self) -> bool;

    /// Begins what makes [`whole`](Self::whole) possible, if all blocks are there: they are compared where they were not,
    /// and synced.
    fn settle(&self);
}

/// All of a source on one tier, read without looking for blocks.
///
/// # Contract
/// - Its bytes are those of the source, all of them: each was compared with its checksum before the copy was sealed, and
///   nothing is written to a sealed copy but, where a block is found damaged later, the source's own bytes.
/// - It may leave the tier at any time. A copy that has left can be read on by threads that hold it, and holds space that
///   others need: a holder lets go of it once [`is_gone`](Self::is_gone).
pub trait WholeCopy: Send + Sync + fmt::Debug {
    /// Reads it.
    fn source(&self) -> &Arc<dyn Source>;

    /// A read-only descriptor of a file that holds the source's bytes and no more, for a program that reads by itself;
    /// nothing where the copy is gone, is just leaving, or is no file.
    ///
    /// The descriptor is a lease, and lasts as long as any duplicate of it is open, in this process or in another that
    /// inherited or received it:
    /// - the tier does not evict the copy, which would free no space before the descriptor is closed;
    /// - the file is not cut, punched or used for other bytes, even when the user clears the tier or the tier is closed:
    ///   then its name goes, and the descriptor reads on.
    ///
    /// It is closed on `exec` and inherited by `fork`. The lease is a shared `flock` of the open file: a program that
    /// unlocks the descriptor ends it. Flips on the disk after the hand-out are not detected.
    fn descriptor(&self) -> Option<OwnedFd>;

    /// True when it has left the tier.
    fn is_gone(&self) -> bool;

    /// Reports that it could not be read: the tier looks why, and does not give it again before it is right.
    fn distrust(&self);

    /// Counts uses that the tier does not see: reads through [`source`](Self::source).
    fn touch(&self);
}

/// Whether a tier has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It has.
    Free,
    /// It has if another copy is evicted, whose score is lower.
    ByEvicting,
    /// It has not for this block, and may have for others.
    NoSlot,
    /// It has not.
    Full,
}

/// Whether a tier took something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is there.
    Kept,
    /// There is no room, or the tier has failed.
    Refused,
}

/// Whether a block may be fetched for a tier.
#[derive(Debug)]
pub enum Claim {
    /// It may, and there is room for it.
    Held(Box<dyn Claimed>),
    /// Another process fetches it.
    Busy,
    /// It is there already.
    Here,
    /// There is no room, or the tier has failed.
    Full,
}

/// Room for one block, given back when it is dropped without the block.
pub trait Claimed: Send + fmt::Debug {
    /// Keeps a copy of `bytes`, all those of the block.
    fn put(self: Box<Self>, bytes: &[u8]) -> Admission;

    /// The blocks that were evicted for this one, each given once: a lower tier may keep them. Mirrors, which are evicted as
    /// a whole, are not given.
    fn take_evicted(&mut self) -> Vec<EvictedBlock>;
}

/// A block that was evicted for another.
#[derive(Debug)]
pub struct EvictedBlock {
    /// Of which source.
    pub source: SourceId,
    /// Which block of it.
    pub block: u64,
    /// Its bytes, in memory that is the tier's again once this is dropped.
    pub(crate) stored: StoredBlock,
}

/// How full a tier is, and what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes it holds.
    pub used: u64,
    /// The most bytes it may hold.
    pub quota: u64,
    /// Copies that were evicted for others.
    pub evicted: u64,
    /// Copies that could not be read, or were not what was put.
    pub faults: u64,
}
