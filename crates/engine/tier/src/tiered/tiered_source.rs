//! A source whose bytes come from the nearest place that has them.

use std::sync::Arc;

use bytes::Bytes;
use forebay_process::{PerProcess, Result};
use forebay_source::{ByteRange, Fill, Source, SourceId, Trust, check_fills, check_ranges};

use crate::tiered::{
    process_tiers::ProcessTiers, read, source_state::SourceState, tiered_shared::TieredShared,
};

/// A source whose bytes come from the nearest place that has them.
#[derive(Debug)]
pub(crate) struct TieredSource {
    shared: Arc<TieredShared>,
    inner: Arc<dyn Source>,
    parts: PerProcess<ProcessParts>,
    request_bytes: u64,
}

/// What a process reads the source by; nothing where no tier keeps any of it and the origin is read.
type ProcessParts = Option<(Arc<ProcessTiers>, Arc<SourceState>)>;

impl TieredSource {
    pub(crate) fn new(
        shared: Arc<TieredShared>,
        inner: Arc<dyn Source>,
        process: Arc<ProcessTiers>,
        state: Arc<SourceState>,
    ) -> Self {
        // A source that will be near for good needs no large requests.
        let request_bytes = if state.is_near { 0 } else { inner.request_bytes() };
        Self { shared, inner, parts: PerProcess::new(Some((process, state))), request_bytes }
    }

    /// Calls `read` with the parts of this process: a forked child makes its own.
    #[inline]
    fn with_parts<R>(&self, read: impl FnOnce(&ProcessParts) -> R) -> R {
        if self.shared.is_closed() {
            return read(&None);
        }
        let make = || {
            let process = self.shared.process();
            let state = process.state(&self.inner)?;
            Some((process, state))
        };
        self.parts.with(make, read)
    }
}

impl Source for TieredSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(self.id(), ranges.iter().copied())?;
        self.with_parts(|parts| match parts {
            None => self.inner.fetch(ranges),
            Some((process, state)) => match read::fetch(process, state, ranges) {
                Err(_) if self.shared.is_closed() => self.inner.fetch(ranges),
                fetched => fetched,
            },
        })
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        check_ranges(self.id(), fills.iter().map(|fill| fill.range))?;
        check_fills(self.id(), fills)?;
        self.with_parts(|parts| match parts {
            None => self.inner.copy_into(fills),
            Some((process, state)) => match read::fetch_into(process, state, fills) {
                Ok(()) => Ok(Trust::Verified),
                // Closed under the reader, which does not notice.
                Err(_) if self.shared.is_closed() => self.inner.copy_into(fills),
                Err(error) => Err(error),
            },
        })
    }

    fn verify(&self) -> Result<()> {
        // Copies are of the version that was opened, and what came from the origin was verified at once.
        self.with_parts(|parts| if parts.is_none() { self.inner.verify() } else { Ok(()) })
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn will_read(&self, range: ByteRange) {
        self.with_parts(|parts| {
            if let Some((_, state)) = parts {
                state.will_read(range);
            }
        });
    }
}
