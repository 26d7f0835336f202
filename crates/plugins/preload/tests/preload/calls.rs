//! Every call gives what it gives without the library, whether the file is on a tier or not.

use forebay_scratch::RunCounter;

use crate::support::{Set, bytes, c_program};

const LEN: usize = 3_000_001;

fn calls_of(set: &Set) -> Vec<String> {
    [set.path("a"), set.origin()]
        .map(|path| path.display().to_string())
        .into_iter()
        .chain(["a".to_owned()])
        .collect()
}

#[test]
fn a_program_with_every_call_prints_the_same_with_a_cold_tier_and_on_a_copy() {
    let set = Set::new(&[("a", LEN)]);
    let (program, arguments) = (c_program("calls"), calls_of(&set));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let plain = set.plain(&program).args(&arguments).output().unwrap();
    assert!(plain.status.success());
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    let cold = set.run(&program, &arguments);
    assert_same(&cold.good(), &plain);
    assert!(cold.count(RunCounter::OpensManaged) > 0 && cold.count(RunCounter::OriginBytes) >= LEN as u64);
    set.place(&["a"]);
    let warm = set.run(&program, &arguments);
    assert_same(&warm.good(), &plain);
    assert_eq!(warm.count(RunCounter::OpensOnCopy), warm.count(RunCounter::OpensManaged));
    assert_eq!(warm.count(RunCounter::OriginBytes), 0, "{:?}", warm.counts);
    assert!(warm.count(RunCounter::LocksSwapped) >= 3, "{:?}", warm.counts);
    assert_eq!(warm.count(RunCounter::Fallbacks), 0);
}

#[test]
fn a_program_with_every_call_prints_the_same_with_a_tier_in_memory() {
    let set = Set::new(&[("a", LEN)]);
    let (program, arguments) = (c_program("calls"), calls_of(&set));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let plain = set.plain(&program).args(&arguments).output().unwrap();
    let ran = set.run_with(&program, &arguments, |command| command.env("FOREBAY_TIERS", "memory:64MiB"));
    assert_same(&ran.good(), &String::from_utf8_lossy(&plain.stdout));
    assert!(ran.count(RunCounter::TierBytes) > LEN as u64, "{:?}", ran.counts);
    assert_eq!(ran.count(RunCounter::OpensOnCopy), 0);
}

#[test]
fn without_a_prefix_without_a_tier_and_with_wrong_settings_nothing_is_done() {
    let set = Set::new(&[("a", 1000)]);
    let path = set.path("a").display().to_string();
    let of = |variable: &str, value: Option<&str>| {
        set.run_with("cat", &[&path], |command| match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        })
    };
    for ran in [of("FOREBAY_ORIGIN", None), of("FOREBAY_TIERS", None)] {
        assert_eq!(ran.output.stdout, bytes("a", 1000));
        assert!(ran.output.stderr.is_empty());
        assert_eq!(ran.count(RunCounter::OpensOnCopy) + ran.count(RunCounter::Reads), 0);
    }
    let wrong = of("FOREBAY_TIERS", Some("disk:/x:nonsense"));
    assert_eq!(wrong.output.stdout, bytes("a", 1000));
    let said = String::from_utf8_lossy(&wrong.output.stderr).into_owned();
    assert!(said.starts_with("forebay: ") && said.contains("without tiers"), "{said}");
}

#[test]
fn a_prefix_that_cannot_be_one_is_told_in_one_line_unless_the_launcher_has_looked_at_it() {
    let set = Set::new(&[("a", 1000)]);
    let path = set.path("a").display().to_string();
    for (prefix, why) in [
        ("relative", "is not an absolute path"),
        ("/no/such", "there is no such folder"),
        ("/etc/passwd", "is not a folder"),
    ] {
        let by_hand = |command: &mut std::process::Command| {
            command.env("FOREBAY_ORIGIN", prefix).env_remove("FOREBAY_RUN").output().unwrap()
        };
        let ran = by_hand(set.preloaded_in("cat", set.tier()).arg(&path));
        assert_eq!(ran.stdout, bytes("a", 1000));
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(
            said,
            format!("forebay: FOREBAY_ORIGIN '{prefix}': {why}; files are read without tiers\n")
        );
        let ran = set.run_with("cat", &[&path], |command| command.env("FOREBAY_ORIGIN", prefix));
        assert!(ran.output.stderr.is_empty() && ran.output.stdout == bytes("a", 1000));
        assert_eq!(ran.count(RunCounter::OpensManaged), 0);
    }
}

/// Compares line by line, so that the first call that differs is named.
fn assert_same(ours: &str, plain: &str) {
    for (ours, plain) in ours.lines().zip(plain.lines()) {
        assert_eq!(ours, plain);
    }
    assert_eq!(ours, plain);
}

#[test]
fn ranges_of_a_copy_on_another_file_system_are_copied_as_those_of_the_file() {
    let set = Set::new(&[("a", 200_000)]);
    let made = set.origin().with_file_name("made");
    set.same_cold_and_warm(&c_program("copy_range"), &[set.path("a"), made], &["a"]);
}
