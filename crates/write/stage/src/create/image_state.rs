//! What is known of a new file while it is written and drained.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, disk};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{
    area::{
        completion::Completion,
        counters::count,
        drainers::DrainShared,
        settings::StageOptions,
        status::{ItemKind, ItemState},
    },
    create::{
        attributes::NewMode,
        destination::{Destination, temporary_name},
        lineage::{Lineage, Successor},
    },
    on_disk::{
        item_name::create_id,
        journal::Journal,
        stamp::{FileStamp, is_regular, now_ns},
    },
    range_set::RangeSet,
};

/// Room is reserved by so much ahead, to ask for it seldom.
const RESERVE_STEP: u64 = 32 << 20;

/// The state of one new file.
#[derive(Debug)]
pub(crate) struct ImageState {
    pub(crate) shared: Arc<DrainShared>,
    pub(crate) id: String,
    /// The destination's path, for messages and for who looks for the file by it.
    pub(crate) destination: PathBuf,
    pub(crate) place: Destination,
    /// The link to the latest file, where it is in another directory than the file.
    pub(crate) pointer: Option<Destination>,
    pub(crate) options: StageOptions,
    /// Nothing where the area cannot be used: then all goes straight to the destination's folder.
    pub(crate) image: Option<File>,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) staged: Completion,
    pub(crate) durable: Completion,
    inner: Mutex<ImageInner>,
    _in_use: Arc<()>,
}

/// How far the file is; `Working` while one thread does what only one can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImagePhase {
    Open,
    Sealed,
    Staging,
    Staged,
    Working,
    Copying,
    Settled,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct ImageInner {
    pub(crate) journal: Journal,
    /// False where the area has no room for the journal: a killed process then loses the file, and only that. True as long as any journal of
    /// it is there, though the last one could not be written: `recover` goes by what it finds.
    pub(crate) is_journalled: bool,
    /// Whether the journal lacks what the destination may be, as it could not be written.
    pub(crate) is_stale: bool,
    pub(crate) phase: ImagePhase,
    pub(crate) len: u64,
    reserved: u64,
    /// What is in the image.
    pub(crate) held: RangeSet,
    /// What went straight to the temporary file at the destination.
    pub(crate) passed: RangeSet,
    pub(crate) temporary: Option<Arc<File>>,
    pub(crate) jobs: VecDeque<(u64, u64)>,
    pub(crate) running: usize,
    pub(crate) copied: u64,
    /// Whether the destination could not be looked at when the file was sealed: what it was then is not known.
    pub(crate) is_unseen: bool,
    /// Whether a disk may have lost bytes of it: the kernel reports a failed write to the first sync behind it, and to no other.
    pub(crate) is_lost: bool,
    /// Whether the file had its name: who removed it since does not get it back.
    pub(crate) is_renamed: bool,
    pub(crate) error: Option<Error>,
    pub(crate) failure: Option<Error>,
}

impl ImageInner {
    fn new(journal: Journal, is_journalled: bool) -> Self {
        Self {
            journal,
            is_journalled,
            is_stale: false,
            phase: ImagePhase::Open,
            len: 0,
            reserved: 0,
            held: RangeSet::default(),
            passed: RangeSet::default(),
            temporary: None,
            jobs: VecDeque::new(),
            running: 0,
            copied: 0,
            is_unseen: false,
            is_lost: false,
            is_renamed: false,
            error: None,
            failure: None,
        }
    }
}

/// The name of a new file's image.
pub(crate) fn image_name(id: &str) -> String {
    format!("{id}.data")
}

/// Opens the image of item `id`, to be read. An earlier version gave images the modes of the programs that wrote them.
pub(crate) fn open_image(folder: &OwnFolder, id: &str) -> Result<File> {
    let name = image_name(id);
    let at = |error: Error| error.at(folder.path().join(&name).display());
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = disk::open_at(folder.descriptor(), Path::new(&name), flags, Mode::empty());
    let file = File::from(opened.map_err(|error| at(Error::from_io(error)))?);
    if is_regular(&file) {
        Ok(file)
    } else {
        Err(at(Error::new(ErrorKind::Denied, "expected a file of this user")))
    }
}

impl ImageState {
    /// A new file for `destination`, which is resolved and checked.
    pub(crate) fn create(
        shared: Arc<DrainShared>,
        destination: PathBuf,
        options: StageOptions,
        lineage: Arc<Lineage>,
    ) -> Result<Arc<Self>> {
        let place = Destination::open_shared(&destination, &shared.directories)?;
        let directory = place.directory_stamp()?;
        let elsewhere = options.latest.as_deref().filter(|pointer| pointer.parent() != destination.parent());
        let pointer =
            elsewhere.map(|pointer| Destination::open_shared(pointer, &shared.directories)).transpose()?;
        let mode = NewMode::of_process();
        let id = create_id(&destination, &directory);
        let mut journal = Journal::new(ItemKind::Create, &destination, shared.room.boot());
        journal.priority = options.priority;
        (journal.requested_mode, journal.mode) = (mode.requested, mode.masked);
        journal.read_back = options.read_back;
        journal.directory = Some(directory);
        journal.set_latest(options.latest.as_deref());
        journal.is_exclusive = options.is_exclusive;
        // One name for all tries, in the journal from the beginning: whatever fails later, recover knows what to remove.
        let temporary = temporary_name(&destination);
        journal.set_temporary(Some(&temporary));
        let room = &shared.room;
        let image = room.create(&image_name(&id)).ok();
        // Without a journal nothing would lead to the image: all goes straight through.
        let is_journalled = image.is_some() && room.write_journal(&id, &journal, false).is_ok();
        let image = image.filter(|_| is_journalled);
        if !is_journalled {
            room.remove(&image_name(&id));
        }
        if options.is_exclusive {
            // The journal knows the empty file before that takes the name: what a kill leaves is given back, and nothing of others. Where
            // the journal cannot say so, a kill leaves it.
            let note = |claim| {
                journal.claim = Some(claim);
                if is_journalled {
                    let _ = room.write_journal(&id, &journal, false);
                }
            };
            if let Err(error) = place.claim(&temporary, mode.requested, note) {
                room.remove_item(&id, &image_name(&id));
                return Err(error);
            }
        }
        let inner = Mutex::new(ImageInner::new(journal, is_journalled));
        let (staged, durable) = (Completion::new(), Completion::new());
        let in_use = Arc::clone(&shared.files);
        Ok(Arc::new(Self {
            shared,
            id,
            destination,
            place,
            pointer,
            options,
            image,
            lineage,
            staged,
            durable,
            inner,
            _in_use: in_use,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ImageInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless a thread has it at the moment.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ImageInner>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Writes `bytes` at `offset`: to the image, or straight to the destination's folder where the area is full.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| self.at(Error::invalid("is longer than a file can be")))?;
        let mut inner = self.lock();
        self.check_open(&inner)?;
        for (start, until, is_passed) in inner.passed.pieces(offset, end) {
            let piece = part(bytes, offset, start, until);
            if is_passed {
                self.pass(&mut inner, start, piece)?;
            } else {
                self.hold(&mut inner, start, piece)?;
            }
        }
        inner.len = inner.len.max(end);
        Ok(())
    }

    /// Writes to the image what has room there.
    fn hold(&self, inner: &mut ImageInner, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        let missing = inner.held.missing(offset, end);
        let is_held = |image: &File| disk::write_all_at(image, bytes, offset).is_ok();
        if self.has_room(inner, missing) && self.image.as_ref().is_some_and(is_held) {
            inner.held.insert(offset, end);
            count(&self.shared.counters.staged_bytes, bytes.len() as u64);
            count(&self.shared.counters.staged_writes, 1);
            return Ok(());
        }
        for (start, until, is_held) in inner.held.pieces(offset, end) {
            let piece = part(bytes, offset, start, until);
            match self.image.as_ref().filter(|_| is_held) {
                Some(image) => {
                    disk::write_all_at(image, piece, start)
                        .map_err(|error| self.at(Error::from_io(error)))?;
                }
                None => self.pass(inner, start, piece)?,
            }
        }
        Ok(())
    }

    fn has_room(&self, inner: &mut ImageInner, missing: u64) -> bool {
        let Some(needed) = (inner.held.bytes() + missing).checked_sub(inner.reserved) else { return true };
        if needed == 0 {
            return true;
        }
        let ahead = needed.max(RESERVE_STEP.min(self.shared.room.quota() / 16));
        let room = &self.shared.room;
        let taken = [ahead, needed].into_iter().find(|bytes| room.reserve(*bytes));
        let taken = taken.or_else(|| {
            // What waits to be recycled is worth less than a write that stays near.
            (self.shared.pool.drop_idle(room) && room.reserve(needed)).then_some(needed)
        });
        inner.reserved += taken.unwrap_or(0);
        taken.is_some()
    }

    /// Writes straight to the temporary file beside the destination.
    fn pass(&self, inner: &mut ImageInner, offset: u64, bytes: &[u8]) -> Result<()> {
        let temporary = self.temporary(inner)?;
        disk::write_all_at(&*temporary, bytes, offset).map_err(|error| self.at(Error::from_io(error)))?;
        inner.passed.insert(offset, offset + bytes.len() as u64);
        count(&self.shared.counters.passed_through_bytes, bytes.len() as u64);
        count(&self.shared.counters.passed_through_writes, 1);
        Ok(())
    }

    /// The temporary file beside the destination, created if need be; the journal knows its name.
    pub(crate) fn temporary(&self, inner: &mut ImageInner) -> Result<Arc<File>> {
        if let Some(temporary) = &inner.temporary {
            return Ok(Arc::clone(temporary));
        }
        let name = inner.journal.temporary().unwrap_or_default();
        let file =
            create_temporary(&self.place, name, inner.journal.new_mode()).map_err(|error| self.at(error))?;
        let file = Arc::new(file);
        inner.temporary = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Closes and removes the temporary file.
    pub(crate) fn remove_temporary(&self, inner: &mut ImageInner) -> Result<()> {
        inner.temporary = None;
        inner.journal.temporary().map_or(Ok(()), |name| self.place.remove(name))
    }

    /// Rewrites the journal, where there is one.
    pub(crate) fn write_journal(&self, inner: &ImageInner, is_synced: bool) -> Result<()> {
        if inner.is_journalled {
            self.shared.room.write_journal(&self.id, &inner.journal, is_synced)
        } else {
            Ok(())
        }
    }

    /// Fills `into` from `offset` on; gives how many bytes there were before the end.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let inner = self.lock();
        let end = inner.len.min(offset.saturating_add(into.len() as u64));
        let Some(len) = end.checked_sub(offset) else { return Ok(0) };
        let len = usize::try_from(len).unwrap_or(into.len());
        let into = &mut into[..len];
        into.fill(0);
        for (files, set) in [(self.image.as_ref(), &inner.held), (inner.temporary.as_deref(), &inner.passed)]
        {
            let Some(file) = files else { continue };
            for (start, until, _) in set.pieces(offset, end).into_iter().filter(|piece| piece.2) {
                let from = usize::try_from(start - offset).unwrap_or(0);
                let to = usize::try_from(until - offset).unwrap_or(0);
                let read = disk::read_exact_at(file, &mut into[from..to], start);
                read.map_err(|error| self.at(Error::from_io(error)))?;
            }
        }
        Ok(len)
    }

    /// Cuts or extends the file.
    pub(crate) fn set_len(&self, len: u64) -> Result<()> {
        let mut inner = self.lock();
        self.check_open(&inner)?;
        if len < inner.len {
            inner.held.cut(len);
            inner.passed.cut(len);
            // What is cut off reads as zeros when the file grows again.
            if let Some(image) = &self.image {
                let cut = FileStamp::of(image)
                    .and_then(|stamp| disk::set_len(image, stamp.len.min(len)).map_err(Error::from_io));
                cut.map_err(|error| self.at(error))?;
            }
            if let Some(temporary) = &inner.temporary {
                disk::set_len(&**temporary, len).map_err(|error| self.at(Error::from_io(error)))?;
            }
        }
        inner.len = len;
        Ok(())
    }

    /// Ends the writing and hands the file to the drainers.
    pub(crate) fn seal(self: &Arc<Self>) -> Result<()> {
        let mut inner = self.lock();
        self.check_open(&inner)?;
        // Of an exclusive creation the name was taken when it was opened: what has it now may be somebody else's.
        let now = match inner.journal.claim {
            Some(claim) => Some(Some(claim)),
            None => self.place.stamp().ok(),
        };
        inner.is_unseen = now.is_none();
        let weak = Arc::downgrade(self);
        inner.journal.expected = self.lineage.join(weak, now);
        inner.journal.sealed_ns = now_ns();
        inner.journal.state = ItemState::Sealed;
        inner.phase = ImagePhase::Sealed;
        // Readers of other processes wait for it from now on. Without it they see the destination until the file is staged.
        let _ = self.write_journal(&inner, false);
        drop(inner);
        count(&self.shared.counters.sealed_files, 1);
        self.shared.submit(Arc::clone(self) as _);
        while self.shared.work_alone() {}
        Ok(())
    }

    /// Gives the file up, if it was not sealed.
    pub(crate) fn abandon(&self) {
        let mut inner = self.lock();
        if inner.phase == ImagePhase::Open {
            self.forget(&mut inner);
        }
    }

    /// Removes the item without publishing it.
    pub(crate) fn forget(&self, inner: &mut ImageInner) {
        inner.phase = ImagePhase::Settled;
        let _ = self.remove_temporary(inner);
        let claim = inner.journal.claim;
        // Where the name cannot be given back, the item stays for `recover`.
        if claim.is_none_or(|claim| self.place.give_claim_back(&claim).is_ok()) {
            self.remove(inner);
        }
    }

    /// Removes the item from the area.
    pub(crate) fn remove(&self, inner: &mut ImageInner) {
        let room = &self.shared.room;
        // Another item's change of the destination must not write it again.
        inner.is_journalled = false;
        room.remove_item(&self.id, &image_name(&self.id));
        // What memory holds goes with its length; the descriptor may stay open for readers.
        if let Some(image) = self.image.as_ref().filter(|_| !room.is_lasting()) {
            let _ = disk::set_len(image, 0);
        }
        room.release(std::mem::take(&mut inner.reserved));
    }

    /// Looks at the destination again where that failed at the seal: what is there now counts as what was there then.
    pub(crate) fn see_destination(&self) -> Result<()> {
        if !self.lock().is_unseen {
            return Ok(());
        }
        let now = self.place.stamp()?;
        let mut inner = self.lock();
        inner.is_unseen = false;
        inner.journal.expected.push(now);
        Ok(())
    }

    fn check_open(&self, inner: &ImageInner) -> Result<()> {
        if inner.phase == ImagePhase::Open {
            return Ok(());
        }
        Err(self.at(Error::new(ErrorKind::Invalid, "is sealed")))
    }

    pub(crate) fn at(&self, error: Error) -> Error {
        error.at(self.destination.display())
    }
}

impl Successor for ImageState {
    fn id(&self) -> &str {
        &self.id
    }

    fn expect(&self, stamp: FileStamp) {
        let mut inner = self.lock();
        inner.journal.expected.push(Some(stamp));
        if inner.journal.image.is_some() {
            inner.is_stale = self.write_journal(&inner, true).is_err();
        }
    }
}

/// Creates the temporary file `name` beside `place` for its owner alone: what it replaces in the end may be private. Where nothing is
/// there, a default access list of the directory applies, which nothing could apply later.
pub(crate) fn create_temporary(place: &Destination, name: &OsStr, mode: NewMode) -> Result<File> {
    let is_new = place.stamp()?.is_none();
    let mode = mode.of_temporary(place.directory(), is_new)?;
    match place.create(name, mode) {
        // What an earlier try could not remove.
        Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {
            place.remove(name)?;
            place.create(name, mode)
        }
        made => made,
    }
}

/// The part of `bytes`, which begin at `offset`, from `start` to `end`.
fn part(bytes: &[u8], offset: u64, start: u64, end: u64) -> &[u8] {
    let at = |place: u64| usize::try_from(place - offset).unwrap_or(bytes.len());
    &bytes[at(start)..at(end)]
}
