//! How writes and lengths of an updated file are accepted: into the log, or straight to the destination where that is full.

use std::{
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering::SeqCst},
    time::Instant,
};

use forebay_process::Result;
use forebay_scratch::disk;

use crate::{
    area::counters::count,
    on_disk::{log_record::RecordKind, stamp::FileStamp},
    update::{
        batch::{BATCH_BYTES, Truncation},
        pending::PendingPiece,
        redo_log::Appended,
        redo_state::{RedoInner, RedoState, end_of},
    },
};

/// More ranges than these (about 4 MiB) are kept as the one that has them all: a write that goes straight through then waits
/// for a drain more often.
const MOST_RANGES: usize = 1 << 16;

impl RedoState {
    /// Accepts `bytes` for `offset`: into the log, or straight to the destination where the area is full.
    pub(crate) fn write(self: &Arc<Self>, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = end_of(offset, bytes.len())?;
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.lock();
        if inner.pending.count() >= self.shared.most_pieces {
            return self.pass_through(inner, offset, bytes);
        }
        let appended = self.make_journal(&mut inner).and_then(|()| {
            let tools = (&self.shared.room, &self.shared.pool);
            inner.log.append(tools, RecordKind::Write, offset, bytes)
        });
        let Ok(appended) = appended else { return self.pass_through(inner, offset, bytes) };
        let Appended { segment, number, position, sequence } = appended;
        let was_idle = inner.note_write(offset, end);
        let replaced =
            inner.pending.insert(PendingPiece { start: offset, end, sequence, number, segment, position });
        self.accepted.store(sequence + 1, SeqCst);
        let counters = &self.shared.counters;
        count(&counters.staged_bytes, bytes.len() as u64);
        count(&counters.staged_writes, 1);
        count(&counters.merged_writes, replaced);
        self.announce(inner, was_idle, bytes.len() as u64);
        Ok(())
    }

    fn announce(self: &Arc<Self>, inner: MutexGuard<'_, RedoInner>, was_idle: bool, added: u64) {
        let pending = inner.pending.bytes();
        let is_long = pending >= BATCH_BYTES && pending.saturating_sub(added) < BATCH_BYTES;
        drop(inner);
        if was_idle {
            self.shared.submit(Arc::clone(self) as _);
        } else if is_long {
            self.shared.wake();
        }
    }

    /// Accepts a new length.
    pub(crate) fn truncate(self: &Arc<Self>, len: u64) -> Result<()> {
        end_of(len, 0)?;
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.lock();
        let appended = self.make_journal(&mut inner).and_then(|()| {
            let tools = (&self.shared.room, &self.shared.pool);
            inner.log.append(tools, RecordKind::Truncate, len, &[])
        });
        let Ok(appended) = appended else {
            let inner = self.drain_all(inner)?;
            let cut = || disk::set_len(&*self.file, len).map_err(|error| self.at(error));
            self.change_directly(inner, cut)?.end = Some(len);
            return Ok(());
        };
        inner.pending.cut(len);
        // Replayed, the record cuts off what went straight to the destination since.
        inner.logged.insert(len, u64::try_from(i64::MAX).unwrap_or(u64::MAX));
        inner.truncation = Some(Truncation::then(inner.truncation, len));
        inner.zero_from = Some(inner.zero_from.map_or(len, |from| from.min(len)));
        inner.end = Some(len);
        (inner.first_pending, inner.last_write) = (Instant::now(), Instant::now());
        self.accepted.store(appended.sequence + 1, SeqCst);
        self.announce(inner, true, 0);
        Ok(())
    }

    /// Writes straight to the destination, in order with what is in the log.
    fn pass_through<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, RedoInner>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let end = end_of(offset, bytes.len())?;
        // What the log holds for the same bytes would be written later, by a drainer or by `recover`.
        if inner.zero_from.is_some() || inner.logged.overlaps(offset, end) {
            inner = self.drain_all(inner)?;
        }
        let write = || {
            let mut at = offset;
            // Short enough that each is a sign of life.
            bytes.chunks(self.shared.run_bytes).try_for_each(|part| {
                let written = self.shared.alive_while(|| disk::write_all_at(&*self.file, part, at));
                written.map_err(|error| self.at(error).at(format!("byte {at}")))?;
                at += part.len() as u64;
                Ok(())
            })
        };
        let mut inner = self.change_directly(inner, write)?;
        inner.end = Some(inner.end.unwrap_or(0).max(end));
        drop(inner);
        count(&self.shared.counters.passed_through_bytes, bytes.len() as u64);
        count(&self.shared.counters.passed_through_writes, 1);
        Ok(())
    }

    /// Has `change` change the destination, while no drain of the same bytes goes on; others may look at the file meanwhile.
    fn change_directly<'a>(
        &'a self,
        mut inner: MutexGuard<'a, RedoInner>,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<MutexGuard<'a, RedoInner>> {
        self.activate(&mut inner)?;
        let before = FileStamp::of(&*self.file).ok();
        inner.passing += 1;
        inner.is_dirty = true;
        drop(inner);
        let changed = change();
        let mut inner = self.lock();
        inner.passing -= 1;
        self.end_direct_change(&mut inner, before);
        changed.map(|()| inner)
    }
}

impl RedoInner {
    /// Notes a write to `offset..end`; true where nothing was pending before.
    fn note_write(&mut self, offset: u64, end: u64) -> bool {
        let was_idle = self.pending.is_empty();
        self.last_write = Instant::now();
        if was_idle {
            self.first_pending = self.last_write;
        }
        self.logged.insert(offset, end);
        self.logged.coarsen(MOST_RANGES);
        self.end = Some(self.end.unwrap_or(0).max(end));
        was_idle
    }
}
