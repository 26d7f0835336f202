//! Counters of a run over time, for its report: few enough to draw, however long it runs.

use std::time::{Duration, Instant};

use forebay_scratch::{RunCounter, RunCounters};

/// When half of these are reached, every second one goes and the pause between them doubles.
const MOST: usize = 512;

/// What the counters said, one time after the other.
#[derive(Clone, Debug)]
pub(crate) struct CounterSamples {
    began: Instant,
    pause: Duration,
    samples: Vec<(Duration, Vec<(RunCounter, u64)>)>,
}

impl Default for CounterSamples {
    fn default() -> Self {
        Self { began: Instant::now(), pause: Duration::from_millis(100), samples: Vec::new() }
    }
}

impl CounterSamples {
    /// How long to wait before the next sample.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    pub(crate) fn add(&mut self, counters: &RunCounters) {
        self.samples.push((self.began.elapsed(), counters.snapshot()));
        if self.samples.len() >= MOST {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.pause *= 2;
        }
    }

    /// Seconds and the counts of `counter` divided by `unit`.
    #[expect(clippy::cast_precision_loss, reason = "a plot for people")]
    pub(crate) fn line(&self, counter: RunCounter, unit: f64) -> Vec<(f64, f64)> {
        let of = |counted: &[(RunCounter, u64)]| {
            counted.iter().find(|(name, _)| *name == counter).map_or(0, |found| found.1)
        };
        self.samples.iter().map(|(at, counted)| (at.as_secs_f64(), of(counted) as f64 / unit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_scratch::OwnFolder;

    use super::*;

    #[test]
    fn a_long_run_keeps_few_samples_over_all_of_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFolder::create_in(folder.path(), "run").unwrap();
        let counters = RunCounters::create(own.path()).unwrap();
        let mut samples = CounterSamples::default();
        let first = samples.pause();
        for _ in 0..3 * MOST {
            counters.add(RunCounter::Reads, 2);
            samples.add(&counters);
        }
        let line = samples.line(RunCounter::Reads, 2.0);
        assert!(line.len() < MOST && samples.pause() > first);
        assert_eq!((line[0].1, line.windows(2).all(|pair| pair[0].1 < pair[1].1)), (1.0, true));
    }
}
