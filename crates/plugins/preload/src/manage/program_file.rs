//! A file that a program has open and that is read from a copy, or block by block through the tiers.

#![expect(unsafe_code, reason = "drops a field at a moment of its own")]

use std::{
    mem::ManuallyDrop,
    ops::Deref,
    os::fd::{OwnedFd, RawFd},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

use forebay_process::record_locks::LockSafeFile;
use forebay_scratch::RunCounter;
use forebay_source::{ByteRange, Fill, Source, SourceExt};
use forebay_tier::SourceKey;

use crate::{
    engine::{self, TierEngine, inside, run_counts},
    manage::copy_devices,
    system::kernel::{self, KernelIdentity},
};

/// A file that a program has open, under one number or several.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    /// The origin's file, as it was when it was opened.
    pub(crate) identity: KernelIdentity,
    pub(crate) bytes: ClosedInside<ByteSource>,
    /// True once another descriptor shares its position.
    is_shared: AtomicBool,
    /// Forks before it was opened: after another one a child shares its position.
    forks: u32,
    /// Held from finding the position of a `read` to setting the next one.
    position: Mutex<()>,
}

/// What has descriptors of ours: these are closed as work of ours, on whichever thread and wherever it is dropped.
#[derive(Debug)]
pub(crate) struct ClosedInside<T>(ManuallyDrop<T>);

impl<T> Deref for ClosedInside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for ClosedInside<T> {
    fn drop(&mut self) {
        // SAFETY: it is dropped here and nowhere else, and not used afterwards.
        inside::finish(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

/// Where its bytes come from.
#[derive(Debug)]
pub(crate) enum ByteSource {
    /// The number is open on a copy; the origin's own descriptor is kept for locks and all that is not bytes.
    Copy { copy: KernelIdentity, origin: LockSafeFile },
    /// The number is open on the origin, and bytes come through the tiers.
    Blocks(BlockReader),
}

/// A source that is read through the tiers.
#[derive(Debug)]
pub(crate) struct BlockReader {
    source: Arc<dyn Source>,
    key: SourceKey,
    /// A copy of all of it, once there is one.
    whole: OnceLock<OwnedFd>,
    reads: AtomicU32,
}

/// One read in so many asks whether a tier has all of the file by now.
const READS_PER_LOOK: u32 = 16;

impl ProgramFile {
    pub(crate) fn new(identity: KernelIdentity, bytes: ByteSource) -> Self {
        Self {
            identity,
            bytes: ClosedInside(ManuallyDrop::new(bytes)),
            is_shared: AtomicBool::new(false),
            forks: inside::forks(),
            position: Mutex::new(()),
        }
    }

    /// Notes that another descriptor shares its position.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Relaxed);
    }

    /// True when another descriptor, here or in another process, shares its position: `read` is then the kernel's.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Relaxed) || self.forks != inside::forks()
    }

    /// What `body` gives while no other thread of this process moves the position.
    pub(crate) fn with_position<R>(&self, body: impl FnOnce() -> R) -> R {
        // In a forked child a thread of the parent may hold it for ever.
        let held = (!self.is_shared()).then(|| self.position.lock().unwrap_or_else(PoisonError::into_inner));
        let done = body();
        drop(held);
        done
    }

    /// What reads it through the tiers, where that is how it is read.
    pub(crate) fn blocks(&self) -> Option<&BlockReader> {
        match &*self.bytes {
            ByteSource::Blocks(reader) => Some(reader),
            ByteSource::Copy { .. } => None,
        }
    }

    /// True while `fd` is open on the file that this is about, with the same bytes as far as this machine knows.
    pub(crate) fn is_open_as(&self, fd: RawFd) -> bool {
        match &*self.bytes {
            ByteSource::Copy { copy, .. } => {
                kernel::identity(fd).is_some_and(|found| found.is_same_file(copy))
            }
            ByteSource::Blocks(_) => kernel::identity(fd).is_some_and(|found| found == self.identity),
        }
    }
}

impl BlockReader {
    pub(crate) fn new(source: Arc<dyn Source>, key: SourceKey) -> Self {
        Self { source, key, whole: OnceLock::new(), reads: AtomicU32::new(0) }
    }

    /// The bytes of the file that a read of `len` bytes at `at` gives.
    fn clipped(&self, at: u64, len: usize) -> ByteRange {
        let file_len = self.source.id().len;
        let start = at.min(file_len);
        ByteRange { start, end: start.saturating_add(len as u64).min(file_len) }
    }

    /// Fills `into` from `at` on as far as the file reaches, and says how much that is; nothing where the file has to be asked.
    pub(crate) fn read_at(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        let range = self.clipped(at, into.len());
        let into = &mut into[..usize::try_from(range.len()).ok()?];
        if into.is_empty() {
            return Some(0);
        }
        engine::with(|engine| {
            if self.is_whole(engine) {
                return self.read_whole_at(range.start, into);
            }
            let fill = Fill { range, into: &mut *into };
            if self.source.fetch_into(&mut [fill]).is_err() {
                run_counts::add(RunCounter::Fallbacks, 1);
                return None;
            }
            engine.count_read(range.len());
            Some(into.len())
        })
    }

    /// True once there is a copy of all of it.
    pub(crate) fn has_whole(&self) -> bool {
        self.whole.get().is_some()
    }

    /// The same from the copy of all of it, once there is one: one call of the kernel, no lock.
    pub(crate) fn read_whole_at(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        let copy = self.whole.get()?;
        let range = self.clipped(at, into.len());
        let into = &mut into[..usize::try_from(range.len()).ok()?];
        if kernel::pread(copy, into, range.start)? < into.len() {
            return None;
        }
        for counter in [RunCounter::Reads, RunCounter::TierReads] {
            run_counts::add(counter, 1);
        }
        for counter in [RunCounter::Bytes, RunCounter::TierBytes] {
            run_counts::add(counter, range.len());
        }
        Some(into.len())
    }

    /// True once there is a copy of all of it; it is looked for now and then.
    fn is_whole(&self, engine: &TierEngine) -> bool {
        if self.whole.get().is_none()
            && self.reads.fetch_add(1, Relaxed) % READS_PER_LOOK == READS_PER_LOOK - 1
        {
            self.look(engine);
        }
        self.whole.get().is_some()
    }

    /// Looks whether a tier has all of it by now.
    pub(crate) fn look(&self, engine: &TierEngine) {
        let found = engine.tiers.whole_copy(self.key).and_then(|copy| copy.descriptor());
        let found = found.filter(|copy| {
            kernel::identity(kernel::number(copy)).is_some_and(|found| found.len == self.source.id().len)
        });
        if let Some(copy) = found
            && self.whole.set(copy).is_ok()
        {
            let copy = self.whole.get().and_then(|copy| kernel::identity(kernel::number(copy)));
            copy.inspect(|copy| copy_devices::know(copy.device));
            run_counts::add(RunCounter::PlacedFiles, 1);
        }
    }

    /// The copy of all of it, if there is one by now; else all of it is placed in the background.
    pub(crate) fn whole_or_place(&self) -> Option<&OwnedFd> {
        engine::with(|engine| {
            if self.whole.get().is_none() {
                self.look(engine);
            }
            if self.whole.get().is_none() {
                engine.tiers.place(self.key);
            }
            Some(())
        })?;
        self.whole.get()
    }
}
