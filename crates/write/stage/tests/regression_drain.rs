//! Faults of drains and of `recover` that were found once, each with what is to happen instead.

#![expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    cell::RefCell,
    fs::{self, File},
    ops::ControlFlow,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use forebay_scratch::disk::{self, Call, Watch};
use forebay_stage::{Area, AreaSettings, CloseWhen, RecoverOptions, RedoFile, StageOptions, recover};
use rustix::io::Errno;

/// Only guards against hanging.
const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

fn quiet(_: forebay_stage::DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn paused(folder: &Path, quota: u64) -> Arc<Area> {
    let settings = AreaSettings::folder(folder.join("fast"));
    Area::open(AreaSettings { quota, free_floor: 0, start_paused: true, ..settings }).unwrap()
}

fn update(area: &Arc<Area>, path: &Path) -> RedoFile {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    area.update(path, file, StageOptions::default()).unwrap()
}

/// The area of `folder` as it would be left if its processes were killed now.
fn left(folder: &Path) -> PathBuf {
    let left = folder.join("left");
    let _ = fs::remove_dir_all(&left);
    let copied = Command::new("cp").arg("-a").args([&folder.join("fast"), &left]).status().unwrap();
    assert!(copied.success());
    left
}

/// Lets calls fail, as a function says.
struct Failing<F>(F);

impl<F: FnMut(&Call<'_>) -> Option<Errno>> Watch for Failing<F> {
    fn before(&mut self, call: &Call<'_>) -> rustix::io::Result<()> {
        (self.0)(call).map_or(Ok(()), Err)
    }

    fn after(&mut self, _: &Call<'_>, _: Option<BorrowedFd<'_>>) {}
}

/// Runs `body`; calls of this thread fail as `fails` says.
fn failing<T>(fails: impl FnMut(&Call<'_>) -> Option<Errno> + 'static, body: impl FnOnce() -> T) -> T {
    disk::watch(Some(Rc::new(RefCell::new(Failing(fails)))));
    let done = body();
    disk::watch(None);
    done
}

/// Returns whether the path of an open file ends so.
fn is_named(file: BorrowedFd<'_>, ending: &str) -> bool {
    let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    link.to_str().unwrap().ends_with(ending)
}

/// An area that nothing but those that wait drains.
fn without_drainers(folder: &Path, is_paused: bool) -> Arc<Area> {
    let settings = AreaSettings::folder(folder.join("fast"));
    Area::open(AreaSettings { free_floor: 0, drainers: 0, start_paused: is_paused, ..settings }).unwrap()
}

/// The folders of processes in an area.
fn processes(area: &Path) -> Vec<PathBuf> {
    let own = fs::read_dir(area).unwrap().next().unwrap().unwrap().path();
    let entries = fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

#[test]
fn an_area_without_threads_is_drained_by_those_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    for settings in [AreaSettings::folder(folder.path().join("fast")), AreaSettings::memory()] {
        let area = Area::open(AreaSettings { drainers: 0, free_floor: 0, ..settings }).unwrap();
        let (path, new) = (folder.path().join("file"), folder.path().join("new"));
        let file = update(&area, &path);
        file.write_at(0, b"update").unwrap();
        file.close(CloseWhen::Staged).unwrap();
        let created = area.create(&new, StageOptions::default()).unwrap();
        created.write_at(0, b"new").unwrap();
        let sealed = created.seal().unwrap();
        assert!(sealed.staged().wait(LIMIT).unwrap() && sealed.durable().wait(LIMIT).unwrap());
        area.drain(&quiet).unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read(&new).unwrap()),
            (b"update".to_vec(), b"new".to_vec())
        );
        area.close().unwrap();
    }
}

#[test]
fn a_change_by_others_before_a_drain_is_noticed_and_recover_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b'.'; 20]).unwrap();
    let area = paused(folder.path(), 1 << 20);
    let file = update(&area, &path);
    file.write_at(0, b"logged").unwrap();
    file.stage().unwrap();
    // Others change it, and then this process goes on with a write that has no room in the area.
    File::options().write(true).open(&path).unwrap().write_all_at(b"others", 10).unwrap();
    file.write_at(100, &vec![1; 2 << 20]).unwrap();
    assert!(area.stats().passed_through_bytes > 0);
    let left = left(folder.path());
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (0, 1), "{done:?}");
    assert!(done.refused[0].error.as_ref().unwrap().contains("changed by others"), "{done:?}");
    assert_eq!(&fs::read(&path).unwrap()[..20], b"..........others....");
    // The process itself has the file open, and its writes come behind those of others.
    file.close(CloseWhen::Drained).unwrap();
    assert_eq!(&fs::read(&path).unwrap()[..20], b"logged....others....");
}

#[test]
fn a_new_file_replaces_one_that_an_update_of_the_same_process_has_changed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let area = paused(folder.path(), 64 << 20);
    let file = update(&area, &path);
    file.write_at(0, b"UPDATED").unwrap();
    file.close(CloseWhen::Staged).unwrap();
    let new = area.create(&path, StageOptions::default()).unwrap();
    new.write_at(0, b"new").unwrap();
    let sealed = new.seal().unwrap();
    area.drain(&quiet).unwrap();
    assert!(sealed.durable().is_set());
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_new_file_waits_while_an_update_of_the_same_process_changes_its_destination() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let settings = AreaSettings::folder(folder.path().join("fast"));
    let settings = AreaSettings { free_floor: 0, start_paused: true, drainers: 4, ..settings };
    let area = Area::open(settings).unwrap();
    let file = update(&area, &path);
    // Far apart, so that they are not merged: the drain of all of them takes longer than that of the small file.
    for place in 0..2_000 {
        file.write_at(place << 20, &[1; 4096]).unwrap();
    }
    file.close(CloseWhen::Staged).unwrap();
    let new = area.create(&path, StageOptions::default()).unwrap();
    new.write_at(0, b"new").unwrap();
    let sealed = new.seal().unwrap();
    area.drain(&quiet).unwrap();
    sealed.durable().wait(LIMIT).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn items_of_another_machine_are_left_alone_until_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let area = paused(folder.path(), 64 << 20);
    let file = update(&area, &path);
    file.write_at(0, b"bytes").unwrap();
    file.stage().unwrap();
    let left = left(folder.path());
    let process = processes(&left).remove(0);
    let name = process.file_name().unwrap().to_str().unwrap();
    let number = name.split_once('@').unwrap().0.rsplit_once('-').unwrap().1;
    fs::rename(&process, process.with_file_name(format!("p-0123456789abcdef-{number}@elsewhere"))).unwrap();
    let other = Area::open(AreaSettings::folder(&left)).unwrap();
    assert!(other.items().unwrap().iter().all(|item| !item.is_deserted));
    assert_eq!(other.pending(&path).unwrap(), None, "it is open there");
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.in_use.len(), done.finished.len(), done.refused.len()), (1, 0, 0), "{done:?}");
    assert!(done.in_use[0].error.as_ref().unwrap().contains("--host elsewhere"), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"");
    let options = RecoverOptions { hosts: vec!["elsewhere".to_owned()], ..RecoverOptions::default() };
    let done = recover(&left, &options, &quiet).unwrap();
    assert_eq!((done.in_use.len(), done.finished.len()), (0, 1), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    std::mem::forget((file, area));
}

#[test]
fn files_behind_one_that_failed_are_tried_again_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow");
    fs::create_dir(&slow).unwrap();
    let area = paused(folder.path(), 64 << 20);
    let sealed = [0, 1, 2].map(|priority| {
        let options = StageOptions { priority, ..StageOptions::default() };
        let file = area.create(&slow.join("file"), options).unwrap();
        file.write_at(0, format!("version {priority}").as_bytes()).unwrap();
        file.seal().unwrap()
    });
    assert!(sealed.iter().all(|sealed| sealed.staged().wait(LIMIT).unwrap()));
    fs::remove_dir(&slow).unwrap();
    assert!(area.drain(&quiet).is_err());
    assert!(sealed.iter().all(|sealed| sealed.durable().error().is_some()));
    fs::create_dir(&slow).unwrap();
    area.drain(&quiet).unwrap();
    assert!(sealed.iter().all(|sealed| sealed.durable().is_set()));
    assert_eq!(fs::read(slow.join("file")).unwrap(), b"version 2");
}

#[test]
fn a_write_that_goes_straight_through_is_a_sign_of_life() {
    let folder = tempfile::tempdir().unwrap();
    let area = paused(folder.path(), 1 << 20);
    let file = update(&area, &folder.path().join("file"));
    file.write_at(0, b"logged").unwrap();
    let alive = || fs::read(processes(&folder.path().join("fast"))[0].join("alive")).unwrap();
    assert!(alive().is_empty());
    file.write_at(100, &vec![1; 2 << 20]).unwrap();
    assert_eq!(alive().len(), 8, "the time of the write");
    file.close(CloseWhen::Drained).unwrap();
}

#[test]
fn waits_may_have_any_limit() {
    let folder = tempfile::tempdir().unwrap();
    let area = Area::open(AreaSettings::memory()).unwrap();
    let path = folder.path().join("file");
    let file = area.create(&path, StageOptions::default()).unwrap();
    assert!(file.seal().unwrap().durable().wait(Some(Duration::MAX)).unwrap());
    assert!(area.wait_for(&path, Some(Duration::MAX), &|| true).unwrap());
}

#[test]
fn a_killed_process_that_only_cut_a_file_is_heard_of_when_the_file_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    let area = paused(folder.path(), 64 << 20);
    let file = update(&area, &path);
    file.truncate(4).unwrap();
    file.stage().unwrap();
    let left = left(folder.path());
    let other = Area::open(AreaSettings::folder(&left)).unwrap();
    let error = other.pending(&path).unwrap_err();
    assert!(error.to_string().contains("was killed"), "{error}");
    assert_eq!(recover(&left, &RecoverOptions::default(), &quiet).unwrap().finished.len(), 1);
    assert_eq!(fs::read(&path).unwrap(), b"0123");
    std::mem::forget((file, area));
}

#[test]
fn a_cut_that_is_in_the_log_takes_nothing_of_what_went_straight_through_after_it() {
    let folder = tempfile::tempdir().unwrap();
    for is_killed in [false, true] {
        let path = folder.path().join(format!("file-{is_killed}"));
        fs::write(&path, [b'.'; 50]).unwrap();
        let area = paused(folder.path(), 1 << 20);
        let file = update(&area, &path);
        file.write_at(0, b"logged").unwrap();
        file.truncate(10).unwrap();
        let long = vec![7; 2 << 20];
        file.write_at(20, &long).unwrap();
        file.write_at(2, b"again").unwrap();
        let mut expected = b"loagain...".to_vec();
        expected.resize(20, 0);
        expected.extend_from_slice(&long);
        if is_killed {
            let done = recover(&left(folder.path()), &RecoverOptions::default(), &quiet).unwrap();
            assert!(done.refused.is_empty(), "{done:?}");
            std::mem::forget((file, area));
        } else {
            file.close(CloseWhen::Drained).unwrap();
            area.close().unwrap();
        }
        assert!(fs::read(&path).unwrap() == expected, "killed: {is_killed}");
    }
}

#[test]
fn a_long_record_is_replayed_after_a_kill_and_has_its_checksum_after_a_flush() {
    for is_flushed in [false, true] {
        for is_damaged in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            fs::write(&path, "old").unwrap();
            let area = paused(folder.path(), 64 << 20);
            let file = update(&area, &path);
            let long: Vec<u8> = (0..3 << 20).map(|index: usize| (index / 4099) as u8).collect();
            file.write_at(1, &long).unwrap();
            if is_flushed {
                file.stage().unwrap();
            }
            let left = left(folder.path());
            if is_damaged {
                let log = processes(&left).remove(0).join("s-0.log");
                File::options().write(true).open(log).unwrap().write_all_at(&[7], 1 << 20).unwrap();
            }
            let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
            std::mem::forget((file, area));
            let found = fs::read(&path).unwrap();
            match (is_flushed, is_damaged) {
                // The system has what a killed process wrote, and nobody else writes to the area.
                (_, false) => assert!(found[0] == b'o' && found[1..] == long, "{done:?}"),
                (true, true) => assert!(found == b"old", "{done:?}"),
                (false, true) => {}
            }
        }
    }
}

#[test]
fn a_drain_that_is_awaited_goes_on_in_a_paused_area_and_no_other_does() {
    let folder = tempfile::tempdir().unwrap();
    for drainers in [0, 2] {
        let settings = AreaSettings::folder(folder.path().join("fast"));
        let area =
            Area::open(AreaSettings { drainers, free_floor: 0, start_paused: true, ..settings }).unwrap();
        let [path, other] = ["file", "other"].map(|name| folder.path().join(format!("{name}-{drainers}")));
        for path in [&path, &other] {
            let file = update(&area, path);
            file.write_at(0, b"bytes").unwrap();
            file.close(CloseWhen::Staged).unwrap();
        }
        let awaited = area.await_drains(&path).unwrap().unwrap();
        while area.pending(&path).unwrap().is_some() {
            if !awaited.work() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert!(area.pending(&other).unwrap().is_some());
        drop(awaited);
        assert!(area.await_drains(&path).unwrap().is_none(), "nothing is left of it");
        area.close().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"bytes");
    }
}

#[test]
fn a_recover_that_is_broken_off_behind_its_first_note_is_finished_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b'0'; 3000]).unwrap();
    let area = paused(folder.path(), 8 << 10);
    let file = update(&area, &path);
    file.write_at(0, &[b'A'; 900]).unwrap();
    file.drain().unwrap();
    file.write_at(1000, &[b'B'; 900]).unwrap();
    file.stage().unwrap();
    let left = left(folder.path());
    let mut notes = 0;
    let fails = move |call: &Call<'_>| match call {
        Call::Write { file, .. } if is_named(*file, ".facts") => {
            notes += 1;
            (notes > 1).then_some(Errno::IO)
        }
        Call::Write { file, .. } if is_named(*file, "/file") => Some(Errno::IO),
        _ => None,
    };
    let first = failing(fails, || recover(&left, &RecoverOptions::default(), &quiet).unwrap());
    assert_eq!(first.refused.len(), 1, "{first:?}");
    let second = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((second.finished.len(), second.refused.len()), (1, 0), "{second:?}");
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes[0], bytes[1000], bytes[2999]), (b'A', b'B', b'0'));
    std::mem::forget((file, area));
}

/// Returns whether a call makes or renames a journal.
fn is_journal_write(call: &Call<'_>) -> bool {
    let is_journal = |name: &Path| {
        let name = name.to_str().unwrap();
        name.contains(".journal.") || name.contains(".open.")
    };
    matches!(call, Call::Rename { from, .. } if is_journal(from))
}

#[test]
fn a_file_has_a_journal_for_as_long_as_it_is_staged_whichever_write_of_it_failed() {
    for failing_write in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let area = without_drainers(folder.path(), false);
        let (mut writes, from, copies) = (0, folder.path().to_owned(), Rc::new(RefCell::new(Vec::new())));
        let found = Rc::clone(&copies);
        let fails = move |call: &Call<'_>| {
            // A kill before and behind the rename.
            if matches!(call, Call::Rename { to, .. } if to.ends_with("file"))
                || matches!(call, Call::Sync { file } if file_name(*file) == from.file_name().unwrap())
            {
                let copy = from.join(format!("left{}", found.borrow().len()));
                let copied = Command::new("cp").arg("-a").args([&from.join("fast"), &copy]).status().unwrap();
                assert!(copied.success());
                found.borrow_mut().push((copy, from.join("file").exists()));
            }
            if is_journal_write(call) {
                writes += 1;
                return (writes == failing_write + 1).then_some(Errno::NOSPC);
            }
            None
        };
        failing(fails, || {
            let file = area.create(&path, StageOptions::default()).unwrap();
            file.write_at(0, b"bytes").unwrap();
            drop(file.seal().unwrap());
            let _ = area.drain(&quiet);
        });
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        // Only the file itself can have no journal.
        let copies = copies.borrow();
        assert!(copies.len() >= 2, "{copies:?}");
        let (left, _) = copies.iter().rfind(|(_, is_there)| *is_there).unwrap();
        let done = recover(left, &RecoverOptions::default(), &quiet).unwrap();
        assert!(done.refused.is_empty(), "write {failing_write}: {done:?}");
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
    }
}

/// The last part of an open file's path.
fn file_name(file: BorrowedFd<'_>) -> std::ffi::OsString {
    let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    link.file_name().unwrap_or_default().to_owned()
}

#[test]
fn a_journal_that_cannot_be_removed_keeps_what_says_that_its_item_is_done() {
    for is_update in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [b'0'; 3000]).unwrap();
        let area = without_drainers(folder.path(), false);
        let fails = |call: &Call<'_>| match call {
            Call::Remove { name, .. } if name.extension().is_some_and(|ending| ending == "journal") => {
                Some(Errno::IO)
            }
            _ => None,
        };
        failing(fails, || {
            if is_update {
                let file = update(&area, &path);
                file.write_at(0, &[b'A'; 1000]).unwrap();
                file.stage().unwrap();
                file.close(CloseWhen::Drained).unwrap();
            } else {
                let file = area.create(&path, StageOptions::default()).unwrap();
                file.write_at(0, &[b'A'; 3000]).unwrap();
                file.seal().unwrap();
                area.drain(&quiet).unwrap();
            }
        });
        let before = fs::read(&path).unwrap();
        assert_eq!((before.len(), before[0]), (3000, b'A'));
        // By others, after that.
        File::options().write(true).open(&path).unwrap().write_all_at(b"others", 2000).unwrap();
        let left = left(folder.path());
        assert_eq!(Area::open(AreaSettings::folder(&left)).unwrap().items().unwrap().len(), 1);
        let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
        assert!(done.refused.is_empty(), "update {is_update}: {done:?}");
        assert_eq!(&fs::read(&path).unwrap()[2000..2006], b"others");
        // The area itself tries again, and leaves nothing.
        assert_eq!(area.pending(&path).unwrap(), None);
        area.close().unwrap();
        assert!(area.items().unwrap().is_empty());
    }
}

#[test]
fn a_destination_is_not_written_to_before_the_facts_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b'0'; 3000]).unwrap();
    let area = without_drainers(folder.path(), true);
    let file = update(&area, &path);
    file.write_at(0, &[b'A'; 1000]).unwrap();
    file.write_at(2000, &[b'A'; 1000]).unwrap();
    file.stage().unwrap();
    let facts_fail = |call: &Call<'_>| match call {
        Call::Write { file, .. } => is_named(*file, ".facts").then_some(Errno::IO),
        _ => None,
    };
    let error = failing(facts_fail, || file.drain().unwrap_err());
    assert!(error.to_string().contains(".facts"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), [b'0'; 3000]);
    let left = left(folder.path());
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes[0], bytes[1500], bytes[2999]), (b'A', b'0', b'A'));
    std::mem::forget((file, area));
}

#[test]
fn a_new_file_waits_for_a_failed_update_of_the_file_that_it_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b'0'; 3000]).unwrap();
    let area = without_drainers(folder.path(), true);
    let file = update(&area, &path);
    file.write_at(0, &[b'A'; 1000]).unwrap();
    let write_fails = |call: &Call<'_>| match call {
        Call::Write { file, .. } => is_named(*file, "/file").then_some(Errno::IO),
        _ => None,
    };
    failing(write_fails, || file.drain().unwrap_err());
    file.close(CloseWhen::Staged).unwrap();
    let new = area.create(&path, StageOptions::default()).unwrap();
    new.write_at(0, b"new").unwrap();
    let sealed = new.seal().unwrap();
    failing(write_fails, || area.drain(&quiet).unwrap_err());
    assert!(sealed.durable().error().is_some());
    assert_eq!(fs::read(&path).unwrap(), [b'0'; 3000], "neither is there");
    // After a kill both are.
    let left = left(folder.path());
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (2, 0), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"new");
    area.leave();
}

#[test]
fn a_new_file_takes_its_place_behind_an_update_that_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b'0'; 3000]).unwrap();
    let area = without_drainers(folder.path(), true);
    let file = update(&area, &path);
    file.write_at(0, &[b'A'; 1000]).unwrap();
    let mut is_first = true;
    let once = move |call: &Call<'_>| match call {
        Call::Write { file, .. } if is_named(*file, "/file") && is_first => {
            is_first = false;
            Some(Errno::IO)
        }
        _ => None,
    };
    failing(once, || {
        file.drain().unwrap_err();
        file.close(CloseWhen::Staged).unwrap();
        let options = StageOptions { priority: 1, ..StageOptions::default() };
        let new = area.create(&path, options).unwrap();
        new.write_at(0, b"new").unwrap();
        let sealed = new.seal().unwrap();
        area.drain(&quiet).unwrap();
        assert!(sealed.durable().is_set());
    });
    assert_eq!(fs::read(&path).unwrap(), b"new");
    area.close().unwrap();
    assert!(area.items().unwrap().is_empty());
}

#[test]
fn a_recover_whose_destination_is_full_leaves_no_part_of_a_copy_there() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow");
    fs::create_dir(&slow).unwrap();
    let area = paused(folder.path(), 64 << 20);
    let file = area.create(&slow.join("file"), StageOptions::default()).unwrap();
    file.write_at(0, &vec![7; 20 << 20]).unwrap();
    assert!(file.seal().unwrap().staged().wait(LIMIT).unwrap());
    let left = left(folder.path());
    let mut writes = 0;
    let fills = move |call: &Call<'_>| match call {
        Call::Write { file, .. } if file_name(*file).to_str().unwrap().contains(".forebay-") => {
            writes += 1;
            (writes > 1).then_some(Errno::NOSPC)
        }
        _ => None,
    };
    let done = failing(fills, || recover(&left, &RecoverOptions::default(), &quiet).unwrap());
    assert_eq!(done.refused.len(), 1, "{done:?}");
    assert_eq!(fs::read_dir(&slow).unwrap().count(), 0, "the full file system has its room back");
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!(done.finished.len(), 1, "{done:?}");
    assert_eq!(fs::metadata(slow.join("file")).unwrap().len(), 20 << 20);
    area.leave();
}

#[test]
fn two_recovers_at_once_replay_the_updates_of_a_file_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let (path, first) = (folder.path().join("file"), folder.path().join("first"));
    fs::write(&path, [b'0'; 10]).unwrap();
    // As ranks write: a change by others beside the log is none.
    let options = StageOptions { is_shared: true, ..StageOptions::default() };
    let opened = || File::options().read(true).write(true).open(&path).unwrap();
    let areas = [1, 2].map(|_| paused(folder.path(), 64 << 20));
    // What a recover does before the older update, and is watched at.
    let before = areas[0].create(&first, StageOptions::default()).unwrap();
    before.write_at(0, b"first").unwrap();
    assert!(before.seal().unwrap().staged().wait(LIMIT).unwrap());
    let files = [0, 1].map(|index: usize| {
        let file = areas[index].update(&path, opened(), options.clone()).unwrap();
        file.write_at(0, &[b'A' + index as u8; 10]).unwrap();
        file.stage().unwrap();
        file
    });
    let left = left(folder.path());
    let newer = processes(&left).into_iter().find(|process| {
        fs::read_dir(process)
            .unwrap()
            .all(|entry| !entry.unwrap().path().to_str().unwrap().ends_with(".data"))
    });
    // The process of the newer update lives a moment longer.
    let lock = File::open(newer.unwrap().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
    let second: RefCell<Option<std::thread::JoinHandle<_>>> = RefCell::default();
    let watch = |_: forebay_stage::DrainProgress| {
        if second.borrow().is_none() {
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::Unlock).unwrap();
            let left = left.clone();
            let other =
                std::thread::spawn(move || recover(&left, &RecoverOptions::default(), &quiet).unwrap());
            let until = std::time::Instant::now() + Duration::from_millis(500);
            while !other.is_finished() && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            *second.borrow_mut() = Some(other);
        }
        ControlFlow::Continue(())
    };
    let done = recover(&left, &RecoverOptions::default(), &watch).unwrap();
    assert_eq!((done.finished.len(), done.in_use.len()), (2, 1), "{done:?}");
    let done = second.into_inner().unwrap().join().unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), [b'B'; 10]);
    std::mem::forget((files, areas));
}

#[test]
fn a_log_that_begins_behind_a_change_that_the_facts_could_not_name_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b'0'; 3000]).unwrap();
    let settings = AreaSettings {
        quota: 600,
        free_floor: 0,
        drainers: 0,
        start_paused: true,
        ..AreaSettings::folder(folder.path().join("fast"))
    };
    let area = Area::open(settings).unwrap();
    let file = update(&area, &path);
    let mut notes = 0;
    let second_note = move |call: &Call<'_>| match call {
        Call::Write { file, .. } if is_named(*file, ".facts") => {
            notes += 1;
            (notes == 2).then_some(Errno::IO)
        }
        _ => None,
    };
    failing(second_note, || file.write_at(0, &[b'A'; 600]).unwrap());
    assert_eq!(area.stats().passed_through_bytes, 600);
    file.write_at(1000, &[b'B'; 300]).unwrap();
    assert_eq!(area.stats().staged_bytes, 300);
    let left = left(folder.path());
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes[0], bytes[1000], bytes[2999]), (b'A', b'B', b'0'));
    std::mem::forget((file, area));
}

#[test]
fn an_update_stays_until_the_new_file_behind_it_has_noted_what_it_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b'0'; 3000]).unwrap();
    let area = without_drainers(folder.path(), true);
    let file = update(&area, &path);
    file.write_at(0, &[b'A'; 1000]).unwrap();
    file.close(CloseWhen::Staged).unwrap();
    let new = area.create(&path, StageOptions::default()).unwrap();
    new.write_at(0, b"new").unwrap();
    assert!(new.seal().unwrap().staged().wait(LIMIT).unwrap());
    let (from, mut is_written, mut has_failed) = (folder.path().to_owned(), false, false);
    let copies = Rc::new(RefCell::new(0));
    let copied = Rc::clone(&copies);
    let fails = move |call: &Call<'_>| {
        match call {
            Call::Write { file, .. } if is_named(*file, "/file") => is_written = true,
            // The new file notes what the update has left.
            _ if is_written && !has_failed && is_journal_write(call) => {
                has_failed = true;
                return Some(Errno::NOSPC);
            }
            // A kill behind the removal of the update's journal.
            Call::Remove { name, .. } if name.extension().is_some_and(|ending| ending == "facts") => {
                let copy = from.join("killed");
                assert!(
                    Command::new("cp")
                        .arg("-a")
                        .args([&from.join("fast"), &copy])
                        .status()
                        .unwrap()
                        .success()
                );
                *copied.borrow_mut() += 1;
                let done =
                    std::thread::spawn(move || recover(&copy, &RecoverOptions::default(), &quiet).unwrap());
                let done = done.join().unwrap();
                assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
            }
            _ => {}
        }
        None
    };
    failing(fails, || {
        let _ = area.drain(&quiet);
    });
    assert_eq!(*copies.borrow(), 1);
    assert_eq!(fs::read(&path).unwrap(), b"new");
    area.leave();
}

/// Calls that failing tests have seen, by what they are about.
fn order_of(folder: &Path, body: impl FnOnce()) -> Vec<String> {
    let (calls, from) = (Rc::new(RefCell::new(Vec::new())), folder.to_owned());
    let seen = Rc::clone(&calls);
    let watch = move |call: &Call<'_>| {
        let what = match call {
            Call::Sync { file } => format!("sync {}", file_name(*file).to_str().unwrap()),
            Call::Rename { to, .. } => format!("rename to {}", to.file_name().unwrap().to_str().unwrap()),
            Call::Remove { name, .. } => format!("remove {}", name.file_name().unwrap().to_str().unwrap()),
            Call::Open { name, flags, .. } if flags.contains(rustix::fs::OFlags::EXCL) => {
                let name = name.file_name().unwrap().to_str().unwrap().to_owned();
                seen.borrow_mut().push(format!("make {name}"));
                // From the second item on there is no room for images.
                let is_second = seen.borrow().iter().filter(|call| call.ends_with(".data")).count() > 2;
                return (is_second && name.ends_with(".data")).then_some(Errno::NOSPC);
            }
            _ => return None,
        };
        seen.borrow_mut().push(what.replace(from.to_str().unwrap(), ""));
        None
    };
    failing(watch, body);
    calls.take()
}

#[test]
fn a_file_without_a_journal_is_published_once_earlier_journals_are_gone_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let area = without_drainers(folder.path(), false);
    let calls = order_of(folder.path(), || {
        for bytes in [b"one", b"two"] {
            let file = area.create(&path, StageOptions::default()).unwrap();
            file.write_at(0, bytes).unwrap();
            assert!(file.seal().unwrap().durable().wait(LIMIT).unwrap());
        }
    });
    let published = calls.iter().rposition(|call| call == "rename to file").unwrap();
    let is_removal = |call: &String| call.starts_with("remove") && call.ends_with(".journal");
    let removed = calls[..published].iter().rposition(is_removal);
    let between = &calls[removed.unwrap()..published];
    assert!(between.iter().any(|call| call.starts_with("sync p-")), "{calls:?}");
    assert_eq!(fs::read(&path).unwrap(), b"two");
}

#[test]
fn what_was_published_last_is_on_the_disk_before_it_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let areas = [1, 2].map(|_| without_drainers(folder.path(), true));
    let seal = |area: &Arc<Area>, bytes: &[u8]| {
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(0, bytes).unwrap();
        assert!(file.seal().unwrap().staged().wait(LIMIT).unwrap());
    };
    seal(&areas[0], b"older");
    seal(&areas[1], b"newer");
    let calls = order_of(folder.path(), || areas[1].drain(&quiet).unwrap());
    let noted = calls.iter().position(|call| call.starts_with("rename to published-")).unwrap();
    assert!(calls[noted - 1].starts_with("sync published-"), "{calls:?}");
    assert!(calls[noted + 1].starts_with("sync forebay-stage-"), "{calls:?}");
    assert!(calls.iter().position(|call| call == "rename to file").unwrap() > noted, "{calls:?}");
    areas[0].drain(&quiet).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"newer");
}

#[test]
fn a_file_whose_journal_could_not_be_removed_is_discarded_behind_a_later_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let settings = AreaSettings {
        quota: 600,
        free_floor: 0,
        drainers: 0,
        ..AreaSettings::folder(folder.path().join("fast"))
    };
    let area = Area::open(settings).unwrap();
    let create = |bytes: &[u8]| {
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(0, &bytes[..500]).unwrap();
        // Past the image.
        file.write_at(500, &bytes[500..]).unwrap();
        assert!(file.seal().unwrap().durable().wait(LIMIT).unwrap());
    };
    let fails = |call: &Call<'_>| match call {
        Call::Remove { name, .. } if name.extension().is_some_and(|ending| ending == "journal") => {
            Some(Errno::IO)
        }
        _ => None,
    };
    failing(fails, || {
        create(&[1; 2000]);
        create(&[2; 2000]);
    });
    let left = left(folder.path());
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert!(done.refused.is_empty(), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), [2; 2000]);
    area.close().unwrap();
}

#[test]
fn a_file_takes_the_name_that_an_exclusive_creation_before_it_gives_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let area = paused(folder.path(), 64 << 20);
    let options = StageOptions { is_exclusive: true, ..StageOptions::default() };
    let first = area.create(&path, options).unwrap();
    first.write_at(0, b"never sealed").unwrap();
    let second = area.create(&path, StageOptions::default()).unwrap();
    second.write_at(0, b"second").unwrap();
    assert!(second.seal().unwrap().staged().wait(LIMIT).unwrap());
    let left = left(folder.path());
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.discarded.len(), done.refused.len()), (1, 1, 0), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"second");
    std::mem::forget((first, area));
}
