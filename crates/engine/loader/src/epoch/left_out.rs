//! Batches of which no sample could be read: what there is to say of them later.

use forebay_process::{Error, Event, EventKind};

use crate::epoch::batch::{Batch, FailedSample};

/// Samples of batches that were left out are reported with the next one, but for more than these: all are counted.
const MOST_REPORTED: usize = 1024;

/// What is known of the batches of one run that were left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOutBatches {
    /// Their samples, since the last batch that was delivered.
    failed: Vec<FailedSample>,
    /// Why the first of them could not be read, as long as no sample could.
    first: Option<Error>,
    has_samples: bool,
}

impl LeftOutBatches {
    /// Notes whether any sample of `batch` could be read. True when it is to be delivered, and reports those before it then.
    pub(crate) fn note(&mut self, batch: &mut Batch) -> bool {
        match batch.lost.take() {
            None if batch.sample_count() > 0 => (self.has_samples, self.first) = (true, None),
            // Padding alone.
            None => {}
            Some(error) if !self.has_samples && self.first.is_none() => self.first = Some(error),
            Some(_) => {}
        }
        if batch.samples.is_empty() {
            let room = MOST_REPORTED.saturating_sub(self.failed.len());
            self.failed.extend(batch.failed.drain(..).take(room));
            return false;
        }
        batch.failed.splice(0..0, self.failed.drain(..));
        true
    }

    /// Warns of samples that no batch came after to report them.
    pub(crate) fn warn_of_rest(&mut self) {
        if let Some(FailedSample { sample, why }) = self.failed.first() {
            let count = self.failed.len();
            let text = format!(
                "{count} samples at the end of an epoch could not be read; the first, {sample}: {why}"
            );
            Event::new(EventKind::Sample, text).emit();
        }
        self.failed.clear();
    }

    /// Why no sample of the run could be read, if none could.
    pub(crate) fn take_reason(&mut self) -> Option<Error> {
        self.first.take()
    }
}
