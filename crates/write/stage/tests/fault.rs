//! Disks that are full, read-only or damaged: clear errors, and nothing is lost.
//!
//! Small file systems are mounted where the tests run as root; elsewhere those tests have nothing to look at.

#![expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs::{self, File},
    io::Write,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use forebay_process::ErrorKind;
use forebay_stage::{
    Area, AreaSettings, CloseWhen, DrainProgress, ItemState, RecoverOptions, StageOptions, recover,
};

const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

fn quiet(_: DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A small file system in memory, unmounted when it is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(path: &Path, size: &str) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let options = format!("size={size},mode=700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self(path.to_owned())),
            _ => {
                eprintln!("file systems cannot be mounted here: nothing is tested");
                None
            }
        }
    }

    fn remount(&self, options: &str) {
        let remounted =
            Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).status().unwrap();
        assert!(remounted.success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn area(fast: &Path) -> Arc<Area> {
    Area::open(AreaSettings { free_floor: 0, ..AreaSettings::folder(fast) }).unwrap()
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index / 1000) as u8).collect()
}

#[test]
fn a_fast_disk_that_is_full_lets_writes_through_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let fast = folder.path().join("fast");
    let Some(_small) = Small::mount(&fast, "4m") else { return };
    let area = area(&fast);
    let expected = bytes(10 << 20);
    let path = folder.path().join("update");
    let file = area.update(&path, open(&path), StageOptions::default()).unwrap();
    for (index, part) in expected.chunks(256 << 10).enumerate() {
        file.write_at(index as u64 * (256 << 10), part).unwrap();
        if index % 9 == 0 {
            file.stage().unwrap();
        }
    }
    file.close(CloseWhen::Drained).unwrap();
    assert!(fs::read(&path).unwrap() == expected);
    let path = folder.path().join("create");
    let file = area.create(&path, StageOptions::default()).unwrap();
    for (index, part) in expected.chunks(256 << 10).enumerate() {
        file.write_at(index as u64 * (256 << 10), part).unwrap();
    }
    file.seal().unwrap().durable().wait(LIMIT).unwrap();
    assert!(fs::read(&path).unwrap() == expected);
    assert!(area.stats().passed_through_bytes > 0, "{:?}", area.stats());
}

#[test]
fn a_free_floor_keeps_the_last_of_the_fast_disk_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let fast = folder.path().join("fast");
    let Some(_small) = Small::mount(&fast, "16m") else { return };
    let settings = AreaSettings { free_floor: 8 << 20, start_paused: true, ..AreaSettings::folder(&fast) };
    let area = Area::open(settings).unwrap();
    let path = folder.path().join("file");
    let file = area.update(&path, open(&path), StageOptions::default()).unwrap();
    for index in 0..16 {
        file.write_at(index << 20, &bytes(1 << 20)).unwrap();
    }
    let stat = rustix::fs::statvfs(&fast).unwrap();
    assert!(stat.f_bavail * stat.f_frsize >= 8 << 20);
    assert!(area.stats().passed_through_bytes >= 8 << 20, "{:?}", area.stats());
    file.close(CloseWhen::Drained).unwrap();
}

#[test]
fn a_destination_that_is_full_is_a_clear_error_and_a_later_drain_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, slow) = (folder.path().join("fast"), folder.path().join("slow"));
    fs::create_dir(&fast).unwrap();
    let Some(small) = Small::mount(&slow, "2m") else { return };
    let area = area(&fast);
    let expected = bytes(5 << 20);
    let (path, new) = (slow.join("update"), slow.join("create"));
    let file = area.update(&path, open(&path), StageOptions::default()).unwrap();
    file.write_at(0, &expected).unwrap();
    let error = file.drain().unwrap_err();
    assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::Full, Some(28)), "{error}");
    assert!(error.to_string().contains("slow/update") && error.to_string().contains("kept"), "{error}");
    let created = area.create(&new, StageOptions::default()).unwrap();
    created.write_at(0, &expected).unwrap();
    let sealed = created.seal().unwrap();
    assert!(sealed.staged().wait(LIMIT).unwrap());
    let error = sealed.durable().wait(LIMIT).unwrap_err();
    assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::Full, Some(28)), "{error}");
    assert!(!new.exists());
    let states: Vec<_> = area.items().unwrap().iter().map(|item| item.state).collect();
    assert_eq!(states, [ItemState::Failed, ItemState::Failed]);
    let error = area.wait_for(&new, LIMIT, &|| true).unwrap_err();
    assert!(error.to_string().contains("staging area"), "{error}");

    small.remount("size=32m");
    area.drain(&quiet).unwrap();
    assert!(sealed.durable().is_set());
    assert!(fs::read(&path).unwrap() == expected && fs::read(&new).unwrap() == expected);
    file.close(CloseWhen::Drained).unwrap();
    assert!(area.items().unwrap().is_empty());
}

#[test]
fn a_destination_that_became_read_only_is_a_clear_error_and_a_later_drain_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, slow) = (folder.path().join("fast"), folder.path().join("slow"));
    fs::create_dir(&fast).unwrap();
    let Some(small) = Small::mount(&slow, "8m") else { return };
    let area = area(&fast);
    area.pause();
    let file = area.create(&slow.join("file"), StageOptions::default()).unwrap();
    file.write_at(0, b"new").unwrap();
    let sealed = file.seal().unwrap();
    assert!(sealed.staged().wait(LIMIT).unwrap());
    small.remount("ro");
    area.resume();
    let error = sealed.durable().wait(LIMIT).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(30), "{error}");
    assert!(error.to_string().contains("slow/file"), "{error}");
    let error = area.create(&slow.join("other"), StageOptions::default()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(30), "{error}");
    small.remount("rw");
    area.drain(&quiet).unwrap();
    assert_eq!(fs::read(slow.join("file")).unwrap(), b"new");
    assert!(sealed.durable().is_set());
}

/// The files of the area whose names end so.
fn files(fast: &Path, ending: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(fast).unwrap().flat_map(|user| fs::read_dir(user.unwrap().path()).unwrap());
    let folders = folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    files.filter(|path| path.to_str().unwrap().ends_with(ending)).collect()
}

#[test]
fn bytes_that_change_in_the_area_are_never_published() {
    let folder = tempfile::tempdir().unwrap();
    let fast = folder.path().join("fast");
    fs::create_dir(&fast).unwrap();
    let area = area(&fast);
    area.pause();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, &bytes(3 << 20)).unwrap();
    let sealed = file.seal().unwrap();
    sealed.staged().wait(LIMIT).unwrap();
    let image = File::options().write(true).open(&files(&fast, ".data")[0]).unwrap();
    image.write_all_at(&[0xff], 2_000_000).unwrap();
    area.resume();
    let error = sealed.durable().wait(LIMIT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    image.write_all_at(&bytes(2_000_001)[2_000_000..], 2_000_000).unwrap();
    area.drain(&quiet).unwrap();
    assert!(fs::read(&path).unwrap() == bytes(3 << 20));
}

#[test]
fn bytes_that_change_after_the_seal_are_refused_with_a_way_out() {
    let (folder, left) = killed(|area, folder| {
        let path = folder.join("file");
        fs::write(&path, "old").unwrap();
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(0, b"new bytes").unwrap();
        file.seal().unwrap().staged().wait(LIMIT).unwrap();
    });
    let path = folder.path().join("file");
    let image = File::options().write(true).open(&files(&left, ".data")[0]).unwrap();
    image.write_all_at(b"own", 0).unwrap();
    let refused = recover(&left, &RecoverOptions::default(), &quiet).unwrap().refused;
    let (id, error) = (refused[0].id.clone(), refused[0].error.clone().unwrap());
    assert!(error.contains("--apply") && error.contains("--discard"), "{error}");
    assert_eq!((refused.len(), fs::read(&path).unwrap()), (1, b"old".to_vec()));
    let apply = RecoverOptions { apply: vec![id], ..RecoverOptions::default() };
    let finished = recover(&left, &apply, &quiet).unwrap().finished;
    assert!(finished[0].error.as_ref().unwrap().contains("sealed again as they are"), "{finished:?}");
    assert_eq!(fs::read(&path).unwrap(), b"own bytes");
}

/// An area as a killed process leaves it: a copy of the folder of one that lives.
fn killed(write: impl FnOnce(&Arc<Area>, &Path)) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let fast = folder.path().join("fast");
    fs::create_dir(&fast).unwrap();
    let settings = AreaSettings { start_paused: true, free_floor: 0, ..AreaSettings::folder(&fast) };
    let area = Area::open(settings).unwrap();
    write(&area, folder.path());
    let copied = Command::new("cp").arg("-a").arg(&fast).arg(folder.path().join("left")).status().unwrap();
    assert!(copied.success());
    let left = folder.path().join("left");
    // Dropped, it would drain what the copy is about.
    std::mem::forget(area);
    (folder, left)
}

fn refused(left: &Path) -> String {
    let done = recover(left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (0, 1), "{done:?}");
    done.refused[0].error.clone().unwrap()
}

#[test]
fn a_damaged_log_is_refused_with_a_way_out_and_what_comes_before_can_be_applied() {
    let path = |folder: &Path| folder.join("file");
    let (folder, left) = killed(|area, folder| {
        fs::write(path(folder), [0; 10]).unwrap();
        let file = area.update(&path(folder), open(&path(folder)), StageOptions::default()).unwrap();
        file.write_at(0, b"first").unwrap();
        // A record too long for the first segment begins another.
        file.write_at(5, &[1; 2 << 20]).unwrap();
        file.stage().unwrap();
        std::mem::forget(file);
    });
    let first = files(&left, "s-0.log").remove(0);
    File::options().write(true).open(first).unwrap().write_all_at(b"X", 48 + 48).unwrap();
    let error = refused(&left);
    assert!(error.contains("damaged") && error.contains("--apply") && error.contains("--discard"), "{error}");
    assert_eq!(fs::read(path(folder.path())).unwrap(), [0; 10]);
}

#[test]
fn what_a_flush_promised_is_missed_where_a_log_has_lost_it() {
    let write = |log: &Path, byte: u8, at: u64| {
        File::options().write(true).open(log).unwrap().write_all_at(&[byte], at).unwrap();
    };
    let second = (64 + 48 + 1000_u64).next_multiple_of(64) + 48;
    let damages: [(&str, &dyn Fn(&Path), usize); 4] = [
        ("head", &|log| write(log, b'X', 20), 0),
        ("version", &|log| write(log, 9, 8), 0),
        ("second record", &|log| write(log, b'X', second + 10), 1),
        ("file", &|log| fs::remove_file(log).unwrap(), 0),
    ];
    for (what, damage, left_over) in damages {
        let (folder, left) = killed(|area, folder| {
            fs::write(folder.join("file"), [b'0'; 3000]).unwrap();
            let file = area.update(&folder.join("file"), open(&folder.join("file")), StageOptions::default());
            let file = file.unwrap();
            for letter in 0..3 {
                file.write_at(1000 * u64::from(letter), &[b'A' + letter; 1000]).unwrap();
            }
            file.stage().unwrap();
            std::mem::forget(file);
        });
        let path = folder.path().join("file");
        damage(&files(&left, "s-0.log").remove(0));
        let other = Area::open(AreaSettings::folder(&left)).unwrap();
        let error = other.pending(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
        let error = refused(&left);
        assert!(error.contains("damaged") && error.contains("--apply"), "{what}: {error}");
        assert_eq!(fs::read(&path).unwrap(), [b'0'; 3000], "{what}");
        let id = recover(&left, &RecoverOptions::default(), &quiet).unwrap().refused.remove(0).id;
        let apply = RecoverOptions { apply: vec![id.clone()], ..RecoverOptions::default() };
        let done = recover(&left, &apply, &quiet).unwrap();
        assert_eq!((done.finished.len(), done.refused.len()), (left_over, 1 - left_over), "{what}: {done:?}");
        if left_over == 0 {
            let discard = RecoverOptions { discard: vec![id], ..RecoverOptions::default() };
            assert_eq!(recover(&left, &discard, &quiet).unwrap().discarded.len(), 1, "{what}");
        }
    }
}

#[test]
fn a_log_of_an_earlier_version_which_promised_nothing_is_replayed_as_far_as_it_is_whole() {
    let (folder, left) = killed(|area, folder| {
        fs::write(folder.join("file"), [b'0'; 3000]).unwrap();
        let file =
            area.update(&folder.join("file"), open(&folder.join("file")), StageOptions::default()).unwrap();
        file.write_at(0, &[b'A'; 1000]).unwrap();
        file.write_at(1000, &[b'B'; 1000]).unwrap();
        file.stage().unwrap();
        std::mem::forget(file);
    });
    // Slots of 80 bytes as they were written before: the flags have two bits.
    let facts = files(&left, ".facts").remove(0);
    let mut bytes = fs::read(&facts).unwrap();
    for slot in bytes.chunks_exact_mut(80).filter(|slot| slot[..4] == *b"FBF1") {
        slot[48] &= 3;
        slot[49..56].fill(0);
        let sum = crc32c::crc32c(&slot[8..]);
        slot[4..8].copy_from_slice(&sum.to_le_bytes());
    }
    fs::write(&facts, bytes).unwrap();
    let log = File::options().write(true).open(files(&left, "s-0.log").remove(0)).unwrap();
    let second = (64 + 48 + 1000_u64).next_multiple_of(64) + 48;
    log.write_all_at(b"X", second + 10).unwrap();
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
    let bytes = fs::read(folder.path().join("file")).unwrap();
    assert_eq!((bytes[0], bytes[1000]), (b'A', b'0'));
}

#[test]
fn damaged_and_foreign_journals_are_reported_and_refused_and_can_be_discarded() {
    for damage in ["cut", "noise", "version", "empty"] {
        let (folder, left) = killed(|area, folder| {
            let file = area.create(&folder.join("file"), StageOptions::default()).unwrap();
            file.write_at(0, b"new").unwrap();
            file.seal().unwrap().staged().wait(LIMIT).unwrap();
        });
        let journal = files(&left, ".journal").remove(0);
        let mut bytes = fs::read(&journal).unwrap();
        match damage {
            "cut" => bytes.truncate(bytes.len() - 1),
            "noise" => bytes[40] ^= 0xff,
            "version" => bytes[8] = 99,
            _ => bytes.clear(),
        }
        File::create(&journal).unwrap().write_all(&bytes).unwrap();
        let other = Area::open(AreaSettings::folder(&left)).unwrap();
        let path = folder.path().join("file");
        let error = other.pending(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "who opens it is told, {damage}: {error}");
        assert_eq!(other.pending(&folder.path().join("another")).unwrap(), None, "{damage}");
        let error = refused(&left);
        assert!(error.contains("journal") && error.contains("--discard"), "{damage}: {error}");
        let id = journal.file_stem().unwrap().to_str().unwrap().to_owned();
        let options = RecoverOptions { discard: vec![id], ..RecoverOptions::default() };
        assert_eq!(recover(&left, &options, &quiet).unwrap().discarded.len(), 1);
        assert!(!folder.path().join("file").exists());
        let again = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
        assert_eq!(again, forebay_stage::Recovered::default());
    }
}

#[test]
fn recover_that_is_broken_off_is_finished_by_the_next() {
    let (folder, left) = killed(|area, folder| {
        for name in ["one", "two", "three"] {
            let file = area.create(&folder.join(name), StageOptions::default()).unwrap();
            file.write_at(0, name.as_bytes()).unwrap();
            file.seal().unwrap().staged().wait(LIMIT).unwrap();
        }
    });
    let broken = recover(&left, &RecoverOptions::default(), &|_| ControlFlow::Break(()));
    assert!(broken.is_err_and(|error| error.to_string().contains("interrupted")));
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert!(done.refused.is_empty(), "{done:?}");
    for name in ["one", "two", "three"] {
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), name);
    }
}
