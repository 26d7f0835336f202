//! A source whose bytes come from the nearest place that has them.

use std::sync::Arc;

use bytes::Bytes;
use forebay_source::{
    ByteRange, Fill, Owned, PerProcess, Result, Source, SourceId, check_fills, check_ranges,
};

use crate::{state::State, tiered::Core};

/// A source whose bytes come from the nearest place that has them.
#[derive(Debug)]
pub(crate) struct Copied {
    core: Arc<Core>,
    inner: Arc<dyn Source>,
    state: PerProcess<Option<Arc<State>>>,
    request_bytes: u64,
}

impl Copied {
    pub(crate) fn new(core: Arc<Core>, inner: Arc<dyn Source>, state: Arc<State>) -> Self {
        // What will be near for good needs no large requests.
        let request_bytes = if state.is_near { 0 } else { inner.request_bytes() };
        Self { core, inner, state: PerProcess::new(Some(state)), request_bytes }
    }
}

impl Source for Copied {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(self.id(), ranges.iter().copied())?;
        match &**self.own_state() {
            None => self.inner.fetch(ranges),
            Some(state) => state.fetch(ranges),
        }
    }

    fn fetch_into(&self, fills: &mut [Fill<'_>]) -> Result<()> {
        check_ranges(self.id(), fills.iter().map(|fill| fill.range))?;
        check_fills(self.id(), fills)?;
        match &**self.own_state() {
            None => self.inner.fetch_into(fills),
            Some(state) => state.fetch_into(fills),
        }
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn expect(&self, range: ByteRange) {
        let state = self.own_state();
        let state: &Option<_> = &state;
        if let Some(whole) = state.as_ref().and_then(|state| state.whole.load_full()) {
            whole.source.expect(range);
        }
    }
}

impl Copied {
    /// What this process knows of the source: a forked child begins anew.
    fn own_state(&self) -> Arc<Owned<Option<Arc<State>>>> {
        self.state.get(|| self.core.running().state(&self.inner))
    }
}
