//! A source whose bytes come from the nearest place that has them.

use std::sync::Arc;

use bytes::Bytes;
use forebay_source::{
    ByteRange, Fill, PerProcess, Result, Source, SourceId, Trust, check_fills, check_ranges,
};

use crate::{
    state::State,
    tiered::{Core, Running},
};

/// A source whose bytes come from the nearest place that has them.
#[derive(Debug)]
pub(crate) struct Copied {
    core: Arc<Core>,
    inner: Arc<dyn Source>,
    parts: PerProcess<Parts>,
    request_bytes: u64,
}

/// What a process reads it by: nothing more than the origin where no tier keeps any of it.
type Parts = Option<(Arc<Running>, Arc<State>)>;

impl Copied {
    pub(crate) fn new(
        core: Arc<Core>,
        inner: Arc<dyn Source>,
        running: Arc<Running>,
        state: Arc<State>,
    ) -> Self {
        // What will be near for good needs no large requests.
        let request_bytes = if state.is_near { 0 } else { inner.request_bytes() };
        Self { core, inner, parts: PerProcess::new(Some((running, state))), request_bytes }
    }
}

impl Source for Copied {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(self.id(), ranges.iter().copied())?;
        self.by(|parts| match parts {
            None => self.inner.fetch(ranges),
            Some((running, state)) => state.fetch(running, ranges),
        })
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        check_ranges(self.id(), fills.iter().map(|fill| fill.range))?;
        check_fills(self.id(), fills)?;
        self.by(|parts| match parts {
            None => self.inner.copy_into(fills),
            Some((running, state)) => state.fetch_into(running, fills).map(|()| Trust::Verified),
        })
    }

    fn verify(&self) -> Result<()> {
        // What a tier has is of the version that was opened, and what came from the origin was verified at once.
        self.by(|parts| if parts.is_none() { self.inner.verify() } else { Ok(()) })
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn will_read(&self, range: ByteRange) {
        self.by(|parts| {
            if let Some((_, state)) = parts {
                state.will_read(range);
            }
        });
    }
}

impl Copied {
    /// What `read` makes of what this process reads by: a forked child begins anew.
    #[inline]
    fn by<R>(&self, read: impl FnOnce(&Parts) -> R) -> R {
        let make = || {
            let running = self.core.running();
            let state = running.state(&self.inner)?;
            Some((running, state))
        };
        self.parts.with(make, read)
    }
}
