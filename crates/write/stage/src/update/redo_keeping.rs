//! What the area keeps of an updated file besides its log: the journal and the facts.

use forebay_process::{Error, Result};

use crate::{
    area::status::{ItemKind, ItemState},
    on_disk::{
        facts_file::{DestinationFacts, FactsFile},
        journal::Journal,
        stamp::FileStamp,
    },
    update::redo_state::{RedoInner, RedoState, facts_name},
};

impl RedoState {
    /// Has the journal and the facts in place before the first record is.
    pub(crate) fn make_journal(&self, inner: &mut RedoInner) -> Result<()> {
        if inner.is_journalled {
            let is_active = inner.passing > 0;
            return if inner.is_unsaid { self.write_facts(inner, is_active) } else { Ok(()) };
        }
        if self.facts.get().is_none() {
            let file = self.shared.room.create(&facts_name(&self.id))?;
            let _ = self.facts.set(FactsFile::new(file));
        }
        self.write_facts(inner, false)?;
        self.shared.room.write_journal(&self.id, &self.journal(inner, ItemState::Open), false)?;
        inner.is_journalled = true;
        Ok(())
    }

    pub(crate) fn journal(&self, inner: &RedoInner, state: ItemState) -> Journal {
        let mut journal = Journal::new(ItemKind::Update, &self.destination, self.shared.room.boot());
        journal.state = state;
        journal.created_ns = self.created_ns;
        journal.priority = self.options.priority;
        journal.log = inner.log.log();
        journal.is_shared = self.options.is_shared;
        journal.error = inner.failure.as_ref().map(ToString::to_string);
        journal
    }

    /// Says in the journal how far the item is; a journal that was synced is replaced by one that is.
    pub(crate) fn tell_state(&self, inner: &RedoInner, state: ItemState) {
        if inner.is_journalled {
            let _ = self.shared.room.write_journal(&self.id, &self.journal(inner, state), inner.marked > 0);
        }
    }

    /// Says that the destination is about to change by us, before it does. Where that cannot be said, it must not change: after a kill
    /// `recover` would take the change for one by others, unless the log has nothing to replay.
    ///
    /// Where others have changed it meanwhile, that is kept in mind: after a kill `recover` asks, as it cannot tell what of
    /// the destination is whose.
    pub(crate) fn activate(&self, inner: &mut RedoInner) -> Result<()> {
        if inner.is_active || !inner.is_journalled {
            inner.change.get_or_insert_with(|| self.shared.changes.begin(&self.destination));
            return Ok(());
        }
        let now = FileStamp::of(&*self.file).ok();
        let is_changed =
            !self.options.is_shared && now.is_some() && inner.known.is_some() && inner.known != now;
        inner.is_foreign |= is_changed;
        let said = self.write_facts(inner, true);
        inner.is_active = said.is_ok();
        let is_empty = inner.written.is_some_and(|written| written.base >= inner.log.next_sequence());
        if !is_empty {
            said.map_err(|error| self.destination_error(error))?;
        } else if said.is_err() {
            inner.is_unsaid = true;
        }
        inner.change.get_or_insert_with(|| self.shared.changes.begin(&self.destination));
        Ok(())
    }

    /// Has new files that are to replace the destination wait for what is still to come, from a failure or the close of the file on.
    pub(crate) fn tell_waiting(&self, inner: &mut RedoInner) {
        if inner.is_drained() {
            inner.waited_for = None;
        } else if inner.is_closed || inner.failure.is_some() || inner.waited_for.is_some() {
            let begin = || self.shared.changes.wait_for(&self.destination, self.opened);
            let waited_for = inner.waited_for.get_or_insert_with(begin);
            waited_for.set_failure(inner.failure.clone());
        }
    }

    /// Says what the destination looks like, now that nothing is being written to it.
    pub(crate) fn settle_facts(&self, inner: &mut RedoInner) {
        // Nothing is left that could be written over what others changed.
        inner.is_foreign &= !inner.is_drained();
        let (before, is_active) = (inner.known, inner.passing > 0);
        if inner.is_journalled && self.write_facts(inner, is_active).is_ok() {
            inner.is_active = is_active;
        }
        if let (Some(before), Some(after)) = (before, inner.known)
            && before != after
        {
            self.shared.changed_by_us(&before, after);
        }
        // Only now: new files that wait for the end of the change know the new stamp by then.
        if inner.passing == 0 {
            inner.change = None;
        }
    }

    /// Tells new files that are to replace this one what a write past the log has made of it, unless more are on their way.
    pub(crate) fn end_direct_change(&self, inner: &mut RedoInner, before: Option<FileStamp>) {
        if inner.passing > 0 || inner.batch.is_some() {
            return;
        }
        if let (Some(before), Ok(after)) = (inner.known.or(before), FileStamp::of(&*self.file)) {
            self.shared.changed_by_us(&before, after);
            inner.known = Some(after);
        }
        inner.change = None;
    }

    fn write_facts(&self, inner: &mut RedoInner, is_active: bool) -> Result<()> {
        let stamp = FileStamp::of(&*self.file)?;
        let (base, is_foreign) = (inner.base, inner.is_foreign);
        let (pending_bytes, promised) = (inner.pending.bytes(), inner.promised);
        let facts = DestinationFacts { stamp, is_active, is_foreign, base, pending_bytes, promised };
        self.keep_facts(inner, facts)?;
        (inner.known, inner.is_unsaid) = (Some(stamp), false);
        Ok(())
    }

    fn keep_facts(&self, inner: &mut RedoInner, facts: DestinationFacts) -> Result<()> {
        let at = |error: Error| error.at(facts_name(&self.id));
        self.facts.get().map_or(Ok(()), |file| file.write(&facts)).map_err(at)?;
        inner.written = Some(facts);
        Ok(())
    }

    /// Says in the facts that the records up to `sequence` are promised, now that they are synced in the log: `recover` refuses a log that
    /// has lost some. The destination may be changing, so nothing else is said of it.
    pub(crate) fn promise(&self, sequence: u64) -> Result<()> {
        let mut inner = self.lock();
        let Some(written) = inner.written.filter(|written| written.promised < sequence) else {
            return Ok(());
        };
        self.keep_facts(&mut inner, DestinationFacts { promised: sequence, ..written })?;
        inner.promised = sequence;
        Ok(())
    }

    /// Forgets the log as far as it is drained, once the facts know how far that is.
    pub(crate) fn trim(&self, inner: &mut RedoInner) {
        if self.keep_base(inner).is_ok() {
            self.trim_log(inner);
        }
    }

    /// Has the facts say how far the destination is, as safely as the log does that is about to be forgotten.
    fn keep_base(&self, inner: &mut RedoInner) -> Result<()> {
        let (base, mark) = (inner.base, inner.marked);
        if let Some(written) = inner.written.filter(|written| inner.is_journalled && written.base < base) {
            self.keep_facts(inner, DestinationFacts { base, ..written })?;
        }
        // With its last mark a log forgets how far the destination is synced.
        if mark > inner.forgotten_mark && mark < base {
            self.facts.get().map_or(Ok(()), FactsFile::sync)?;
            inner.forgotten_mark = mark;
        }
        Ok(())
    }

    fn trim_log(&self, inner: &mut RedoInner) {
        inner.log.trim(inner.base, &self.shared.room, &self.shared.pool);
        if inner.log.is_empty() {
            inner.logged.clear();
        }
    }

    /// Removes the item, all of which is in the destination.
    pub(crate) fn remove(&self, inner: &mut RedoInner) {
        inner.base = inner.log.next_sequence();
        // A journal that cannot be removed, or that a power loss brings back, finds facts that ask for nothing of the log.
        let _ = self.keep_base(inner);
        // Drainers may have the descriptor a moment longer, and who opens the file next would find it locked.
        if inner.is_closed && self.has_lock {
            let _no_locks = rustix::fs::flock(&*self.file, rustix::fs::FlockOperation::Unlock);
        }
        inner.waited_for = None;
        if std::mem::take(&mut inner.is_journalled) {
            let (room, facts) = (&self.shared.room, facts_name(&self.id));
            if self.shared.note_expected() {
                room.remove_item(&self.id, &facts);
            } else {
                room.remove_later(&self.id, &facts);
            }
        }
        self.trim_log(inner);
    }
}
