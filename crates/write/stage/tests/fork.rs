//! What a forked child reads and writes of files that its parent has open.

#![expect(unsafe_code, reason = "nothing but fork makes such a child")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs::{self, File},
    io::{Read, Write},
    ops::ControlFlow,
    os::unix::{fs::FileExt, net::UnixStream},
    sync::Arc,
};

use forebay_stage::{Area, AreaSettings, CloseWhen, RecoverOptions, RedoFile, StageOptions, recover};

/// Runs `child` in a forked process, which must end well; `parent` runs meanwhile.
fn fork(child: impl FnOnce() -> bool, parent: impl FnOnce()) {
    // SAFETY: the tests of this file run in processes of their own, one thread at a time besides our own threads, whose
    // locks the child does not take.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends the child at once, running nothing of the parent's.
        unsafe { libc::_exit(i32::from(!matches!(ended, Ok(true)))) };
    }
    parent();
    let mut status = 0;
    // SAFETY: `pid` is a child of ours that was not waited for yet.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child has failed");
}

fn area(folder: &std::path::Path, paused: bool) -> Arc<Area> {
    let settings =
        AreaSettings { quota: 64 << 20, free_floor: 0, ..AreaSettings::folder(folder.join("fast")) };
    Area::open(AreaSettings { start_paused: paused, ..settings }).unwrap()
}

fn update(area: &Arc<Area>, path: &std::path::Path) -> RedoFile {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    area.update(path, file, StageOptions::default()).unwrap()
}

fn read(file: &RedoFile, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let beneath = |offset: u64, into: &mut [u8]| {
        file.file().read_exact_at(into, offset).unwrap();
        Ok(())
    };
    file.read_at(0, &mut bytes, &beneath).unwrap();
    bytes
}

#[test]
fn a_child_sees_what_its_parent_wrote_before_and_writes_through_a_log_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let area = area(folder.path(), false);
    let path = folder.path().join("file");
    let file = update(&area, &path);
    file.write_at(0, b"parent").unwrap();
    let in_child = || {
        let seen = read(&file, 6) == b"parent";
        file.write_at(6, b" child").unwrap();
        let own = read(&file, 12) == b"parent child";
        file.drain().unwrap();
        seen && own
    };
    fork(in_child, || {});
    file.write_at(12, b" again").unwrap();
    file.close(CloseWhen::Drained).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"parent child again");
}

#[test]
fn a_new_file_belongs_to_the_process_that_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let area = area(folder.path(), false);
    let path = folder.path().join("file");
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, b"parent").unwrap();
    let in_child = || {
        let refused = file.write_at(0, b"child").is_err();
        let other = area.create(&folder.path().join("other"), StageOptions::default()).unwrap();
        other.write_at(0, b"child").unwrap();
        other.seal().unwrap().durable().wait(None).unwrap();
        area.close().unwrap();
        refused
    };
    fork(in_child, || {});
    assert_eq!(fs::read(folder.path().join("other")).unwrap(), b"child");
    file.seal().unwrap().durable().wait(None).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"parent");
}

#[test]
fn a_child_that_lives_on_does_not_keep_what_its_killed_parent_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    // The grandchild outlives the child, which is the process that writes, and this test by no more than a moment.
    let (wait, release) = UnixStream::pair().unwrap();
    let release = std::cell::Cell::new(Some(release));
    let (begins, begun) = UnixStream::pair().unwrap();
    let in_child = || {
        let area = area(folder.path(), true);
        let file = update(&area, &path);
        file.write_at(0, b"new").unwrap();
        // SAFETY: as in `fork`.
        if unsafe { libc::fork() } == 0 {
            drop(release.take());
            (&begins).write_all(&[0]).unwrap();
            let _ = (&wait).read(&mut [0]);
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) };
        }
        // A child that has not begun yet has its parent's files.
        (&begun).read_exact(&mut [0]).unwrap();
        std::mem::forget((file, area));
        true
    };
    fork(in_child, || {});
    let options = RecoverOptions::default();
    let done = recover(&folder.path().join("fast"), &options, &|_| ControlFlow::Continue(())).unwrap();
    assert_eq!((done.finished.len(), done.in_use.len()), (1, 0), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_child_waits_for_no_mark_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let area = area(folder.path(), false);
    let path = folder.path().join("file");
    let file = update(&area, &path);
    file.write_at(0, b"parent").unwrap();
    // The drain of what was promised ends with a mark.
    file.stage().unwrap();
    while !file.is_drained() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    file.stage().unwrap();
    let in_child = || {
        file.write_at(6, b" child").unwrap();
        file.drain().unwrap();
        true
    };
    fork(in_child, || {});
    file.close(CloseWhen::Drained).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"parent child");
}
