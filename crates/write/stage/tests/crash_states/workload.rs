//! Short programs that stage files, and what may be at their destinations in the end.

use std::{
    cell::RefCell,
    fs::{self, File},
    ops::ControlFlow,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use forebay_scratch::disk;
use forebay_stage::{
    Area, AreaSettings, CloseWhen, DrainProgress, RecoverOptions, Recovered, StageOptions, recover,
};
use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::{
    record::{Change, Failure, Recorder},
    world::Disk,
};

/// One thing that a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Creates the file, or writes it anew.
    Create,
    /// Creates the file where there is none.
    CreateNew,
    /// Creates the file in an area that is full after a few bytes.
    CreateFull,
    /// Writes to the file in place, in part past a flush.
    Update,
    /// Renames the file, without staging.
    Rename,
    /// Removes the file, without staging.
    Unlink,
    /// Changes the mode of the file, without staging.
    Chmod,
    /// Is killed, and what it left is recovered.
    Recover,
}

pub(crate) const STEPS: [Step; 8] = [
    Step::Create,
    Step::CreateNew,
    Step::CreateFull,
    Step::Update,
    Step::Rename,
    Step::Unlink,
    Step::Chmod,
    Step::Recover,
];

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) steps: Vec<Step>,
    /// Whether there is a file at the destination before.
    pub(crate) is_there: bool,
    /// Whether nothing is drained before the end.
    pub(crate) is_paused: bool,
}

/// The bytes that a file may have, or that there is none.
pub(crate) type Content = Option<Vec<u8>>;

/// A content that the destination had, or is to have, in the order in which one takes the place of the other.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) content: Content,
    /// Whether it comes from the one before it by writes in place, which a crash may leave in part.
    pub(crate) is_patch: bool,
}

/// A promise: from so many changes on, no version before this one may come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) changes: usize,
    pub(crate) version: usize,
    /// Whether it holds after a power loss too, or only while the machine runs.
    pub(crate) is_synced: bool,
    /// The version that the step began with which promises it: what an earlier update wrote and closed is not synced by it.
    pub(crate) own_from: usize,
}

/// A version that begins to be possible, with the number of changes that were made before.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) changes: usize,
    pub(crate) version: usize,
}

/// A program that has run, and all that it did.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) before: Disk,
    pub(crate) changes: Vec<Change>,
    pub(crate) births: std::collections::HashMap<u64, u64>,
    pub(crate) calls: usize,
    pub(crate) failed: Option<String>,
    /// The changes that were made before the call that failed.
    pub(crate) failed_behind: usize,
    /// The changes that were made before each step.
    pub(crate) starts: Vec<usize>,
    /// Versions that waited for their turn while the program removed or renamed the file, with the changes that were made before.
    pub(crate) removals: Vec<Begun>,
    pub(crate) versions: Vec<Version>,
    pub(crate) begun: Vec<Begun>,
    pub(crate) promises: Vec<Promise>,
    /// Whether a name or mode was changed by others.
    pub(crate) is_disturbed: bool,
    /// What was refused, by step.
    pub(crate) errors: Vec<String>,
}

pub(crate) const NAME: &str = "file";
pub(crate) const OTHER: &str = "other";
const MODE: u32 = 0o640;

/// Where a world is built: always the same path, as journals have it in them.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
}

impl Place {
    pub(crate) fn fast(&self) -> PathBuf {
        self.root.join("fast")
    }

    pub(crate) fn slow(&self) -> PathBuf {
        self.root.join("slow")
    }

    pub(crate) fn destination(&self) -> PathBuf {
        self.slow().join(NAME)
    }

    fn prepare(&self, is_there: bool) {
        if self.root.exists() {
            fs::remove_dir_all(&self.root).unwrap();
        }
        fs::create_dir_all(self.fast()).unwrap();
        fs::create_dir_all(self.slow()).unwrap();
        if is_there {
            fs::write(self.destination(), first_content()).unwrap();
            let mode = Mode::from_bits_truncate(MODE);
            rustix::fs::chmod(self.destination(), mode).unwrap();
        }
    }
}

fn first_content() -> Vec<u8> {
    vec![b'0'; 700]
}

/// The bytes of the `number`th new file: more than two sectors, all of its own.
fn content(number: usize) -> Vec<u8> {
    let letter = b'A' + u8::try_from(number).unwrap();
    vec![letter; 1300 + 10 * number]
}

pub(crate) fn on(_: DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Runs `body` with `recorder` as the watcher of this thread.
pub(crate) fn watched<T>(recorder: &Rc<RefCell<Recorder>>, body: impl FnOnce() -> T) -> T {
    disk::watch(Some(Rc::clone(recorder) as _));
    let done = body();
    disk::watch(None);
    done
}

pub(crate) fn recover_all(place: &Place) -> forebay_process::Result<Recovered> {
    recover(&place.fast(), &RecoverOptions::default(), &on)
}

/// What runs a workload.
struct Runner<'a> {
    place: &'a Place,
    recorder: Rc<RefCell<Recorder>>,
    area: Option<Arc<Area>>,
    is_paused: bool,
    versions: Vec<Version>,
    begun: Vec<Begun>,
    promises: Vec<Promise>,
    starts: Vec<usize>,
    removals: Vec<Begun>,
    own_from: usize,
    is_disturbed: bool,
    errors: Vec<String>,
}

impl Workload {
    /// A number that differs between programs, by which samples of them begin at different places.
    pub(crate) fn seed(&self) -> usize {
        let steps = self.steps.iter().fold(0, |seed, step| 31 * seed + *step as usize);
        4 * steps + 2 * usize::from(self.is_there) + usize::from(self.is_paused)
    }

    /// Runs it in a fresh world, with one call failing if that is wanted.
    pub(crate) fn run(&self, place: &Place, failure: Option<Failure>) -> Run {
        place.prepare(self.is_there);
        let before = Disk::read(&place.root);
        let recorder = Rc::new(RefCell::new(Recorder { failure, ..Recorder::default() }));
        let first = Version { content: self.is_there.then(first_content), is_patch: false };
        let mut runner = Runner {
            place,
            recorder: Rc::clone(&recorder),
            area: None,
            is_paused: self.is_paused,
            versions: vec![first],
            begun: vec![Begun { changes: 0, version: 0 }],
            promises: Vec::new(),
            starts: Vec::new(),
            removals: Vec::new(),
            own_from: 0,
            is_disturbed: false,
            errors: Vec::new(),
        };
        watched(&recorder, || {
            for (number, step) in self.steps.iter().enumerate() {
                runner.step(*step, number);
            }
            runner.end();
        });
        let Runner { versions, begun, promises, starts, removals, is_disturbed, errors, .. } = runner;
        let recorder = recorder.take();
        Run {
            before,
            changes: recorder.changes,
            births: recorder.births,
            calls: recorder.calls,
            failed: recorder.failed,
            failed_behind: recorder.failed_behind,
            starts,
            removals,
            versions,
            begun,
            promises,
            is_disturbed,
            errors,
        }
    }
}

impl Runner<'_> {
    fn now(&self) -> usize {
        self.recorder.borrow().changes.len()
    }

    fn area(&mut self, quota: u64) -> Arc<Area> {
        let settings = AreaSettings {
            quota,
            free_floor: 0,
            drainers: 0,
            start_paused: self.is_paused,
            ..AreaSettings::folder(self.place.fast())
        };
        Arc::clone(self.area.get_or_insert_with(|| Area::open(settings).unwrap()))
    }

    /// Adds a version, behind those that are there or are on their way.
    fn begin(&mut self, content: Content, is_patch: bool) -> usize {
        let changes = self.now();
        let version = self.versions.len();
        self.versions.push(Version { content, is_patch });
        self.begun.push(Begun { changes, version });
        version
    }

    fn promise(&mut self, version: usize, is_synced: bool) {
        let (changes, own_from) = (self.now(), self.own_from);
        self.promises.push(Promise { changes, version, is_synced, own_from });
    }

    /// Whether a new file waits for its turn: what is done to the destination meanwhile comes before it. An update follows its file.
    fn has_waiting(&self) -> bool {
        if self.versions.last().is_some_and(|version| version.is_patch) {
            return false;
        }
        let pending = self.area.as_ref().map(|area| area.pending(&self.place.destination()));
        matches!(pending, Some(Ok(Some(_))))
    }

    fn step(&mut self, step: Step, number: usize) {
        self.starts.push(self.now());
        self.own_from = self.versions.len() - 1;
        let done = match step {
            Step::Create => self.create(number, 64 << 20, false),
            Step::CreateNew => self.create(number, 64 << 20, true),
            Step::CreateFull => self.create(number, 600, false),
            Step::Update => self.update(number),
            Step::Rename | Step::Unlink | Step::Chmod => self.disturb(step),
            Step::Recover => self.recover(),
        };
        if let Err(error) = done {
            self.errors.push(format!("{step:?}: {error}"));
        }
    }

    fn create(&mut self, number: usize, quota: u64, is_exclusive: bool) -> forebay_process::Result<()> {
        let bytes = content(number);
        let area = self.area(quota);
        let options = StageOptions { is_exclusive, ..StageOptions::default() };
        // The name is there before the bytes are.
        if is_exclusive && !self.place.destination().exists() && !self.has_waiting() {
            self.begin(Some(Vec::new()), false);
        }
        let version = self.begin(Some(bytes.clone()), false);
        let file = area.create(&self.place.destination(), options).inspect_err(|_| {
            // It will never be.
            self.versions.pop();
            self.begun.pop();
        })?;
        file.write_at(0, &bytes[..500])?;
        file.write_at(500, &bytes[500..])?;
        let sealed = file.seal()?;
        // Whatever is needed for that was done by this thread.
        if let Some(error) = sealed.staged().error() {
            return Err(error);
        }
        if sealed.staged().is_set() {
            self.promise(version, true);
        }
        match sealed.durable().error() {
            Some(error) => Err(error),
            None => {
                assert!(self.is_paused || sealed.durable().is_set(), "nobody else drains");
                Ok(())
            }
        }
    }

    fn update(&mut self, number: usize) -> forebay_process::Result<()> {
        let path = self.place.destination();
        // Short segments: a log has several.
        let area = self.area(8 << 10);
        // Who opens a file waits for what is on its way to it, as the HDF5 driver does.
        let mut tries = 0;
        while !area.wait_for(&path, Some(Duration::ZERO), &|| true)? {
            area.drain(&on)?;
            tries += 1;
            assert!(tries < 3, "what is drained is not waited for");
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(CWD, &path, flags, Mode::empty()) else { return Ok(()) };
        let letter = b'a' + u8::try_from(number).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let file = area.update(&path, File::from(file), StageOptions::default())?;
        let mut version = 0;
        for (index, (offset, len)) in [(100, 600), (650, 300), (20, 10)].into_iter().enumerate() {
            if bytes.len() < offset + len {
                bytes.resize(offset + len, 0);
            }
            bytes[offset..offset + len].fill(letter);
            version = self.begin(Some(bytes.clone()), true);
            file.write_at(offset as u64, &vec![letter; len])?;
            self.promise(version, false);
            if index == 1 {
                file.stage()?;
                self.promise(version, true);
            }
        }
        let when = if self.is_paused { CloseWhen::Staged } else { CloseWhen::Drained };
        file.close(when)?;
        if self.is_paused {
            self.promise(version, true);
        }
        Ok(())
    }

    fn disturb(&mut self, step: Step) -> forebay_process::Result<()> {
        let path = self.place.destination();
        if !path.exists() {
            return Ok(());
        }
        self.is_disturbed = true;
        if step != Step::Chmod {
            if self.has_waiting() {
                let (changes, version) = (self.now(), self.versions.len() - 1);
                self.removals.push(Begun { changes, version });
            } else {
                self.begin(None, false);
            }
        }
        let slow = disk::open(&self.place.slow(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let slow = slow.map_err(forebay_process::Error::from_io)?;
        let done = match step {
            Step::Rename => disk::rename_at(&slow, Path::new(NAME), &slow, Path::new(OTHER)),
            Step::Unlink => disk::remove_at(&slow, Path::new(NAME)),
            _ => disk::open(&path, OFlags::RDONLY, Mode::empty())
                .and_then(|file| disk::set_mode(file, Mode::from_bits_truncate(0o600))),
        };
        done.map_err(forebay_process::Error::from_io)
    }

    /// Ends the process as a kill does: nothing that it would do at its end has any effect.
    fn kill(&mut self) {
        self.recorder.borrow_mut().is_dead = true;
        self.area = None;
        self.recorder.borrow_mut().is_dead = false;
    }

    fn recover(&mut self) -> forebay_process::Result<()> {
        self.kill();
        let recovered = recover_all(self.place)?;
        self.errors.extend(recovered.refused.iter().filter_map(|item| item.error.clone()));
        Ok(())
    }

    /// Ends the process as a program does that drains.
    fn end(&mut self) {
        let Some(area) = self.area.take() else { return };
        if let Err(error) = area.drain(&on) {
            self.errors.push(format!("drain: {error}"));
        }
        if let Err(error) = area.close() {
            self.errors.push(format!("close: {error}"));
        }
    }
}

impl Run {
    /// The first and the last version that the destination may have after a crash behind so many changes.
    pub(crate) fn range(&self, changes: usize, is_power_loss: bool) -> (usize, usize) {
        let kept = self.promises.iter().filter(|promise| promise.changes <= changes);
        let first =
            kept.filter(|promise| promise.is_synced || !is_power_loss).map(|promise| promise.version).max();
        let begun = self.begun.iter().filter(|begun| begun.changes <= changes);
        (first.unwrap_or(0), begun.map(|begun| begun.version).max().unwrap_or(0))
    }

    /// Whether the destination may have no file after a crash behind so many changes, as the program has removed it: what waited for its turn
    /// then was not promised.
    pub(crate) fn allows_removal(&self, cut: usize, first: usize) -> bool {
        self.removals.iter().any(|removal| removal.changes < cut && first < removal.version)
    }

    /// Whether a power loss after a failed call may leave this content: an update has flushed what it wrote itself, and what an earlier one
    /// wrote straight to the destination and closed was never synced.
    pub(crate) fn allows_unsynced(&self, cut: usize, found: &Content, (first, last): (usize, usize)) -> bool {
        let kept = || self.promises.iter().filter(|promise| promise.changes <= cut && promise.is_synced);
        let own = kept().filter(|promise| promise.version == first).map(|promise| promise.own_from).max();
        let (Some(own), Some(found), Some(_)) = (own, found, &self.failed) else { return false };
        let before = kept().filter(|promise| promise.version <= own).map(|promise| promise.version).max();
        let before = before.unwrap_or(0);
        let chain = &self.versions[before..=last];
        if chain[1..].iter().any(|version| !version.is_patch) {
            return false;
        }
        let contents = |versions: &[Version]| -> Vec<Vec<u8>> {
            versions.iter().filter_map(|version| version.content.clone()).collect()
        };
        let (all, since) = (contents(chain), contents(&self.versions[first..=last]));
        let at =
            |content: &Content, index: usize| content.as_ref().and_then(|bytes| bytes.get(index).copied());
        all.iter().any(|version| version.len() == found.len())
            && (0..found.len()).all(|index| {
                let is_own =
                    at(&self.versions[own].content, index) != at(&self.versions[first].content, index);
                let versions = if is_own { &since } else { &all };
                versions.iter().any(|version| version.get(index).copied().unwrap_or(0) == found[index])
            })
    }

    /// Whether the file `name` at the destinations was made by an item that has no journal, as none could be written: nobody knows of it
    /// after a kill.
    pub(crate) fn is_unjournalled(&self, cut: usize, name: &str) -> bool {
        // An exclusive creation takes the name by renaming an empty file.
        let is_made = |change: &Change| matches!(change, Change::Create { name: made, .. } | Change::Rename { to: made, .. } if made == name);
        let Some(made) = self.changes[..cut].iter().position(is_made) else { return false };
        let start = self.starts.iter().rfind(|start| **start <= made).copied().unwrap_or(0);
        let is_journal = |change: &Change| {
            let ends = |to: &std::ffi::OsStr| {
                Path::new(to).extension().is_some_and(|end| end == "open" || end == "journal")
            };
            matches!(change, Change::Rename { to, .. } if ends(to))
        };
        !self.changes[start..made].iter().any(is_journal)
    }

    /// True if the call that failed was to write or remove a journal.
    pub(crate) fn failed_at_journal(&self) -> bool {
        self.failed.as_ref().is_some_and(|call| call.contains(".open") || call.contains(".journal"))
    }

    /// Whether a destination may have this content where the versions `first` to `last` are possible. With `is_exact`, writes in place
    /// are there as a whole.
    pub(crate) fn allows(&self, found: &Content, (first, last): (usize, usize), is_exact: bool) -> bool {
        // The name that an exclusive creation took is given back.
        if is_exact && found.as_ref().is_some_and(Vec::is_empty) {
            return false;
        }
        let is_version = self.versions[first..=last].iter().any(|version| version.content == *found);
        if is_version || is_exact {
            return is_version;
        }
        // Writes in place: each byte is one that the file had, and the length is one of its lengths.
        let Some(found) = found else { return false };
        (first..=last).filter(|start| *start == first || !self.versions[*start].is_patch).any(|start| {
            let end = (start + 1..=last).find(|index| !self.versions[*index].is_patch).unwrap_or(last + 1);
            let chain: Vec<&Vec<u8>> =
                self.versions[start..end].iter().filter_map(|version| version.content.as_ref()).collect();
            let is_len = chain.iter().any(|version| version.len() == found.len());
            let is_byte = |index: usize| {
                // A length may be there before the bytes are.
                chain.iter().any(|version| version.get(index).copied().unwrap_or(0) == found[index])
            };
            is_len && (0..found.len()).all(is_byte)
        })
    }
}

/// The errors of calls that are made to fail.
pub(crate) const ERRNOS: [Errno; 5] = [Errno::NOSPC, Errno::ACCESS, Errno::IO, Errno::MFILE, Errno::INTR];
