//! What stores said of objects a moment ago.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{address::Address, state::ObjectState};

/// A reader opens a file several times in a row: to tell its format, to describe it, to read it. One question to the
/// store serves them all; whatever has changed meanwhile is noticed by the first read.
const HEAD_LIFE: Duration = Duration::from_secs(5);
/// When more answers are remembered, old ones leave.
const MOST_HEADS: usize = 4096;

/// What stores said of objects, and when.
#[derive(Debug, Default)]
pub(super) struct Heads(HashMap<Address, (Instant, ObjectState)>);

impl Heads {
    pub(super) fn fresh(&self, address: &Address) -> Option<ObjectState> {
        let (asked, state) = self.0.get(address)?;
        (asked.elapsed() < HEAD_LIFE).then(|| state.clone())
    }

    pub(super) fn remember(&mut self, address: &Address, state: &ObjectState) {
        // Nothing would notice that it has changed.
        if !state.is_versioned() {
            return;
        }
        if self.0.len() >= MOST_HEADS {
            self.0.retain(|_, (asked, _)| asked.elapsed() < HEAD_LIFE);
        }
        if self.0.len() < MOST_HEADS {
            self.0.insert(address.clone(), (Instant::now(), state.clone()));
        }
    }

    pub(super) fn forget(&mut self, address: &Address) {
        self.0.remove(address);
    }
}
