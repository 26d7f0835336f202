//! Managed files that are open: which version of their bytes was opened, and what was changed since.

use std::{
    collections::{HashMap, HashSet},
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use forebay_source::{FileOrigin, Locator, Origin, SourceId};

use crate::units::{dataset_units::DatasetUnits, unit_writer::UnitOrigin};

use crate::parallel::parallel_file::ParallelFile;

/// The name of an object within its file (`H5O_token_t`).
pub(crate) type ObjectToken = [u8; 16];

/// A managed file that is open in one libhdf5.
#[derive(Debug)]
pub(crate) struct VolFile {
    path: PathBuf,
    /// The bytes that were opened; `None` where they are not known well enough to keep anything of them.
    id: Option<SourceId>,
    has_plain_bytes: bool,
    /// Reads are cached; switched by the program.
    is_on: AtomicBool,
    /// What ranks share that have it open together.
    parallel: Option<Arc<ParallelFile>>,
    changes: Mutex<DatasetChanges>,
    units: Mutex<HashMap<ObjectToken, Arc<DatasetUnits>>>,
    /// Counts changes, so that readers need no lock to see that there was none.
    change_count: AtomicU64,
    /// When a look at the file that found it unchanged began.
    found_current: Mutex<Option<Instant>>,
}

/// The data sets whose values may not be those of the version that was opened.
#[derive(Debug, Default)]
struct DatasetChanges {
    all: bool,
    tokens: HashSet<ObjectToken>,
}

impl VolFile {
    /// The file at `path`, of whose bytes `id` is known.
    pub(crate) fn new(path: PathBuf, id: Option<SourceId>, is_on: bool) -> Self {
        Self {
            path,
            id,
            has_plain_bytes: false,
            is_on: AtomicBool::new(is_on),
            parallel: None,
            changes: Mutex::default(),
            units: Mutex::default(),
            change_count: AtomicU64::new(0),
            found_current: Mutex::default(),
        }
    }

    /// The same, of which it is known whether addresses of HDF5 are places in the file.
    pub(crate) fn with_plain_bytes(self, has_plain_bytes: bool) -> Self {
        Self { has_plain_bytes, ..self }
    }

    /// The same, of which nothing is kept where `is_open`: the library had it open by ways that are not seen here, such as an external
    /// link, and may hold values that are not in the file yet.
    pub(crate) fn unless_open(self, is_open: bool) -> Self {
        Self { id: self.id.filter(|_| !is_open), ..self }
    }

    /// The same, which ranks have open together.
    pub(crate) fn of_ranks(self, parallel: Arc<ParallelFile>) -> Self {
        Self { parallel: Some(parallel), ..self }
    }

    /// What is shared with other ranks, where it was opened by several.
    pub(crate) fn parallel(&self) -> Option<&Arc<ParallelFile>> {
        self.parallel.as_ref()
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The version that was opened, where something may be kept of it.
    pub(crate) fn id(&self) -> Option<&SourceId> {
        self.id.as_ref()
    }

    /// Switches caching on or off.
    pub(crate) fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// True while reads are cached.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Notes that the data set `token` is not what was opened any more.
    pub(crate) fn note_change(&self, token: ObjectToken) {
        if self.changes().tokens.insert(token) {
            self.change_count.fetch_add(1, Relaxed);
        }
    }

    /// Notes that any data set may have changed.
    pub(crate) fn note_all_changed(&self) {
        self.changes().all = true;
        self.change_count.fetch_add(1, Relaxed);
    }

    /// How many changes were noted.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.load(Relaxed)
    }

    /// True when the data set `token` may have changed.
    pub(crate) fn has_changed(&self, token: &ObjectToken) -> bool {
        let changes = self.changes();
        changes.all || changes.tokens.contains(token)
    }

    /// What is known of the units of the data set `token`.
    pub(crate) fn units_of(&self, token: ObjectToken) -> Arc<DatasetUnits> {
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(units.entry(token).or_insert_with(|| Arc::new(DatasetUnits::unknown())))
    }

    /// True when addresses of HDF5 are places in the file: there is no user block before them.
    pub(crate) fn has_plain_bytes(&self) -> bool {
        self.has_plain_bytes
    }

    /// True while the file still is the version that was opened, as far as its times and its length say.
    pub(crate) fn is_current(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|now| self.is_version(&now))
    }

    /// True when `now` is what is known of the version that was opened.
    pub(crate) fn is_version(&self, now: &Metadata) -> bool {
        let Some(id) = &self.id else { return false };
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let state = id.version.file;
        id.len == now.len()
            && id.version.tag == nanos(now.mtime(), now.mtime_nsec()).to_string()
            && state.is_none_or(|file| {
                file.inode == now.ino() && i128::from(file.changed_ns) == nanos(now.ctime(), now.ctime_nsec())
            })
    }

    fn changes(&self) -> MutexGuard<'_, DatasetChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnitOrigin for VolFile {
    /// One look serves all units that were read before it: it takes a request to a far file system.
    fn is_current_since(&self, since: Instant) -> bool {
        let found = || self.found_current.lock().unwrap_or_else(PoisonError::into_inner);
        if found().is_some_and(|looked| looked >= since) {
            return true;
        }
        let began = Instant::now();
        let is_current = self.is_current();
        if is_current {
            *found() = Some(began);
        }
        is_current
    }

    fn note_changed(&self) {
        self.note_all_changed();
    }
}

/// The bytes that lie at `path` now.
pub(crate) fn version_at(path: &Path) -> Option<SourceId> {
    let source = FileOrigin::new().without_mapping().open(&Locator::from_path(path)).ok()?;
    Some(source.id().clone())
}

/// The version of a file that was opened between `before` and `after`, where something may be kept of it: not of one that changed
/// meanwhile, as what was staged for it may have been brought there by the opening.
pub(crate) fn settled_version(
    before: Option<SourceId>,
    after: Option<SourceId>,
    grain: Duration,
) -> Option<SourceId> {
    let id = before?;
    let is_same = after.as_ref() == Some(&id);
    // Within one tick of its clock a file may change again and keep its times.
    let age = id.version.modified.map(|modified| SystemTime::now().duration_since(modified));
    let is_settled = age.is_none_or(|age| age.is_ok_and(|age| age > grain));
    (is_same && is_settled).then_some(id)
}

/// The managed files that one libhdf5 has open, by the number it gives each.
#[derive(Debug, Default)]
pub(crate) struct VolFiles {
    count: AtomicUsize,
    has_parallel: AtomicBool,
    by_number: Mutex<HashMap<u64, Weak<VolFile>>>,
}

impl VolFiles {
    /// True when no managed file was opened lately: nothing needs to be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// True when a file of several ranks was opened.
    pub(crate) fn has_parallel(&self) -> bool {
        self.has_parallel.load(Relaxed)
    }

    /// The file with `number`.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<VolFile>> {
        self.lock().get(&number).and_then(Weak::upgrade)
    }

    /// The file with `number`, which was opened once more: the one that is known, or `opened`.
    pub(crate) fn enter(&self, number: u64, opened: VolFile) -> Arc<VolFile> {
        let mut files = self.lock();
        files.retain(|_, file| file.strong_count() > 0);
        let known = files.get(&number).and_then(Weak::upgrade);
        let file = known.map_or_else(
            || Arc::new(opened),
            |known| {
                if known.id.is_some() && !known.is_current() {
                    known.note_all_changed();
                }
                known
            },
        );
        if file.parallel.is_some() {
            self.has_parallel.store(true, Relaxed);
        }
        files.insert(number, Arc::downgrade(&file));
        self.count.store(files.len(), Relaxed);
        file
    }

    /// Forgets all: the library ends, and gives the same numbers to other files when it is started again.
    pub(crate) fn forget(&self) {
        self.lock().clear();
        self.count.store(0, Relaxed);
        self.has_parallel.store(false, Relaxed);
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<Arc<VolFile>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<VolFile>>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::Version;

    use super::*;

    fn id(tag: &str) -> SourceId {
        SourceId { locator: Locator::new("a"), len: 1, version: Version::named(tag) }
    }

    #[test]
    fn a_file_that_changes_while_it_is_opened_is_not_kept() {
        let settled = |before: Option<SourceId>, after: SourceId| {
            settled_version(before, Some(after), Duration::from_secs(2)).is_some()
        };
        assert!(settled(Some(id("a")), id("a")));
        assert!(!settled(Some(id("a")), id("b")));
        assert!(!settled(None, id("b")));
        let dated = |time| SourceId { version: Version::dated("a", time), ..id("a") };
        let (young, old) = (dated(SystemTime::now()), dated(SystemTime::now() - Duration::from_secs(3)));
        assert!(!settled(Some(young.clone()), young));
        assert!(settled(Some(old.clone()), old));
    }

    #[test]
    fn a_file_is_current_until_it_is_written_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let file = VolFile::new(path.clone(), version_at(&path), true);
        let first = Instant::now();
        assert!(file.is_current() && file.is_current_since(first));
        std::fs::write(folder.path().join("b"), "one").unwrap();
        std::fs::rename(folder.path().join("b"), &path).unwrap();
        assert!(!file.is_current() && file.is_current_since(first), "read before it was replaced");
        assert!(!file.is_current_since(Instant::now()), "read after that");
        assert!(!VolFile::new(path, None, true).is_current());
    }

    #[test]
    fn a_changed_data_set_is_noted_once_and_others_stay_as_they_were() {
        let file = VolFile::new("a".into(), Some(id("a")), true);
        file.note_change([1; 16]);
        file.note_change([1; 16]);
        assert_eq!(file.change_count(), 1);
        assert!(file.has_changed(&[1; 16]) && !file.has_changed(&[2; 16]));
        file.note_all_changed();
        assert!(file.has_changed(&[2; 16]));
    }

    #[test]
    fn a_file_is_known_by_its_number_as_long_as_anything_of_it_is_open() {
        let files = VolFiles::default();
        let first = files.enter(7, VolFile::new("a".into(), None, true));
        let second = files.enter(7, VolFile::new("a".into(), Some(id("a")), true));
        assert!(Arc::ptr_eq(&first, &second) && second.id().is_none(), "the first one's view stays");
        files.forget();
        let other = files.enter(7, VolFile::new("b".into(), None, true));
        assert!(!Arc::ptr_eq(&first, &other), "another run of the library counts from the start again");
        drop((first, second, other));
        assert!(files.find(7).is_none() && !files.is_empty());
    }
}
