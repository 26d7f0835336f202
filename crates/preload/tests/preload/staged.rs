//! Programs whose files are staged; this process is their launcher.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use forebay_scratch::RunCounters;
use forebay_stage::{Area, AreaSettings, FolderKey, NameState, ProgramImage, ProgramImages, ProgramNames};
use tempfile::TempDir;

use crate::support::{Set, c_program};

/// Longer than anybody waits for a lock that is held for a few system calls.
const LONG_HELD: Duration = Duration::from_secs(6);

struct StagedSet {
    set: Set,
    run: PathBuf,
    _counters: RunCounters,
    _area: TempDir,
    images: ProgramImages,
}

impl StagedSet {
    fn new() -> Self {
        let set = Set::new(&[]);
        let (run, counters) = set.new_run();
        let area = tempfile::tempdir().unwrap();
        let settings = AreaSettings { free_floor: 0, ..AreaSettings::folder(area.path().to_owned()) };
        let images = ProgramImages::open(Area::open(settings).unwrap(), &run).unwrap();
        Self { set, run, _counters: counters, _area: area, images }
    }

    fn command(&self, how: &str) -> Command {
        let mut command = self.set.preloaded_in(c_program("staged_calls"), &self.run);
        command.env("FOREBAY_RUN_IMAGES", self.images.folder()).arg(how).arg(self.set.origin());
        command
    }

    fn output(&self, how: &str) -> String {
        let output = self.command(how).output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn names(&self) -> ProgramNames {
        ProgramNames::of_run(&self.run)
    }
}

#[test]
fn a_name_of_a_staged_file_is_waited_for_as_long_as_others_are_at_it() {
    let mut place = StagedSet::new();
    let (names, key) = (place.names(), FolderKey::at(&place.set.origin()).unwrap());
    let mut program = place.command("names").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "made");
    let lock = names.lock().unwrap();
    input.write_all(b"\n").unwrap();
    thread::sleep(LONG_HELD);
    drop(lock);
    assert_eq!(lines.next().unwrap(), "rename: done");
    assert_eq!(lines.next().unwrap(), "now");
    // What a program does that moves its file to its destination.
    let lock = names.lock().unwrap();
    let path = names.image(NameState::Open, key, OsStr::new("moving")).unwrap();
    let image = ProgramImage::at(&path).unwrap();
    let mark = names.mark_moving(image.id()).unwrap();
    drop(lock);
    input.write_all(b"\n").unwrap();
    thread::sleep(Duration::from_millis(500));
    fs::copy(&path, place.set.path("moving")).unwrap();
    let lock = names.lock().unwrap();
    names.remove_name(NameState::Open, key, OsStr::new("moving"), &path);
    image.discard();
    drop(lock);
    drop(mark);
    assert_eq!(lines.next().unwrap(), "write: done");
    assert!(program.wait().unwrap().success());
    let wait = Duration::from_secs(60);
    place.images.finish(wait, &|_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(fs::read_to_string(place.set.path("two")).unwrap(), "first");
    assert!(!place.set.path("one").exists());
    assert_eq!(fs::read_to_string(place.set.path("moving")).unwrap(), "MOREe");
}

#[test]
fn a_staged_file_in_the_place_of_a_folder_is_refused_as_the_kernel_refuses_it() {
    let place = StagedSet::new();
    let plain = place.set.origin().with_file_name("plain");
    fs::create_dir(&plain).unwrap();
    let wanted = place.set.plain(c_program("staged_calls")).arg("below").arg(&plain).output().unwrap();
    let wanted = String::from_utf8_lossy(&wanted.stdout).into_owned();
    assert!(wanted.contains("stat: Not a directory"), "{wanted}");
    let ours = place.output("below");
    let mut path = "";
    for (ours, wanted) in ours.lines().zip(wanted.lines()) {
        path = if wanted.contains(": ") { path } else { wanted };
        assert_eq!(ours, wanted, "{path}");
    }
    assert_eq!(ours.lines().count(), wanted.lines().count());
}

#[test]
fn variables_may_be_set_while_other_threads_open_and_write() {
    let place = StagedSet::new();
    for _ in 0..2 {
        assert_eq!(place.output("variables"), "set\n");
    }
}

#[test]
fn a_handler_that_writes_needs_little_of_its_stack() {
    let place = StagedSet::new();
    let plain = place.command("handlers").env_remove("LD_PRELOAD").output().unwrap();
    let used = |text: &str| text.trim().parse::<usize>().unwrap();
    let (plain, ours) = (used(&String::from_utf8_lossy(&plain.stdout)), used(&place.output("handlers")));
    println!("a handler uses {plain} bytes of its stack, and {ours} with the library");
    assert!(ours < plain + 4096, "{ours} and {plain} without");
}
