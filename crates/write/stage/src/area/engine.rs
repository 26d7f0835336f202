//! What a process has of an area: room, threads, and which files go where.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Event, EventKind, PerProcess, Result};

use crate::{
    area::{
        drainers::DrainShared,
        room::ProcessRoom,
        settings::{AreaPlace, AreaSettings},
        status::DrainProgress,
    },
    create::lineage::Lineage,
};

/// How often a wait says how far it is.
const TELL_EVERY: Duration = Duration::from_millis(50);

/// The part of an area that belongs to this process.
#[derive(Debug)]
pub(crate) struct AreaEngine {
    pub(crate) shared: Arc<DrainShared>,
    lineages: Mutex<HashMap<PathBuf, Weak<Lineage>>>,
}

/// An engine that is made when it is first needed, anew in each forked child.
#[derive(Debug)]
pub(crate) struct EngineCell {
    pub(crate) settings: AreaSettings,
    is_paused: AtomicBool,
    cell: PerProcess<Mutex<Option<Arc<AreaEngine>>>>,
}

impl EngineCell {
    pub(crate) fn new(settings: AreaSettings) -> Self {
        let is_paused = AtomicBool::new(settings.start_paused);
        Self { settings, is_paused, cell: PerProcess::empty() }
    }

    /// The engine of this process, made if need be; one without room where the area cannot be used, which is told once.
    pub(crate) fn get(&self) -> Arc<AreaEngine> {
        let cell = self.cell.get(Mutex::default);
        let mut engine = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*engine {
            return Arc::clone(engine);
        }
        let mut settings = self.settings.clone();
        settings.start_paused = self.is_paused.load(SeqCst);
        let room = ProcessRoom::open(&settings);
        if let (Some(error), AreaPlace::Folder(folder)) = (room.trouble(), &settings.place) {
            let text = format!("{error}; what is written goes straight to its destination");
            Event::new(EventKind::Stage, text).about(folder.display()).emit();
        }
        let made = Arc::new(AreaEngine {
            shared: Arc::new(DrainShared::new(room, &settings)),
            lineages: Mutex::default(),
        });
        *engine = Some(Arc::clone(&made));
        made
    }

    /// The engine of this process, if it has one.
    pub(crate) fn peek(&self) -> Option<Arc<AreaEngine>> {
        let cell = self.cell.peek()?;
        let engine = cell.lock().unwrap_or_else(PoisonError::into_inner);
        engine.clone()
    }

    /// Takes the engine of this process, so that the next use makes another.
    pub(crate) fn take(&self) -> Option<Arc<AreaEngine>> {
        let cell = self.cell.peek()?;
        cell.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, SeqCst);
        if let Some(engine) = self.peek() {
            engine.shared.set_paused(is_paused);
        }
    }
}

impl AreaEngine {
    fn lineages(&self) -> MutexGuard<'_, HashMap<PathBuf, Weak<Lineage>>> {
        self.lineages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files for `destination`, in their order.
    pub(crate) fn lineage(&self, destination: &Path) -> Arc<Lineage> {
        let mut lineages = self.lineages();
        lineages.retain(|_, lineage| lineage.strong_count() > 0);
        if let Some(lineage) = lineages.get(destination).and_then(Weak::upgrade) {
            return lineage;
        }
        let lineage = Arc::new(Lineage::default());
        lineages.insert(destination.to_owned(), Arc::downgrade(&lineage));
        lineage
    }

    /// Waits until nothing of this process is pending; the first error where destinations refuse.
    pub(crate) fn drain(&self, progress: &dyn Fn(DrainProgress) -> ControlFlow<()>) -> Result<()> {
        let _forced = self.shared.force();
        let counters = &self.shared.counters;
        let drained = || counters.drained_bytes.load(SeqCst);
        let before = drained();
        loop {
            let tasks = self.shared.tasks();
            let state = DrainProgress {
                items_left: tasks.len() as u64,
                bytes_left: tasks.iter().map(|task| task.pending_bytes()).sum(),
                bytes_done: drained() - before,
            };
            if progress(state).is_break() {
                return Err(Error::new(ErrorKind::Unavailable, "drain was interrupted"));
            }
            let failures: Vec<Error> = tasks.iter().filter_map(|task| task.failure()).collect();
            if tasks.is_empty() {
                return Ok(());
            }
            if failures.len() == tasks.len() {
                let count = failures.len();
                let first = failures.into_iter().next();
                return Err(first.map_or_else(
                    || Error::new(ErrorKind::Bug, "no failure"),
                    |first| {
                        if count > 1 {
                            first.at(format!("{count} staged files are not durable"))
                        } else {
                            first
                        }
                    },
                ));
            }
            if !self.shared.work_alone() {
                self.shared.wait_for_change(TELL_EVERY);
            }
        }
    }
}

impl Drop for AreaEngine {
    fn drop(&mut self) {
        // As a buffered writer does: what was accepted is not left behind silently.
        let _ = self.drain(&|_| ControlFlow::Continue(()));
        self.shared.stop();
        self.shared.pool.drop_idle(&self.shared.room);
        self.shared.forget_tasks();
    }
}
