//! One batch and the faults of its samples: what cannot be read ends the run, is left out, or is replaced.

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
        let mut lost = None;
        let copied = self.assembler.copy(&samples, now).and_then(|(fields, doubts)| {
            if doubts.is_empty() || leaves_doubts() {
                return Ok((fields, doubts));
            }
            self.assembler.vouch(&doubts)?;
            Ok((fields, Doubts::default()))
        });
        let (fields, doubts) = match copied {
            Ok(copied) => copied,
            Err(error) if self.on_error == OnError::Raise || !self.is_about(&samples, &error) => {
                return Err(error);
            }
            Err(error) => {
                if !self.set_aside(&mut samples, &mut troubles, now)? {
                    lost = Some(self.leave_out(epoch, &mut samples, error)?);
                }
                let is_left_out = samples.is_empty();
                let fields = if is_left_out { Vec::new() } else { self.assembler.assemble(&samples, now)? };
                (fields, Doubts::default())
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
            lost,
            doubts,
        })
    }

    /// Finds the samples that cannot be read, each by itself, and leaves them out or replaces them. False when none can be
    /// read: then `samples` are as they were.
    fn set_aside(
        &self,
        samples: &mut Vec<Option<u64>>,
        troubles: &mut Vec<Trouble>,
        now: Now<'_>,
    ) -> Result<bool> {
        let mut is_good = Vec::with_capacity(samples.len());
        for sample in samples.iter() {
            let read = self.assembler.assemble(&[*sample], now);
            is_good.push(read.is_ok());
            match (read, sample) {
                (Err(error), _) if !self.is_about(&[*sample], &error) => return Err(error),
                (Err(error), Some(sample)) => {
                    troubles.push(Trouble { sample: *sample, why: error.to_string() })
                }
                _ => {}
            }
        }
        let counters = &self.assembler.counters;
        if self.on_error == OnError::Skip {
            Counters::add(&counters.skipped, troubles.len() as u64);
        }
        let readable = |(sample, good): (&Option<u64>, &bool)| sample.is_some() && *good;
        let Some(stand_in) = samples.iter().zip(&is_good).position(readable) else {
            return Ok(false);
        };
        if self.on_error == OnError::Skip {
            let mut good = is_good.iter();
            samples.retain(|_| good.next().copied().unwrap_or(true));
            return Ok(true);
        }
        let mut last = samples[stand_in];
        for (sample, good) in samples.iter_mut().zip(&is_good).rev() {
            if *good { last = sample.or(last) } else { *sample = last }
        }
        Counters::add(&counters.substituted, troubles.len() as u64);
        Ok(true)
    }

    /// Empties the slots of a batch of which no sample can be read, for the reason that is given back. A rank among others keeps
    /// them, as padding: every rank has as many batches, or those that still have one would wait for this one for ever.
    fn leave_out(&self, epoch: &Epoch, samples: &mut Vec<Option<u64>>, error: Error) -> Result<Error> {
        if self.on_error != OnError::Skip {
            let error = error.at("no sample of a batch can be read");
            return Err(error
                .hint("on_error='skip' leaves such a batch out, 'substitute' needs one that can be read"));
        }
        Counters::add(&self.assembler.counters.skipped_batches, 1);
        match epoch.world() {
            1 => samples.clear(),
            _ => samples.fill(None),
        }
        Ok(error)
    }

    /// True when some of `samples` are to blame, and not the request, memory or this program.
    fn is_about(&self, samples: &[Option<u64>], error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::Bug => false,
            ErrorKind::Full => samples
                .iter()
                .flatten()
                .any(|sample| self.assembler.set.most_bytes(*sample) > self.assembler.memory),
            _ => true,
        }
    }
}
