//! Faults that were found once, each with what is to happen instead.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs::{self, File},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::Duration,
};

use forebay_stage::{
    Area, AreaSettings, CloseWhen, ItemState, RecoverOptions, Sealed, StageOptions, recover,
};

/// Only guards against hanging.
const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

fn quiet(_: forebay_stage::DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn settings(folder: &Path) -> AreaSettings {
    let fast = folder.join("fast");
    AreaSettings { quota: 64 << 20, free_floor: 0, start_paused: true, ..AreaSettings::folder(fast) }
}

/// An area on a folder, and one in memory; nothing is drained unless it is asked for.
fn areas(folder: &Path) -> [Arc<Area>; 2] {
    let memory = AreaSettings { start_paused: true, ..AreaSettings::memory() };
    [settings(folder), memory].map(|settings| Area::open(settings).unwrap())
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// Writes `bytes` to the file at `path` and closes it before they are there.
fn close_early(area: &Arc<Area>, path: &Path, bytes: &[u8]) {
    let file = area.update(path, open(path), StageOptions::default()).unwrap();
    file.write_at(0, bytes).unwrap();
    file.close(CloseWhen::Staged).unwrap();
}

#[test]
fn a_file_that_was_renamed_after_its_close_gets_its_bytes_and_who_has_its_name_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let (path, renamed) = (folder.path().join("file"), folder.path().join("renamed"));
        fs::write(&path, "old bytes").unwrap();
        close_early(&area, &path, b"NEW");
        fs::rename(&path, &renamed).unwrap();
        assert_eq!(area.pending(&path).unwrap(), None, "nothing is there");
        fs::write(&path, "a stranger").unwrap();
        assert_eq!(area.pending(&path).unwrap(), None, "the stranger waits for nothing");
        assert_eq!(area.pending(&renamed).unwrap(), Some(ItemState::Draining));
        assert!(!area.wait_for(&renamed, Some(Duration::ZERO), &|| true).unwrap());
        area.discard(&path).unwrap();
        assert_eq!(area.pending(&renamed).unwrap(), Some(ItemState::Draining), "who replaces the stranger");
        area.drain(&quiet).unwrap();
        assert!(area.wait_for(&renamed, LIMIT, &|| true).unwrap());
        assert_eq!(fs::read(&renamed).unwrap(), b"NEW bytes");
        assert_eq!(fs::read(&path).unwrap(), b"a stranger");
    }
}

#[test]
fn another_process_finds_a_renamed_file_by_its_new_name() {
    let folder = tempfile::tempdir().unwrap();
    let [area, _] = areas(folder.path());
    let other = Area::open(area.settings().clone()).unwrap();
    let (path, renamed) = (folder.path().join("file"), folder.path().join("renamed"));
    close_early(&area, &path, b"bytes");
    fs::rename(&path, &renamed).unwrap();
    fs::write(&path, "a stranger").unwrap();
    assert_eq!(other.pending(&path).unwrap(), None);
    assert_eq!(other.pending(&renamed).unwrap(), Some(ItemState::Draining));
    assert!(other.discard(&path).is_ok() && other.discard(&renamed).is_err());
    area.close().unwrap();
    assert_eq!(fs::read(&renamed).unwrap(), b"bytes");
}

#[test]
fn a_file_that_was_removed_and_made_anew_after_its_close_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("file");
        close_early(&area, &path, b"for the removed one");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "anew").unwrap();
        assert_eq!(area.pending(&path).unwrap(), None);
        area.drain(&quiet).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"anew");
    }
}

fn sealed(area: &Arc<Area>, path: &Path, bytes: &[u8]) -> Sealed {
    let file = area.create(path, StageOptions::default()).unwrap();
    file.write_at(0, bytes).unwrap();
    let sealed = file.seal().unwrap();
    assert!(sealed.staged().wait(LIMIT).unwrap());
    sealed
}

#[test]
fn of_two_processes_the_one_that_sealed_later_has_its_file_at_the_destination() {
    for is_older_first in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let [older, newer] = [1, 2].map(|_| Area::open(settings(folder.path())).unwrap());
        let one = sealed(&older, &path, b"one");
        let two = sealed(&newer, &path, b"two");
        let order = if is_older_first { [&older, &newer] } else { [&newer, &older] };
        for area in order {
            area.drain(&quiet).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"two", "older first: {is_older_first}");
        assert!(one.durable().is_set() && two.durable().is_set());
        let third = sealed(&older, &path, b"three");
        older.drain(&quiet).unwrap();
        assert!(third.durable().is_set() && fs::read(&path).unwrap() == b"three");
        assert!(older.items().unwrap().is_empty());
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "the file and the area");
    }
}

#[test]
fn recover_leaves_the_file_that_was_sealed_last_whichever_process_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let areas = [1, 2, 3].map(|_| Area::open(settings(folder.path())).unwrap());
    // Sealed in another order than they were begun in.
    let files = [2, 0, 1].map(|index: usize| {
        let file = areas[index].create(&path, StageOptions::default()).unwrap();
        file.write_at(0, format!("version {index}").as_bytes()).unwrap();
        (index, file)
    });
    let mut files = Vec::from(files);
    files.sort_by_key(|(index, _)| *index);
    for (_, file) in files {
        assert!(file.seal().unwrap().staged().wait(LIMIT).unwrap());
    }
    let (fast, left) = (folder.path().join("fast"), folder.path().join("left"));
    let copied = std::process::Command::new("cp").arg("-a").args([&fast, &left]).status().unwrap();
    assert!(copied.success());
    areas.iter().for_each(|area| area.leave());
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (3, 0), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"version 2");
}

#[test]
fn a_destination_that_others_changed_after_the_seal_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    for area in areas(folder.path()) {
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let new = sealed(&area, &path, b"new");
        fs::write(&path, "by others").unwrap();
        let error = area.drain(&quiet).unwrap_err();
        assert!(error.to_string().contains("changed by others"), "{error}");
        assert!(new.durable().error().is_some());
        assert_eq!(fs::read(&path).unwrap(), b"by others");
        area.discard(&path).unwrap();
        area.close().unwrap();
    }
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn an_area_that_cannot_be_used_lets_all_writes_through_and_warns_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("no folder"), "").unwrap();
    for place in ["/proc/self/fast".into(), folder.path().join("no folder")] {
        let area = Area::open(AreaSettings::folder(&place)).unwrap();
        let (path, new) = (folder.path().join("file"), folder.path().join("new"));
        let file = area.update(&path, open(&path), StageOptions::default()).unwrap();
        file.write_at(0, b"straight").unwrap();
        file.truncate(6).unwrap();
        file.write_at(8, b"through").unwrap();
        file.stage().unwrap();
        assert_eq!(
            (fs::read(&path).unwrap().as_slice(), file.accepted_end()),
            (&b"straig\0\0through"[..], Some(15))
        );
        file.close(CloseWhen::Staged).unwrap();
        let file = area.create(&new, StageOptions::default()).unwrap();
        file.write_at(0, b"new").unwrap();
        assert!(!new.exists());
        let sealed = file.seal().unwrap();
        assert!(sealed.staged().wait(LIMIT).unwrap() && sealed.durable().wait(LIMIT).unwrap());
        assert_eq!(fs::read(&new).unwrap(), b"new");
        let stats = area.stats();
        assert_eq!((stats.staged_bytes, stats.passed_through_bytes), (0, 18), "{stats:?}");
        assert!(area.trouble().is_some());
        area.close().unwrap();
        let warnings = forebay_process::take_warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].text.contains("straight to its destination"), "{warnings:?}");
        fs::remove_file(&path).unwrap();
        fs::remove_file(&new).unwrap();
    }
}

#[test]
fn without_an_area_a_file_is_staged_when_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let none = AreaSettings { quota: 0, free_floor: 0, start_paused: true, ..AreaSettings::memory() };
    let area = Area::open(AreaSettings { drainers: 0, ..none }).unwrap();
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, b"bytes").unwrap();
    let sealed = file.seal().unwrap();
    assert!(!sealed.staged().is_set() && !sealed.durable().is_set(), "a kill loses it");
    area.drain(&quiet).unwrap();
    assert!(sealed.staged().is_set() && sealed.durable().is_set());
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
}
