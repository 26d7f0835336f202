//! What a rank knows of its own table of blocks, and of those of the others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, RwLock, atomic::AtomicU64},
};

use forebay_store::{Comm, ShardMemory, Window};

use super::table::{BlockName, OwnTable, PeerSlot, TableShape};

/// What all sources of the tier share.
#[derive(Debug)]
pub(super) struct PeerShared {
    pub(super) comm: Arc<dyn Comm>,
    pub(super) window: Arc<dyn Window>,
    pub(super) shard: Arc<ShardMemory>,
    pub(super) shape: TableShape,
    pub(super) own: Mutex<OwnTable>,
    /// Blocks of other ranks that were found and compared with their checksums.
    pub(super) known: RwLock<HashMap<BlockName, PeerSlot>>,
    pub(super) faults: AtomicU64,
    /// The process that places blocks: forked children read alone, since what they note of their table its parent does not see.
    pub(super) maker: u32,
}
