//! A staging area, as one process uses it.

pub(crate) mod completion;
pub(crate) mod counters;
pub(crate) mod drainers;
pub(crate) mod engine;
pub(crate) mod process_end;
pub(crate) mod room;
pub(crate) mod settings;
pub(crate) mod status;

use std::{
    fs::File,
    mem,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::disk;
use rustix::{fs::CWD, io::Errno};

use crate::{
    area::{
        drainers::AwaitedDrains,
        engine::EngineCell,
        room::{HURRY, PAUSED, ProcessRoom, make_area, open_area},
        settings::{AreaPlace, AreaSettings, StageOptions},
        status::{DrainProgress, ItemKind, ItemState, ItemStatus, StageStats, waits},
    },
    create::{
        destination,
        image_state::{ImageState, open_image},
        pointer,
        staged_file::StagedFile,
    },
    on_disk::{item_name::WantedFile, stamp::FileStamp},
    recover::{
        discard::{PreparedDiscard, discard_deserted},
        survey::{self, DRAIN_TRIES_AGAIN, FoundItem},
    },
    update::redo_file::RedoFile,
};

/// How often a wait for other processes looks again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A staging area: a private folder on a fast tier that the processes of a node share, or memory.
#[derive(Debug)]
pub struct Area {
    cell: Arc<EngineCell>,
}

impl Area {
    /// The area that `settings` describe; threads and folders are made when they are first needed.
    pub fn open(settings: AreaSettings) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { cell: Arc::new(EngineCell::new(settings)) }))
    }

    /// Returns an error where nothing can be staged in the area that `settings` describe. Its directory is made; nothing else stays there.
    pub fn check(settings: &AreaSettings) -> Result<()> {
        ProcessRoom::open(settings).trouble().cloned().map_or(Ok(()), Err)
    }

    /// What it was opened with.
    pub fn settings(&self) -> &AreaSettings {
        &self.cell.settings
    }

    /// Why nothing can be staged here, where that is so: writes then go straight to their destinations.
    pub fn trouble(&self) -> Option<Error> {
        self.cell.get().shared.room.trouble().cloned()
    }

    /// A new file, published at `destination` by rename once it is whole: until then a reader there sees the old file or none.
    ///
    /// Mode, owner, access list and extended attributes of an old file are kept; a link at `destination` is followed.
    pub fn create(self: &Arc<Self>, destination: &Path, mut options: StageOptions) -> Result<StagedFile> {
        check_names_file(destination)?;
        let is_taken = || FileStamp::in_directory(CWD, destination.as_os_str());
        if options.is_exclusive && is_taken()?.is_some() {
            return Err(Error::from_io(Errno::EXIST.into()).at(destination.display()));
        }
        let destination = destination::resolve(destination)?;
        destination::check(&destination)?;
        options.latest = options.latest.as_deref().map(pointer::check).transpose()?;
        if options.latest.as_ref() == Some(&destination) {
            return Err(Error::invalid("cannot be the file and the link to the latest file at once")
                .at(destination.display()));
        }
        // A file that is on its way has the name, though nothing is there yet.
        if options.is_exclusive && self.pending(&destination)?.is_some() {
            let error = Error::from_io(Errno::EXIST.into()).hint("it is staged and not yet there");
            return Err(error.at(destination.display()));
        }
        let engine = self.cell.get();
        let lineage = engine.lineage(&destination);
        let state = ImageState::create(Arc::clone(&engine.shared), destination, options, lineage)?;
        Ok(StagedFile::new(Arc::clone(&self.cell), state))
    }

    /// Writes to an existing file, taken into a redo log and drained in place behind the caller.
    ///
    /// `file` is open for reading and writing; its locks and identity are the destination's. Nothing is made before the first
    /// write.
    pub fn update(
        self: &Arc<Self>,
        destination: &Path,
        file: File,
        options: StageOptions,
    ) -> Result<RedoFile> {
        let destination = destination::resolve(destination)?;
        Ok(RedoFile::new(Arc::clone(&self.cell), file, destination, options))
    }

    fn folder(&self) -> Option<&PathBuf> {
        match &self.cell.settings.place {
            AreaPlace::Folder(folder) => Some(folder),
            AreaPlace::Memory => None,
        }
    }

    /// The items of all processes that share the area, the oldest first; of an area in memory, none.
    pub fn items(&self) -> Result<Vec<ItemStatus>> {
        let area = self.folder().map(|folder| open_area(folder)).transpose()?.flatten();
        area.map_or(Ok(Vec::new()), |area| survey::survey(&area))
    }

    /// Whether an item that is closed or sealed has bytes for `destination` that are not there yet, and its state.
    ///
    /// Updates are those of the file that has this name now: one that was renamed since is found by its new name.
    /// What is still being written does not count: a reader sees the destination as it is. An error where a killed process
    /// left bytes for it, as `recover` has to decide, and of the kind `Unavailable` where the area cannot tell.
    pub fn pending(&self, destination: &Path) -> Result<Option<ItemState>> {
        let file = WantedFile::at(destination)?;
        let engine = self.cell.peek();
        if let Some(engine) = &engine {
            engine.shared.retry_removals();
        }
        let own = engine.map(|engine| engine.shared.tasks()).unwrap_or_default();
        let mut own = own.iter().filter(|task| task.is_for(&file)).map(|task| task.state());
        if let Some(state) = own.rfind(|state| waits(*state)) {
            return Ok(Some(state));
        }
        // Who asks opens the file next: what cannot be read may be bytes for it.
        // A path below a file never was an area.
        let is_below_file = |folder: &Path| {
            disk::stat_path(folder).is_err_and(|error| error.kind() == std::io::ErrorKind::NotADirectory)
        };
        let folder = self.folder().filter(|folder| !is_below_file(folder));
        let area = folder.map(|folder| open_area(folder)).transpose();
        let Some(area) = area.map_err(|error| unreadable(error, &file.path))?.flatten() else {
            return Ok(None);
        };
        let items = survey::all_items_for(&area, &file).map_err(|error| unreadable(error, &file.path))?;
        for item in &items {
            let FoundItem { folder, id, journal, is_deserted } = item;
            let has_records =
                || survey::has_records(folder, id, journal).map_err(|error| unreadable(error, &file.path));
            let is_undone =
                waits(journal.state) || journal.kind == ItemKind::Update && *is_deserted && has_records()?;
            if *is_deserted && is_undone && !item.is_lost() {
                return Err(self.deserted(item, &file.path));
            }
        }
        let mut states = items.iter().filter(|item| !item.is_lost()).map(|item| item.journal.state);
        Ok(states.rfind(|state| waits(*state)))
    }

    /// The error for `path`, for which a process that is gone has left `item`.
    fn deserted(&self, item: &FoundItem, path: &Path) -> Error {
        let what = format!("process {} was killed before its staged writes reached it", item.journal.pid);
        let hint =
            format!("run 'forebay recover {}'", self.folder().map_or("".into(), |at| at.to_string_lossy()));
        Error::new(ErrorKind::Unavailable, what).hint(hint).at(path.display())
    }

    /// Waits until no closed or sealed item of any process has bytes for `destination`: true, or false after `limit` or when
    /// `keep_waiting`, asked every 20 ms or so, says no. An error where the destination refused them or a killed process left
    /// some.
    pub fn wait_for(
        &self,
        destination: &Path,
        limit: Option<Duration>,
        keep_waiting: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        while let Some(state) = self.pending(destination)? {
            if state == ItemState::Failed {
                let what = "its last version is in the staging area, and could not be written here";
                let hint = format!("'forebay stage ls' says why, {DRAIN_TRIES_AGAIN}");
                let error = Error::new(ErrorKind::Unavailable, what).hint(hint);
                return Err(error.at(destination.display()));
            }
            if until.is_some_and(|until| Instant::now() >= until) || !keep_waiting() {
                return Ok(false);
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(true)
    }

    /// Drains what this process has for `destination`, paused or not, until the answer is dropped; `None` where it has nothing.
    pub fn await_drains(&self, destination: &Path) -> Result<Option<AwaitedDrains>> {
        let Some(engine) = self.cell.peek() else { return Ok(None) };
        Ok(engine.shared.await_drains(&WantedFile::at(destination)?))
    }

    /// Forgets what closed items and killed processes have for `destination`, which somebody is about to replace; an error where
    /// a process that lives has some.
    pub fn discard(&self, destination: &Path) -> Result<()> {
        self.discard_prepared(&PreparedDiscard { file: WantedFile::at(destination)? })
    }

    /// Notes which file `destination` is, for [`discard_prepared`](Self::discard_prepared) after it was replaced or removed; an
    /// error where another process that lives has items for it. Nothing is forgotten yet: the file may stay as it is.
    pub fn prepare_discard(&self, destination: &Path) -> Result<PreparedDiscard> {
        let file = WantedFile::at(destination)?;
        let own = self.cell.peek().and_then(|engine| engine.shared.room.own().cloned());
        let is_own = |item: &FoundItem| own.as_ref().is_some_and(|own| own.path() == item.folder.path());
        if let Some(area) = self.folder().map(|folder| open_area(folder)).transpose()?.flatten() {
            let items = survey::items_for(&area, &file)?;
            let living = items.iter().filter(|item| !item.is_deserted && !is_own(item));
            self.check_none_waits(living, &file)?;
        }
        Ok(PreparedDiscard { file })
    }

    /// Forgets what closed items and killed processes have for a file that was replaced or removed since.
    pub fn discard_prepared(&self, PreparedDiscard { file }: &PreparedDiscard) -> Result<()> {
        let is_free = self.cell.peek().is_none_or(|engine| engine.shared.give_up(file));
        if !is_free {
            return Err(busy(std::process::id(), file));
        }
        let Some(area) = self.folder().map(|folder| open_area(folder)).transpose()?.flatten() else {
            return Ok(());
        };
        discard_deserted(&area, file)?;
        self.check_none_waits(survey::items_for(&area, file)?.iter(), file)
    }

    /// Refuses to forget `items` where one has bytes that are on their way to `file`.
    fn check_none_waits<'a>(
        &self,
        mut items: impl Iterator<Item = &'a FoundItem>,
        file: &WantedFile,
    ) -> Result<()> {
        match items.find(|item| waits(item.journal.state) && !item.is_lost()) {
            Some(item) if item.is_deserted => Err(self.deserted(item, &file.path)),
            Some(item) => Err(busy(item.journal.pid, file)),
            None => Ok(()),
        }
    }

    /// The staged image of `destination`, to be read, where a new file of this node is sealed and not yet durable.
    ///
    /// `None` also where part of the newest one went straight to the destination's folder, and where it is not staged yet: `wait_for`
    /// waits for that.
    pub fn open_staged(&self, destination: &Path) -> Result<Option<File>> {
        let file = WantedFile::at(destination)?;
        let Some(area) = self.folder().map(|folder| open_area(folder)).transpose()?.flatten() else {
            return Ok(None);
        };
        let sealed = survey::items_for(&area, &file)?
            .into_iter()
            .rev()
            .find(|item| item.journal.kind == ItemKind::Create && item.is_sealed() && !item.is_lost());
        let is_readable = |item: &FoundItem| item.journal.image.is_some() && item.journal.passed.is_empty();
        let Some(item) = sealed.filter(is_readable) else {
            return Ok(None);
        };
        // One that has no journal, as there was no room for it, is known here alone.
        let own = self.cell.peek().map(|engine| engine.shared.tasks()).unwrap_or_default();
        if own.iter().any(|task| task.is_for(&file) && task.sealed_ns() > item.journal.order_ns()) {
            return Ok(None);
        }
        let image = match open_image(&item.folder, &item.id) {
            // A file that was published meanwhile is read there.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            image => image?,
        };
        let len = FileStamp::of(&image)?.len;
        Ok(item.journal.image.is_some_and(|sums| sums.len == len).then_some(image))
    }

    /// Waits until all items of this process are durable; `progress` is told how far it is every 50 ms or so, and may break
    /// off the wait. What failed before is tried again, and a pause does not hold it up.
    pub fn drain(&self, progress: &dyn Fn(DrainProgress) -> ControlFlow<()>) -> Result<()> {
        match self.cell.peek() {
            Some(engine) => engine.drain(progress),
            None => Ok(()),
        }
    }

    /// Stops the drainers of this process after what they are writing now.
    pub fn pause(&self) {
        self.cell.set_paused(true);
    }

    /// Lets the drainers of this process go on.
    pub fn resume(&self) {
        self.cell.set_paused(false);
    }

    /// Stops the drainers of all processes that share the area, until `resume_all`.
    pub fn pause_all(&self) -> Result<()> {
        let Some(folder) = self.folder() else {
            self.pause();
            return Ok(());
        };
        make_area(folder)?.open_or_create(PAUSED).map(drop)
    }

    /// Lets the drainers of all processes go on.
    pub fn resume_all(&self) -> Result<()> {
        let Some(folder) = self.folder() else {
            self.resume();
            return Ok(());
        };
        let removed = open_area(folder)?.map_or(Ok(()), |area| area.remove_file(PAUSED));
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Whether `pause_all` is in force.
    pub fn is_paused_for_all(&self) -> Result<bool> {
        let area = self.folder().map(|folder| open_area(folder)).transpose()?.flatten();
        Ok(area.is_some_and(|area| area.facts(PAUSED).is_ok()))
    }

    /// Has all processes that share the area drain at once, and try again what failed.
    pub fn hurry_all(&self) -> Result<()> {
        let Some(area) = self.folder().map(|folder| open_area(folder)).transpose()?.flatten() else {
            return Ok(());
        };
        area.write_atomically(HURRY, &forebay_scratch::nonce().to_le_bytes())
    }

    /// What this process has done here so far.
    pub fn stats(&self) -> StageStats {
        let Some(engine) = self.cell.peek() else { return StageStats::default() };
        let counters = &engine.shared.counters;
        StageStats {
            staged_bytes: counters.staged_bytes.load(Relaxed),
            staged_writes: counters.staged_writes.load(Relaxed),
            sealed_files: counters.sealed_files.load(Relaxed),
            published_files: counters.published_files.load(Relaxed),
            passed_through_bytes: counters.passed_through_bytes.load(Relaxed),
            passed_through_writes: counters.passed_through_writes.load(Relaxed),
            drained_bytes: counters.drained_bytes.load(Relaxed),
            drain_writes: counters.drain_writes.load(Relaxed),
            merged_writes: counters.merged_writes.load(Relaxed),
            destination_syncs: counters.destination_syncs.load(Relaxed),
            reserved_bytes: engine.shared.room.reserved(),
            pending_bytes: engine.shared.tasks().iter().map(|task| task.pending_bytes()).sum(),
            failures: counters.failures.load(Relaxed),
        }
    }

    /// Drains, and stops the threads, unless files are open; a later use starts them again. After an error what is left stays in the area.
    pub fn close(&self) -> Result<()> {
        let Some(engine) = self.cell.peek() else { return Ok(()) };
        engine.drain(&|_| ControlFlow::Continue(()))?;
        engine.shared.forget_settled();
        // A file that is still open is drained after it was closed, by the end of the process at the latest.
        if !engine.shared.has_files() {
            drop(self.cell.take());
        }
        Ok(())
    }

    /// Leaves what is not durable to `recover`: neither the end of the process nor of the area waits for it any more.
    pub fn leave(&self) {
        process_end::forget(&self.cell);
        // Dropped, it would be drained.
        mem::forget(self.cell.take());
    }
}

/// Refuses a path that can only be a directory's, as `open(2)` does: one that ends with `/`, `/.` or `/..`.
fn check_names_file(path: &Path) -> Result<()> {
    let last = path.as_os_str().as_bytes().rsplit(|byte| *byte == b'/').next();
    if matches!(last, Some(b"" | b"." | b"..")) && !path.as_os_str().is_empty() {
        return Err(Error::from_io(Errno::ISDIR.into()).at(path.display()));
    }
    Ok(())
}

/// The error for `path` where the items of the area cannot be read.
fn unreadable(error: Error, path: &Path) -> Error {
    let what = format!("cannot tell whether writes to it are staged: {error}");
    Error::new(ErrorKind::Unavailable, what).because(error).at(path.display())
}

fn busy(pid: u32, file: &WantedFile) -> Error {
    let what = format!("process {pid} has staged writes for it");
    let error = Error::new(ErrorKind::Unavailable, what).because(rustix::io::Errno::BUSY);
    error.hint("'forebay stage drain' brings them to it").at(file.path.display())
}
