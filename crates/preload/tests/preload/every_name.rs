//! Every function that the library exports is called by a program, and gives what the bare system call gives.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use forebay_scratch::RunCounter;

use crate::support::{FLAGS, Ran, Set, bytes, c_program, exported_names, symbols};

const ALL: &str = "every name gave the same\n";
const IN_MEMORY: &str = "memory:64MiB";

/// Functions that a program looks up by their names, as headers have other names for them or no declaration.
const LOOKED_UP: &[&str] = &[
    "fstat",
    "fstat64",
    "__fxstat",
    "__fxstat64",
    "fstatat",
    "fstatat64",
    "__fxstatat",
    "__fxstatat64",
    "stat",
    "stat64",
    "lstat",
    "lstat64",
    "__xstat",
    "__xstat64",
    "__lxstat",
    "__lxstat64",
    "fstatfs",
    "fstatfs64",
    "statfs",
    "statfs64",
    "fstatvfs",
    "fstatvfs64",
    "statvfs",
    "statvfs64",
];

/// Runs `program` with a tier in memory, from which a file is never opened as a whole.
fn run_in_memory(set: &Set, program: &Path, arguments: &[&str]) -> Ran {
    set.run_with(program, arguments, |command| command.env("FOREBAY_TIERS", IN_MEMORY))
}

/// Runs a program that compares for itself: without the library, with a cold tier, block by block, and on a copy of `a`.
fn compared(set: &Set, program: &Path, arguments: &[PathBuf]) {
    let arguments: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
    let plain = set.plain(program).args(&arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&plain.stdout), ALL, "{}", String::from_utf8_lossy(&plain.stderr));
    set.settle();
    let cold = set.run(program, &arguments);
    assert_eq!(cold.good(), ALL, "with a cold tier");
    assert!(cold.count(RunCounter::OpensManaged) > 0, "{:?}", cold.counts);
    let blocks = run_in_memory(set, program, &arguments);
    assert_eq!(blocks.good(), ALL, "block by block");
    assert!(blocks.count(RunCounter::TierBytes) > 0, "{:?}", blocks.counts);
    assert_eq!(blocks.count(RunCounter::OpensOnCopy), 0);
    set.place(&["a"]);
    let warm = set.run(program, &arguments);
    assert_eq!(warm.good(), ALL, "on a copy");
    assert!(warm.count(RunCounter::OpensOnCopy) > 0, "{:?}", warm.counts);
    for ran in [cold, blocks, warm] {
        assert_eq!(ran.count(RunCounter::Fallbacks), 0, "{:?}", ran.counts);
    }
}

/// The same bytes outside the prefix.
fn twin(set: &Set, len: usize) -> PathBuf {
    let twin = set.origin().with_file_name("twin");
    fs::write(&twin, bytes("a", len)).unwrap();
    twin
}

#[test]
fn every_name_for_reading_gives_what_the_kernel_gives() {
    const LEN: usize = 3_000_001;
    let set = Set::new(&[]);
    set.write("a", LEN);
    set.write("z", 10);
    std::os::unix::fs::symlink("a", set.path("link")).unwrap();
    let made = set.origin().with_file_name("made");
    compared(&set, &c_program("every_read"), &[set.origin(), "a".into(), twin(&set, LEN), made]);
}

#[test]
fn every_name_that_starts_a_program_or_makes_a_descriptor_gives_what_the_kernel_gives() {
    const LEN: usize = 1_200_001;
    let set = Set::new(&[]);
    set.write("a", LEN);
    fs::copy("/bin/cat", set.path("cat")).unwrap();
    compared(&set, &c_program("every_start"), &[set.path("a"), twin(&set, LEN), set.path("cat")]);
}

#[test]
fn every_name_for_changes_gives_what_the_kernel_gives() {
    let set = Set::new(&[]);
    let names = ["a", "b", "c"];
    let fill = |folder: &Path| {
        fs::create_dir(folder).unwrap();
        names.iter().for_each(|name| fs::write(folder.join(name), bytes(name, 50_000)).unwrap());
    };
    ["plain", "cold", "blocks", "copies"].iter().for_each(|how| fill(&set.path(how)));
    set.settle();
    set.place(&names.map(|name| format!("copies/{name}")).each_ref().map(String::as_str));
    let program = c_program("every_change");
    for how in ["plain", "cold", "blocks", "copies"] {
        let twin = set.origin().with_file_name(how);
        fill(&twin);
        let folder = set.path(how);
        let arguments = [folder.to_str().unwrap(), twin.to_str().unwrap()];
        let ran = match how {
            "plain" => set.run_with(&program, &arguments, |command| command.env_remove("LD_PRELOAD")),
            "blocks" => run_in_memory(&set, &program, &arguments),
            _ => set.run(&program, &arguments),
        };
        assert_eq!(ran.good(), ALL, "{how}");
        let wanted = match how {
            "plain" => None,
            "copies" => Some(RunCounter::OpensOnCopy),
            _ => Some(RunCounter::OpensManaged),
        };
        assert!(wanted.is_none_or(|counter| ran.count(counter) > 0), "{how}: {:?}", ran.counts);
        assert_eq!(ran.count(RunCounter::Fallbacks), 0, "{how}");
    }
}

#[test]
fn every_function_that_is_exported_is_called_by_a_program_of_these_tests() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sources: Vec<PathBuf> = fs::read_dir(fs::canonicalize("tests/preload").unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    let built = Command::new("cc").args(FLAGS).arg("-c").args(&sources).current_dir(folder.path()).status();
    assert!(built.unwrap().success());
    let object = |path: &Path| folder.path().join(path.with_extension("o").file_name().unwrap());
    let called: BTreeSet<String> =
        sources.iter().flat_map(|path| symbols(&["--undefined-only"], &object(path))).collect();
    let reader = fs::read_to_string("tests/preload/every_read.c").unwrap();
    for name in LOOKED_UP {
        let base = name.trim_end_matches("64");
        let is_used =
            reader.contains(&format!("(\"{name}\"")) || reader.contains(&format!("_BOTH(\"{base}\""));
        assert!(is_used, "{name} is not looked up any more");
    }
    let exported = exported_names();
    assert!(exported.len() > 150, "{exported:?}");
    let missing: Vec<&String> = exported
        .iter()
        .filter(|name| !called.contains(*name) && !LOOKED_UP.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "hooked, and called by no program of these tests: {missing:?}");
}
