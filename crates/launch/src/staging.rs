//! Files that the processes of a run write in the staging area, brought to their destinations by the launcher, which outlives them.

use std::{
    cell::Cell,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use forebay_config::Settings;
use forebay_source::{Error, ErrorKind, Result};
use forebay_stage::{Area, AreaPlace, DrainProgress, ImageTotals, ImagesLeft, ProgramImages};
use forebay_workload::report::bytes_text;

use crate::supervise::BlockedSignals;

/// How often the thread looks for files that were closed; a program may wait for one.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often while there are none.
const LOOK_WHILE_IDLE: Duration = Duration::from_millis(40);
/// How long the end waits for processes that outlive the program and have files open for writing.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end waits silently, and how often it says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// The staging of one launcher: an area, and a thread that takes over the files that programs have closed.
#[derive(Debug)]
pub(crate) struct ProgramStaging {
    area: Arc<Area>,
    place: PathBuf,
    folder: PathBuf,
    /// Why nothing is staged at first, where that is so.
    warning: Option<String>,
    images: Arc<Mutex<ProgramImages>>,
    stop: Arc<StopFlag>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct StopFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

/// How the staging of a run ended.
#[derive(Debug)]
pub(crate) struct StagingEnd {
    pub(crate) totals: ImageTotals,
    /// Files that are not at their destinations, and stay in the area.
    pub(crate) left: u64,
    /// Why not all is at its destination, where that is so.
    pub(crate) trouble: Option<Error>,
}

impl ProgramStaging {
    /// Starts it for the run in the folder `run`, whose origin is `origin`.
    pub(crate) fn start(settings: &Settings, run: &Path, origin: &Path) -> Result<Self> {
        let Some(area) = settings.config.stage.area()? else {
            let error = Error::new(ErrorKind::Invalid, "there is no staging area for the writes");
            return Err(error.hint("name one by --stage"));
        };
        let AreaPlace::Folder(place) = area.place.clone() else {
            let error = Error::new(ErrorKind::Invalid, "programs share no staging area in memory");
            return Err(error.hint("name a folder by --stage: /dev/shm is memory too"));
        };
        if let Some(file) = place.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir()) {
            let error = Error::new(ErrorKind::Invalid, format!("{} is not a folder", file.display()));
            let error = error.hint("name a folder by --stage");
            return Err(error.at(format!("staging area '{}'", place.display())));
        }
        if place.starts_with(origin) {
            let what = format!("the staging area lies under the origin {}", origin.display());
            let error = Error::new(ErrorKind::Invalid, what).hint("name a folder outside it");
            return Err(error.at(place.display()));
        }
        let (quota, floor) = (size(area.quota), size(area.free_floor));
        let area = Area::open(area)?;
        let images = ProgramImages::open(Arc::clone(&area), run)?;
        let folder = images.folder().to_owned();
        let warning = images.is_full().then(|| {
            format!(
                "nothing is staged in {} before there is room: stage.quota is {quota}, and {floor} stay free on the disk (stage.free_floor)",
                place.display()
            )
        });
        let (images, stop) = (Arc::new(Mutex::new(images)), Arc::new(StopFlag::default()));
        let (seen, flag) = (Arc::clone(&images), Arc::clone(&stop));
        let thread = thread::Builder::new().name("forebay-stage".into()).spawn(move || work(&seen, &flag));
        let thread = Mutex::new(Some(thread.map_err(Error::from_io)?));
        Ok(Self { area, place, folder, warning, images, stop, thread })
    }

    /// The folder in which programs make files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the user should know of it.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Ends it, after the program: waits until all is at its destination, and says by `say` how far it is. A signal ends the wait.
    pub(crate) fn finish(&self, signals: &BlockedSignals, say: &dyn Fn(&str)) -> StagingEnd {
        *lock(&self.stop.is_set) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        let said = Cell::new(Instant::now());
        let progress = |left: DrainProgress| {
            if said.get().elapsed() >= SAY_EVERY {
                say(&left_text(left));
                said.set(Instant::now());
            }
            if signals.is_end_wanted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut images = lock(&self.images);
        let finished = images.finish(PATIENCE, &progress);
        let left = if finished.is_err() { images.look(true) } else { ImagesLeft::default() };
        let totals = images.totals();
        let trouble = finished.err().map(|error| {
            // What is left is `recover`'s: the end of this process waits for it no more.
            self.area.leave();
            error.hint(format!("nothing is lost: 'forebay recover {}' finishes it", self.place.display()))
        });
        StagingEnd { totals, left: (left.open + left.draining) as u64, trouble }
    }
}

fn left_text(left: DrainProgress) -> String {
    let bytes = size(left.bytes_left);
    format!("staged files on their way to their destinations: {} left, {bytes}", left.items_left)
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn size(bytes: u64) -> String {
    bytes_text(bytes as f64)
}

fn work(images: &Mutex<ProgramImages>, stop: &StopFlag) {
    let mut is_set = lock(&stop.is_set);
    while !*is_set {
        drop(is_set);
        let began = Instant::now();
        let left = lock(images).look(false);
        let pause = if left.open + left.draining == 0 { LOOK_WHILE_IDLE } else { LOOK_EVERY };
        // Looking at many files takes its time: never more than a third of a processor.
        let pause = pause.max(began.elapsed() * 2);
        is_set = lock(&stop.is_set);
        if !*is_set {
            is_set = stop.changed.wait_timeout(is_set, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_config::{Amount, Environment, FastPlace, Overrides};
    use forebay_scratch::{OwnFolder, RunCounters};
    use forebay_stage::ProgramImage;

    use super::*;

    fn settings(place: &Path) -> Settings {
        let variable = |_: &str| None;
        let environment = Environment { variable: &variable, folder: "/".into() };
        let mut settings = Settings::load_in(&Overrides::default(), &environment).unwrap();
        settings.config.stage.path = Some(FastPlace::Folder(place.to_owned()));
        settings.config.stage.free_floor = Some(Amount::Bytes(0));
        // Nothing is drained before the end.
        settings.config.stage.paused = true;
        settings
    }

    #[test]
    fn a_staging_area_that_is_a_file_is_wrong_usage_as_a_tier_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for place in [file.clone(), file.join("below")] {
            let error = ProgramStaging::start(&settings(&place), folder.path(), Path::new("/o")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            let said = error.to_string();
            assert!(said.contains(&format!("{} is not a folder; name a folder by --stage", file.display())));
        }
    }

    #[test]
    fn files_that_their_destinations_refuse_are_counted_as_left_and_recover_is_the_remedy() {
        let outer = tempfile::tempdir().unwrap();
        let origin = outer.path().join("origin");
        fs::create_dir_all(origin.join("gone")).unwrap();
        let run = OwnFolder::create_in(outer.path(), "run").unwrap();
        let _counters = RunCounters::create(run.path()).unwrap();
        let place = outer.path().join("fast");
        let staging = ProgramStaging::start(&settings(&place), run.path(), &origin).unwrap();
        for name in ["kept", "gone/a"] {
            let image = ProgramImage::new(staging.folder(), &origin.join(name));
            fs::write(image.path(), "bytes").unwrap();
            image.note_destination(&origin.join(name)).unwrap();
        }
        fs::remove_dir(origin.join("gone")).unwrap();
        let ended = staging.finish(&BlockedSignals::new(), &|_| {});
        assert_eq!((ended.totals.files, ended.left), (2, 1), "{ended:?}");
        assert_eq!(fs::read(origin.join("kept")).unwrap(), b"bytes");
        let said = ended.trouble.unwrap().to_string();
        assert!(said.contains("'forebay recover ") && !said.contains("stage drain"), "{said}");
    }
}
