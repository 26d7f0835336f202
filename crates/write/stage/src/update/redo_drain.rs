//! How what is pending for an updated file gets into its destination.

use std::{
    sync::{Arc, MutexGuard},
    time::{Duration, Instant},
};

use forebay_process::{Error, Result};
use forebay_scratch::disk;

use crate::{
    area::{
        counters::count,
        drainers::{DrainTask, Job, LOCKED_PAUSE, Polled},
        settings::DrainSync,
        status::ItemState,
    },
    on_disk::item_name::WantedFile,
    update::{
        batch::{BATCH_BYTES, DrainBatch, MergedRun, Truncation},
        memory_map::{MOST_PIECES, write_pieces},
        pending::{PendingMap, PendingPiece},
        redo_state::{RedoInner, RedoState},
    },
};

/// A drain begins before a batch is full when nothing was written for this long: a program that computes now will not add to it soon.
const QUIET: Duration = Duration::from_millis(20);
/// Or when something waits for this long.
const OLDEST: Duration = Duration::from_secs(1);

impl DrainTask for RedoState {
    fn is_for(&self, file: &WantedFile) -> bool {
        file.is(&self.opened)
    }

    fn state(&self) -> ItemState {
        let inner = self.lock();
        match (&inner.failure, inner.is_closed) {
            (Some(_), _) => ItemState::Failed,
            (None, true) => ItemState::Draining,
            (None, false) => ItemState::Open,
        }
    }

    fn priority(&self) -> i32 {
        self.options.priority
    }

    fn poll(self: Arc<Self>, now: Instant, is_paused: bool) -> Polled {
        let Some(mut inner) = self.try_lock() else { return Polled::At(now + LOCKED_PAUSE) };
        if inner.is_drained() {
            return Polled::Settled;
        }
        if is_paused && inner.waiting == 0 {
            return Polled::Idle;
        }
        self.next(&mut inner, now)
    }

    fn pending_bytes(&self) -> u64 {
        self.lock().pending.bytes()
    }

    fn is_settled(&self) -> bool {
        self.lock().is_drained()
    }

    fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    fn hurry(&self) {
        let mut inner = self.lock();
        inner.is_hasty = true;
        inner.failure = None;
        self.tell_waiting(&mut inner);
    }

    fn give_up(&self) {
        let mut inner = self.lock();
        while let Some(batch) = inner.closed_batch() {
            batch.jobs.clear();
            if batch.running == 0 && !batch.is_truncating && !batch.is_finishing {
                inner.batch = None;
            } else {
                inner = self.wait(inner);
            }
        }
        if inner.is_closed {
            inner.pending = PendingMap::default();
            (inner.truncation, inner.zero_from, inner.failure) = (None, None, None);
            self.remove(&mut inner);
        }
    }
}

impl RedoState {
    /// What to do next for this file.
    fn next(self: &Arc<Self>, inner: &mut RedoInner, now: Instant) -> Polled {
        if inner.batch.is_none() {
            if inner.failure.is_some() || inner.is_drained() {
                return Polled::Idle;
            }
            let begins = if inner.waiting > 0 || inner.is_hasty || inner.pending.bytes() >= BATCH_BYTES {
                now
            } else {
                (inner.last_write + QUIET).min(inner.first_pending + OLDEST)
            };
            if begins > now {
                return Polled::At(begins);
            }
            if let Err(error) = self.begin(inner) {
                self.refuse(inner, error);
            }
        }
        let Some(batch) = &mut inner.batch else { return Polled::Idle };
        if batch.is_finishing || batch.is_truncating {
            return Polled::Busy;
        }
        let state = Arc::clone(self);
        if batch.is_done() {
            batch.is_finishing = true;
            return Polled::Run(Box::new(move |_| state.finish()));
        }
        if batch.error.is_some() {
            return Polled::Busy;
        }
        if let Some(truncation) = batch.truncation {
            batch.is_truncating = true;
            return Polled::Run(Box::new(move |_| state.truncate_destination(truncation)));
        }
        match batch.jobs.pop_front() {
            Some(job) => {
                batch.running += 1;
                Polled::Run(Box::new(move |buffer| state.write_runs(job, buffer)))
            }
            None => Polled::Busy,
        }
    }

    fn begin(&self, inner: &mut RedoInner) -> Result<()> {
        self.activate(inner)?;
        let truncation = inner.truncation.take();
        let bytes = if truncation.is_some() { u64::MAX } else { BATCH_BYTES };
        let (number, base) = inner.log.through(bytes).unwrap_or((u32::MAX, inner.log.next_sequence()));
        let pieces = inner.pending.through(number);
        inner.batch = Some(DrainBatch::new(pieces, base, truncation, self.shared.run_bytes as u64));
        Ok(())
    }

    fn truncate_destination(self: &Arc<Self>, truncation: Truncation) {
        let cut = || -> Result<()> {
            disk::set_len(&*self.file, truncation.cut).map_err(|error| self.at(error))?;
            disk::set_len(&*self.file, truncation.len).map_err(|error| self.at(error))
        };
        let cut = self.shared.write_to_destination(0, cut);
        let mut inner = self.lock();
        if let Some(batch) = &mut inner.batch {
            batch.is_truncating = false;
            match cut {
                Ok(()) => batch.truncation = None,
                Err(error) => batch.error = Some(error),
            }
            // Later truncations are not in this batch.
            if batch.truncation.is_none() {
                inner.zero_from = inner.truncation.map(|truncation| truncation.cut);
            }
        }
        drop(inner);
        self.changed.notify_all();
    }

    fn write_runs(self: &Arc<Self>, job: Vec<MergedRun>, buffer: &mut Vec<u8>) {
        let written = job.iter().try_for_each(|run| self.write_run(run, buffer));
        // Before it counts as done: segments that nothing refers to are used again.
        drop(job);
        let mut inner = self.lock();
        let mut is_done = false;
        if let Some(batch) = &mut inner.batch {
            batch.running -= 1;
            if let Err(error) = written {
                batch.error.get_or_insert(error);
            }
            is_done = batch.is_done();
            batch.is_finishing = is_done;
        }
        drop(inner);
        if is_done {
            self.finish();
        } else {
            self.changed.notify_all();
        }
    }

    /// Writes pieces that lie side by side as one.
    fn write_run(&self, run: &[PendingPiece], buffer: &mut Vec<u8>) -> Result<()> {
        let Some(first) = run.first() else { return Ok(()) };
        let len: u64 = run.iter().map(PendingPiece::len).sum();
        let maps: Option<Vec<_>> =
            run.iter().map(|piece| Some((piece.segment.memory()?, piece.position, piece.len()))).collect();
        let written = match maps.filter(|maps| maps.len() <= MOST_PIECES) {
            Some(maps) => {
                self.shared.write_to_destination(len, || write_pieces(&self.file, first.start, &maps))
            }
            None => self.write_copied(run, (first.start, len), buffer),
        };
        written.map_err(|error| self.destination_error(error).at(format!("byte {}", first.start)))?;
        count(&self.shared.counters.drain_writes, 1);
        count(&self.shared.counters.drained_bytes, len);
        Ok(())
    }

    /// Writes pieces by way of a buffer: what lies in files, and more small pieces of memory than one call takes.
    fn write_copied(
        &self,
        run: &[PendingPiece],
        (start, len): (u64, u64),
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        buffer.resize(usize::try_from(len).unwrap_or(0), 0);
        let mut rest = buffer.as_mut_slice();
        for piece in run {
            let (own, after) = rest.split_at_mut(usize::try_from(piece.len()).unwrap_or(0));
            piece.segment.read(piece.position, own)?;
            rest = after;
        }
        let write = || disk::write_all_at(&*self.file, buffer, start);
        self.shared.write_to_destination(len, write).map_err(Error::from_io)
    }

    /// Ends the batch: what it wrote is synced where that was promised, and forgotten.
    fn finish(self: &Arc<Self>) {
        let mut inner = self.lock();
        let error = inner.batch.as_mut().and_then(|batch| batch.error.take());
        let base = inner.batch.as_ref().map_or(0, |batch| batch.base);
        let mut is_synced = false;
        let mut ended = error.map_or(Ok(()), Err);
        // A flush may promise something while the destination is being synced: then it is synced again.
        while ended.is_ok() && !is_synced {
            let is_promised = inner.marked >= inner.base;
            if !is_promised && self.options.sync == DrainSync::Written {
                break;
            }
            drop(inner);
            ended = self.sync_destination();
            if is_promised {
                // What replaced promised bytes has to be as safe as they were, before they are forgotten.
                ended = ended.and_then(|()| self.mark(self.lock(), base));
            }
            inner = self.lock();
            is_synced = is_promised || inner.marked < inner.base;
        }
        // Nobody will close the file after this but the drop of its descriptor.
        if ended.is_ok() && inner.is_closed {
            drop(inner);
            ended = self.close_error();
            inner = self.lock();
        }
        let Some(batch) = inner.batch.take() else { return };
        match ended {
            Ok(()) => self.forget(&mut inner, batch, is_synced),
            Err(error) => self.fail(&mut inner, &batch, error),
        }
        drop(inner);
        self.changed.notify_all();
    }

    fn forget(&self, inner: &mut RedoInner, batch: DrainBatch, is_synced: bool) {
        for piece in &batch.pieces {
            inner.pending.remove(piece);
        }
        let merged = (batch.pieces.len() as u64).saturating_sub(batch.run_count);
        count(&self.shared.counters.merged_writes, merged);
        // Marks, and writes that were cut off again, reach no destination.
        inner.base = if inner.is_drained() { inner.log.next_sequence() } else { batch.base };
        drop(batch);
        inner.is_dirty |= !is_synced;
        inner.first_pending = Instant::now();
        inner.is_hasty &= !inner.is_drained();
        self.tell_waiting(inner);
        self.settle_facts(inner);
        self.trim(inner);
        if inner.is_closed && inner.is_drained() {
            self.remove(inner);
        }
    }

    fn fail(&self, inner: &mut RedoInner, batch: &DrainBatch, error: Error) {
        // What was not cut yet is cut with the next batch, before later lengths.
        if let Some(before) = batch.truncation {
            let len = inner.truncation.map_or(before.len, |later| later.len);
            let cut = inner.truncation.map_or(before.cut, |later| later.cut.min(before.cut));
            inner.truncation = Some(Truncation { cut, len });
        }
        // Before the change of the destination counts as ended: a new file that is to replace it goes behind what is left of the log.
        self.refuse(inner, error);
        self.settle_facts(inner);
    }

    /// Keeps what is pending until it is tried again.
    fn refuse(&self, inner: &mut RedoInner, error: Error) {
        count(&self.shared.counters.failures, 1);
        inner.failure = Some(error);
        inner.is_hasty = false;
        self.tell_waiting(inner);
        self.tell_state(inner, ItemState::Failed);
    }

    /// Drains all that was accepted so far, with the calling thread's help; the error of the destination where it refuses.
    pub(crate) fn drain_all<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, RedoInner>,
    ) -> Result<MutexGuard<'a, RedoInner>> {
        let target = inner.log.next_sequence();
        let mut buffer = Vec::new();
        let was_failed = inner.failure.take().is_some();
        self.tell_waiting(&mut inner);
        inner.waiting += 1;
        let ended = loop {
            if inner.is_drained() || (inner.base >= target && inner.batch.is_none()) {
                break Ok(());
            }
            if let Some(error) = &inner.failure {
                break Err(error.clone());
            }
            match self.next(&mut inner, Instant::now()) {
                Polled::Run(job) => inner = self.run(inner, job, &mut buffer),
                _ => inner = self.wait(inner),
            }
        };
        inner.waiting -= 1;
        if inner.is_drained() && inner.base < inner.log.next_sequence() {
            // Marks, and writes that were cut off again, are all that is left.
            inner.base = inner.log.next_sequence();
            self.settle_facts(&mut inner);
            self.trim(&mut inner);
        }
        if was_failed && ended.is_ok() {
            self.tell_state(&inner, ItemState::Open);
        }
        ended.map(|()| inner)
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        inner: MutexGuard<'a, RedoInner>,
        job: Job,
        buffer: &mut Vec<u8>,
    ) -> MutexGuard<'a, RedoInner> {
        drop(inner);
        job(buffer);
        self.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::{
        drainers::DrainShared,
        room::ProcessRoom,
        settings::{AreaSettings, StageOptions},
    };

    #[test]
    fn a_file_that_a_thread_has_does_not_hold_up_the_others() {
        let settings = AreaSettings { drainers: 0, ..AreaSettings::memory() };
        let shared = Arc::new(DrainShared::new(ProcessRoom::open(&settings), &settings));
        let file = tempfile::NamedTempFile::new().unwrap();
        let opened = Arc::new(file.reopen().unwrap());
        let parts = (file.path().to_owned(), opened, StageOptions::default());
        let state = RedoState::new(shared, parts.0, parts.1, parts.2, Default::default(), true).unwrap();
        state.write(0, b"bytes").unwrap();
        let held = state.lock();
        let polled = Arc::clone(&state).poll(Instant::now(), false);
        assert!(matches!(polled, Polled::At(_)), "it is looked at again, and not waited for");
        drop(held);
        state.drain().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"bytes");
    }
}
