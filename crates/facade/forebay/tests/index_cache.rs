//! Saved descriptions: used while the file stays the same, never trusted beyond that.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    thread::sleep,
    time::{Duration, SystemTime},
};

use forebay::{
    Container, DescribeCost, FileOrigin, IndexCache, Locator, Origin,
    process::Histogram,
    source::{SourceId, TracedOrigin},
};

/// Longer than file times may lag behind.
const SETTLED: Duration = Duration::from_millis(2200);

struct Set {
    folder: tempfile::TempDir,
    origin: FileOrigin,
}

impl Set {
    /// A copy of a file with thousands of chunks, old enough to be trusted.
    fn new() -> Self {
        let matrix = std::env::var_os("FOREBAY_MATRIX").expect("FOREBAY_MATRIX is set by `make test`");
        let folder = tempfile::tempdir().unwrap();
        fs::copy(Path::new(&matrix).join("large_latest.h5"), folder.path().join("a.h5")).unwrap();
        sleep(SETTLED);
        Self { folder, origin: FileOrigin::new() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("a.h5")
    }

    fn at(&self) -> Locator {
        Locator::new(self.file().to_str().unwrap())
    }

    fn id(&self) -> SourceId {
        self.origin.open(&self.at()).unwrap().id().clone()
    }

    fn cache(&self) -> IndexCache {
        IndexCache::at(self.folder.path().join("cache/index"))
    }

    fn save(&self) -> Container {
        let container = forebay::describe(&self.origin, &self.at()).unwrap();
        self.cache().put(&self.id(), &container, DescribeCost::default());
        container
    }

    fn entry(&self) -> PathBuf {
        let listed = fs::read_dir(self.folder.path().join("cache/index")).unwrap();
        let mut entries: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(entries.len(), 1, "one file, one entry, no leftovers");
        entries.remove(0)
    }

    fn get(&self) -> Option<Container> {
        self.cache().get(&self.origin, &self.id())
    }
}

#[test]
fn what_was_saved_comes_back_and_is_for_this_user_alone() {
    let set = Set::new();
    assert!(set.get().is_none());
    let container = set.save();
    assert!(set.get() == Some(container));
    assert_eq!(set.entry().metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(set.entry().parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_changed_file_and_a_young_file_have_no_saved_description() {
    let set = Set::new();
    set.save();
    fs::write(set.file(), fs::read(set.file()).unwrap()).unwrap();
    assert!(set.get().is_none(), "the file changed");
    set.save();
    assert!(set.get().is_none(), "two writes within one tick of the clock look alike");
    set.entry();
    sleep(SETTLED);
    let container = set.save();
    assert!(set.get() == Some(container));
}

#[test]
fn a_damaged_entry_is_a_miss_wherever_the_damage_is() {
    let set = Set::new();
    set.save();
    let good = fs::read(set.entry()).unwrap();
    for at in (0..good.len()).step_by(good.len() / 40 + 1).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(set.entry(), &bad).unwrap();
        assert!(set.get().is_none(), "byte {at}");
        fs::write(set.entry(), &good[..at]).unwrap();
        assert!(set.get().is_none(), "cut at {at}");
    }
    fs::write(set.entry(), &good).unwrap();
    assert!(set.get().is_some());
}

#[test]
fn an_entry_others_could_have_written_or_that_is_a_link_is_not_read() {
    let set = Set::new();
    set.save();
    let entry = set.entry();
    for open_to_others in [0o644, 0o666] {
        fs::set_permissions(&entry, fs::Permissions::from_mode(open_to_others)).unwrap();
        assert!(set.get().is_none());
    }
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(set.get().is_some());
    let folder = entry.parent().unwrap();
    for open_to_others in [0o755, 0o777] {
        fs::set_permissions(folder, fs::Permissions::from_mode(open_to_others)).unwrap();
        assert!(set.get().is_none());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(set.get().is_some());
    let elsewhere = set.folder.path().join("elsewhere");
    fs::rename(&entry, &elsewhere).unwrap();
    symlink(&elsewhere, &entry).unwrap();
    assert!(set.get().is_none());
    fs::remove_file(&entry).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&entry).status().unwrap();
    assert!(made.success() && set.get().is_none(), "nobody writes to the pipe, and nobody waits for it");
}

#[test]
fn what_a_killed_writer_left_is_removed_and_what_is_not_ours_stays() {
    let set = Set::new();
    set.save();
    let entry = set.entry();
    let abandoned = entry.with_extension("4711-1");
    let young = entry.with_extension("4711-2");
    let foreign = entry.with_file_name("letter.txt");
    for path in [&abandoned, &young, &foreign] {
        fs::write(path, "x").unwrap();
    }
    for path in [&abandoned, &foreign] {
        let two_hours = SystemTime::now() - Duration::from_secs(7200);
        fs::File::options().write(true).open(path).unwrap().set_modified(two_hours).unwrap();
    }
    set.save();
    assert_eq!([&abandoned, &young, &foreign, &entry].map(|path| path.exists()), [false, true, true, true]);
}

#[test]
fn a_folder_that_cannot_be_made_harms_no_one() {
    let set = Set::new();
    fs::write(set.folder.path().join("cache"), "a file where the folder should be").unwrap();
    set.save();
    assert!(set.get().is_none());
    let opened = forebay::open(Arc::new(FileOrigin::new()), &set.at(), Some(&set.cache()));
    assert!(!opened.unwrap().container().variables.is_empty());
}

#[test]
fn a_file_that_was_missing_and_appears_makes_the_saved_description_a_miss() {
    let set = Set::new();
    let mut container = set.save();
    let missing = set.folder.path().join("part.h5");
    container.absent = vec![Locator::new(missing.to_str().unwrap())];
    set.cache().put(&set.id(), &container, DescribeCost::default());
    assert!(set.get() == Some(container));
    fs::write(&missing, "now it is there").unwrap();
    assert!(set.get().is_none());
}

/// A TFRecord file of `count` records of `len` bytes that are no Examples.
fn tfrecord(count: usize, len: usize) -> Vec<u8> {
    let masked =
        |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (len as u64).to_le_bytes();
    let payload = vec![0xff; len];
    let record = [&length[..], &masked(&length), &payload, &masked(&payload)].concat();
    record.repeat(count)
}

#[test]
fn the_few_records_of_a_file_that_is_read_whole_to_find_them_are_found_once() {
    let folder = tempfile::tempdir().unwrap();
    let (large, small) = (folder.path().join("a.tfrecord"), folder.path().join("b.tfrecord"));
    fs::write(&large, tfrecord(64, 8 << 10)).unwrap();
    fs::write(&small, tfrecord(64, 100)).unwrap();
    sleep(SETTLED);
    let cache = IndexCache::at(folder.path().join("index"));
    let open = |path: &Path| {
        let reads = Arc::new(Histogram::default());
        let origin = TracedOrigin::new(Arc::new(FileOrigin::new()), Arc::clone(&reads) as _);
        let at = Locator::new(path.to_str().unwrap());
        let opened = forebay::open(Arc::new(origin), &at, Some(&cache)).unwrap();
        (opened.container().clone(), reads.count())
    };
    let (first, reads) = open(&large);
    assert_eq!(first.variables[0].grid.shape, [64 * (8 << 10)], "records end to end");
    assert!(reads > 0);
    assert_eq!(open(&large), (first, 0), "its index was saved");
    open(&small);
    assert!(open(&small).1 > 0, "a few thousand bytes are read sooner than an index is saved");
}
