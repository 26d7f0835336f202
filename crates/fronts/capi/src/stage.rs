//! Staged writes: new files that land on a fast tier and reach their destination behind the program.

use std::{
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use forebay::{
    Error, Result, Settings,
    config::Overrides,
    stage::{Area, AreaSettings, Completion, Sealed, StageOptions, StagedFile},
};

use crate::{
    border::{OutArg, TextArg, handle, list, path_of},
    status::{OK, TIMEOUT, free, give, guard},
};

/// `forebay_stage`: a staging area.
pub(crate) struct StageHandle {
    area: Arc<Area>,
}

/// `forebay_stage_file`: a new file on its way.
pub(crate) struct StageFileHandle {
    state: RwLock<StageFileState>,
}

enum StageFileState {
    Open(StagedFile),
    Sealed(Sealed),
    /// It could not be sealed.
    Lost,
}

/// `FOREBAY_STAGED` and `FOREBAY_DURABLE`.
const MILESTONES: [fn(&Sealed) -> &Completion; 2] = [Sealed::staged, Sealed::durable];

impl StageHandle {
    /// The area at `place`, a folder or `memory`; by default the one that is configured, or else none: nothing fits into it, and
    /// writes go straight to their destination.
    fn open(place: Option<&str>) -> Result<Self> {
        let overrides = Overrides { stage: place.map(str::to_owned), ..Overrides::default() };
        let configured = Settings::load(&overrides)?.config.stage.area()?;
        let none = || AreaSettings { quota: 0, free_floor: 0, ..AreaSettings::memory() };
        let settings = configured.unwrap_or_else(none);
        settings.make_folder()?;
        Ok(Self { area: Area::open(settings)? })
    }
}

impl StageFileHandle {
    fn state(&self) -> RwLockReadGuard<'_, StageFileState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match &*self.state() {
            StageFileState::Open(file) => file.write_at(offset, bytes),
            _ => Err(is_closed()),
        }
    }

    fn seal(&self) -> Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, StageFileState::Lost) {
            StageFileState::Open(file) => *state = StageFileState::Sealed(file.seal()?),
            other => {
                *state = other;
                return Err(is_closed());
            }
        }
        Ok(())
    }

    /// Waits until the file is staged (0) or durable (1); false after `limit`.
    fn wait(&self, milestone: u32, limit: Option<Duration>) -> Result<bool> {
        let milestone = usize::try_from(milestone).ok().and_then(|number| MILESTONES.get(number));
        let milestone =
            milestone.ok_or_else(|| Error::invalid("is neither staged nor durable").at("milestone"))?;
        // Not under the lock: others ask meanwhile.
        let completion = match &*self.state() {
            StageFileState::Sealed(sealed) => milestone(sealed).clone(),
            _ => return Err(Error::invalid("the file was not sealed")),
        };
        completion.wait(limit)
    }
}

fn is_closed() -> Error {
    Error::invalid("the file was sealed already")
}

/// Opens a staging area: a folder, `memory`, or NULL for the one that is configured.
#[unsafe(no_mangle)]
extern "C" fn forebay_stage_open(area: TextArg, stage: OutArg<'_, Option<Box<StageHandle>>>) -> i32 {
    give(stage, "stage", || StageHandle::open(area.text("area")?))
}

/// A new file for a destination, where nothing changes before it is whole.
#[unsafe(no_mangle)]
extern "C" fn forebay_stage_create(
    stage: Option<&StageHandle>,
    destination: TextArg,
    file: OutArg<'_, Option<Box<StageFileHandle>>>,
) -> i32 {
    give(file, "file", || {
        let destination = destination.path("destination")?;
        let created = handle(stage, "stage")?.area.create(&path_of(&destination), StageOptions::default())?;
        Ok(StageFileHandle { state: RwLock::new(StageFileState::Open(created)) })
    })
}

/// Writes bytes at an offset; the buffer may be used again at once.
#[unsafe(no_mangle)]
extern "C" fn forebay_stage_write_at(
    file: Option<&StageFileHandle>,
    bytes: *const u8,
    len: usize,
    offset: u64,
) -> i32 {
    guard(|| {
        handle(file, "file")?.write_at(list(bytes, len, "bytes")?, offset)?;
        Ok(OK)
    })
}

/// Ends the writing: the file is synced in the area and brought to its destination behind the caller.
#[unsafe(no_mangle)]
extern "C" fn forebay_stage_seal(file: Option<&StageFileHandle>) -> i32 {
    guard(|| {
        handle(file, "file")?.seal()?;
        Ok(OK)
    })
}

/// Waits until a sealed file is staged (0) or durable (1), at most so many milliseconds, or as long as it takes.
#[unsafe(no_mangle)]
extern "C" fn forebay_stage_wait(file: Option<&StageFileHandle>, milestone: u32, timeout_ms: i64) -> i32 {
    guard(|| {
        let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        Ok(if handle(file, "file")?.wait(milestone, limit)? { OK } else { TIMEOUT })
    })
}

/// Ends the handle; a file that was not sealed is given up, and its destination stays as it is. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_stage_file_free(file: Option<Box<StageFileHandle>>) {
    free(file);
}

/// Waits until all sealed files are durable, ends the threads, and frees the area, also where that fails. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_stage_close(stage: Option<Box<StageHandle>>) -> i32 {
    guard(|| {
        if let Some(stage) = stage {
            stage.area.close()?;
        }
        Ok(OK)
    })
}
