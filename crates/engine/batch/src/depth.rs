//! How many threads make batches: as many as it takes for the wanted number to be busy while the others wait for data.
//!
//! Threads that wait for a disk or a network use no processor, so their number is not that of the processors. It is found by
//! trying: while the consumer waits for batches and threads mostly wait for data, there are twice as many from then on; where
//! that brings no more batches, it is taken back.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::effort::Effort;

/// How many threads make batches, over all epochs of a loader.
#[derive(Debug)]
pub struct Depth {
    /// Threads that are to be busy.
    busy: usize,
    /// The most there may be.
    most: usize,
    now: AtomicUsize,
    trial: Mutex<Trial>,
}

/// What was seen since the number of threads was last looked at.
#[derive(Debug)]
struct Trial {
    began: Instant,
    batches: usize,
    awaited: usize,
    effort: Effort,
    /// Batches that were begun before the number changed say nothing of the change.
    unsettled: usize,
    /// The number of threads before it was last raised, and the batches a second they made.
    before: Option<(usize, f64)>,
    /// No more is tried before.
    rests_until: Option<Instant>,
}

/// Fewer batches, or a shorter time, say nothing.
const LEAST_BATCHES: usize = 4;
const LEAST_TIME: Duration = Duration::from_millis(20);

/// More threads have to bring so much more: twice as many bring twice as much where latency is all there is.
const GAIN: f64 = 1.15;

/// After a trial that brought nothing, the next one is made this much later.
const REST: Duration = Duration::from_secs(3);

/// Threads at the start where each request is known to wait for a network.
const START_FAR: usize = 8;

impl Depth {
    /// `busy` threads, and up to `most` where they wait for data.
    pub fn new(busy: usize, most: usize, is_far: bool) -> Self {
        let most = most.max(busy);
        let start = if is_far { START_FAR.clamp(busy, most) } else { busy };
        Self { busy, most, now: AtomicUsize::new(start), trial: Mutex::new(Trial::new(Instant::now(), 0)) }
    }

    /// Threads that are to make batches now.
    pub fn now(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// Threads that are to be busy.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// True when the number of threads never changes.
    pub fn is_fixed(&self) -> bool {
        self.most == self.busy
    }

    /// Begins an epoch: time in which nobody asked for batches says nothing.
    pub fn begin(&self, at: Instant) {
        let mut trial = self.trial();
        *trial = Trial { rests_until: trial.rests_until, ..Trial::new(at, self.now()) };
    }

    /// Notes a batch that was made `at` this moment, and whether the consumer waited for one by then; true when there are to
    /// be more threads from now on.
    pub fn note_batch(&self, effort: Effort, is_awaited: bool, at: Instant) -> bool {
        let mut trial = self.trial();
        if !trial.add(effort, is_awaited, at) || !trial.is_long_enough(self.now(), at) {
            return false;
        }
        let (now, rate) = (self.now(), trial.rate(at));
        let Effort { wall, ran, blocked } = trial.effort;
        let wanted = self.wanted(1.0 - blocked.div_duration_f64(wall));
        let is_behind = trial.awaited * 2 > trial.batches;
        let mut next = Trial { rests_until: trial.rests_until, ..Trial::new(at, now) };
        let mut count = now;
        match trial.before {
            _ if !is_behind => next.before = None,
            // The last raise brought nothing.
            Some((fewer, slower)) if rate < slower * GAIN => {
                count = fewer;
                next.rests_until = Some(at + REST);
            }
            _ if wanted > now && !trial.is_resting(at) => {
                count = wanted.min(now * 2);
                next.before = Some((now, rate));
            }
            _ => {}
        }
        // Data that came to memory meanwhile are not waited for any more. Time in line for a processor says nothing: many
        // threads that only work stand in line most of the time.
        let enough = self.wanted(ran.div_duration_f64(ran + blocked));
        if enough * 2 <= now {
            (count, next.before) = (enough, None);
        }
        next.unsettled = if count == now { 0 } else { now.max(count) };
        *trial = next;
        self.now.store(count, Relaxed);
        count > now
    }

    /// Threads of which as many are busy as should be, if each is for the part `busy` of its time.
    fn wanted(&self, busy: f64) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a thousand times few")]
        let wanted = (self.busy as f64 / busy.clamp(1e-3, 1.0)).ceil() as usize;
        wanted.clamp(self.busy, self.most)
    }

    fn trial(&self) -> MutexGuard<'_, Trial> {
        // Numbers alone: whatever panicked elsewhere, the next trial begins anew.
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trial {
    fn new(began: Instant, unsettled: usize) -> Self {
        Self {
            began,
            batches: 0,
            awaited: 0,
            effort: Effort::default(),
            unsettled,
            before: None,
            rests_until: None,
        }
    }

    /// Counts a batch, unless it was begun before the trial was.
    fn add(&mut self, effort: Effort, is_awaited: bool, at: Instant) -> bool {
        if self.unsettled > 0 {
            self.unsettled -= 1;
            self.began = at;
            return false;
        }
        self.batches += 1;
        self.awaited += usize::from(is_awaited);
        self.effort += effort;
        true
    }

    fn is_long_enough(&self, threads: usize, at: Instant) -> bool {
        self.batches >= threads.max(LEAST_BATCHES) && at - self.began >= LEAST_TIME
    }

    /// Batches a second.
    fn rate(&self, at: Instant) -> f64 {
        self.batches as f64 / (at - self.began).as_secs_f64().max(1e-9)
    }

    fn is_resting(&self, at: Instant) -> bool {
        self.rests_until.is_some_and(|until| at < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Notes 400 batches that took `effort` each, as far apart as `pace` says for so many threads; gives their numbers.
    fn note_many(depth: &Depth, effort: Effort, pace: impl Fn(usize) -> Duration) -> Vec<usize> {
        let (mut seen, mut at) = (vec![depth.now()], Instant::now());
        depth.begin(at);
        for _ in 0..400 {
            at += pace(depth.now());
            depth.note_batch(effort, true, at);
            if seen.last() != Some(&depth.now()) {
                seen.push(depth.now());
            }
        }
        seen
    }

    #[test]
    fn threads_that_wait_for_data_become_more_as_long_as_that_brings_more_batches() {
        let waits = Effort { wall: 10 * MILLISECOND, ran: MILLISECOND / 10, blocked: 9 * MILLISECOND };
        let depth = Depth::new(2, 64, false);
        let seen = note_many(&depth, waits, |threads| 10 * MILLISECOND / u32::try_from(threads).unwrap());
        assert_eq!(seen[..4], [2, 4, 8, 16], "wanted are twenty of which one in ten is busy");
        let line = Depth::new(2, 64, false);
        let seen = note_many(&line, waits, |threads| {
            (10 * MILLISECOND / u32::try_from(threads).unwrap()).max(MILLISECOND * 5 / 2)
        });
        assert_eq!(seen[..4], [2, 4, 8, 4], "a line that four fill: {seen:?}");
    }

    #[test]
    fn threads_that_work_stay_as_many_as_were_asked_for() {
        let works = Effort { wall: MILLISECOND, ran: MILLISECOND, blocked: Duration::ZERO };
        assert_eq!(note_many(&Depth::new(3, 64, false), works, |_| MILLISECOND / 4), [3]);
        assert_eq!(
            note_many(&Depth::new(2, 64, true), works, |_| MILLISECOND / 4),
            [8, 2],
            "what was far has come near"
        );
        let crowded = Effort { wall: 32 * MILLISECOND, ..works };
        assert_eq!(
            note_many(&Depth::new(2, 64, true), crowded, |_| MILLISECOND / 4),
            [8, 2],
            "what was far has come near, and there are too many threads for the processors"
        );
        let queued = Effort { ran: MILLISECOND / 10, ..works };
        assert_eq!(
            note_many(&Depth::new(2, 64, false), queued, |_| MILLISECOND / 4),
            [2],
            "no processor is free for more"
        );
    }

    #[test]
    fn a_consumer_that_does_not_wait_needs_no_more_threads() {
        let waits = Effort { wall: 10 * MILLISECOND, ran: Duration::ZERO, blocked: 10 * MILLISECOND };
        let (depth, mut at) = (Depth::new(2, 64, false), Instant::now());
        for _ in 0..100 {
            at += MILLISECOND;
            assert!(!depth.note_batch(waits, false, at));
        }
        assert!(Depth::new(4, 4, true).is_fixed());
    }
}
