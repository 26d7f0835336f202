//! What killed processes left in an area, finished or discarded.

use std::{ops::ControlFlow, path::Path};

use forebay_source::Result;

use crate::status::{DrainProgress, ItemStatus};

/// What to do where the journals alone do not decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverOptions {
    /// Items that are applied although their destination was changed by others.
    pub apply: Vec<String>,
    /// Items that are removed, with their bytes.
    pub discard: Vec<String>,
    /// Says what would be done, and does nothing.
    pub dry_run: bool,
}

/// What `recover` has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Items that are in their destinations now.
    pub finished: Vec<ItemStatus>,
    /// Items that were removed: never sealed or flushed, or discarded as asked.
    pub discarded: Vec<ItemStatus>,
    /// Items that stay, and why: their `error` says how to choose.
    pub refused: Vec<ItemStatus>,
    /// Items of processes that still run.
    pub in_use: Vec<ItemStatus>,
}

/// Finishes or discards every item in the area in `folder` whose process is gone; may be called again at any time.
pub fn recover(
    _folder: &Path,
    _options: &RecoverOptions,
    _progress: &dyn Fn(DrainProgress) -> ControlFlow<()>,
) -> Result<Recovered> {
    Ok(Recovered::default())
}
