//! What a thread did with its time: it ran, waited in the run queue, or was blocked.

use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// What a thread did with its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// All of it.
    pub wall: Duration,
    /// How long it ran.
    pub ran: Duration,
    /// How long it neither ran nor could have run.
    pub blocked: Duration,
}

impl Effort {
    /// The same without `time` in which the thread was blocked for another reason than data.
    #[must_use]
    pub fn without_wait(self, time: Duration) -> Self {
        let (wall, blocked) = (self.wall.saturating_sub(time), self.blocked.saturating_sub(time));
        Self { wall, blocked, ..self }
    }
}

impl AddAssign for Effort {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.ran += other.ran;
        self.blocked += other.blocked;
    }
}

/// The clocks of the thread that made it.
#[derive(Debug)]
pub struct ThreadClock {
    wall: Instant,
    ran: Duration,
    run_queue: Duration,
}

/// Shorter times are not worth a closer look: it takes 2 us.
const LEAST_TIME: Duration = Duration::from_micros(200);

impl ThreadClock {
    /// Clocks that count from now on.
    pub fn start() -> Self {
        Self { wall: Instant::now(), ran: ran(), run_queue: run_queue_wait() }
    }

    /// Counts from now on.
    pub fn lap(&mut self) {
        (self.wall, self.ran) = (Instant::now(), ran());
    }

    /// What this thread did since the last lap.
    pub fn since_lap(&mut self) -> Effort {
        let wall = self.wall.elapsed();
        let ran = ran().saturating_sub(self.ran);
        let off = wall.saturating_sub(ran);
        if off < wall / 5 || wall < LEAST_TIME {
            return Effort { wall, ran, blocked: off };
        }
        let before = std::mem::replace(&mut self.run_queue, run_queue_wait());
        Effort { wall, ran, blocked: off.saturating_sub(self.run_queue.saturating_sub(before)) }
    }
}

/// How long this thread has waited for a processor since it began; nothing where the kernel does not count it.
fn run_queue_wait() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    // How long it ran, how long it waited in the run queue, how often it ran.
    let second = text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(second.unwrap_or(0))
}

/// How long this thread has run.
fn ran() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_is_blocked_and_one_that_works_is_not() {
        let mut clock = ThreadClock::start();
        std::thread::sleep(Duration::from_millis(50));
        let Effort { wall, blocked, .. } = clock.since_lap();
        assert!(wall >= Duration::from_millis(50) && blocked > wall / 2, "{wall:?}, {blocked:?}");
        clock.lap();
        let began = Instant::now();
        let mut sum = 0u64;
        while began.elapsed() < Duration::from_millis(50) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let Effort { wall, blocked, .. } = clock.since_lap();
        assert!(blocked < wall / 2, "{wall:?}, {blocked:?}");
    }
}
