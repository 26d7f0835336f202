//! Files that are opened before this library is ready, or before the C library is.

use forebay_scratch::RunCounter;

use crate::support::{FLAGS, Set, c_library, library};

const LEN: usize = 3_000_001;

#[test]
fn a_library_that_is_started_earlier_reads_files_of_the_prefix() {
    let set = Set::new(&[("a", LEN)]);
    let path = set.path("a").display().to_string();
    let early = c_library("early");
    let (ours, early) = (library().display().to_string(), early.display().to_string());
    let plain = set.plain("true").arg(&path).env("LD_PRELOAD", &early).output().unwrap();
    let wanted = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(wanted.starts_with("early 3000001 "), "{wanted}");
    for how in ["cold", "on a copy"] {
        // Of libraries that do not need each other the last is started first.
        for (order, is_earlier) in [([&ours, &early], true), ([&early, &ours], false)] {
            let log = set.origin().with_file_name("log");
            let loaded = [order[0].as_str(), order[1].as_str()].join(" ");
            let ran = set.run_with("true", &[&path], |command| {
                command.env("LD_PRELOAD", &loaded).env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", &log)
            });
            assert_eq!(ran.good(), wanted, "{how}, {loaded}");
            let counter = if how == "cold" { RunCounter::OpensManaged } else { RunCounter::OpensOnCopy };
            assert_eq!(ran.count(counter), 2, "{how}, {loaded}: {:?}", ran.counts);
            assert_eq!(is_started_first(&set, &early, &ours), is_earlier, "{loaded}");
        }
        set.place(&["a"]);
    }
}

/// True where the log of the loader says that `first` was started before `second`; the log is removed.
fn is_started_first(set: &Set, first: &str, second: &str) -> bool {
    let folder = set.origin();
    let logs = std::fs::read_dir(folder.parent().unwrap()).unwrap().flatten().map(|entry| entry.path());
    let logs = logs.filter(|path| path.file_stem().is_some_and(|name| name == "log"));
    let text: String = logs
        .map(|log| {
            let text = std::fs::read_to_string(&log).unwrap();
            std::fs::remove_file(log).unwrap();
            text
        })
        .collect();
    let at = |library: &str| text.find(&format!("calling init: {library}")).unwrap();
    at(first) < at(second)
}

#[test]
fn a_program_that_reads_before_all_libraries_are_started_gets_its_bytes_and_copies_afterwards() {
    let set = Set::new(&[("a", LEN)]);
    let program = set.origin().with_file_name("early");
    let source = std::path::Path::new("tests/preload/early.c");
    let mut built = std::process::Command::new("cc");
    built.args(FLAGS).arg("-DPROGRAM").arg(source).arg("-o").arg(&program);
    assert!(built.status().unwrap().success());
    let path = set.path("a").display().to_string();
    let plain = set.plain(&program).arg(&path).output().unwrap();
    let wanted = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert_eq!(wanted.lines().count(), 2, "before and in main: {wanted}");
    assert_eq!(set.run(&program, &[&path]).good(), wanted, "with a cold tier");
    set.place(&["a"]);
    let ran = set.run(&program, &[&path]);
    assert_eq!(ran.good(), wanted, "on a copy");
    assert!(ran.count(RunCounter::OpensOnCopy) >= 2, "main is served: {:?}", ran.counts);
}
