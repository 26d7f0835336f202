//! What is known of a file that is updated through a redo log, in the process that has it open.

use std::{
    fs::File,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, atomic::AtomicU64},
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::disk;

use crate::{
    area::{
        counters::count,
        drainers::DrainShared,
        settings::{DrainSync, StageOptions},
        status::ItemState,
    },
    create::destination_changes::{AwaitedUpdate, DestinationChange},
    on_disk::{
        facts_file::{DestinationFacts, FactsFile},
        item_name::update_id,
        log_record::RecordKind,
        stamp::{FileStamp, now_ns},
    },
    range_set::RangeSet,
    update::{
        batch::{DrainBatch, Truncation},
        close_error::close_error,
        pending::PendingMap,
        redo_log::{RedoLog, UnsummedRecords},
    },
};

/// The state of one updated file.
#[derive(Debug)]
pub(crate) struct RedoState {
    pub(crate) shared: Arc<DrainShared>,
    pub(crate) id: String,
    pub(crate) destination: PathBuf,
    /// The file when it was opened: others find it by this, as it may get another name.
    pub(crate) opened: FileStamp,
    pub(crate) file: Arc<File>,
    /// Whether locks of the open file are this process's: a forked child has the same open file, and leaves them alone.
    pub(crate) has_lock: bool,
    /// When it was begun, which says in what order logs of one destination are replayed.
    pub(crate) created_ns: u64,
    pub(crate) options: StageOptions,
    /// The facts of this process, which children that it forks look at.
    pub(crate) facts: Arc<OnceLock<FactsFile>>,
    /// The sequence number after the last accepted record, for the same.
    pub(crate) accepted: Arc<AtomicU64>,
    /// Held by a write from its place in the order until it is accepted, also while it waits for a slow destination.
    pub(crate) order: Mutex<()>,
    inner: Mutex<RedoInner>,
    pub(crate) changed: Condvar,
    _in_use: Arc<()>,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct RedoInner {
    pub(crate) log: RedoLog,
    pub(crate) pending: PendingMap,
    /// Bytes that records in the log are about, drained or not: `recover` would write them again.
    pub(crate) logged: RangeSet,
    pub(crate) truncation: Option<Truncation>,
    /// From here on the destination still has bytes that were cut off.
    pub(crate) zero_from: Option<u64>,
    /// The length that the file has once all is drained, as far as it is known.
    pub(crate) end: Option<u64>,
    pub(crate) batch: Option<DrainBatch>,
    pub(crate) waiting: usize,
    pub(crate) is_hasty: bool,
    pub(crate) first_pending: Instant,
    pub(crate) last_write: Instant,
    pub(crate) failure: Option<Error>,
    /// The first record that is not in the destination.
    pub(crate) base: u64,
    /// Records before this one are synced in the log or in the destination.
    pub(crate) marked: u64,
    /// The last record that the facts say is promised.
    pub(crate) promised: u64,
    /// The facts as they were written last.
    pub(crate) written: Option<DestinationFacts>,
    /// The last mark that the log may have lost.
    pub(crate) forgotten_mark: u64,
    /// Changes of the destination by writes that do not go through the log, at this moment.
    pub(crate) passing: usize,
    /// What the destination looked like when nothing was being written to it by us.
    pub(crate) known: Option<FileStamp>,
    /// Whether others have changed it since, while records wait for it.
    pub(crate) is_foreign: bool,
    /// Whether the destination has bytes that were not synced.
    pub(crate) is_dirty: bool,
    pub(crate) is_journalled: bool,
    pub(crate) is_active: bool,
    /// Whether the destination was changed without a word of it in the facts, while the log had nothing to replay.
    pub(crate) is_unsaid: bool,
    /// Whether the journal is on the disk, with its name.
    pub(crate) is_journal_synced: bool,
    /// Whether a thread gives records their checksums.
    pub(crate) is_summing: bool,
    /// Held while the destination is being changed.
    pub(crate) change: Option<DestinationChange>,
    /// Held while new files that are to replace the destination wait for this update.
    pub(crate) waited_for: Option<AwaitedUpdate>,
    pub(crate) is_closed: bool,
}

/// Waits are looked at again after this time, should a wake-up be missed.
const PAUSE: Duration = Duration::from_millis(50);

/// The name of an update's file of facts.
pub(crate) fn facts_name(id: &str) -> String {
    format!("{id}.facts")
}

impl RedoState {
    pub(crate) fn new(
        shared: Arc<DrainShared>,
        destination: PathBuf,
        file: Arc<File>,
        options: StageOptions,
        (facts, accepted): (Arc<OnceLock<FactsFile>>, Arc<AtomicU64>),
        has_lock: bool,
    ) -> Result<Arc<Self>> {
        let now = Instant::now();
        let inner = RedoInner {
            log: RedoLog::new(),
            pending: PendingMap::default(),
            logged: RangeSet::default(),
            truncation: None,
            zero_from: None,
            end: None,
            batch: None,
            waiting: 0,
            is_hasty: false,
            first_pending: now,
            last_write: now,
            failure: None,
            base: 1,
            marked: 0,
            promised: 0,
            written: None,
            forgotten_mark: 0,
            passing: 0,
            known: None,
            is_foreign: false,
            is_dirty: false,
            is_journalled: false,
            is_active: false,
            is_unsaid: false,
            is_journal_synced: false,
            is_summing: false,
            change: None,
            waited_for: None,
            is_closed: false,
        };
        // Without it, who opens the file again would not find what waits for it.
        let opened = FileStamp::of(&*file).map_err(|error| error.at(destination.display()))?;
        let in_use = Arc::clone(&shared.files);
        Ok(Arc::new(Self {
            shared,
            id: update_id(&opened),
            destination,
            opened,
            file,
            has_lock,
            created_ns: now_ns(),
            options,
            facts,
            accepted,
            order: Mutex::default(),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            _in_use: in_use,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RedoInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless a thread has it at the moment.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, RedoInner>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn wait<'a>(&self, inner: MutexGuard<'a, RedoInner>) -> MutexGuard<'a, RedoInner> {
        self.changed.wait_timeout(inner, PAUSE).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Fills `into` from `offset` on, the newest bytes first.
    pub(crate) fn read(
        &self,
        offset: u64,
        into: &mut [u8],
        beneath: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let end = end_of(offset, into.len())?;
        let (pieces, zero_from) = {
            let inner = self.lock();
            (inner.pending.overlapping(offset, end), inner.zero_from)
        };
        let mut at = offset;
        let mut rest = into;
        let fill = |len: u64, rest: &mut [u8], at: u64| -> Result<()> {
            let zeros_at = zero_from.map_or(len, |from| from.saturating_sub(at).min(len));
            let (below, zeros) = rest.split_at_mut(usize::try_from(zeros_at).unwrap_or(0));
            zeros.fill(0);
            if below.is_empty() { Ok(()) } else { beneath(at, below) }
        };
        for piece in pieces {
            let gap = piece.start - at;
            let (before, after) = rest.split_at_mut(usize::try_from(gap).unwrap_or(0));
            if gap > 0 {
                fill(gap, before, at)?;
            }
            let (own, after) = after.split_at_mut(usize::try_from(piece.len()).unwrap_or(0));
            piece.segment.read(piece.position, own).map_err(|error| error.at(self.destination.display()))?;
            (rest, at) = (after, piece.end);
        }
        if at < end { fill(end - at, rest, at) } else { Ok(()) }
    }

    /// Syncs all that was accepted in the log, behind a mark.
    pub(crate) fn stage(self: &Arc<Self>) -> Result<()> {
        // What lies in memory is lost with the process, synced or not. Without an area all of it is at the destination, and synced there.
        if self.shared.room.is_memory() {
            return Ok(());
        }
        let mut inner = self.lock();
        let is_dirty = std::mem::take(&mut inner.is_dirty);
        let synced = if inner.log.is_empty() {
            drop(inner);
            Ok(())
        } else {
            self.mark(inner, 0)
        };
        if is_dirty {
            self.sync_destination()?;
        }
        match synced {
            // No room for the mark, or a disk that fails: the destination is the safer place.
            Err(_) => {
                drop(self.drain_all(self.lock())?);
                self.sync_destination()
            }
            Ok(()) => Ok(()),
        }
    }

    /// Appends a mark and syncs the log. Records before `base` are synced in the destination: should what the facts say of that
    /// be lost, the mark says so too.
    pub(crate) fn mark<'a>(self: &'a Arc<Self>, inner: MutexGuard<'a, RedoInner>, base: u64) -> Result<()> {
        let mut inner = self.sum_all(inner)?;
        // What a mark promises is found before the mark is: a segment whose name is lost would leave a gap.
        loop {
            let unnamed = inner.log.unnamed();
            if unnamed.is_empty() {
                break;
            }
            drop(inner);
            self.shared.room.sync_names()?;
            unnamed.iter().for_each(|segment| segment.note_name_synced());
            inner = self.sum_all(self.lock())?;
        }
        let tools = (&self.shared.room, &self.shared.pool);
        let mark = inner.log.append(tools, RecordKind::Mark, base, &[])?;
        let unsynced = inner.log.take_unsynced();
        // Drains that end from now on sync the destination before they forget what was promised here.
        inner.marked = mark.sequence;
        let journal = (!inner.is_journal_synced).then(|| self.journal(&inner, ItemState::Open));
        drop(inner);
        let synced = unsynced.iter().try_for_each(|segment| segment.sync()).and_then(|()| {
            self.promise(mark.sequence)?;
            self.facts.get().map_or(Ok(()), FactsFile::sync)?;
            match journal {
                Some(journal) => self.shared.room.write_journal(&self.id, &journal, true),
                None => Ok(()),
            }
        });
        let mut inner = self.lock();
        match &synced {
            Ok(()) => inner.is_journal_synced = true,
            Err(_) => inner.log.forget_syncs(),
        }
        synced
    }

    /// Gives all records their checksums: what a mark promises has them before the mark is there. Others may add records
    /// meanwhile.
    fn sum_all<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, RedoInner>,
    ) -> Result<MutexGuard<'a, RedoInner>> {
        loop {
            // Another thread sums for a mark of its own: this one may promise nothing before it is done.
            while inner.is_summing {
                inner = self.wait(inner);
            }
            let unsummed = inner.log.take_unsummed();
            if unsummed.is_empty() {
                return Ok(inner);
            }
            inner.is_summing = true;
            drop(inner);
            let summed = unsummed.iter().try_for_each(UnsummedRecords::sum);
            inner = self.lock();
            inner.is_summing = false;
            self.changed.notify_all();
            if let Err(error) = summed {
                inner.log.give_back_unsummed(unsummed);
                return Err(error);
            }
            inner.log.note_summed(&unsummed);
        }
    }

    pub(crate) fn sync_destination(&self) -> Result<()> {
        count(&self.shared.counters.destination_syncs, 1);
        disk::sync_data(&*self.file)
            .map_err(|error| self.at(error))
            .inspect_err(|_| self.lock().is_dirty = true)
    }

    /// Returns when all that was accepted is in the destination.
    pub(crate) fn drain(self: &Arc<Self>) -> Result<()> {
        let inner = self.drain_all(self.lock())?;
        let is_dirty = inner.is_dirty && self.options.sync == DrainSync::Synced;
        drop(inner);
        if is_dirty {
            self.sync_destination()?;
            self.lock().is_dirty = false;
        }
        Ok(())
    }

    /// What the file system says of earlier writes when the file is closed.
    pub(crate) fn close_error(&self) -> Result<()> {
        close_error(&self.file).map_err(|error| self.at(error))
    }

    pub(crate) fn at(&self, error: std::io::Error) -> Error {
        self.destination_error(Error::from_io(error))
    }

    /// An error of the destination, with its path and a hint.
    pub(crate) fn destination_error(&self, error: Error) -> Error {
        let is_full = error.kind() == ErrorKind::Full;
        let error = error.at(self.destination.display());
        if is_full {
            error.hint("what was written is kept in the staging area; free some space and try again")
        } else {
            error
        }
    }
}

impl RedoInner {
    /// The batch of an item that is closed.
    pub(crate) fn closed_batch(&mut self) -> Option<&mut DrainBatch> {
        self.batch.as_mut().filter(|_| self.is_closed)
    }

    /// Whether all is in the destination.
    pub(crate) fn is_drained(&self) -> bool {
        self.pending.is_empty() && self.truncation.is_none() && self.batch.is_none()
    }
}

/// The end of `len` bytes at `offset`, which a file can have.
pub(crate) fn end_of(offset: u64, len: usize) -> Result<u64> {
    let end = offset.checked_add(len as u64).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("byte {offset} is beyond what a file can have")))
}
