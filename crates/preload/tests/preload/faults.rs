//! Processes that are killed, tiers that vanish under a running program.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Stdio},
};

use forebay_scratch::RunCounter;

use crate::support::{Set, bytes, c_program};

/// A program that reads a file over and over, one pass for every line it is sent.
struct Reader {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Reader {
    fn new(set: &Set, name: &str, how: &str) -> Self {
        let (folder, _counters) = set.new_run();
        let mut command = set.preloaded_in(c_program("reader"), &folder);
        command.arg(set.path(name)).arg(how).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// The checksum of one more pass.
    fn pass(&mut self) -> String {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn checksum(bytes: &[u8]) -> String {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211);
    format!("{} {:016x}", bytes.len(), bytes.iter().fold(14_695_981_039_346_656_037, hash))
}

#[test]
fn a_tier_that_is_removed_under_a_running_program_costs_no_byte() {
    let set = Set::new(&[("a", 3_000_000), ("b", 3_000_000)]);
    set.place(&["a"]);
    let (a, b) = (checksum(&bytes("a", 3_000_000)), checksum(&bytes("b", 3_000_000)));
    let mut readers = ["keep", "anew"].map(|how| [("a", how), ("b", how)]).concat();
    let mut readers: Vec<(Reader, &String)> = readers
        .drain(..)
        .map(|(name, how)| (Reader::new(&set, name, how), if name == "a" { &a } else { &b }))
        .collect();
    for (reader, wanted) in &mut readers {
        assert_eq!(&reader.pass(), *wanted);
    }
    for entry in fs::read_dir(set.tier()).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    for _ in 0..3 {
        for (reader, wanted) in &mut readers {
            assert_eq!(&reader.pass(), *wanted);
        }
    }
    for (reader, _) in readers {
        reader.end();
    }
}

#[test]
fn a_process_that_is_killed_leaves_the_others_right() {
    let set = Set::new(&[("a", 6_000_000)]);
    let wanted = checksum(&bytes("a", 6_000_000));
    for round in 0..6 {
        let mut readers = [(); 3].map(|()| Reader::new(&set, "a", "anew"));
        assert_eq!(readers[0].pass(), wanted);
        // In the midst of a pass, each time a little later.
        readers[1].child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round));
        readers[1].child.kill().unwrap();
        readers[1].child.wait().unwrap();
        let [mut first, _, mut last] = readers;
        assert_eq!((first.pass(), last.pass()), (wanted.clone(), wanted.clone()));
        first.end();
        last.end();
    }
    set.place(&["a"]);
}

#[test]
fn threads_and_children_that_read_lock_and_close_one_file_at_once_get_its_bytes() {
    let set = Set::new(&[("a", 3_000_000)]);
    let outside = set.origin().with_file_name("same");
    fs::copy(set.path("a"), &outside).unwrap();
    let rounds = if std::env::var_os("FOREBAY_LONG").is_some() { "2000" } else { "60" };
    let (path, outside) = (set.path("a").display().to_string(), outside.display().to_string());
    // While it is placed, and then on copies.
    for _ in 0..3 {
        let ran = set.run(c_program("threads"), &[&path, &outside, rounds]);
        assert_eq!(ran.good(), "all the same\n");
    }
    set.place(&["a"]);
}

#[test]
fn a_program_without_descriptors_to_spare_reads_on() {
    let set = Set::new(&[("a", 200_000)]);
    set.place(&["a"]);
    let script = format!("ulimit -n 8; cat {}", set.path("a").display());
    let ran = set.run("bash", &["-c", &script]);
    assert_eq!(ran.output.stdout, bytes("a", 200_000));
    assert_eq!(ran.count(RunCounter::Invalidated), 0);
}
