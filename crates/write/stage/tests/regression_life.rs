//! Faults in the life of areas and files that were found once, each with what is to happen instead.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    cell::RefCell,
    fs::{self, File},
    ops::ControlFlow,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::{FileExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_process::ErrorKind;
use forebay_scratch::disk::{self, Call, Watch};
use forebay_stage::{
    Area, AreaSettings, CloseWhen, ItemState, RecoverOptions, Sealed, StageOptions, recover,
};

/// Only guards against hanging.
const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

fn quiet(_: forebay_stage::DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn area(folder: &Path, quota: u64) -> Arc<Area> {
    let settings = AreaSettings::folder(folder);
    Area::open(AreaSettings { quota, free_floor: 0, ..settings }).unwrap()
}

/// An area without threads: what is sealed is staged, and unless it is paused drained, when `seal` returns.
fn alone(folder: &Path, is_paused: bool) -> Arc<Area> {
    let settings = AreaSettings::folder(folder);
    Area::open(AreaSettings { free_floor: 0, drainers: 0, start_paused: is_paused, ..settings }).unwrap()
}

fn put(area: &Arc<Area>, path: &Path, bytes: &[u8]) -> Sealed {
    let file = area.create(path, StageOptions::default()).unwrap();
    file.write_at(0, bytes).unwrap();
    file.seal().unwrap()
}

/// Looks at each call of a thread before it is made, and may refuse it.
struct Hook<F>(F);

impl<F: FnMut(&Call<'_>) -> rustix::io::Result<()>> Watch for Hook<F> {
    fn before(&mut self, call: &Call<'_>) -> rustix::io::Result<()> {
        (self.0)(call)
    }

    fn after(&mut self, _: &Call<'_>, _: Option<BorrowedFd<'_>>) {}
}

/// Runs `body` while `before` looks at each call of this thread.
fn hooked<T>(
    before: impl FnMut(&Call<'_>) -> rustix::io::Result<()> + 'static,
    body: impl FnOnce() -> T,
) -> T {
    disk::watch(Some(Rc::new(RefCell::new(Hook(before)))));
    let done = body();
    disk::watch(None);
    done
}

/// Whether `call` syncs a file whose path ends like this.
fn syncs(call: &Call<'_>, ending: &str) -> bool {
    let Call::Sync { file } = call else { return false };
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    path.to_str().unwrap().ends_with(ending)
}

fn opened(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// The area in `fast` as it would be left if its processes were killed now.
fn left(fast: &Path) -> PathBuf {
    let left = fast.with_file_name("left");
    assert!(Command::new("cp").arg("-a").args([fast, &left]).status().unwrap().success());
    left
}

#[test]
fn a_try_after_a_failure_behind_the_rename_leaves_the_published_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, latest) = (folder.path().join("file"), folder.path().join("latest"));
    // So small that all goes straight to the temporary file.
    let area = area(&folder.path().join("fast"), 64 << 10);
    let options = StageOptions { latest: Some(latest.clone()), ..StageOptions::default() };
    let file = area.create(&path, options).unwrap();
    file.write_at(0, &[1; 1 << 20]).unwrap();
    fs::write(&latest, "not a link").unwrap();
    let sealed = file.seal().unwrap();
    assert!(sealed.durable().wait(LIMIT).is_err());
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20, "it has its place");
    let others = opened(&path);
    others.write_all_at(b"by others", 1 << 20).unwrap();
    fs::remove_file(&latest).unwrap();
    area.drain(&quiet).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), (1 << 20) + 9);
    assert_eq!(fs::read_link(&latest).unwrap(), Path::new("file"));
}

#[test]
fn a_drain_does_not_wait_for_versions_behind_one_that_could_not_be_staged() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let area = area(&folder.path().join("fast"), 64 << 10);
    let first = area.create(&out.join("file"), StageOptions::default()).unwrap();
    first.write_at(0, &[1; 1 << 20]).unwrap();
    let second = area.create(&out.join("file"), StageOptions::default()).unwrap();
    fs::remove_dir_all(&out).unwrap();
    let sealed = [first.seal().unwrap(), second.seal().unwrap()];
    assert!(area.drain(&quiet).is_err());
    assert!(sealed.iter().all(|sealed| sealed.durable().wait(LIMIT).is_err()));
    area.leave();
}

#[test]
fn a_file_that_is_open_when_its_area_is_closed_is_drained_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let area = area(&folder.path().join("fast"), 64 << 20);
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, b"bytes").unwrap();
    area.close().unwrap();
    let sealed = file.seal().unwrap();
    area.drain(&quiet).unwrap();
    assert!(sealed.durable().is_set(), "the drain of the area is that of the file");
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
}

#[test]
fn what_killed_processes_left_without_items_takes_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let fast = folder.path().join("fast");
    let first = area(&fast, 16 << 20);
    let path = folder.path().join("update");
    let file = first.update(&path, opened(&path), StageOptions::default()).unwrap();
    file.write_at(0, &[1; 3 << 20]).unwrap();
    file.close(CloseWhen::Drained).unwrap();
    assert!(first.stats().reserved_bytes > 0, "a segment waits for its next use");
    let left = left(&fast);
    let second = area(&left, 16 << 20);
    let file = second.create(&folder.path().join("new"), StageOptions::default()).unwrap();
    file.write_at(0, &[2; 15 << 20]).unwrap();
    file.seal().unwrap().durable().wait(LIMIT).unwrap();
    assert_eq!(second.stats().passed_through_bytes, 0);
}

#[test]
fn writes_of_ranks_are_recovered_although_their_library_wrote_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    let settings = AreaSettings { free_floor: 0, start_paused: true, ..AreaSettings::folder(&fast) };
    let area = Area::open(settings).unwrap();
    let options = StageOptions { is_shared: true, ..StageOptions::default() };
    let file = area.update(&path, opened(&path), options).unwrap();
    file.write_at(0, b"data").unwrap();
    file.stage().unwrap();
    // As HDF5 does with its metadata.
    opened(&path).write_all_at(b"metadata", 100).unwrap();
    let done = recover(&left(&fast), &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((done.finished.len(), done.refused.len()), (1, 0), "{done:?}");
    let bytes = fs::read(&path).unwrap();
    assert_eq!((&bytes[..4], &bytes[100..]), (&b"data"[..], &b"metadata"[..]));
    std::mem::forget((file, area));
}

#[test]
fn a_version_that_was_begun_after_others_changed_the_destination_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    fs::write(&path, "old").unwrap();
    let settings = AreaSettings { free_floor: 0, start_paused: true, ..AreaSettings::folder(&fast) };
    let area = Area::open(settings).unwrap();
    let stage = |bytes: &[u8]| {
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(0, bytes).unwrap();
        let sealed = file.seal().unwrap();
        sealed.staged().wait(LIMIT).unwrap();
        sealed
    };
    let first = stage(b"first");
    fs::write(&path, "by others").unwrap();
    area.resume();
    let refused = first.durable().wait(LIMIT).unwrap_err().to_string();
    assert!(refused.contains("changed by others"), "{refused}");
    stage(b"second").durable().wait(LIMIT).unwrap();
    stage(b"third").durable().wait(LIMIT).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"third");
    // The first one does not come back.
    area.drain(&quiet).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"third");
    assert!(area.items().unwrap().is_empty());
}

#[test]
fn recover_forgets_a_version_that_others_were_in_the_way_of_once_a_later_one_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    fs::write(&path, "old").unwrap();
    let settings = AreaSettings { free_floor: 0, start_paused: true, ..AreaSettings::folder(&fast) };
    let area = Area::open(settings).unwrap();
    for bytes in [&b"first"[..], b"second"] {
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(0, bytes).unwrap();
        file.seal().unwrap().staged().wait(LIMIT).unwrap();
        if bytes == b"first" {
            fs::write(&path, "by others").unwrap();
        }
    }
    let left = left(&fast);
    let dry = RecoverOptions { dry_run: true, ..RecoverOptions::default() };
    for options in [dry, RecoverOptions::default()] {
        let done = recover(&left, &options, &quiet).unwrap();
        assert_eq!((done.finished.len(), done.discarded.len(), done.refused.len()), (1, 1, 0), "{done:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(
        recover(&left, &RecoverOptions::default(), &quiet).unwrap(),
        forebay_stage::Recovered::default()
    );
    area.leave();
}

#[test]
fn a_file_is_not_the_link_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let options = StageOptions { latest: Some(path.clone()), ..StageOptions::default() };
    let error = area(&folder.path().join("fast"), 1 << 20).create(&path, options).unwrap_err();
    assert!(error.to_string().contains("link to the latest file"), "{error}");
}

#[test]
fn a_process_whose_lock_file_was_removed_is_not_taken_for_a_killed_one() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    let area = area(&fast, 64 << 20);
    area.pause();
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, b"bytes").unwrap();
    let sealed = file.seal().unwrap();
    assert!(sealed.staged().wait(LIMIT).unwrap());
    let lock =
        Command::new("find").arg(&fast).args(["-path", "*p-*/lock", "-delete", "-print"]).output().unwrap();
    assert!(!lock.stdout.is_empty());
    let recovered = recover(&fast, &RecoverOptions::default(), &quiet).unwrap();
    assert_eq!((recovered.in_use.len(), recovered.finished.len(), recovered.discarded.len()), (1, 0, 0));
    area.drain(&quiet).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
}

#[test]
fn an_item_whose_destination_cannot_be_reached_can_be_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, slow) = (folder.path().join("fast"), folder.path().join("slow"));
    fs::create_dir(&slow).unwrap();
    // So small that part of it goes to a temporary file, which the item names.
    let area = area(&fast, 64 << 10);
    area.pause();
    let file = area.create(&slow.join("file"), StageOptions::default()).unwrap();
    file.write_at(0, &[1; 1 << 20]).unwrap();
    assert!(file.seal().unwrap().staged().wait(LIMIT).unwrap());
    let left = left(&fast);
    fs::rename(&slow, folder.path().join("moved")).unwrap();
    fs::write(&slow, "not a directory").unwrap();
    let refused = recover(&left, &RecoverOptions::default(), &quiet).unwrap().refused;
    let discard = RecoverOptions { discard: vec![refused[0].id.clone()], ..RecoverOptions::default() };
    assert_eq!(recover(&left, &discard, &quiet).unwrap().discarded.len(), 1);
    assert_eq!(
        recover(&left, &RecoverOptions::default(), &quiet).unwrap(),
        forebay_stage::Recovered::default()
    );
    fs::remove_file(&slow).unwrap();
    fs::rename(folder.path().join("moved"), &slow).unwrap();
    area.drain(&quiet).unwrap();
}

#[test]
fn who_reads_behind_a_close_gets_no_older_version_while_the_new_one_is_staged() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    let (area, other) = (alone(&fast, true), alone(&fast, true));
    put(&area, &path, b"version 1");
    let readers = [Arc::clone(&area), other];
    let destination = path.clone();
    let look = move || {
        readers.each_ref().map(|reader| {
            let staged = reader.open_staged(&destination).unwrap().is_some();
            (staged, reader.pending(&destination).unwrap())
        })
    };
    let (look, seen) = (Arc::new(look), Rc::new(RefCell::new(Vec::new())));
    let out = Rc::clone(&seen);
    let second = hooked(
        move |call| {
            if syncs(call, ".data") {
                let look = Arc::clone(&look);
                out.borrow_mut().extend(thread::spawn(move || look()).join().unwrap());
            }
            Ok(())
        },
        || put(&area, &path, b"version 2"),
    );
    assert!(second.staged().is_set());
    assert_eq!(*seen.borrow(), [(false, Some(ItemState::Sealed)); 2], "each of them waits");
    let mut bytes = [0; 9];
    let staged = area.open_staged(&path).unwrap().unwrap();
    staged.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"version 2");
    area.drain(&quiet).unwrap();
}

#[test]
fn nobody_waits_for_a_sealed_file_whose_process_was_killed_before_it_was_staged() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    let area = alone(&fast, true);
    let killed = Rc::new(RefCell::new(None));
    let (out, from) = (Rc::clone(&killed), fast.clone());
    hooked(
        move |call| {
            if syncs(call, ".data") {
                *out.borrow_mut() = Some(left(&from));
            }
            Ok(())
        },
        || put(&area, &path, b"bytes"),
    );
    let killed = killed.take().unwrap();
    assert_eq!(alone(&killed, true).pending(&path).unwrap(), None);
    assert_eq!(recover(&killed, &RecoverOptions::default(), &quiet).unwrap().discarded.len(), 1);
    assert!(!path.exists());
    area.leave();
}

#[test]
fn a_reader_gets_the_version_that_was_sealed_last_whichever_was_begun_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let area = alone(&folder.path().join("fast"), true);
    let files = [&b"sealed last"[..], b"sealed first"].map(|bytes| {
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(0, bytes).unwrap();
        file
    });
    let [last, first] = files;
    first.seal().unwrap();
    last.seal().unwrap();
    let mut bytes = [0; 11];
    area.open_staged(&path).unwrap().unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"sealed last");
    area.drain(&quiet).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"sealed last");
}

#[test]
fn a_destination_that_cannot_be_looked_at_when_a_file_is_sealed_costs_nothing_of_the_file() {
    for failures in [1, 2, 3] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let area = alone(&folder.path().join("fast"), false);
        let file = area.create(&path, StageOptions::default()).unwrap();
        file.write_at(0, b"hours of work").unwrap();
        let mut looks = 0;
        let sealed = hooked(
            move |call| {
                let is_look = matches!(call, Call::Look { what: "statx" });
                looks += usize::from(is_look);
                if is_look && looks <= failures { Err(rustix::io::Errno::IO) } else { Ok(()) }
            },
            || file.seal().unwrap(),
        );
        assert!(sealed.staged().is_set(), "{failures} failures");
        area.drain(&quiet).unwrap();
        assert!(sealed.durable().is_set());
        assert_eq!(fs::read(&path).unwrap(), b"hours of work");
    }
}

#[test]
fn a_file_whose_sync_failed_is_never_published_from_what_the_disk_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let area = alone(&folder.path().join("fast"), false);
    let mut is_first = true;
    let sealed = hooked(
        move |call| {
            if !syncs(call, ".data") || !std::mem::take(&mut is_first) {
                return Ok(());
            }
            // The kernel reports a failed write once: the page is clean then, and may be read again from the disk.
            let Call::Sync { file } = call else { return Ok(()) };
            let image = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
            opened(&image).write_all_at(&[0; 5000], 0).unwrap();
            Err(rustix::io::Errno::IO)
        },
        || put(&area, &path, &[b'x'; 5000]),
    );
    assert!(sealed.staged().error().is_some() && sealed.durable().error().is_some());
    for _ in 0..2 {
        let error = area.drain(&quiet).unwrap_err();
        assert!(error.to_string().contains("write the file again"), "{error}");
    }
    assert!(!path.exists());
    // A version behind it does not wait, and ends it.
    assert!(put(&area, &path, b"again").durable().is_set());
    area.drain(&quiet).unwrap();
    assert!(area.items().unwrap().is_empty() && area.wait_for(&path, LIMIT, &|| true).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"again");
}

#[test]
fn the_names_of_all_folders_that_are_made_for_an_area_are_synced() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let settings = AreaSettings::folder(root.join("nvme/job/fast"));
    let synced = Rc::new(RefCell::new(Vec::new()));
    let out = Rc::clone(&synced);
    let note = move |call: &Call<'_>| {
        if let Call::Sync { file } = call {
            out.borrow_mut().push(fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap());
        }
        Ok(())
    };
    hooked(note, || settings.make_folder().unwrap());
    for above in [root.clone(), root.join("nvme"), root.join("nvme/job")] {
        assert!(synced.borrow().contains(&above), "{above:?} is not among {synced:?}");
    }
}

#[test]
fn a_stopped_process_that_holds_the_lock_of_the_area_is_waited_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    let area = area(&fast, 64 << 20);
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, b"x").unwrap();
    let found = Command::new("find").arg(&fast).args(["-maxdepth", "2", "-name", "lock"]).output().unwrap();
    let lock = opened(Path::new(String::from_utf8(found.stdout).unwrap().trim()));
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let began = Instant::now();
    for index in 0..5 {
        file.write_at(index * (8 << 20), &[1; 8 << 20]).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(area.stats().passed_through_bytes > 0);
    // It goes on: the area has room again.
    drop(lock);
    let before = area.stats().passed_through_bytes;
    file.write_at(40 << 20, &[1; 1 << 20]).unwrap();
    assert_eq!(area.stats().passed_through_bytes, before);
    file.abandon();
}

#[test]
fn a_published_file_that_was_removed_does_not_come_back_with_the_next_try() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().canonicalize().unwrap().join("slow");
    fs::create_dir(&slow).unwrap();
    let path = slow.join("file");
    let area = alone(&folder.path().join("fast"), false);
    let directory = slow.to_str().unwrap().to_owned();
    let fail = move |call: &Call<'_>| {
        if syncs(call, &directory) { Err(rustix::io::Errno::IO) } else { Ok(()) }
    };
    let sealed = hooked(fail, || put(&area, &path, b"bytes"));
    assert!(path.exists() && sealed.durable().error().is_some());
    fs::remove_file(&path).unwrap();
    area.drain(&quiet).unwrap();
    assert!(sealed.durable().is_set() && !path.exists());
}

#[test]
fn a_temporary_file_that_could_not_be_removed_is_removed_by_the_next_try() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow");
    fs::create_dir(&slow).unwrap();
    let path = slow.join("file");
    let area = alone(&folder.path().join("fast"), false);
    let fail = |call: &Call<'_>| match call {
        Call::Rename { to, .. } if *to == Path::new("file") => Err(rustix::io::Errno::IO),
        Call::Remove { name, .. } if name.to_str().unwrap().contains(".forebay-") => {
            Err(rustix::io::Errno::IO)
        }
        _ => Ok(()),
    };
    let sealed = hooked(fail, || put(&area, &path, b"bytes"));
    assert!(sealed.durable().error().is_some());
    assert_eq!(fs::read_dir(&slow).unwrap().count(), 1, "it is still there");
    area.drain(&quiet).unwrap();
    let names: Vec<_> = fs::read_dir(&slow).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
}

#[test]
fn an_area_that_cannot_be_looked_at_does_not_say_that_nothing_is_staged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let area = area(&folder.path().join("fast"), 64 << 20);
    area.pause();
    let file = area.update(&path, opened(&path), StageOptions::default()).unwrap();
    file.write_at(0, b"bytes").unwrap();
    file.stage().unwrap();
    let left = left(&folder.path().join("fast"));
    let inner = fs::read_dir(&left).unwrap().next().unwrap().unwrap().path();
    // Somebody has made it readable for the group: it is private no more.
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o750)).unwrap();
    let error = Area::open(AreaSettings::folder(&left)).unwrap().pending(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("cannot tell whether writes to it are staged"), "{error}");
    std::mem::forget((file, area));
}

#[test]
fn an_update_whose_path_cannot_be_looked_at_can_be_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, slow) = (folder.path().join("fast"), folder.path().join("slow"));
    fs::create_dir(&slow).unwrap();
    let area = area(&fast, 64 << 20);
    area.pause();
    let file = area.update(&slow.join("file"), opened(&slow.join("file")), StageOptions::default()).unwrap();
    file.write_at(0, b"bytes").unwrap();
    file.stage().unwrap();
    let left = left(&fast);
    fs::rename(&slow, folder.path().join("moved")).unwrap();
    fs::write(&slow, "not a directory").unwrap();
    let refused = recover(&left, &RecoverOptions::default(), &quiet).unwrap().refused;
    let discard = RecoverOptions { discard: vec![refused[0].id.clone()], ..RecoverOptions::default() };
    let done = recover(&left, &discard, &quiet).unwrap();
    assert_eq!((done.discarded.len(), done.refused.len()), (1, 0), "{done:?}");
    assert_eq!(
        recover(&left, &RecoverOptions::default(), &quiet).unwrap(),
        forebay_stage::Recovered::default()
    );
    std::mem::forget((file, area));
}

#[test]
fn a_recover_does_not_take_a_look_at_a_killed_process_for_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let (fast, path) = (folder.path().join("fast"), folder.path().join("file"));
    let area = area(&fast, 64 << 20);
    area.pause();
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, b"bytes").unwrap();
    assert!(file.seal().unwrap().staged().wait(LIMIT).unwrap());
    let left = left(&fast);
    let lock = Command::new("find").arg(&left).args(["-path", "*p-*/lock"]).output().unwrap();
    let lock = File::open(String::from_utf8(lock.stdout).unwrap().trim_end()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let looking = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        drop(lock);
    });
    let done = recover(&left, &RecoverOptions::default(), &quiet).unwrap();
    looking.join().unwrap();
    assert_eq!((done.in_use.len(), done.finished.len()), (0, 1), "{done:?}");
    area.leave();
}

#[test]
fn bytes_that_went_past_an_area_are_not_taken_from_a_file_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("files cannot be given away here: nothing is tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (fast, slow) = (folder.path().join("fast"), folder.path().join("slow"));
    fs::create_dir(&slow).unwrap();
    // So small that part of it goes to a temporary file.
    let area = area(&fast, 64 << 10);
    area.pause();
    let file = area.create(&slow.join("file"), StageOptions::default()).unwrap();
    file.write_at(0, &[1; 1 << 20]).unwrap();
    assert!(file.seal().unwrap().staged().wait(LIMIT).unwrap());
    let left = left(&fast);
    let temporary = fs::read_dir(&slow).unwrap().next().unwrap().unwrap().path();
    std::os::unix::fs::chown(&temporary, Some(1000), None).unwrap();
    let refused = recover(&left, &RecoverOptions::default(), &quiet).unwrap().refused;
    let error = refused[0].error.clone().unwrap();
    assert!(error.contains("of this user") && error.contains("--apply"), "{error}");
    assert!(!slow.join("file").exists());
    // Root on a file system that gives its files to nobody.
    let apply = RecoverOptions { apply: vec![refused[0].id.clone()], ..RecoverOptions::default() };
    assert_eq!(recover(&left, &apply, &quiet).unwrap().finished.len(), 1);
    assert_eq!(fs::read(slow.join("file")).unwrap(), [1; 1 << 20]);
    area.leave();
}
