//! Programs of every day: their output is what it is without the library, and the second run needs no bytes of the origin.

use std::fs;

use forebay_scratch::RunCounter;

use crate::support::{Set, bytes};

/// Runs a script without the library, with a cold tier, and again on copies.
fn compare(set: &Set, script: &str, names: &[&str]) {
    let plain = set.plain("bash").args(["-c", script]).output().unwrap();
    assert!(plain.status.success(), "{script}: {}", String::from_utf8_lossy(&plain.stderr));
    for _ in 0..2 {
        let ran = set.run("bash", &["-c", script]);
        assert_eq!(
            ran.good().into_bytes(),
            String::from_utf8_lossy(&plain.stdout).into_owned().into_bytes(),
            "{script}"
        );
    }
    set.place(names);
    let warm = set.run("bash", &["-c", script]);
    assert_eq!(warm.good(), String::from_utf8_lossy(&plain.stdout), "{script}");
    assert_eq!(warm.count(RunCounter::OriginBytes), 0, "{script}: {:?}", warm.counts);
    assert!(warm.count(RunCounter::OpensOnCopy) > 0, "{script}: {:?}", warm.counts);
}

#[test]
fn files_are_read_by_everyday_programs_as_without_the_library() {
    let set = Set::new(&[("a", 2_500_000), ("b", 70_000), ("c", 1)]);
    let at = set.origin().display().to_string();
    for script in [
        format!("cat {at}/a {at}/b {at}/c | sha256sum"),
        format!("sha256sum {at}/*"),
        format!("cd {at} && sha256sum a b c && wc -c * && cmp a a && od -A x b | tail -3"),
        format!("tar -C {at} -cf - a b c | sha256sum"),
        format!(
            "cp -r {at} $(dirname {at})/copy && cat $(dirname {at})/copy/* | sha256sum; rm -r $(dirname {at})/copy"
        ),
        format!("head -c 100000 < {at}/a | sha256sum; tail -c 1000 {at}/a | sha256sum"),
        format!("{{ head -c 1000 > /dev/null; cat; }} < {at}/a | sha256sum"),
        format!(
            "exec 3< {at}/a 4< {at}/b; head -c 5 <&3 | od; cat <&4 | sha256sum; dd bs=1000 count=3 <&3 2>/dev/null | od | tail -1"
        ),
        format!("while read -r line; do echo \"${{#line}}\"; done < <(base64 {at}/b) | sha256sum"),
        format!("stat -L -c '%d %i %s %Y %a' {at}/a - < {at}/a; cat < {at}/a | sha256sum; ulimit -n; umask"),
        format!(
            "exec 9< {at}/b; flock -n 9 && ! flock -n {at}/b true && flock -u 9 && flock -n {at}/b echo free"
        ),
        format!("exec 3< {at}/a; ulimit -n; exec 5>&1; echo x >&5; exec 3<&- 5>&-; od -A n -N 4 {at}/a"),
        format!("for i in 1 2 3 4; do (sha256sum {at}/a) & done; wait"),
    ] {
        compare(&set, &script, &["a", "b", "c"]);
    }
}

#[test]
fn shell_scripts_under_the_prefix_run() {
    let set = Set::new(&[]);
    let script = "#!/bin/bash\nset -e\nsource \"$(dirname \"$0\")/part.sh\"\necho \"$part\" \"$@\"\n";
    fs::write(set.path("part.sh"), "part=sourced\n").unwrap();
    fs::write(set.path("run.sh"), script).unwrap();
    fs::set_permissions(set.path("run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    set.settle();
    for _ in 0..3 {
        assert_eq!(set.run(set.path("run.sh"), &["x", "y"]).good(), "sourced x y\n");
    }
}

#[test]
fn two_opens_of_one_file_are_independent() {
    let set = Set::new(&[("a", 200_000)]);
    let script = format!(
        "exec 3< {0} 4< {0}; head -c 10 <&3 | od; head -c 10 <&4 | od; head -c 5 <&3 | od",
        set.path("a").display()
    );
    compare(&set, &script, &["a"]);
}

#[test]
fn links_lead_to_one_copy_and_processes_of_a_run_share_it() {
    let set = Set::new(&[("a", 1_500_000)]);
    std::os::unix::fs::symlink("a", set.path("link")).unwrap();
    set.place(&["a"]);
    let ran = set.run("sh", &["-c", &format!("(cat {0}/link; cat {0}/a) | wc -c", set.origin().display())]);
    assert_eq!(ran.good().trim(), "3000000");
    assert_eq!((ran.count(RunCounter::OpensOnCopy), ran.count(RunCounter::OriginBytes)), (2, 0));
    assert_eq!(ran.count(RunCounter::Processes), 2);
}

#[test]
fn forked_children_that_open_files_are_counted_each_whatever_their_parent_opened_before() {
    let set = Set::new(&[("a", 1000)]);
    let script = "import os, sys\nfor child in (True, False, True):\n    open(sys.argv[1]).close()\n    if os.fork() == 0:\n        \
                  if child: open(sys.argv[1]).close()\n        os._exit(0)\n    os.wait()";
    let ran = set.run("python3", &["-c", script, set.path("a").to_str().unwrap()]);
    assert_eq!(ran.good(), "");
    assert_eq!(ran.count(RunCounter::Processes), 3, "{:?}", ran.counts);
}

#[test]
fn programs_that_read_one_file_at_once_fetch_it_about_once_together() {
    let set = Set::new(&[("a", 8 << 20)]);
    let script = format!("for i in 1 2 3 4; do cat {} | sha256sum & done; wait", set.path("a").display());
    let ran = set.run("bash", &["-c", &script]);
    let sums: Vec<String> = ran.good().lines().map(str::to_owned).collect();
    assert!(sums.len() == 4 && sums.iter().all(|sum| *sum == sums[0]));
    let fetched = ran.count(RunCounter::OriginBytes);
    assert!(fetched <= (8 << 20) * 105 / 100, "{fetched} bytes: {:?}", ran.counts);
}

#[test]
fn many_short_processes_leave_nothing_behind() {
    let set = Set::new(&[("a", 10_000)]);
    set.place(&["a"]);
    let count = |folder: &std::path::Path| fs::read_dir(folder).unwrap().count();
    let many = if std::env::var_os("FOREBAY_LONG").is_some() { 1000 } else { 60 };
    let before = count(set.tier());
    let script = format!("for i in $(seq {many}); do cat {} > /dev/null; done", set.path("a").display());
    let ran = set.run("bash", &["-c", &script]);
    assert_eq!(ran.good(), "");
    assert_eq!(ran.count(RunCounter::OpensOnCopy), many);
    assert_eq!(count(set.tier()), before);
    let tier_bytes = bytes("a", 10_000).len() as u64;
    assert_eq!(ran.count(RunCounter::CopyBytes), many * tier_bytes);
}

#[test]
fn a_program_under_valgrind_reads_a_copy() {
    let set = Set::new(&[("a", 300_000)]);
    set.place(&["a"]);
    let ran = set.run("valgrind", &["--tool=none", "-q", "cat", set.path("a").to_str().unwrap()]);
    let said = String::from_utf8_lossy(&ran.output.stderr);
    assert!(ran.output.status.success() && ran.output.stdout == bytes("a", 300_000), "{said}");
    assert_eq!(ran.count(RunCounter::OpensOnCopy), 1, "{:?}", ran.counts);
}
