//! Faults that were found once, each with what is to happen instead.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs::{self, File},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::Duration,
};

use forebay_stage::{Area, AreaSettings, CloseWhen, ItemState, StageOptions};

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
