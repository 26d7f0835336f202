//! Ends the process when a call of MPI that cannot be called off waits for a rank that is gone.

#![expect(unsafe_code, reason = "ends the process without its destructors")]

use std::{
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Calls under way, by number.
static CALLS: Mutex<WatchedCalls> = Mutex::new(WatchedCalls { next: 0, calls: Vec::new() });
static WATCHER: Once = Once::new();

/// Between two looks at the calls. Their time is counted in these: it stands still while the process is stopped.
const TICK: Duration = Duration::from_millis(500);
/// A call that has gone on for 3 s when a rank is lost never ends.
const TICKS_AFTER_LOSS: u32 = 6;
/// The two minutes after which a call is given up where nobody can know whether a rank is lost.
const TICKS_AT_MOST: u32 = 240;

/// What knows for certain that ranks are lost.
pub(crate) trait RankWatch: Send + Sync {
    /// Which one is, or why some must be: it stays so.
    fn lost_rank(&self) -> Option<String>;
}

/// How long a call may take while no rank is known to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallLimit {
    /// It needs ranks that are there already.
    TwoMinutes,
    /// It may wait for ranks that still compute.
    None,
}

struct WatchedCalls {
    next: u64,
    calls: Vec<WatchedCall>,
}

#[derive(Clone)]
struct WatchedCall {
    number: u64,
    name: &'static str,
    ticks: u32,
    limit: CallLimit,
    /// Of the communicator that is called.
    watch: Option<Arc<dyn RankWatch>>,
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

impl WatchedCall {
    /// Why the call never returns.
    fn is_stalled(&self) -> Option<String> {
        if self.ticks < TICKS_AFTER_LOSS {
            return None;
        }
        let lost = self.watch.as_ref().and_then(|watch| watch.lost_rank());
        let is_over = self.limit == CallLimit::TwoMinutes && self.ticks >= TICKS_AT_MOST;
        lost.or_else(|| is_over.then(|| self.target.text()))
    }
}

/// What `work` gives, a call of MPI: if it does not return, the process ends.
pub(crate) fn watched<T>(
    name: &'static str,
    limit: CallLimit,
    watch: Option<Arc<dyn RankWatch>>,
    work: impl FnOnce(&CallTarget) -> T,
) -> T {
    // Where no thread can be had, nothing is watched.
    WATCHER.call_once(|| drop(thread::Builder::new().name("forebay-stall".into()).spawn(look_at_calls)));
    let target = Arc::new(CallTarget::default());
    let number = {
        let mut calls = calls();
        calls.next += 1;
        let number = calls.next;
        calls.calls.push(WatchedCall { number, name, ticks: 0, limit, watch, target: Arc::clone(&target) });
        number
    };
    let given = work(&target);
    calls().calls.retain(|call| call.number != number);
    given
}

/// Ends the process at once, where MPI would wait for ever.
pub(crate) fn end_process(reason: &str) -> ! {
    eprintln!("forebay: {reason}; this process ends");
    // SAFETY: writes out what the program printed through the C library, and ends.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(1)
    }
}

fn calls() -> MutexGuard<'static, WatchedCalls> {
    // Entries are whole or absent.
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look_at_calls() {
    loop {
        thread::sleep(TICK);
        let under_way = {
            let mut calls = calls();
            calls.calls.iter_mut().for_each(|call| call.ticks = call.ticks.saturating_add(1));
            // Nobody who is asked below may have to wait for this lock.
            calls.calls.clone()
        };
        for call in under_way {
            if let Some(reason) = call.is_stalled() {
                end_process(&format!("MPI_{} does not return: {reason}", call.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lost(Option<&'static str>);

    impl RankWatch for Lost {
        fn lost_rank(&self) -> Option<String> {
            self.0.map(str::to_owned)
        }
    }

    fn call(ticks: u32, limit: CallLimit, lost: Option<&'static str>) -> WatchedCall {
        let target = Arc::new(CallTarget::default());
        target.set(3);
        WatchedCall { number: 0, name: "Rget", ticks, limit, watch: Some(Arc::new(Lost(lost))), target }
    }

    #[test]
    fn a_call_ends_the_process_seconds_after_a_loss_and_after_two_minutes_without_one() {
        let gone = Some("rank 2 is gone");
        for limit in [CallLimit::TwoMinutes, CallLimit::None] {
            assert_eq!(call(TICKS_AFTER_LOSS - 1, limit, gone).is_stalled(), None);
            assert_eq!(call(TICKS_AFTER_LOSS, limit, gone).is_stalled().as_deref(), gone);
            assert_eq!(call(TICKS_AT_MOST - 1, limit, None).is_stalled(), None);
        }
        let stalled = call(TICKS_AT_MOST, CallLimit::TwoMinutes, None).is_stalled();
        assert_eq!(stalled.as_deref(), Some("rank 3 does not answer"));
        assert_eq!(call(u32::MAX, CallLimit::None, None).is_stalled(), None);
    }
}
