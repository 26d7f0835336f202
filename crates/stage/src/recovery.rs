//! What is told and decided about an item that a killed process left.

use std::ops::ControlFlow;

use forebay_scratch::OwnFolder;
use forebay_source::{Error, ErrorKind, Result};

/// What is to become of an item.
#[derive(Debug)]
pub(crate) enum RecoverVerdict {
    /// Its bytes go to the destination.
    Finish,
    /// It was never promised to anybody, or is there already.
    Discard,
    /// Somebody has to choose.
    Refuse(Error),
}

/// What the recovery of an item is told.
pub(crate) struct Recovery<'a> {
    pub(crate) folder: &'a OwnFolder,
    pub(crate) id: &'a str,
    pub(crate) is_same_boot: bool,
    /// Whether the user has said that the destination may be overwritten.
    pub(crate) is_forced: bool,
    pub(crate) told: &'a dyn Fn(u64) -> ControlFlow<()>,
}

impl Recovery<'_> {
    /// Says that `bytes` more are done; an error where the user wants no more.
    pub(crate) fn tell(&self, bytes: u64) -> Result<()> {
        match (self.told)(bytes) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                let error = Error::new(ErrorKind::Unavailable, "recover was interrupted");
                Err(error.hint("run it again: what is left is still there"))
            }
        }
    }

    /// The refusal of a destination that others have changed.
    pub(crate) fn changed(&self, what: &str) -> Error {
        let id = self.id;
        let hint = format!("'--apply {id}' writes over it, '--discard {id}' forgets what was staged");
        Error::new(ErrorKind::Unavailable, what).hint(hint)
    }
}
