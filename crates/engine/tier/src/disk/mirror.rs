//! What a process knows of one mirror: which files it has, whether it is sealed, how often it was wrong.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use arc_swap::ArcSwapOption;
use forebay_scratch::FileFacts;
use forebay_source::{Source, SourceId};

use super::{mirror_descriptors::MirrorFiles, name::MirrorName};
use crate::block::{SourceBlocks, SourceKey};

/// What a process knows of the mirror of one source.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) id: SourceId,
    pub(super) name: MirrorName,
    pub(super) blocks: SourceBlocks,
    pub(super) files: ArcSwapOption<MirrorFiles>,
    /// Held by the thread that finds or makes the mirror, or gives a block up.
    pub(super) finding: Mutex<()>,
    sealed: Mutex<Option<Arc<SealedFile>>>,
    /// When the seal was last looked at, in milliseconds; 0 when it never was.
    pub(super) looked_ms: AtomicU64,
    /// How often the mirror was not what it seemed.
    pub(super) wrong_times: AtomicU32,
    /// Pieces read: one in some hundred counts as a use.
    pub(super) reads: AtomicU64,
    pub(super) touched_s: AtomicU64,
    pub(super) is_settling: AtomicBool,
}

/// The bytes of a mirror that is complete and sealed, read as one file.
#[derive(Debug)]
pub(super) struct SealedFile {
    pub(super) source: Arc<dyn Source>,
    /// Tells its file from those of all mirrors that had its name before.
    pub(super) nonce: u64,
    /// The file is unchanged while it has these.
    pub(super) facts: FileFacts,
    /// The mirror was removed after it was sealed.
    pub(super) is_gone: AtomicBool,
}

impl Mirror {
    pub(super) fn new(id: SourceId, blocks: SourceBlocks) -> Arc<Self> {
        Arc::new(Self {
            name: MirrorName { key: SourceKey::of(&id), block_len: blocks.block_len() },
            id,
            blocks,
            files: ArcSwapOption::empty(),
            finding: Mutex::default(),
            sealed: Mutex::default(),
            looked_ms: AtomicU64::new(0),
            wrong_times: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            touched_s: AtomicU64::new(0),
            is_settling: AtomicBool::new(false),
        })
    }

    /// Forgets all that was known: the mirror was removed.
    pub(super) fn forget(&self) {
        self.files.store(None);
        if let Some(sealed) = self.lock_sealed().take() {
            sealed.is_gone.store(true, Relaxed);
        }
        self.looked_ms.store(0, Relaxed);
    }

    pub(super) fn lock_sealed(&self) -> MutexGuard<'_, Option<Arc<SealedFile>>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when it is read as one file.
    pub(super) fn is_sealed(&self) -> bool {
        self.lock_sealed().is_some()
    }
}
