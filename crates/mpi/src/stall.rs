//! Ends the process when a call of MPI that cannot be called off waits for a rank that is gone.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::lifetime;

/// Calls under way, by number.
static CALLS: Mutex<WatchedCalls> = Mutex::new(WatchedCalls { next: 0, calls: Vec::new() });
static WATCHER: Once = Once::new();

struct WatchedCalls {
    next: u64,
    calls: Vec<WatchedCall>,
}

#[derive(Clone)]
struct WatchedCall {
    number: u64,
    name: &'static str,
    began: Instant,
    longest: Duration,
    target: Arc<CallTarget>,
}

/// The rank that a call is about, if it is about one.
#[derive(Debug, Default)]
pub(crate) struct CallTarget(AtomicUsize);

impl CallTarget {
    /// It is about `rank` from now on.
    pub(crate) fn set(&self, rank: usize) {
        self.0.store(rank + 1, Relaxed);
    }

    fn text(&self) -> String {
        let rank = self.0.load(Relaxed).checked_sub(1);
        rank.map_or_else(|| "a rank may be gone".to_owned(), |rank| format!("rank {rank} does not answer"))
    }
}

/// A call that goes on this long after a rank was lost never ends.
const AFTER_LOSS: Duration = Duration::from_secs(3);

/// What starts something returns at once by its contract. MPICH over TCP tries without end to reach a rank that is gone, and Open
/// MPI within a host does so too: together with what led to the call, less than 10 s.
pub(crate) const TO_START: Duration = Duration::from_secs(9);
/// What all ranks do together returns when the last has come.
pub(crate) const TO_MEET: Duration = Duration::from_secs(120);

/// What `work` gives, a call of MPI that should return within `longest`: if it does not, the process ends.
pub(crate) fn watched<T>(name: &'static str, longest: Duration, work: impl FnOnce(&CallTarget) -> T) -> T {
    // Where no thread can be had, nothing is watched.
    WATCHER.call_once(|| drop(thread::Builder::new().name("forebay-stall".into()).spawn(watch)));
    let target = Arc::new(CallTarget::default());
    let number = {
        let mut calls = calls();
        calls.next += 1;
        let number = calls.next;
        calls.calls.push(WatchedCall {
            number,
            name,
            began: Instant::now(),
            longest,
            target: Arc::clone(&target),
        });
        number
    };
    let given = work(&target);
    calls().calls.retain(|call| call.number != number);
    given
}

fn calls() -> MutexGuard<'static, WatchedCalls> {
    // Entries are whole or absent.
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch() {
    loop {
        thread::sleep(Duration::from_millis(500));
        let late = calls().calls.iter().find(|call| call.began.elapsed() >= AFTER_LOSS).cloned();
        let Some(call) = late else { continue };
        let reason = match lifetime::lost_rank() {
            Some(reason) => reason,
            None if call.began.elapsed() >= call.longest => call.target.text(),
            None => continue,
        };
        lifetime::end_process(&format!("MPI_{} does not return: {reason}", call.name));
    }
}
