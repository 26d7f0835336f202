//! A tier that could not be opened: it keeps nothing, and says why.

use std::{sync::Arc, time::Instant};

use forebay_process::Error;
use forebay_source::SourceId;

use crate::tier::{Copies, Tier, Usage};

/// A tier that could not be opened, in its place among the others: a run goes on without it.
#[derive(Debug)]
pub struct LeftOutTier {
    name: String,
    why: String,
}

impl LeftOutTier {
    /// The tier called `name`, which could not be opened because of `error`.
    pub fn new(name: impl Into<String>, error: &Error) -> Self {
        Self { name: name.into(), why: error.to_string() }
    }
}

impl Tier for LeftOutTier {
    fn name(&self) -> &str {
        &self.name
    }

    fn copies(&self, _: &SourceId) -> Option<Arc<dyn Copies>> {
        None
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn left_out(&self) -> Option<&str> {
        Some(&self.why)
    }

    fn wait(&self, _: Instant) -> bool {
        true
    }

    fn close(&self, _: Instant) {}
}
