//! What the driver has once per process: settings, the staging area, the tiers, and which files are being written.

#![expect(unsafe_code, reason = "registers a function that runs at the end of the process")]

use std::{
    fs::{self, Metadata},
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak},
};

use forebay_config::{PluginSettings, tiered};
use forebay_process::{Error, Owned, PerProcess, Result, WarnOnce, guard};
use forebay_source::FileOrigin;
use forebay_stage::{Area, AreaSettings, CloseWhen, RedoFile};
use forebay_tier::Tiered;

use crate::forked_child::is_forked_child;

static SETTINGS: OnceLock<PluginSettings> = OnceLock::new();
static STATE: PerProcess<ProcessState> = PerProcess::empty();
static END: Once = Once::new();
static MISCONFIGURED: WarnOnce = WarnOnce::new();
static NO_AREA: WarnOnce = WarnOnce::new();
static NO_TIERS: WarnOnce = WarnOnce::new();
static NOT_DRAINED: WarnOnce = WarnOnce::new();

/// The settings, read when the first file is opened; with wrong ones nothing is managed.
pub(crate) fn settings() -> &'static PluginSettings {
    SETTINGS.get_or_init(|| {
        PluginSettings::from_environment().unwrap_or_else(|error| {
            MISCONFIGURED.say(format_args!("{error}; HDF5 files are read and written without forebay"));
            PluginSettings::default()
        })
    })
}

/// True where a flush or close returns once all is staged, and the drain goes on behind it. Never in a forked child: it may end by
/// `_exit`, without the drain that a process makes at its end.
pub(crate) fn delays_close() -> bool {
    settings().config.hdf5.delay_close && !*state().is_forked.get_or_init(is_forked_child)
}

/// The file that `name` leads to, if it is managed: with links resolved, as all of its names share what is staged.
pub(crate) fn managed(name: &Path) -> Option<PathBuf> {
    let path = settings().managed.find(name)?;
    Some(fs::canonicalize(&path).unwrap_or_else(|_| {
        let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        folder.zip(path.file_name()).map_or_else(|| path.clone(), |(folder, name)| folder.join(name))
    }))
}

/// The state of this process; a forked child makes its own.
pub(crate) fn state() -> Arc<Owned<ProcessState>> {
    STATE.get(ProcessState::default)
}

/// A file of this process that is open and has staged writes.
#[derive(Debug)]
struct ActiveFile {
    slot: usize,
    /// Its device and inode: one file may have several names, and get others while it is open.
    file: (u64, u64),
    redo: Weak<RedoFile>,
}

/// What is made when the first managed file needs it.
#[derive(Debug, Default)]
pub(crate) struct ProcessState {
    area: OnceLock<Option<Arc<Area>>>,
    tiers: OnceLock<Option<Arc<Tiered>>>,
    active: Mutex<Vec<ActiveFile>>,
    is_forked: OnceLock<bool>,
}

impl ProcessState {
    /// The staging area, where one is configured and can be used.
    pub(crate) fn area(&self) -> Option<&Arc<Area>> {
        self.area.get_or_init(open_area).as_ref()
    }

    /// The tiers that reads come through, where some are configured.
    pub(crate) fn tiers(&self) -> Option<&Arc<Tiered>> {
        self.tiers.get_or_init(open_tiers).as_ref()
    }

    /// Notes that `redo` takes writes to `file` for the libhdf5 of `slot`.
    pub(crate) fn begin(&self, slot: usize, file: &Metadata, redo: &Arc<RedoFile>) {
        END.call_once(register_end);
        let redo = Arc::downgrade(redo);
        self.active().push(ActiveFile { slot, file: (file.dev(), file.ino()), redo });
    }

    /// Ends the use of `redo`.
    pub(crate) fn end(&self, redo: Arc<RedoFile>, when: CloseWhen) -> Result<()> {
        let own = Arc::downgrade(&redo);
        self.active().retain(|active| !active.redo.ptr_eq(&own));
        match Arc::try_unwrap(redo) {
            Ok(alone) => alone.close(when),
            // Another thread drains it for a moment, in this process or in the one that has forked it: the last one that has it
            // leaves the rest to the drainers.
            Err(shared) if when == CloseWhen::Drained => shared.drain(),
            Err(shared) => shared.stage(),
        }
    }

    /// Whether the libhdf5 of `slot` has `file` open with staged writes.
    pub(crate) fn is_active(&self, slot: usize, file: &Metadata) -> bool {
        self.active().iter().any(|active| active.slot == slot && active.file == (file.dev(), file.ino()))
    }

    /// Drains what other libhdf5 of this process have written to `file`.
    pub(crate) fn drain_others(&self, slot: usize, file: &Metadata) -> Result<()> {
        let is_other = |active: &ActiveFile| active.slot != slot && active.file == (file.dev(), file.ino());
        self.redo_files(is_other).iter().try_for_each(|redo| redo.drain())
    }

    fn redo_files(&self, wanted: impl Fn(&ActiveFile) -> bool) -> Vec<Arc<RedoFile>> {
        self.active()
            .iter()
            .filter(|active| wanted(active))
            .filter_map(|active| active.redo.upgrade())
            .collect()
    }

    fn active(&self) -> MutexGuard<'_, Vec<ActiveFile>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_area() -> Option<Arc<Area>> {
    let config = &settings().config;
    if !config.hdf5.write {
        return None;
    }
    let opened = config.stage.area().and_then(|area| {
        area.as_ref().map_or(Ok(()), AreaSettings::make_folder)?;
        area.map(Area::open).transpose()
    });
    opened.unwrap_or_else(|error| {
        say_not_staged(&error);
        None
    })
}

fn open_tiers() -> Option<Arc<Tiered>> {
    let config = &settings().config;
    if !config.hdf5.read || config.tiers.is_empty() {
        return None;
    }
    // A program's file is never mapped: its program expects no signal from it.
    let origin = Arc::new(FileOrigin::new().without_mapping());
    tiered(origin, config, None, None).unwrap_or_else(|error| {
        NO_TIERS.say(format_args!("{error}; HDF5 files are read without tiers"));
        None
    })
}

/// Says once that writes go straight to their files, and why.
pub(crate) fn say_not_staged(error: &Error) {
    NO_AREA.say(format_args!("{error}; writes to HDF5 files are not staged"));
}

/// Waits until all that was staged by this process is in its files: a libhdf5 ends.
pub(crate) fn drain_all() {
    bring_home(|area| area.drain(&|_| ControlFlow::Continue(())));
}

fn bring_home(drain: impl FnOnce(&Area) -> Result<()>) {
    let Some(state) = STATE.peek() else { return };
    let Some(Some(area)) = state.area.get() else { return };
    if let Err(error) = drain(area) {
        NOT_DRAINED.say(format_args!("{error}; what is staged stays there: run `forebay recover`"));
    }
}

fn register_end() {
    // SAFETY: the function has the type that is asked for, and this library is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    guard((), || {
        // Segments that wait for their next use would take room in the area for nobody.
        bring_home(Area::close);
        if let Some(tiers) = STATE.peek().as_ref().and_then(|state| state.tiers.get()?.as_ref()) {
            tiers.close();
        }
    });
}
