//! What an area promises, clause by clause, on a folder and in memory.

#![expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs::{self, File},
    ops::ControlFlow,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};

use forebay_process::{ErrorKind, Result};
use forebay_stage::{
    Area, AreaSettings, CloseWhen, DrainSync, ItemState, RecoverOptions, RedoFile, StageOptions, recover,
};

/// Only guards against hanging.
const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

fn quiet(_: forebay_stage::DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn small(settings: AreaSettings) -> AreaSettings {
    AreaSettings { quota: 64 << 20, free_floor: 0, memory: 64 << 20, ..settings }
}

/// An area on a folder, and one in memory.
fn areas(folder: &Path) -> Vec<Arc<Area>> {
    let fast = folder.join("fast");
    fs::create_dir(&fast).unwrap();
    [AreaSettings::folder(fast), AreaSettings::memory()]
        .into_iter()
        .map(|settings| Area::open(small(settings)).unwrap())
        .collect()
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn update(area: &Arc<Area>, path: &Path) -> RedoFile {
    area.update(path, open(path), StageOptions::default()).unwrap()
}

fn read(file: &RedoFile, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_at(offset, &mut bytes, &|offset, into| {
        let mut at = 0;
        while at < into.len() {
            match file.file().read_at(&mut into[at..], offset + at as u64).unwrap() {
                0 => {
                    into[at..].fill(0);
                    break;
                }
                len => at += len,
            }
        }
        Ok(())
    })?;
    Ok(bytes)
}

#[test]
fn a_new_file_appears_whole_and_not_before_it_is_sealed() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("new");
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(3, b"def").unwrap();
        file.write_at(0, b"abc").unwrap();
        let mut bytes = [0; 10];
        assert_eq!(file.read_at(1, &mut bytes).unwrap(), 5);
        assert_eq!(&bytes[..5], b"bcdef");
        assert!(!path.exists());
        let sealed = file.seal().unwrap();
        assert!(sealed.staged().wait(LIMIT).unwrap() && sealed.durable().wait(LIMIT).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"abcdef");
        area.close().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the area is left");
    }
}

#[test]
fn holes_and_lengths_of_a_new_file_are_those_of_a_plain_file() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("new");
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(5_000_000, b"x").unwrap();
        file.write_at(0, &[7; 100]).unwrap();
        file.set_len(50).unwrap();
        file.set_len(3_000_000).unwrap();
        assert_eq!(file.len().unwrap(), 3_000_000);
        file.seal().unwrap().durable().wait(LIMIT).unwrap();
        let found = fs::read(&path).unwrap();
        assert_eq!(found.len(), 3_000_000);
        assert!(found[..50].iter().all(|byte| *byte == 7) && found[50..].iter().all(|byte| *byte == 0));
        let empty = area.create(&path, StageOptions::default()).unwrap();
        empty.seal().unwrap().durable().wait(LIMIT).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }
}

#[test]
fn an_abandoned_or_dropped_file_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("old");
        fs::write(&path, "old").unwrap();
        for file in [1, 2].map(|_| area.create(&path, StageOptions::default()).unwrap()) {
            file.write_at(0, b"new").unwrap();
            file.abandon();
        }
        area.close().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(area.stats().reserved_bytes, 0);
    }
}

#[test]
fn a_new_file_keeps_mode_owner_and_attributes_of_the_old_one_and_follows_links() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    let (path, link) = (folder.path().join("old"), folder.path().join("link"));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o741)).unwrap();
    let has_attributes =
        rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    symlink("old", &link).unwrap();
    let file = area.create(&link, StageOptions::default()).unwrap();
    file.write_at(0, b"new").unwrap();
    file.seal().unwrap().durable().wait(LIMIT).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_ne!(after.ino(), before.ino(), "published by rename");
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    if has_attributes {
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap(), 4);
        assert_eq!(&value[..4], b"kept");
    }
}

#[test]
fn the_pointer_to_the_latest_file_moves_when_the_file_is_durable_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let pointer = folder.path().join("latest");
        let options = StageOptions { latest: Some(pointer.clone()), ..StageOptions::default() };
        for step in ["step-1", "step-2"] {
            let before = fs::read_link(&pointer).ok();
            area.pause();
            let file = area.create(&folder.path().join(step), options.clone()).unwrap();
            file.write_at(0, step.as_bytes()).unwrap();
            let sealed = file.seal().unwrap();
            assert!(sealed.staged().wait(LIMIT).unwrap());
            assert_eq!((fs::read_link(&pointer).ok(), sealed.durable().is_set()), (before, false));
            area.resume();
            assert!(sealed.durable().wait(LIMIT).unwrap());
            assert_eq!(fs::read_link(&pointer).unwrap(), Path::new(step));
            assert_eq!(fs::read_to_string(&pointer).unwrap(), step);
        }
        fs::remove_file(&pointer).unwrap();
    }
    fs::write(folder.path().join("file"), "").unwrap();
    let options = StageOptions { latest: Some(folder.path().join("file")), ..StageOptions::default() };
    let area = Area::open(AreaSettings::memory()).unwrap();
    let error = area.create(&folder.path().join("step-3"), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn several_versions_of_one_file_are_published_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("file");
        area.pause();
        let sealed: Vec<_> = (0..5_u8)
            .map(|version| {
                let priority = i32::from(version);
                let options = StageOptions { priority, ..StageOptions::default() };
                let file = area.create(&path, options).unwrap();
                file.write_at(0, &[version; 1000]).unwrap();
                file.seal().unwrap()
            })
            .collect();
        area.resume();
        area.drain(&quiet).unwrap();
        assert!(sealed.iter().all(|sealed| sealed.durable().is_set()));
        assert_eq!(fs::read(&path).unwrap(), [4; 1000]);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn destinations_that_cannot_be_written_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    let refused = |path: &Path| area.create(path, StageOptions::default()).unwrap_err().kind();
    assert_eq!(refused(&folder.path().join("none/file")), ErrorKind::NotFound);
    assert_eq!(refused(folder.path()), ErrorKind::Invalid);
    assert_eq!(refused(Path::new("/dev/null")), ErrorKind::Invalid);
    for end in ["a/", "a//", "a/.", "a/.."] {
        let path = folder.path().join("new").join(end);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        refused(&path);
    }
    assert_eq!(
        fs::read_dir(folder.path().join("new")).unwrap().count(),
        1,
        "the directory that 'a/..' is in alone"
    );
}

#[test]
fn a_reader_of_an_updated_file_sees_every_write_that_returned() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("file");
        fs::write(&path, [9; 100]).unwrap();
        area.pause();
        let file = update(&area, &path);
        assert_eq!((file.is_written(), file.accepted_end()), (false, None));
        file.write_at(10, b"abcdef").unwrap();
        file.write_at(12, b"XY").unwrap();
        file.write_at(120, b"end").unwrap();
        assert_eq!(file.accepted_end(), Some(123));
        assert_eq!(read(&file, 8, 10).unwrap(), b"\x09\x09abXYef\x09\x09");
        assert_eq!(fs::read(&path).unwrap(), [9; 100], "paused");
        file.drain().unwrap();
        let mut expected = vec![9; 100];
        expected[10..16].copy_from_slice(b"abXYef");
        expected.resize(120, 0);
        expected.extend_from_slice(b"end");
        assert_eq!(fs::read(&path).unwrap(), expected);
        assert_eq!(read(&file, 0, 123).unwrap(), expected);
        file.close(CloseWhen::Drained).unwrap();
        assert!(area.items().unwrap().is_empty());
        area.resume();
    }
}

#[test]
fn a_truncated_file_reads_as_zeros_where_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("file");
        fs::write(&path, [9; 100]).unwrap();
        area.pause();
        let file = update(&area, &path);
        file.write_at(0, &[1; 60]).unwrap();
        file.truncate(50).unwrap();
        file.write_at(80, &[2; 10]).unwrap();
        file.truncate(95).unwrap();
        let mut expected = vec![1; 50];
        expected.resize(80, 0);
        expected.resize(90, 2);
        expected.resize(95, 0);
        assert_eq!(read(&file, 0, 95).unwrap(), expected);
        assert_eq!(file.accepted_end(), Some(95));
        file.close(CloseWhen::Drained).unwrap();
        assert_eq!(fs::read(&path).unwrap(), expected);
    }
}

#[test]
fn ten_thousand_small_writes_reach_the_destination_as_fewer_than_ten() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("file");
        let file = update(&area, &path);
        let block = |index: usize| [u8::try_from(index % 251).unwrap(); 4096];
        for index in 0..10_000 {
            file.write_at(index as u64 * 4096, &block(index)).unwrap();
        }
        file.close(CloseWhen::Drained).unwrap();
        let stats = area.stats();
        // Where the machine stands still for a second in between, a drain begins earlier.
        assert!(stats.drain_writes < 10, "{stats:?}");
        let found = fs::read(&path).unwrap();
        assert!(found.chunks(4096).enumerate().all(|(index, found)| found == block(index)));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_delayed_close_returns_before_the_drain_and_the_area_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    let path = folder.path().join("file");
    area.pause();
    let file = update(&area, &path);
    file.write_at(0, b"later").unwrap();
    file.close(CloseWhen::Staged).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(area.pending(&path).unwrap(), Some(ItemState::Draining));
    assert!(!area.wait_for(&path, Some(Duration::ZERO), &|| true).unwrap());
    assert!(!area.wait_for(&path, None, &|| false).unwrap());
    let items = area.items().unwrap();
    assert_eq!((items.len(), items[0].bytes, items[0].is_deserted), (1, 5, false));
    let other = Area::open(area.settings().clone()).unwrap();
    assert_eq!(other.pending(&path).unwrap(), Some(ItemState::Draining), "other processes see it too");
    area.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"later");
    assert!(other.wait_for(&path, LIMIT, &|| true).unwrap());
}

#[test]
fn the_image_of_a_sealed_file_can_be_read_before_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    let path = folder.path().join("file");
    area.pause();
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, b"image").unwrap();
    assert!(area.open_staged(&path).unwrap().is_none());
    file.seal().unwrap().staged().wait(LIMIT).unwrap();
    let image = area.open_staged(&path).unwrap().unwrap();
    let mut bytes = [0; 5];
    image.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"image");
    area.close().unwrap();
    assert!(area.open_staged(&path).unwrap().is_none());
}

#[test]
fn a_pause_for_all_stops_other_areas_of_the_folder_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    let other = Area::open(area.settings().clone()).unwrap();
    other.pause_all().unwrap();
    assert!(area.is_paused_for_all().unwrap());
    let file = area.create(&folder.path().join("file"), StageOptions::default()).unwrap();
    let sealed = file.seal().unwrap();
    assert!(sealed.staged().wait(LIMIT).unwrap());
    assert!(!sealed.durable().wait(Some(Duration::from_millis(300))).unwrap());
    other.resume_all().unwrap();
    other.resume_all().unwrap();
    assert!(sealed.durable().wait(LIMIT).unwrap());
}

#[test]
fn a_full_area_lets_writes_through_in_order_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    for (name, quota) in [("none", 0), ("one", 1 << 20), ("some", 8 << 20)] {
        for place in 0..2 {
            let fast = folder.path().join(format!("fast-{name}-{place}"));
            fs::create_dir(&fast).unwrap();
            let settings = [AreaSettings::folder(fast), AreaSettings::memory()][place].clone();
            let area = Area::open(AreaSettings { quota, start_paused: true, ..small(settings) }).unwrap();
            let path = folder.path().join(format!("{name}-{place}"));
            let file = update(&area, &path);
            let mut expected = vec![0; 12 << 20];
            for index in 0..48_usize {
                let at = (index * 7 % 23) << 19;
                let bytes = vec![u8::try_from(index + 1).unwrap(); 1 << 19];
                expected[at..at + bytes.len()].copy_from_slice(&bytes);
                file.write_at(at as u64, &bytes).unwrap();
                assert_eq!(read(&file, at as u64, 100).unwrap(), &expected[at..at + 100]);
            }
            let stats = area.stats();
            assert!(stats.passed_through_bytes > 0, "{quota}: {stats:?}");
            assert!(stats.reserved_bytes <= quota);
            file.stage().unwrap();
            file.close(CloseWhen::Drained).unwrap();
            expected.truncate(23 << 19);
            assert!(fs::read(&path).unwrap() == expected, "{name} {place}");

            let path = folder.path().join(format!("new-{name}-{place}"));
            let file = area.create(&path, StageOptions::default()).unwrap();
            file.write_at(0, &expected).unwrap();
            file.write_at(5, b"again").unwrap();
            expected[5..10].copy_from_slice(b"again");
            let mut found = vec![0; expected.len()];
            assert_eq!(file.read_at(0, &mut found).unwrap(), expected.len());
            assert!(found == expected);
            let sealed = file.seal().unwrap();
            area.drain(&quiet).unwrap();
            assert!(sealed.durable().is_set());
            assert!(fs::read(&path).unwrap() == expected, "{name} {place}");
            assert!(area.stats().passed_through_bytes > stats.passed_through_bytes);
        }
    }
}

#[test]
fn areas_of_one_folder_share_its_quota() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    let areas: Vec<_> = (0..4).map(|_| Area::open(area.settings().clone()).unwrap()).collect();
    let paths: Vec<_> = (0..4).map(|index| folder.path().join(format!("file-{index}"))).collect();
    let bytes = vec![1; 1 << 20];
    let files: Vec<_> = areas
        .iter()
        .zip(&paths)
        .map(|(area, path)| {
            area.pause();
            let file = update(area, path);
            (0..30).for_each(|index| file.write_at(index << 20, &bytes).unwrap());
            file
        })
        .collect();
    let reserved: u64 = areas.iter().map(|area| area.stats().reserved_bytes).sum();
    let passed: u64 = areas.iter().map(|area| area.stats().passed_through_bytes).sum();
    assert!(reserved <= 64 << 20, "{reserved}");
    assert!(passed >= 50 << 20, "{passed}");
    files.into_iter().for_each(|file| file.close(CloseWhen::Drained).unwrap());
    assert!(paths.iter().all(|path| fs::read(path).unwrap() == vec![1; 30 << 20]));
}

#[test]
fn a_destination_that_takes_nothing_is_an_error_of_the_flush_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    for (index, area) in areas(folder.path()).into_iter().enumerate() {
        let path = folder.path().join(format!("file-{index}"));
        fs::write(&path, "old").unwrap();
        // Open for reading alone: every write is refused.
        let file = area.update(&path, File::open(&path).unwrap(), StageOptions::default()).unwrap();
        file.write_at(0, b"new").unwrap();
        let error = file.drain().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(9), "{error}");
        assert!(error.to_string().contains("file"), "{error}");
        assert_eq!(read(&file, 0, 3).unwrap(), b"new");
        assert!(file.close(CloseWhen::Drained).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(area.close().is_err());
        drop(area);
    }
    let fast = folder.path().join("fast");
    let done = recover(&fast, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
    assert_eq!(fs::read(folder.path().join("file-0")).unwrap(), b"new");
    assert_eq!(recover(&fast, &RecoverOptions::default(), &quiet).unwrap().finished.len(), 0);
}

#[test]
fn syncs_of_the_destination_come_only_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    for (sync, count) in [(DrainSync::Written, 0), (DrainSync::Synced, 1)] {
        let path = folder.path().join("file");
        let options = StageOptions { sync, ..StageOptions::default() };
        let file = area.update(&path, open(&path), options).unwrap();
        file.write_at(0, b"bytes").unwrap();
        let before = area.stats().destination_syncs;
        file.drain().unwrap();
        assert_eq!(area.stats().destination_syncs - before, count);
        file.close(CloseWhen::Drained).unwrap();
    }
}

#[test]
fn threads_that_write_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("file");
        let file = update(&area, &path);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let file = &file;
                scope.spawn(move || {
                    for index in 0..200 {
                        let at = (index * 4 + thread) * 5000;
                        file.write_at(at, &[thread as u8 + 1; 5000]).unwrap();
                        assert_eq!(read(file, at, 5000).unwrap(), [thread as u8 + 1; 5000]);
                        if index % 50 == 0 {
                            file.drain().unwrap();
                        }
                    }
                });
            }
        });
        file.close(CloseWhen::Drained).unwrap();
        let found = fs::read(&path).unwrap();
        assert!(found.chunks(5000).enumerate().all(|(index, part)| part == [(index % 4) as u8 + 1; 5000]));
    }
}

#[test]
fn a_bandwidth_limit_and_a_small_memory_change_no_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let fast = folder.path().join("fast");
    fs::create_dir(&fast).unwrap();
    let settings = AreaSettings { bandwidth: Some(100 << 20), memory: 1, ..AreaSettings::folder(fast) };
    let area = Area::open(AreaSettings { free_floor: 0, drainers: 3, ..settings }).unwrap();
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|index| (index % 253) as u8).collect();
    let file = area.create(&path, StageOptions { read_back: true, ..StageOptions::default() }).unwrap();
    file.write_at(0, &bytes).unwrap();
    file.seal().unwrap().durable().wait(LIMIT).unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
}

#[test]
fn folders_and_files_of_the_area_are_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    area.pause();
    let file = update(&area, &folder.path().join("file"));
    file.write_at(0, b"x").unwrap();
    let new = area.create(&folder.path().join("new"), StageOptions::default()).unwrap();
    new.write_at(0, b"x").unwrap();
    let mut found = vec![fs::read_dir(folder.path().join("fast")).unwrap().next().unwrap().unwrap().path()];
    let mut index = 0;
    while let Some(path) = found.get(index).cloned() {
        let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if path.is_dir() {
            found.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        index += 1;
    }
    assert!(found.len() > 6);
}

#[test]
fn writes_that_were_refused_are_forgotten_when_their_destination_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    for (index, area) in areas(folder.path()).into_iter().enumerate() {
        let path = folder.path().join(format!("file-{index}"));
        fs::write(&path, "old").unwrap();
        let file = area.update(&path, File::open(&path).unwrap(), StageOptions::default()).unwrap();
        file.write_at(0, b"refused").unwrap();
        let begun = area.items().unwrap();
        assert!(file.drain().is_err());
        assert!(area.discard(&path).is_err(), "it is still open");
        assert!(file.close(CloseWhen::Drained).is_err());
        let since =
            |items: &[forebay_stage::ItemStatus]| items.iter().map(|item| item.since).collect::<Vec<_>>();
        let failed = area.items().unwrap();
        assert_eq!(since(&begun), since(&failed), "an item keeps its place among the others");
        if index == 0 {
            let other = Area::open(area.settings().clone()).unwrap();
            let error = other.discard(&path).unwrap_err();
            assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::Unavailable, Some(16)), "{error}");
        }
        area.discard(&path).unwrap();
        assert_eq!(area.pending(&path).unwrap(), None);
        fs::write(&path, "new").unwrap();
        area.close().unwrap();
        assert!(area.items().unwrap().is_empty());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}

#[test]
fn the_pointer_to_the_latest_file_never_goes_back_to_one_that_was_begun_before() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let pointer = folder.path().join("latest");
        let create = |step: &str| {
            let latest = Some(pointer.clone());
            let options = StageOptions { latest, ..StageOptions::default() };
            area.create(&folder.path().join(step), options).unwrap()
        };
        let (one, two) = (create("step-1"), create("step-2"));
        two.write_at(0, b"two").unwrap();
        assert!(two.seal().unwrap().durable().wait(LIMIT).unwrap());
        assert_eq!(fs::read_link(&pointer).unwrap(), Path::new("step-2"));
        one.write_at(0, b"one").unwrap();
        assert!(one.seal().unwrap().durable().wait(LIMIT).unwrap());
        assert_eq!(fs::read_link(&pointer).unwrap(), Path::new("step-2"));
        assert!(create("step-3").seal().unwrap().durable().wait(LIMIT).unwrap());
        assert_eq!(fs::read_link(&pointer).unwrap(), Path::new("step-3"));
        fs::remove_file(&pointer).unwrap();
    }
}

#[test]
fn segments_whose_records_are_drained_are_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let area = areas(folder.path()).remove(0);
    let path = folder.path().join("file");
    let file = update(&area, &path);
    for round in 0..30_u8 {
        file.write_at(0, &vec![round; 3 << 20]).unwrap();
        file.drain().unwrap();
    }
    let own = fs::read_dir(folder.path().join("fast")).unwrap().next().unwrap().unwrap().path();
    let folders = fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let names =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()));
    let names = names.map(|name| name.into_string().unwrap());
    let numbers = names.filter_map(|name| name.strip_prefix("s-")?.strip_suffix(".log")?.parse::<u32>().ok());
    let most = numbers.max().expect("a segment waits for its next use");
    assert!(most < 10, "segment {most} was made for 30 rounds");
    file.close(CloseWhen::Drained).unwrap();
}
