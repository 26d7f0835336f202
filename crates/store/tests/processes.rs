//! Ranks that are processes of one host keep every clause, and what one of them does never hangs the others.

#![cfg(target_os = "linux")]

#[path = "support/ranks.rs"]
mod ranks;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_store::{SharedComm, check};
use ranks::{Ranks, Task, files};
use rustix::process::Signal;

/// Not a test of its own: it is what a rank does in a process that another test has started.
#[test]
fn rank_of_another_test() {
    let Some(task) = Task::of_this_process() else { return };
    let comm =
        SharedComm::new(task.rank, task.size, &task.job(), &check::patience()).expect("all ranks come");
    task.run(Arc::new(comm));
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
