//! Ends the process when a call of MPI that cannot be called off waits for a rank that is gone.

use std::{
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::lifetime;

/// Blocking calls under way, by number.
static CALLS: Mutex<BlockingCalls> = Mutex::new(BlockingCalls { next: 0, calls: Vec::new() });
static WATCHER: Once = Once::new();

struct BlockingCalls {
    next: u64,
    calls: Vec<BlockingCall>,
}

struct BlockingCall {
    number: u64,
    name: &'static str,
    began: Instant,
}

/// A call that goes on this long after a rank was lost never ends: together with the time to notice that, less than 10 s.
const AFTER_LOSS: Duration = Duration::from_secs(3);
/// A call that goes on this long waits for a rank whose end nobody noticed.
const LONGEST: Duration = Duration::from_secs(120);

/// What `work` gives, a blocking call of MPI.
pub(crate) fn watched<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    // Where no thread can be had, nothing is watched.
    WATCHER.call_once(|| drop(thread::Builder::new().name("forebay-mpi-stall".into()).spawn(watch)));
    let number = {
        let mut calls = calls();
        calls.next += 1;
        let number = calls.next;
        calls.calls.push(BlockingCall { number, name, began: Instant::now() });
        number
    };
    let given = work();
    calls().calls.retain(|call| call.number != number);
    given
}

fn calls() -> MutexGuard<'static, BlockingCalls> {
    // Entries are whole or absent.
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch() {
    loop {
        thread::sleep(Duration::from_secs(1));
        let longest = calls().calls.iter().map(|call| (call.began.elapsed(), call.name)).max();
        let Some((elapsed, name)) = longest else { continue };
        if elapsed < AFTER_LOSS {
            continue;
        }
        match lifetime::lost_rank() {
            Some(reason) => lifetime::end_process(&format!("MPI_{name} does not return: {reason}")),
            None if elapsed > LONGEST => {
                lifetime::end_process(&format!("MPI_{name} has not returned for {} s", elapsed.as_secs()));
            }
            None => {}
        }
    }
}
