//! Work on a source that nobody waits for: the rest of it placed, its origin asked whether it has changed.

use std::sync::Arc;

use forebay_source::ErrorKind;

use crate::{
    fetch::follow,
    pool::{Background, Step},
    state::State,
};

/// The rest of a source, after a part of it was read.
#[derive(Debug)]
pub(crate) struct Follow(pub(crate) Arc<State>);

impl Background for Follow {
    fn step(&self) -> Step {
        self.0.running().map_or(Step::Over, |running| follow(&running, &self.0))
    }
}

/// Asks the origin whether a source is still what it was.
#[derive(Debug)]
pub(crate) struct Recheck(pub(crate) Arc<State>);

impl Background for Recheck {
    fn step(&self) -> Step {
        let Some(running) = self.0.running() else { return Step::Over };
        let id = self.0.inner.id();
        let has_changed = match running.origin.open(&id.locator) {
            Ok(source) => !id.is_unchanged(source.id()),
            // One that cannot be asked now may be as it was: whoever reads it from there will know.
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        self.0.asked(has_changed);
        Step::Over
    }
}
