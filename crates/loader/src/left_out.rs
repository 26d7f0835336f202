//! Batches of which no sample could be read: what there is to say of them later.

use forebay_source::{Error, warn};

use crate::batch::{Batch, Trouble};

/// Samples of batches that were left out are reported with the next one, but for more than these: all are counted.
const MOST_REPORTED: usize = 1024;

/// What is known of the batches of one run that were left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Their samples, since the last batch that was delivered.
    troubles: Vec<Trouble>,
    /// Why the first of them could not be read, as long as no sample could.
    first: Option<Error>,
    has_samples: bool,
}

impl LeftOut {
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
            let room = MOST_REPORTED.saturating_sub(self.troubles.len());
            self.troubles.extend(batch.troubles.drain(..).take(room));
            return false;
        }
        batch.troubles.splice(0..0, self.troubles.drain(..));
        true
    }

    /// Warns of samples that no batch came after to report them.
    pub(crate) fn warn_of_rest(&mut self) {
        if let Some(Trouble { sample, why }) = self.troubles.first() {
            let count = self.troubles.len();
            warn(format!(
                "{count} samples at the end of an epoch could not be read; the first, {sample}: {why}"
            ));
        }
        self.troubles.clear();
    }

    /// Why no sample of the run could be read, if none could.
    pub(crate) fn take_reason(&mut self) -> Option<Error> {
        self.first.take()
    }
}
