//! Files that change, in this program or outside it, and files that are new.

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use forebay_scratch::RunCounter;

use crate::support::{Set, bytes, c_program, is_root};

#[test]
fn an_outside_write_growth_and_a_replacement_are_seen_at_the_next_open() {
    let set = Set::new(&[("a", 100_000), ("b", 100_000), ("c", 100_000)]);
    set.place(&["a", "b", "c"]);
    let cat = |name: &str| set.run("cat", &[set.path(name).to_str().unwrap()]).output.stdout;
    let mut wanted = bytes("a", 100_000);
    wanted[5000] ^= 1;
    fs::write(set.path("a"), &wanted).unwrap();
    assert_eq!(cat("a"), wanted);
    fs::OpenOptions::new().append(true).open(set.path("b")).unwrap().write_all(b"more").unwrap();
    assert_eq!(cat("b"), [&bytes("b", 100_000)[..], b"more"].concat());
    fs::write(set.path("new"), b"another").unwrap();
    fs::rename(set.path("new"), set.path("c")).unwrap();
    assert_eq!(cat("c"), b"another");
    fs::remove_file(set.path("c")).unwrap();
    let gone = set.run("cat", &[set.path("c").to_str().unwrap()]);
    assert!(
        !gone.output.status.success()
            && String::from_utf8_lossy(&gone.output.stderr).contains("No such file")
    );
}

#[test]
fn a_program_reads_what_it_writes_itself_through_descriptors_of_before_and_after() {
    let set = Set::new(&[("a", 300_000)]);
    let program = c_program("writes");
    let plain = Set::new(&[("a", 300_000)]);
    let wanted = plain.plain(&program).arg(plain.path("a")).output().unwrap();
    let cold = set.run(&program, &[set.path("a").to_str().unwrap()]);
    assert_eq!(cold.good(), String::from_utf8_lossy(&wanted.stdout));
    assert_eq!(
        fs::read(set.path("a")).unwrap(),
        fs::read(plain.path("a")).unwrap(),
        "writes reach the source"
    );
    set.write("a", 300_000);
    set.settle();
    set.place(&["a"]);
    let warm = set.run(&program, &[set.path("a").to_str().unwrap()]);
    assert_eq!(warm.good(), String::from_utf8_lossy(&wanted.stdout));
    assert!(
        warm.count(RunCounter::OpensOnCopy) >= 1 && warm.count(RunCounter::Invalidated) >= 1,
        "{:?}",
        warm.counts
    );
    assert_eq!(fs::read(set.path("a")).unwrap(), fs::read(plain.path("a")).unwrap());
}

#[test]
fn a_file_that_grows_under_a_program_that_follows_it_is_followed() {
    let set = Set::new(&[("log", 10_000)]);
    set.place(&["log"]);
    let (folder, _counters) = set.new_run();
    let mut tail = set.preloaded_in("tail", &folder);
    tail.args(["-n", "+1", "-s", "0.05", "--pid", &std::process::id().to_string(), "-f"])
        .arg(set.path("log"));
    let mut tail = tail.stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = vec![0; 10_000];
    tail.stdout.as_mut().unwrap().read_exact(&mut shown).unwrap();
    assert_eq!(shown, bytes("log", 10_000));
    fs::OpenOptions::new().append(true).open(set.path("log")).unwrap().write_all(b"and more").unwrap();
    let mut more = [0; 8];
    tail.stdout.as_mut().unwrap().read_exact(&mut more).unwrap();
    assert_eq!(&more, b"and more");
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn new_files_are_placed_once_they_are_old_enough() {
    let set = Set::new(&[]);
    let script = format!("printf hello > {0}/new && cat {0}/new", set.origin().display());
    assert_eq!(set.run("sh", &["-c", &script]).good(), "hello");
    set.settle();
    set.place(&["new"]);
    assert_eq!(set.run("cat", &[set.path("new").to_str().unwrap()]).good(), "hello");
}

#[test]
fn leave_to_read_is_asked_of_the_origin_at_every_open() {
    let set = Set::for_others(&[]);
    fs::create_dir(set.path("folder")).unwrap();
    ["a", "b", "folder/c"].iter().for_each(|name| set.write(name, 300_000));
    set.settle();
    let (program, folder) = (c_program("permissions"), set.origin());
    let run = |how: &str| {
        let arguments = [how, folder.to_str().unwrap(), "a", "b", "folder/c"];
        let plain = set.plain(&program).args(arguments).output().unwrap();
        let ran = set.run_as_another(&program, &arguments, |command| command);
        assert_eq!(ran.good(), String::from_utf8_lossy(&plain.stdout), "{how}");
        ran
    };
    let began = Instant::now();
    // Three calls open each of three files, twice.
    while run("at once").count(RunCounter::OpensOnCopy) < 18 {
        assert!(began.elapsed() < Duration::from_secs(60), "never whole");
        thread::sleep(Duration::from_millis(50));
    }
    let close = |name: &str, mode| fs::set_permissions(set.path(name), Permissions::from_mode(mode)).unwrap();
    // The file itself does not change: its copy stays what it was.
    close("folder", 0o000);
    let closed = run("at once");
    assert_eq!(closed.stdout().matches("Permission denied").count(), 6, "{}", closed.stdout());
    assert_eq!(closed.count(RunCounter::OpensOnCopy), 12, "{:?}", closed.counts);
    close("a", 0o000);
    let closed = run("at once");
    assert_eq!(closed.stdout().matches("Permission denied").count(), 12, "{}", closed.stdout());
    assert_eq!(closed.count(RunCounter::OpensOnCopy), 6, "{:?}", closed.counts);
    close("folder", 0o755);
    let open = run("at once");
    assert_eq!(open.stdout().matches("Permission denied").count(), 6, "{}", open.stdout());
    assert_eq!(
        open.count(RunCounter::OpensOnCopy),
        12,
        "the copy was there all the while: {:?}",
        open.counts
    );
    if is_root() {
        // What root has read before is no leave for who it becomes.
        let later = run("later");
        assert_eq!(later.stdout().matches("Permission denied").count(), 3, "{}", later.stdout());
    }
}
