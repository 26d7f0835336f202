//! One batch, whatever befalls its samples: what cannot be read ends the run, is left out, or is replaced.

use std::sync::Arc;

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    assemble::{Assembler, Doubts},
    batch::{Batch, Trouble},
    cache::Now,
    options::OnError,
    plan::Epoch,
    sample_seed,
    stats::Counters,
};

/// What every thread of a run needs to make a batch.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    pub(crate) assembler: Arc<Assembler>,
    pub(crate) on_error: OnError,
    pub(crate) seed: u64,
}

/// A batch to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// Which.
    pub(crate) step: u64,
    /// The first batch that some thread still works on.
    pub(crate) oldest: u64,
}

impl Crew {
    pub(crate) fn assembler(&self) -> &Assembler {
        &self.assembler
    }

    /// The batch of `epoch` that is `task`. Where `leaves_doubts` says so, once all is copied, whoever takes the batch
    /// has yet to make sure of it.
    pub(crate) fn batch(&self, epoch: &Epoch, task: Task, leaves_doubts: impl Fn() -> bool) -> Result<Batch> {
        let Task { step, oldest } = task;
        let now = Now { moment: epoch.moment(step), oldest: epoch.moment(oldest), horizon: Some(epoch) };
        let mut samples = Vec::new();
        epoch.batch(step, &mut samples);
        let mut troubles = Vec::new();
        let copied = self.assembler.copy(&samples, now).and_then(|(fields, doubts)| {
            if doubts.is_empty() || leaves_doubts() {
                return Ok((fields, doubts));
            }
            self.assembler.vouch(&doubts)?;
            Ok((fields, Doubts::default()))
        });
        let (fields, doubts) = match copied {
            Ok(copied) => copied,
            Err(error) if self.on_error == OnError::Raise || !may_be_about_samples(&error) => {
                return Err(error);
            }
            Err(error) => {
                self.set_aside(&mut samples, &mut troubles, now, error)?;
                (self.assembler.assemble(&samples, now)?, Doubts::default())
            }
        };
        let seed =
            |sample: &Option<u64>| sample.map_or(0, |sample| sample_seed(self.seed, epoch.number(), sample));
        Ok(Batch {
            epoch: epoch.number(),
            step,
            fields,
            seeds: samples.iter().map(seed).collect(),
            samples,
            consumed: epoch.consumed_after(step),
            troubles,
            doubts,
        })
    }

    /// True when `sample` is to blame for the error of reading it alone: its bytes, or that it is longer than the memory
    /// there may be. Memory or a disk that is full for other reasons is no fault of its own.
    fn is_about(&self, error: &Error, sample: Option<u64>) -> bool {
        match error.kind() {
            ErrorKind::Full => sample.is_some_and(|sample| self.assembler.is_too_long(sample)),
            _ => may_be_about_samples(error),
        }
    }

    /// Finds the samples that cannot be read, each by itself, and leaves them out or replaces them.
    fn set_aside(
        &self,
        samples: &mut Vec<Option<u64>>,
        troubles: &mut Vec<Trouble>,
        now: Now<'_>,
        first: Error,
    ) -> Result<()> {
        let mut is_good = Vec::with_capacity(samples.len());
        for sample in samples.iter() {
            let read = self.assembler.assemble(&[*sample], now);
            is_good.push(read.is_ok());
            match (read, sample) {
                (Err(error), sample) if !self.is_about(&error, *sample) => return Err(error),
                (Err(error), Some(sample)) => {
                    troubles.push(Trouble { sample: *sample, why: error.to_string() })
                }
                _ => {}
            }
        }
        let readable = |(sample, good): (&Option<u64>, &bool)| sample.is_some() && *good;
        let Some(stand_in) = samples.iter().zip(&is_good).position(readable) else {
            return Err(first.at("no sample of a batch can be read"));
        };
        let counters = &self.assembler.counters;
        if self.on_error == OnError::Skip {
            let mut good = is_good.iter();
            samples.retain(|_| good.next().copied().unwrap_or(true));
            Counters::add(&counters.skipped, troubles.len() as u64);
            return Ok(());
        }
        let mut last = samples[stand_in];
        for (sample, good) in samples.iter_mut().zip(&is_good).rev() {
            if *good { last = sample.or(last) } else { *sample = last }
        }
        Counters::add(&counters.substituted, troubles.len() as u64);
        Ok(())
    }
}

/// True when samples may be to blame, and not the request or this program.
fn may_be_about_samples(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Bug)
}
