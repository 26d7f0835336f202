//! Processes that are killed, tiers that vanish under a running program.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
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

/// Files below `folder` that end in `end`, and the folders where that is empty.
fn below(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(below(&path, end));
        }
        if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found
}

/// What happens to a file of a tier.
type Trouble<'a> = &'a dyn Fn(&Path);

/// A set with one file that `every_read` compares with its twin.
struct Compared {
    set: Set,
    arguments: Vec<String>,
}

impl Compared {
    fn new() -> Self {
        const LEN: usize = 3_000_001;
        let set = Set::new(&[]);
        set.write("a", LEN);
        set.write("z", 10);
        std::os::unix::fs::symlink("a", set.path("link")).unwrap();
        let (twin, made) = (set.origin().with_file_name("twin"), set.origin().with_file_name("made"));
        fs::write(&twin, bytes("a", LEN)).unwrap();
        let arguments = [set.origin(), "a".into(), twin, made].map(|path| path.display().to_string());
        let compared = Self { set, arguments: arguments.into() };
        // Once without the library, as it marks the file.
        compared.same("without the library", "");
        compared.set.settle();
        compared
    }

    fn same(&self, how: &str, tiers: &str) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let ran = self.set.run_with(c_program("every_read"), &arguments, |command| match tiers {
            "" => command.env_remove("LD_PRELOAD"),
            _ => command.env("FOREBAY_TIERS", tiers),
        });
        assert_eq!(ran.good(), "every name gave the same\n", "{how}");
    }

    fn tier(&self, quota: &str) -> String {
        format!("disk:{}:{quota}:keep", self.set.tier().display())
    }
}

#[test]
fn a_tier_that_is_full_or_has_lost_or_changed_bytes_costs_no_byte_and_no_call() {
    let compared = Compared::new();
    let set = &compared.set;
    // Less than the file, and then less than a block.
    for quota in ["2MiB", "2MiB", "1MiB", "100KiB"] {
        compared.same(quota, &compared.tier(quota));
    }
    let flip = |path: &Path| {
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let len = file.metadata().unwrap().len();
        for at in [5, len / 2, len - 1] {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
        }
    };
    let cut = |path: &Path, part: u64| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len * part / 4).unwrap();
    };
    let troubles: [(&str, &str, Trouble<'_>); 7] = [
        ("flipped bytes", ".bytes", &flip),
        ("a cut mirror", ".bytes", &|path| cut(path, 3)),
        ("an empty mirror", ".bytes", &|path| cut(path, 0)),
        ("a longer mirror", ".bytes", &|path| cut(path, 5)),
        ("a removed mirror", ".bytes", &|path| fs::remove_file(path).unwrap()),
        ("a flipped map", ".map", &flip),
        ("a cut map", ".map", &|path| cut(path, 2)),
    ];
    for (what, end, trouble) in troubles {
        set.place(&["a"]);
        let files = below(set.tier(), end);
        assert!(!files.is_empty(), "{what}");
        files.iter().for_each(|path| trouble(path));
        // Twice: what was found wrong is replaced meanwhile.
        compared.same(what, &compared.tier("1GiB"));
        compared.same(what, &compared.tier("1GiB"));
    }
    set.place(&["a"]);
    compared.same("after all", &compared.tier("1GiB"));
}

#[test]
fn a_tier_that_cannot_be_written_to_costs_no_byte_and_no_call() {
    let set = Set::for_others(&[("a", 900_000)]);
    let arguments = ["at once", set.origin().to_str().unwrap(), "a"].map(str::to_owned);
    let arguments = arguments.each_ref().map(String::as_str);
    let program = c_program("permissions");
    let plain = set.plain(&program).args(arguments).output().unwrap();
    let wanted = String::from_utf8_lossy(&plain.stdout).into_owned();
    let modes = |folder_mode, file_mode| {
        for path in below(set.tier(), "").into_iter().chain([set.tier().to_owned()]) {
            let mode = if path.is_dir() { folder_mode } else { file_mode };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    let run = || set.run_as_another(&program, &arguments, |command| command);
    modes(0o500, 0o400);
    let empty = run();
    assert_eq!(empty.good(), wanted, "before there is anything");
    assert_eq!(empty.count(RunCounter::OpensOnCopy), 0);
    modes(0o700, 0o600);
    let began = std::time::Instant::now();
    while run().count(RunCounter::OpensOnCopy) < 6 {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "never whole");
    }
    modes(0o500, 0o400);
    let full = run();
    assert_eq!(full.good(), wanted, "with a copy in it");
    modes(0o700, 0o600);
    println!("{:?}", full.counts);
}
