//! `forebay simulate`, with real mounts. Where FUSE is not permitted, the tests say so and ask for a clear error.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::ran::{command, run};

/// A folder with a file, and an empty one to show it at.
struct Places {
    below: TempDir,
    above: TempDir,
}

/// Two folders; nothing where the command cannot mount, after a look at what it says.
fn places() -> Option<Places> {
    let places = Places { below: TempDir::new().unwrap(), above: TempDir::new().unwrap() };
    fs::write(places.below.path().join("f.bin"), [7; 100_000]).unwrap();
    let ran = run(&["simulate", places.below(), places.above(), "--latency", "0", "--", "true"]);
    if ran.code == 0 {
        return Some(places);
    }
    eprintln!("NOT TESTED, FUSE cannot be used here, but for the error: {}", ran.err);
    assert!(
        matches!(ran.code, 5 | 8) && ran.err.contains("fuse3") && ran.err.contains("FaultOrigin"),
        "{ran:?}"
    );
    None
}

impl Places {
    fn below(&self) -> &str {
        self.below.path().to_str().unwrap()
    }

    fn above(&self) -> &str {
        self.above.path().to_str().unwrap()
    }

    fn file(&self) -> String {
        format!("{}/f.bin", self.above())
    }

    /// Runs the command in the background until the file can be seen.
    fn start(&self, more: &[&str]) -> Child {
        let args = [&["simulate", self.below(), self.above()], more].concat();
        let mut command = command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(|| Path::new(&self.file()).exists());
        child
    }
}

fn wait_for(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "it does not come");
        thread::sleep(Duration::from_millis(10));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Waits for the end and gives exit code, output and errors.
fn ended(mut child: Child) -> (Option<i32>, String, String) {
    let code = child.wait().unwrap().code();
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (code, out, err)
}

#[test]
fn a_program_sees_the_folder_and_its_exit_code_comes_back() {
    let Some(places) = places() else { return };
    let script = "cat \"$0\" | wc -c; exit 7";
    let ran = run(&["simulate", places.below(), places.above(), "--", "sh", "-c", script, &places.file()]);
    assert_eq!((ran.code, ran.out.trim()), (7, "100000"), "{}", ran.err);
    assert!(ran.err.contains("reads") && ran.err.contains("97.7 KiB"), "{}", ran.err);
    assert!(!Path::new(&places.file()).exists(), "it is unmounted");
}

#[test]
fn a_program_that_a_signal_ended_gives_the_code_of_shells() {
    let Some(places) = places() else { return };
    let ran = run(&["simulate", places.below(), places.above(), "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.code, 137, "{}", ran.err);
}

#[test]
fn a_program_that_is_not_there_is_not_found_and_nothing_stays_mounted() {
    let Some(places) = places() else { return };
    let ran = run(&["simulate", places.below(), places.above(), "--", "no-such-program"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("no-such-program"), "{}", ran.err);
    assert!(!Path::new(&places.file()).exists());
}

#[test]
fn an_interrupt_unmounts_and_tells_what_was_read() {
    let Some(places) = places() else { return };
    for signal in [Signal::INT, Signal::TERM] {
        let child = places.start(&["--json", "--latency", "1ms"]);
        let file = File::open(places.file()).unwrap();
        for number in 0..10 {
            file.read_exact_at(&mut [0; 1000], number * 5000).unwrap();
        }
        drop(file);
        send(&child, signal);
        let (code, out, err) = ended(child);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let counters: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (counters["reads"].as_u64(), counters["opens"].as_u64()),
            (Some(10), Some(1)),
            "{counters}"
        );
        assert_eq!(counters["bytes"], 10_000);
        assert!(!Path::new(&places.file()).exists());
    }
}

#[test]
fn an_interrupt_ends_the_program_too() {
    let Some(places) = places() else { return };
    let child = places.start(&["--", "sleep", "60"]);
    let began = Instant::now();
    send(&child, Signal::TERM);
    let (code, _, err) = ended(child);
    assert_eq!(code, Some(128 + 15), "{err}");
    assert!(began.elapsed() < Duration::from_secs(120));
    assert!(!Path::new(&places.file()).exists());
}

#[test]
fn a_mount_whose_program_was_killed_is_taken_away_and_that_is_said() {
    let Some(places) = places() else { return };
    let mut child = places.start(&[]);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| fs::metadata(places.above()).is_err());
    let ran = run(&["simulate", places.below(), places.above(), "--", "cat", &places.file()]);
    assert_eq!((ran.code, ran.out.len()), (0, 100_000), "{}", ran.err);
    assert!(ran.err.contains("whose program was killed"), "{}", ran.err);
}

#[test]
fn other_users_are_let_in_only_where_that_is_asked_for() {
    let Some(places) = places() else { return };
    let shown = |flags: &[&str]| {
        let program = ["--", "cat", "/proc/self/mounts"];
        let ran = run(&[&["simulate", places.below(), places.above()], flags, &program[..]].concat());
        let line = ran.out.lines().find(|line| line.contains(places.above())).map(str::to_owned);
        (line.unwrap_or_default(), ran.err)
    };
    let (alone, _) = shown(&[]);
    assert!(alone.contains("nosuid,nodev") && !alone.contains("allow_other"), "{alone}");
    let (together, err) = shown(&["--allow-other"]);
    // Who is not root has to be let to do so.
    assert!(together.contains("allow_other") || err.contains("user_allow_other"), "{together} {err}");
}

#[test]
fn a_second_one_at_the_same_place_is_refused() {
    let Some(places) = places() else { return };
    let child = places.start(&[]);
    let ran = run(&["simulate", places.below(), places.above(), "--", "true"]);
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("another `forebay simulate` stands here"), "{}", ran.err);
    send(&child, Signal::INT);
    assert_eq!(ended(child).0, Some(0));
}

#[test]
fn wrong_times_and_speeds_are_refused_before_anything_is_mounted() {
    for (flag, value) in [("--latency", "fast"), ("--bandwidth", "plenty/s"), ("--open-latency", "5")] {
        let ran = run(&["simulate", "/tmp", "/nowhere", flag, value]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("look like"), "{}", ran.err);
    }
    let ran = run(&["simulate", "/tmp", "/no/such/place"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("mkdir /no/such/place"), "{}", ran.err);
}

#[test]
fn a_program_writes_where_it_is_let_and_what_it_did_is_counted() {
    let Some(places) = places() else { return };
    let script = "cd \"$0\"; cp f.bin new; mv new renamed; sync renamed; rm f.bin";
    let pace =
        ["--writable", "--json", "--latency", "1ms", "--fsync-latency", "3ms", "--request-size", "64KiB"];
    let program = ["--", "sh", "-ec", script, places.above()];
    let ran = run(&[&["simulate", places.below(), places.above()], &pace[..], &program].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let counters: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(counters["bytes_written"], 100_000, "{counters}");
    assert!(counters["writes"].as_u64() >= Some(2), "{counters}");
    for (name, count) in [("creates", 1), ("renames", 1), ("removes", 1), ("fsyncs", 1)] {
        assert_eq!(counters[name], count, "{counters}");
    }
    assert_eq!(fs::read(places.below.path().join("renamed")).unwrap(), [7; 100_000]);
    assert!(!places.below.path().join("f.bin").exists());
}

#[test]
fn a_full_file_system_says_so_to_the_program() {
    let Some(places) = places() else { return };
    let script = "head -c 60000 /dev/zero > \"$0\"/new";
    let args = ["--writable", "--capacity", "150000", "--", "sh", "-c", script, places.above()];
    let ran = run(&[&["simulate", places.below(), places.above()], &args[..]].concat());
    assert!(ran.code != 0 && ran.err.contains("No space left"), "{ran:?}");
    let table = ["creates", "operation"];
    assert!(table.iter().all(|word| ran.err.contains(word)), "{}", ran.err);
}

#[test]
fn what_only_writers_need_is_refused_without_writable() {
    for flags in [["--capacity", "1MiB"], ["--fsync-latency", "1ms"]] {
        let ran = run(&[&["simulate", "/tmp", "/nowhere"], &flags[..]].concat());
        assert!(ran.code == 2 && ran.err.contains("--writable"), "{ran:?}");
    }
    let ran = run(&["simulate", "/tmp", "/nowhere", "--request-size", "2MiB"]);
    assert!(ran.code == 2 && ran.err.contains("--request-size from 1 to 1MiB"), "{ran:?}");
}
