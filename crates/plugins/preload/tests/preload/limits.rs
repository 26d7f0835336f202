//! The limit of open files is the program's own, and so are all numbers within it.

use crate::support::{Set, bytes, c_program, library};

/// Runs `limits` without the library, and with it on copies, under `limit`: it prints the same.
fn same(set: &Set, how: &str, limit: &str) {
    let names = ["a", "b", "c", "d"];
    let paths = names.map(|name| set.path(name).display().to_string()).join(" ");
    let (program, outside) = (c_program("limits"), set.tier().display());
    let script = format!("ulimit {limit}; exec {} {how} {outside} {paths}", program.display());
    let plain = set.plain("bash").args(["-c", &script]).output().unwrap();
    assert!(plain.status.success() && plain.stderr.is_empty(), "{}", String::from_utf8_lossy(&plain.stderr));
    assert_eq!(
        set.run("bash", &["-c", &script]).good(),
        String::from_utf8_lossy(&plain.stdout),
        "{how}, {limit}"
    );
}

fn set() -> Set {
    let names = ["a", "b", "c", "d"];
    let set = Set::new(&names.map(|name| (name, 300_000)));
    set.place(&names);
    set
}

#[test]
fn the_limit_of_open_files_is_never_another_here_or_in_children() {
    let set = set();
    for limit in ["-Sn 1024", "-n 4096", "-Sn 300"] {
        same(&set, "limit", limit);
    }
}

#[test]
fn numbers_that_the_program_has_not_opened_are_not_open_for_it_and_give_way_to_dup2() {
    let set = set();
    for limit in ["-n 1024", "-n 4096"] {
        same(&set, "foreign", limit);
    }
}

#[test]
fn a_program_that_lowers_its_limit_reads_on_and_opens_as_many_files_as_it_then_may() {
    let set = set();
    for limit in ["-n 1024", "-Sn 4096"] {
        same(&set, "lowered", limit);
    }
}

#[test]
fn calls_that_make_descriptors_get_the_numbers_of_ours_when_no_other_is_left() {
    let set = set();
    let calls = [
        "open",
        "fopen",
        "freopen",
        "opendir",
        "mkstemp",
        "dup",
        "fcntl",
        "cloexec",
        "again",
        "pipe",
        "pipe2",
        "socket",
        "socketpair",
        "accept",
        "accept4",
        "eventfd",
        "epoll",
        "timerfd",
        "signalfd",
        "inotify",
        "memfd",
    ];
    for call in calls {
        same(&set, call, "-n 1024");
    }
}

#[test]
fn a_program_with_little_address_space_reads_as_it_would_without_the_library() {
    let set = Set::new(&[("a", 3_000_001)]);
    let path = set.path("a").display().to_string();
    // From where the library can be loaded at all.
    for kibibytes in (18_000..34_000).step_by(400) {
        let script = format!("ulimit -v {kibibytes}; LD_PRELOAD='{}' exec cat '{path}'", library().display());
        let ran = set.run_with("bash", &["-c", &script], |command| {
            command.env_remove("LD_PRELOAD").env("FOREBAY_TIERS", "memory:64MiB")
        });
        let said = String::from_utf8_lossy(&ran.output.stderr);
        assert!(ran.output.status.success() && said.is_empty(), "{kibibytes} KiB: {said}");
        assert!(ran.output.stdout == bytes("a", 3_000_001), "{kibibytes} KiB");
    }
}
