//! A thread pool for requests that wait for a disk or a network.
//!
//! A request to a disk or a network takes hardly any of a processor and much time, so how many are under way must not depend
//! on how many threads decode. These threads do nothing but wait for requests.

use std::sync::Mutex;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, PerProcess, Result};

/// Requests of this process that wait at once, besides those of the threads that ask. Over 2 ms and 200 MiB/s 16 suffice:
/// 1 GiB of 64 KiB samples took 5.1 s an epoch, what the line takes. Places that answer later need more: a web server of
/// 30 ms gave 1.14 GiB/s with 16 and 1.66 GiB/s with 64.
const MOST_WAITING: usize = 64;

/// What they run is shallow.
const STACK_BYTES: usize = 512 << 10;

/// Runs `work` on every one of `items`, concurrently as far as threads of the pool are free.
///
/// All are run whatever becomes of the others; the error of the first that failed is given. A thread of another pool of rayon's
/// may run jobs of that pool while it waits here: callers hold no lock.
pub fn run_concurrently<T: Send>(items: Vec<T>, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    static POOL: PerProcess<Option<ThreadPool>> = PerProcess::empty();
    // A thread of the pool runs them one by one: threads that waited for each other would block the pool.
    if items.len() < 2 || is_waiter() {
        return items.into_iter().try_for_each(work);
    }
    POOL.with(make, |pool| match pool {
        // Without threads it takes longer, and that is all.
        None => items.into_iter().try_for_each(work),
        Some(pool) => {
            let first: Mutex<Option<(usize, Error)>> = Mutex::new(None);
            let run = |number: usize, item: T| {
                let Err(error) = work(item) else { return };
                let mut first = first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if first.as_ref().is_none_or(|(known, _)| number < *known) {
                    *first = Some((number, error));
                }
            };
            pool.in_place_scope(|scope| {
                let mut items = items.into_iter().enumerate();
                let own = items.next();
                for (number, item) in items {
                    let run = &run;
                    scope.spawn(move |_| run(number, item));
                }
                // The caller waits for one itself.
                if let Some((number, item)) = own {
                    run(number, item);
                }
            });
            let first = first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            first.map_or(Ok(()), |(_, error)| Err(error))
        }
    })
}

thread_local! {
    static IS_WAITER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn is_waiter() -> bool {
    IS_WAITER.with(std::cell::Cell::get)
}

fn make() -> Option<ThreadPool> {
    ThreadPoolBuilder::new()
        .num_threads(MOST_WAITING)
        .stack_size(STACK_BYTES)
        .thread_name(|number| format!("forebay-io-{number}"))
        .start_handler(|_| IS_WAITER.with(|waits| waits.set(true)))
        .build()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Condvar,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        time::Duration,
    };

    use super::*;
    use crate::ErrorKind;

    /// Waits until `count` have come, and says whether they have.
    fn meet(gate: &(Mutex<usize>, Condvar), count: usize) -> bool {
        let mut come = gate.0.lock().unwrap();
        *come += 1;
        gate.1.notify_all();
        let waited = gate.1.wait_timeout_while(come, Duration::from_secs(20), |come| *come < count).unwrap();
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
}
