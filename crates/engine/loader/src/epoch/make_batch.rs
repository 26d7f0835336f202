//! One batch and the errors of its samples: what cannot be read ends the run, is left out, or is replaced.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_batch::{BatchMaker, BatchRequest, BatchTurn, FieldArray, LoaderCounters, MadeFields};
use forebay_plan::Epoch;
use forebay_process::{Error, ErrorKind, Event, EventKind, Result};

use crate::{
    epoch::batch::{Batch, FailedSample, Receipt},
    options::OnError,
};

/// What the batches of one run are made with.
#[derive(Clone, Debug)]
pub(crate) struct RunSpec {
    pub(crate) maker: Arc<dyn BatchMaker>,
    pub(crate) on_error: OnError,
    pub(crate) counters: Arc<LoaderCounters>,
}

/// A batch to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchTask<'a> {
    /// Which.
    pub(crate) step: u64,
    /// The first batch that some thread still works on.
    pub(crate) oldest: u64,
    /// Whether it may take memory that is short.
    pub(crate) turn: &'a dyn BatchTurn,
}

impl RunSpec {
    /// The batch of `epoch` that is `task`. Where `leaves_unverified` says so once all is copied, the consumer has yet to verify
    /// it.
    pub(crate) fn make_batch(
        &self,
        epoch: &Epoch,
        task: BatchTask<'_>,
        leaves_unverified: impl Fn() -> bool,
    ) -> Result<Batch> {
        let began = Instant::now();
        let mut samples = Vec::new();
        epoch.numbers(task.step, &mut samples);
        let mut failed = Vec::new();
        let mut lost = None;
        let made = self.make(epoch, task, &samples).and_then(|made| match &made.unverified {
            Some(unverified) if !leaves_unverified() => {
                unverified.verify()?;
                Ok(MadeFields { unverified: None, ..made })
            }
            _ => Ok(made),
        });
        let MadeFields { fields, unverified } = match made {
            Ok(made) => made,
            Err(error) if self.on_error == OnError::Raise || !self.is_about(epoch, &samples, &error) => {
                return Err(error);
            }
            Err(error) => {
                if !self.set_aside(epoch, task, &mut samples, &mut failed)? {
                    lost = Some(self.leave_out(epoch, &mut samples, error)?);
                }
                let is_left_out = samples.is_empty();
                let fields = if is_left_out { Vec::new() } else { self.verified(epoch, task, &samples)? };
                MadeFields { fields, unverified: None }
            }
        };
        let seed = |sample: &Option<u64>| sample.map_or(0, |sample| epoch.sample_seed(sample));
        let step = task.step;
        Ok(Batch {
            epoch: epoch.number(),
            step,
            fields,
            seeds: samples.iter().map(seed).collect(),
            samples,
            took: began.elapsed(),
            waited: Duration::ZERO,
            failed,
            receipt: Receipt {
                run: epoch.run(),
                step,
                consumed: epoch.consumed_after(step),
                is_last: step + 1 >= epoch.step_count(),
            },
            lost,
            unverified,
        })
    }

    fn make(&self, epoch: &Epoch, task: BatchTask<'_>, numbers: &[Option<u64>]) -> Result<MadeFields> {
        let whole = epoch.sampler().subset.as_ref().map(|_| {
            let sample = |number: &Option<u64>| number.map(|number| epoch.sampler().sample(number));
            numbers.iter().map(sample).collect::<Vec<_>>()
        });
        let samples = whole.as_deref().unwrap_or(numbers);
        let BatchTask { step, oldest, turn } = task;
        self.maker.make(&BatchRequest { samples, numbers, epoch, step, oldest_step: oldest, turn })
    }

    /// The fields of `samples`, verified.
    fn verified(
        &self,
        epoch: &Epoch,
        task: BatchTask<'_>,
        samples: &[Option<u64>],
    ) -> Result<Vec<FieldArray>> {
        let made = self.make(epoch, task, samples)?;
        made.unverified.map_or(Ok(()), |unverified| unverified.verify())?;
        Ok(made.fields)
    }

    /// Finds the samples that cannot be read, each by itself, and leaves them out or replaces them. False when none can be
    /// read: then `samples` are as they were.
    fn set_aside(
        &self,
        epoch: &Epoch,
        task: BatchTask<'_>,
        samples: &mut Vec<Option<u64>>,
        failed: &mut Vec<FailedSample>,
    ) -> Result<bool> {
        let mut is_good = Vec::with_capacity(samples.len());
        for sample in samples.iter() {
            let read = self.verified(epoch, task, &[*sample]);
            is_good.push(read.is_ok());
            match (read, sample) {
                (Err(error), _) if !self.is_about(epoch, &[*sample], &error) => return Err(error),
                (Err(error), Some(sample)) => {
                    failed.push(FailedSample { sample: *sample, why: error.to_string() });
                }
                _ => {}
            }
        }
        if self.on_error == OnError::Skip {
            LoaderCounters::add(&self.counters.skipped, failed.len() as u64);
            for FailedSample { sample, why } in &*failed {
                let text = format!("sample {sample} is left out: {why}");
                Event::new(EventKind::Skipped, text).emit();
            }
        }
        let readable = |(sample, good): (&Option<u64>, &bool)| sample.is_some() && *good;
        let Some(substitute) = samples.iter().zip(&is_good).position(readable) else {
            return Ok(false);
        };
        if self.on_error == OnError::Skip {
            let mut good = is_good.iter();
            samples.retain(|_| good.next().copied().unwrap_or(true));
            return Ok(true);
        }
        let mut last = samples[substitute];
        for (sample, good) in samples.iter_mut().zip(&is_good).rev() {
            if *good { last = sample.or(last) } else { *sample = last }
        }
        LoaderCounters::add(&self.counters.substituted, failed.len() as u64);
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
        LoaderCounters::add(&self.counters.skipped_batches, 1);
        match epoch.world() {
            1 => samples.clear(),
            _ => samples.fill(None),
        }
        Ok(error)
    }

    /// True when some of `samples` cannot be read, and not the request, memory or this program is wrong.
    fn is_about(&self, epoch: &Epoch, samples: &[Option<u64>], error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::Bug => false,
            ErrorKind::Full => {
                let mut whole = samples.iter().flatten().map(|number| epoch.sampler().sample(*number));
                whole.any(|sample| self.maker.is_too_long(sample))
            }
            _ => true,
        }
    }
}
