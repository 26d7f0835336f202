//! A thread pool for requests that wait for a disk or a network.
//!
//! A request to a disk or a network takes hardly any of a processor and much time, so how many are under way must not depend
//! on how many threads decode. These threads do nothing but wait for requests.

use std::sync::Mutex;

use forebay_process::{Error, PerProcess, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

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
