//! How a new file gets from the area to its destination: staged, copied, verified, published.

use std::{
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::disk;
use rustix::io::Errno;

use crate::{
    area::{
        counters::count,
        drainers::{DrainTask, LOCKED_PAUSE, Polled},
        status::ItemState,
    },
    create::{
        destination_changes::UpdateBefore,
        image_manifest::ImageSums,
        image_state::{ImageInner, ImagePhase, ImageState, create_temporary},
        image_sums::{complete, of_stretch, read_verified, renew_dress, stretches, sums_of},
        lineage::Successor,
        pointer,
        publication::{self, PublishOrder, PublishTurn},
    },
    on_disk::{item_name::WantedFile, journal::Journal, stamp::FileStamp},
    recover::survey::DRAIN_TRIES_AGAIN,
};

/// How often a file looks whether the one before it for the same destination is published.
const TURN_PAUSE: Duration = Duration::from_millis(20);
/// How often a destination that seems to be changed by others is looked at: updates of this process may begin and end in between.
const LOOKS: usize = 3;

/// What became of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publishing {
    /// The file is in its place, or a later one is.
    Done,
    /// The destination is being changed by an update of this process: to be tried again.
    Later,
}

impl DrainTask for ImageState {
    fn expect_also(&self, before: &FileStamp, after: FileStamp) {
        if self.lock().journal.expected.contains(&Some(*before)) {
            self.expect(after);
        }
    }

    fn note_expected(&self) -> bool {
        let mut inner = self.lock();
        inner.is_stale = inner.is_stale && self.write_journal(&inner, true).is_err();
        !inner.is_stale
    }

    fn is_for(&self, file: &WantedFile) -> bool {
        if file.path.file_name() != Some(self.place.name().as_os_str()) {
            return false;
        }
        let directory = self.lock().journal.directory;
        // Where its directory was removed, it goes to the one that has the path by then.
        file.is_new(&self.destination, directory.as_ref())
            || self.destination == file.path && self.place.is_removed().is_ok_and(|is_removed| is_removed)
    }

    fn state(&self) -> ItemState {
        let inner = self.lock();
        match inner.phase {
            _ if inner.failure.is_some() => ItemState::Failed,
            ImagePhase::Open => ItemState::Open,
            ImagePhase::Sealed | ImagePhase::Staging | ImagePhase::Staged => ItemState::Sealed,
            ImagePhase::Working | ImagePhase::Copying => ItemState::Draining,
            ImagePhase::Settled => ItemState::Settled,
        }
    }

    fn sealed_ns(&self) -> u64 {
        self.lock().journal.sealed_ns
    }

    fn priority(&self) -> i32 {
        self.options.priority
    }

    fn poll(self: Arc<Self>, now: Instant, is_paused: bool) -> Polled {
        let Some(mut inner) = self.try_lock() else { return Polled::At(now + LOCKED_PAUSE) };
        let state = Arc::clone(&self);
        match inner.phase {
            ImagePhase::Open | ImagePhase::Settled => Polled::Settled,
            ImagePhase::Staging | ImagePhase::Working => Polled::Busy,
            _ if inner.is_lost && self.lineage.has_later(inner.journal.sealed_ns) => {
                inner.phase = ImagePhase::Working;
                Polled::Run(Box::new(move |_| state.forget(&mut state.lock())))
            }
            _ if inner.failure.is_some() => Polled::Idle,
            ImagePhase::Sealed => {
                inner.phase = ImagePhase::Staging;
                Polled::Run(Box::new(move |_| state.stage()))
            }
            _ if is_paused => Polled::Idle,
            ImagePhase::Staged if !self.lineage.is_first(&self.id) => {
                if let Some(error) = self.lineage.failure() {
                    self.durable.set(Err(error.clone()));
                    inner.failure = Some(error);
                    return Polled::Idle;
                }
                Polled::At(now + TURN_PAUSE)
            }
            ImagePhase::Staged if self.shared.changes.has(&self.destination) => Polled::At(now + TURN_PAUSE),
            ImagePhase::Staged => {
                match self.shared.changes.update_before(&self.destination, &inner.journal.expected) {
                    UpdateBefore::None => {}
                    UpdateBefore::Waits => return Polled::At(now + TURN_PAUSE),
                    UpdateBefore::Failed(error) => {
                        self.durable.set(Err(error.clone()));
                        inner.failure = Some(error);
                        return Polled::Idle;
                    }
                }
                inner.phase = ImagePhase::Working;
                Polled::Run(Box::new(move |_| state.prepare()))
            }
            ImagePhase::Copying => match inner.jobs.pop_front() {
                Some(job) => {
                    inner.running += 1;
                    Polled::Run(Box::new(move |buffer| state.copy(job, buffer)))
                }
                None => Polled::Busy,
            },
        }
    }

    fn pending_bytes(&self) -> u64 {
        let inner = self.lock();
        let is_settled = inner.phase == ImagePhase::Settled;
        if is_settled { 0 } else { inner.held.bytes().saturating_sub(inner.copied) }
    }

    fn is_settled(&self) -> bool {
        matches!(self.lock().phase, ImagePhase::Settled | ImagePhase::Open)
    }

    fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    fn hurry(&self) {
        let mut inner = self.lock();
        if !inner.is_lost {
            inner.failure = None;
        }
        drop(inner);
        // Files behind one that failed are tried again with it, whichever of them comes first.
        self.lineage.set_failure(None);
    }

    fn give_up(&self) {
        let mut inner = self.lock();
        let rests = matches!(inner.phase, ImagePhase::Sealed | ImagePhase::Staged);
        if rests && inner.failure.is_some() {
            self.forget(&mut inner);
            drop(inner);
            self.lineage.leave(&self.id);
        }
    }
}

impl ImageState {
    /// Syncs image and manifest in the area.
    fn stage(&self) {
        let (len, held, temporary) = {
            let inner = self.lock();
            (inner.len, inner.held.clone(), inner.temporary.clone())
        };
        let sync = || -> Result<()> {
            if let Some(image) = &self.image {
                disk::sync_data(image).map_err(Error::from_io)?;
            }
            if let Some(temporary) = &temporary {
                disk::sync_data(&**temporary).map_err(Error::from_io)?;
                self.place.sync_directory()?;
            }
            Ok(())
        };
        let synced = sync();
        let is_lost = synced.is_err();
        let sums = synced.and_then(|()| sums_of(self.image.as_ref(), len, &held));
        // Should it fail once more, the drain looks.
        let _ = self.see_destination();
        let mut inner = self.lock();
        match sums {
            Ok(sums) => {
                inner.journal.image = Some(sums);
                inner.journal.state = ItemState::Sealed;
                inner.journal.passed = inner.passed.ranges();
                inner.phase = ImagePhase::Staged;
                // Without a journal, as in an area that has no room or cannot be used, it is staged when it is durable.
                let is_synced = inner.is_journalled && self.write_journal(&inner, true).is_ok();
                let room = &self.shared.room;
                let is_staged = if room.is_memory() { room.holds_memory() } else { is_synced };
                drop(inner);
                if is_staged {
                    self.staged.set(Ok(()));
                }
            }
            Err(error) => {
                let hint = "the disk may have lost any of its bytes: write the file again";
                let error = self.at(if is_lost { error.hint(hint) } else { error });
                inner.phase = ImagePhase::Sealed;
                inner.failure = Some(error.clone());
                inner.is_lost = is_lost;
                if is_lost {
                    inner.journal.state = ItemState::Failed;
                    inner.journal.error = Some(error.to_string());
                    let _ = self.write_journal(&inner, false);
                }
                drop(inner);
                // Those behind it would wait for it.
                if is_lost {
                    self.lineage.yield_turn(&self.id);
                } else {
                    self.lineage.set_failure(Some(error.clone()));
                }
                self.staged.set(Err(error.clone()));
                self.durable.set(Err(error));
            }
        }
    }

    /// Has the file go to the directory that has the path by now, if the one that it was opened in was removed.
    fn renew_directory(&self) -> Result<()> {
        match self.place.renew() {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.lock().journal.directory = Some(self.place.directory_stamp()?);
                Ok(())
            }
            Err(error) => {
                // It was removed: `recover` takes the one that has the path by then.
                if error.kind() == ErrorKind::NotFound {
                    self.lock().journal.directory = None;
                }
                Err(error)
            }
        }
    }

    /// Makes the temporary file, and the jobs that fill it.
    fn prepare(&self) {
        if let Err(error) = self.renew_directory().and_then(|()| self.see_destination()) {
            let error = self.at(error);
            return self.fail(&mut self.lock(), error);
        }
        let (journal, is_renamed) = {
            let inner = self.lock();
            (inner.journal.clone(), inner.is_renamed)
        };
        // An earlier try failed behind the rename: what has its place is not touched again, whoever put it there since.
        if is_renamed || journal.is_published(&self.place).is_ok_and(|is_published| is_published) {
            // Where a hard link gave the file its name, the other name may be left.
            let removed = journal.temporary().map_or(Ok(()), |name| self.place.remove(name));
            let synced = removed.and_then(|()| self.place.sync_directory());
            let finished = synced.and_then(|()| self.point(&journal));
            return self.conclude(finished);
        }
        let mut inner = self.lock();
        inner.journal.state = ItemState::Draining;
        inner.journal.error = None;
        self.lineage.set_failure(None);
        let mut temporary = inner.temporary.clone().map(Ok);
        if temporary.is_none() {
            // Others see in it that the file is on its way: its name is in the journal that is there.
            let _ = self.write_journal(&inner, true);
            drop(inner);
            // A destination that is slow must not hold up who looks at this file meanwhile.
            let name = journal.temporary().unwrap_or_default();
            let made = create_temporary(&self.place, name, journal.new_mode()).map(Arc::new);
            temporary = Some(made.map_err(|error| self.at(error)));
            inner = self.lock();
        }
        match temporary.unwrap_or_else(|| Err(Error::new(ErrorKind::Bug, "no temporary file"))) {
            Ok(temporary) => {
                inner.temporary = Some(temporary);
                let run_bytes = self.shared.run_bytes as u64;
                let image = inner.journal.image.as_ref();
                let jobs = image.map(|image| stretches(image, run_bytes)).unwrap_or_default();
                inner.jobs = jobs.into();
                inner.copied = 0;
                inner.phase = ImagePhase::Copying;
                // An empty file has nothing to copy.
                if inner.jobs.is_empty() {
                    inner.phase = ImagePhase::Working;
                    drop(inner);
                    self.end();
                }
            }
            Err(error) => self.fail(&mut inner, error),
        }
    }

    fn copy(&self, job: (u64, u64), buffer: &mut Vec<u8>) {
        let (image, temporary) = {
            let inner = self.lock();
            // Part of the manifest is enough for one job, and it is short.
            let image = inner.journal.image.as_ref().map(|image| of_stretch(image, job));
            (image, inner.temporary.clone())
        };
        let copied = match (image, temporary, &self.image) {
            (Some(image), Some(temporary), Some(held)) => {
                read_verified(held, &image, job, buffer, |offset, bytes| {
                    let len = bytes.len() as u64;
                    let write = || disk::write_all_at(&*temporary, bytes, offset);
                    self.shared.write_to_destination(len, write).map_err(Error::from_io)?;
                    count(&self.shared.counters.drain_writes, 1);
                    count(&self.shared.counters.drained_bytes, len);
                    self.lock().copied += len;
                    Ok(())
                })
            }
            _ => Ok(()),
        };
        let mut inner = self.lock();
        inner.running -= 1;
        if let Err(error) = copied {
            inner.error.get_or_insert(error);
            inner.jobs.clear();
        }
        if inner.running == 0 && inner.jobs.is_empty() {
            inner.phase = ImagePhase::Working;
            drop(inner);
            self.end();
        }
    }

    /// Publishes what was copied, or says why not.
    fn end(&self) {
        let mut inner = self.lock();
        if let Some(error) = inner.error.take() {
            let error = self.at(error);
            return self.fail(&mut inner, error);
        }
        let journal = inner.journal.clone();
        let temporary = inner.temporary.clone();
        drop(inner);
        let published = match (&journal.image, &temporary) {
            (Some(image), Some(temporary)) => self.publish(image, temporary),
            _ => Ok(Publishing::Done),
        };
        // Who waits for the file may run it, which the kernel refuses while it is open for writing.
        drop(temporary);
        self.conclude(published);
    }

    fn conclude(&self, published: Result<Publishing>) {
        let mut inner = self.lock();
        match published {
            Ok(Publishing::Later) => inner.phase = ImagePhase::Staged,
            Ok(Publishing::Done) => {
                inner.temporary = None;
                self.remove(&mut inner);
                let sealed_ns = inner.journal.sealed_ns;
                drop(inner);
                self.lineage.leave(&self.id);
                self.lineage.note_published(sealed_ns);
                count(&self.shared.counters.published_files, 1);
                self.staged.set(Ok(()));
                self.durable.set(Ok(()));
                // Last: who waits for all that is not settled finds the file durable.
                self.lock().phase = ImagePhase::Settled;
            }
            Err(error) => {
                let error = self.at(error);
                self.fail(&mut inner, error);
            }
        }
    }

    fn publish(&self, image: &ImageSums, temporary: &File) -> Result<Publishing> {
        let journal = self.lock().journal.clone();
        let Some(name) = journal.temporary() else { return Ok(Publishing::Done) };
        count(&self.shared.counters.destination_syncs, 1);
        let replaced = complete(temporary, image, &self.place, &journal)?;
        let area = self.shared.room.area();
        let turn = PublishTurn::take(area, &self.destination)?;
        let is_new = match self.order()? {
            Some(PublishOrder::Next { is_new }) => is_new,
            Some(PublishOrder::Superseded) => {
                drop(turn);
                self.place.remove(name)?;
                return self.point(&journal);
            }
            Some(PublishOrder::Changed) => return Err(changed_by_others()),
            None => return Ok(Publishing::Later),
        };
        renew_dress(temporary, &self.place, &journal, replaced)?;
        let stamp = FileStamp::of(temporary)?;
        {
            let mut inner = self.lock();
            inner.journal.published = Some(stamp);
            // Should what follows fail after the rename, the next try finds its own file.
            inner.journal.expected.push(Some(stamp));
            if let Err(error) = self.write_journal(&inner, true) {
                // Nothing was promised of a file that is not staged: an area without room for its journal does not hold it up.
                if self.staged.is_set() || !self.shared.room.forget_journal(&self.id) {
                    return Err(error);
                }
                inner.is_journalled = false;
            }
        }
        if !self.lock().is_journalled {
            // No journal is synced, and the names with it: those of earlier versions would be back after a power loss.
            let _ = self.shared.room.sync_names();
        }
        self.lineage.about_to_publish(&self.id, stamp);
        area.map_or(Ok(()), |area| publication::note(area, &self.id, &journal, stamp))?;
        self.place.publish(name, is_new).map_err(|error| match error.raw_os_error() {
            Some(code) if is_new && code == Errno::EXIST.raw_os_error() => changed_by_others(),
            _ => error,
        })?;
        self.lock().is_renamed = true;
        drop(turn);
        self.place.sync_directory()?;
        self.point(&journal)
    }

    /// What is to be done with the file; nothing yet while an update of this process is changing its destination.
    fn order(&self) -> Result<Option<PublishOrder>> {
        let mut order = PublishOrder::Changed;
        // An update may end between the look at the destination and the check for changes: the next look knows its stamp.
        for _ in 0..LOOKS {
            let journal = self.lock().journal.clone();
            order = publication::order(self.shared.room.area(), &self.place, &journal)?;
            if order != PublishOrder::Changed {
                break;
            }
            if self.shared.changes.has(&self.destination) {
                return Ok(None);
            }
        }
        Ok(Some(order))
    }

    fn point(&self, journal: &Journal) -> Result<Publishing> {
        let Some(path) = journal.latest() else { return Ok(Publishing::Done) };
        let beside = self.place.beside(&path);
        let Some(pointer) = beside.as_ref().or(self.pointer.as_ref()) else { return Ok(Publishing::Done) };
        pointer.renew()?;
        let _one = self.shared.point_alone();
        let _turn = PublishTurn::take(self.shared.room.area(), &path)?;
        pointer::point(pointer, &self.place, journal.created_ns)?;
        Ok(Publishing::Done)
    }

    fn fail(&self, inner: &mut ImageInner, error: Error) {
        // The room at the destination is somebody's: what was copied is copied again later.
        if inner.passed.bytes() == 0 {
            let _ = self.remove_temporary(inner);
        }
        let hint = if error.kind() == ErrorKind::Unavailable {
            format!(
                "its bytes stay in the staging area; after this process, 'forebay recover --apply {}' publishes it",
                self.id
            )
        } else {
            format!("its bytes stay in the staging area; {DRAIN_TRIES_AGAIN}")
        };
        let error = error.hint(hint);
        inner.phase = ImagePhase::Staged;
        inner.failure = Some(error.clone());
        inner.journal.state = ItemState::Failed;
        inner.journal.error = Some(error.to_string());
        let _ = self.write_journal(inner, true);
        count(&self.shared.counters.failures, 1);
        if error.kind() == ErrorKind::Unavailable {
            self.lineage.yield_turn(&self.id);
        } else {
            self.lineage.set_failure(Some(error.clone()));
        }
        self.durable.set(Err(error));
    }
}

fn changed_by_others() -> Error {
    Error::new(ErrorKind::Unavailable, "was changed by others before the new file took its place")
}
