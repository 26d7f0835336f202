//! Requests that wait concurrently.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use forebay_process::{Error, ErrorKind};
use forebay_source::run_concurrently;

/// Waits until `count` have come, and says whether they have.
fn meet(gate: &(Mutex<usize>, Condvar), count: usize) -> bool {
    let mut come = gate.0.lock().unwrap();
    *come += 1;
    gate.1.notify_all();
    let waited = gate.1.wait_timeout_while(come, Duration::from_secs(120), |come| *come < count).unwrap();
    !waited.1.timed_out()
}

#[test]
fn all_wait_at_once() {
    let gate = (Mutex::new(0), Condvar::new());
    let all = run_concurrently((0..48).collect(), |_| {
        if meet(&gate, 48) { Ok(()) } else { Err(Error::new(ErrorKind::Bug, "alone")) }
    });
    assert!(all.is_ok(), "{all:?}");
}

#[test]
fn the_first_error_is_given_and_the_others_are_run_all_the_same() {
    let run = AtomicUsize::new(0);
    let error = run_concurrently((0..100).collect(), |number: usize| {
        run.fetch_add(1, Relaxed);
        if number % 30 == 17 { Err(Error::new(ErrorKind::Bug, format!("{number}"))) } else { Ok(()) }
    });
    assert!(error.unwrap_err().to_string().contains("17"));
    assert_eq!(run.load(Relaxed), 100);
}

#[test]
fn a_thread_of_the_pool_may_run_several_itself() {
    let run = AtomicUsize::new(0);
    let inner = |_| {
        run_concurrently((0..10).collect(), |_: usize| {
            run.fetch_add(1, Relaxed);
            Ok(())
        })
    };
    run_concurrently((0..200).collect::<Vec<usize>>(), inner).unwrap();
    assert_eq!(run.load(Relaxed), 2000);
}
