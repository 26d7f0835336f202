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

/// Runs programs that compare for themselves: without the library, with a cold tier, block by block, and on a copy of `a`.
fn compared(set: &Set, programs: &[(PathBuf, Vec<PathBuf>)]) {
    for how in ["plain", "cold", "blocks", "copy"] {
        if how == "copy" {
            set.place(&["a"]);
        }
        for (program, arguments) in programs {
            let arguments: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
            let ran = match how {
                "plain" => set.run_with(program, &arguments, |command| command.env_remove("LD_PRELOAD")),
                "blocks" => run_in_memory(set, program, &arguments),
                _ => set.run(program, &arguments),
            };
            assert_eq!(ran.good(), ALL, "{} {how}", program.display());
            assert_counted(how, &ran);
        }
        set.settle();
    }
}

/// The files were read in the way that is meant.
fn assert_counted(how: &str, ran: &Ran) {
    let is_there = match how {
        "plain" => ran.count(RunCounter::OpensManaged) == 0,
        "blocks" => ran.count(RunCounter::TierBytes) > 0 && ran.count(RunCounter::OpensOnCopy) == 0,
        "copy" => ran.count(RunCounter::OpensOnCopy) > 0,
        _ => ran.count(RunCounter::OpensManaged) > 0,
    };
    assert!(is_there && ran.count(RunCounter::Fallbacks) == 0, "{how}: {:?}", ran.counts);
}

#[test]
fn every_name_that_reads_or_starts_a_program_or_makes_a_descriptor_gives_what_the_kernel_gives() {
    const LEN: usize = 3_000_001;
    let set = Set::new(&[]);
    set.write("a", LEN);
    set.write("z", 10);
    std::os::unix::fs::symlink("a", set.path("link")).unwrap();
    let (program, twin) = (set.origin().with_file_name("cat"), set.origin().with_file_name("twin"));
    fs::copy("/bin/cat", &program).unwrap();
    fs::write(&twin, bytes("a", LEN)).unwrap();
    let made = set.origin().with_file_name("made");
    let reads = (c_program("every_read"), vec![set.origin(), "a".into(), twin.clone(), made]);
    let starts = (c_program("every_start"), vec![set.path("a"), twin, program]);
    compared(&set, &[reads, starts]);
}

#[test]
fn every_name_for_changes_gives_what_the_kernel_gives() {
    let set = Set::new(&[]);
    let names = ["a", "b", "c"];
    let fill = |folder: &Path| {
        fs::create_dir(folder).unwrap();
        names.iter().for_each(|name| fs::write(folder.join(name), bytes(name, 50_000)).unwrap());
    };
    ["plain", "cold", "blocks", "copy"].iter().for_each(|how| fill(&set.path(how)));
    set.settle();
    set.place(&names.map(|name| format!("copy/{name}")).each_ref().map(String::as_str));
    let program = c_program("every_change");
    for how in ["plain", "cold", "blocks", "copy"] {
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
        assert_counted(how, &ran);
    }
}

#[test]
fn every_function_that_is_exported_is_called_by_a_program_of_these_tests() {
    let exported = exported_names();
    assert!(exported.len() > 150, "{exported:?}");
    let reader = fs::read_to_string("tests/preload/every_read.c").unwrap();
    for name in LOOKED_UP {
        let base = name.trim_end_matches("64");
        let is_used =
            reader.contains(&format!("(\"{name}\"")) || reader.contains(&format!("_BOTH(\"{base}\""));
        assert!(is_used, "{name} is not looked up any more");
    }
    let mut missing: BTreeSet<String> = exported.into_iter().collect();
    missing.retain(|name| !LOOKED_UP.contains(&name.as_str()));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for source in sources() {
        if missing.is_empty() {
            return;
        }
        let object = folder.path().join("object");
        let built = Command::new("cc").args(FLAGS).arg("-c").arg(&source).arg("-o").arg(&object).status();
        assert!(built.unwrap().success(), "{}", source.display());
        let called: BTreeSet<String> = symbols(&["--undefined-only"], &object).into_iter().collect();
        missing.retain(|name| !called.contains(name));
    }
    assert!(missing.is_empty(), "hooked, and called by no program of these tests: {missing:?}");
}

/// The programs of these tests, those that call most first.
fn sources() -> Vec<PathBuf> {
    let entries = fs::read_dir("tests/preload").unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
    sources.sort_by_key(|path| {
        !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("every"))
    });
    sources
}
