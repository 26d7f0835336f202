//! Ranks that are processes of one host keep every clause, and what one of them does never hangs the others.

#![cfg(target_os = "linux")]

#[path = "support/ranks.rs"]
mod ranks;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_process::ErrorKind;
use forebay_store::{Comm, ShardMemory, ShardPlace, SharedComm, check};
use ranks::{Ranks, Task, files};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// Not a test of its own: it is what a rank does in a process that another test has started.
#[test]
fn rank_of_another_test() {
    let Some(task) = Task::of_this_process() else { return };
    let comm = SharedComm::new(task.rank, task.size, &task.job(), &check::patience());
    match &*task.work {
        "refused" => {
            let error = comm.expect_err("a folder that others can look into");
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
        "exhausted" => run_out_of_descriptors(&comm.expect("all ranks come")),
        _ => task.run(Arc::new(comm.expect("all ranks come"))),
    }
}

/// Rank 1 has no descriptor left for the window: that is an error on all ranks, which says so and names it.
fn run_out_of_descriptors(comm: &SharedComm) {
    let shard = |len| Arc::new(ShardMemory::new(len, &ShardPlace::Memory).expect("memory"));
    let windows: Vec<_> =
        (0..5).map(|_| comm.window(shard(10), &check::patience()).expect("a window")).collect();
    let open = || fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let before = open();
    let more: Vec<_> =
        (0..5).map(|_| comm.window(shard(10), &check::patience()).expect("a window")).collect();
    // Five of its own; two of others that are at the next window already. The last message is let go of once it is sent to all.
    let started = Instant::now();
    while open() > before + 7 {
        assert!(started.elapsed() < Duration::from_secs(30), "descriptors are kept of other ranks' shards");
        std::thread::sleep(Duration::from_millis(1));
    }
    let last = shard(10);
    if comm.rank() == 1 {
        let used = fs::read_dir("/proc/self/fd").expect("descriptors").count() as u64;
        let limit = getrlimit(Resource::Nofile);
        // Numbers that are free below the limit are filled.
        setrlimit(Resource::Nofile, Rlimit { current: Some(used), ..limit }).expect("a lower limit");
        let mut filler = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            filler.push(file);
        }
        let error = comm.window(last, &check::patience()).expect_err("no descriptor").to_string();
        assert!(error.contains("open files"), "{error}");
    } else {
        let started = Instant::now();
        let error = comm.window(last, &check::patience()).expect_err("no descriptor").to_string();
        assert!(error.contains("rank 1") && error.contains("open files"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!(comm.first_gone(0..comm.size()), None, "it lacks descriptors, and runs");
    }
    drop((windows, more));
}

#[test]
fn a_rank_without_descriptors_is_an_error_on_all_that_says_so() {
    Ranks::start(3, "exhausted").end(&[]);
}

#[test]
fn a_folder_that_others_can_look_into_is_an_error_on_every_rank() {
    let mut ranks = Ranks::start(0, "");
    let sockets = ranks.folder.path().join("tmp").join(forebay_scratch::user_folder_name("node"));
    fs::create_dir(&sockets).expect("a folder");
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o755)).expect("a mode");
    ranks.restart(2, "refused");
    ranks.end(&[]);
}

#[test]
fn processes_of_one_host_keep_every_clause() {
    for size in [1, 2, 4] {
        Ranks::start(size, "clauses").end(&[]);
    }
}

#[test]
fn a_rank_that_is_killed_is_named_by_the_others_and_leaves_nothing() {
    for victim in [0, 2] {
        let mut ranks = Ranks::start(3, &format!("killed {victim}"));
        ranks.await_ready();
        ranks.signal(victim, Signal::KILL);
        ranks.mark("killed");
        ranks.end(&[victim]);
    }
}

#[test]
fn a_rank_that_stops_is_an_error_at_the_deadline() {
    for victim in [0, 1] {
        let mut ranks = Ranks::start(3, &format!("stopped {victim}"));
        ranks.await_ready();
        ranks.stop(victim);
        ranks.mark("stopped");
        for rank in (0..3).filter(|rank| *rank != victim) {
            ranks.await_done(rank);
        }
        ranks.signal(victim, Signal::KILL);
        ranks.end(&[victim]);
    }
}

#[test]
fn a_forked_child_reads_all_samples_and_leaves_its_parent_alone() {
    Ranks::start(2, "forked").end(&[]);
}

#[test]
fn what_a_job_that_was_killed_left_hinders_no_other() {
    let mut ranks = Ranks::start(0, "");
    ranks.start_one(0, 2, "clauses");
    let sockets = ranks.folder.path().join("tmp");
    let started = Instant::now();
    while !files(&sockets).iter().any(|file| !file.to_string_lossy().contains("new-")) {
        assert!(started.elapsed().as_secs() < 60, "rank 0 does not listen");
        thread::sleep(Duration::from_millis(2));
    }
    ranks.signal(0, Signal::KILL);
    assert_eq!(files(&sockets).len(), 1, "the socket of rank 0 stays behind");
    ranks.restart(2, "clauses");
    ranks.end(&[]);
}
