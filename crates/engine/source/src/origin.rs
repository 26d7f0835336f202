//! A place that has sources: a file system, a bucket, a server.

use std::{fmt, sync::Arc};

use forebay_process::Result;

use crate::{
    locator::Locator,
    source::{Source, SourceId},
};

/// A place that opens sources by name.
///
/// Tiers are an `Origin` over an `Origin`; format readers are handed one and cannot tell.
///
/// # Contract
/// - `open` of what is not there is [`NotFound`](forebay_process::ErrorKind::NotFound) and names the locator.
/// - Two `open`s of unchanged bytes give equal ids.
/// - `list` is sorted, names every source under `under` at any depth, and each name opens.
/// - `survey` names the same sources by the ids that `open` would give them.
pub trait Origin: Send + Sync + fmt::Debug {
    /// Opens what lies at `at`.
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>>;

    /// Names of what lies under `under`, sorted.
    fn list(&self, under: &Locator) -> Result<Vec<Locator>>;

    /// Which sources lie under `under`, sorted by name, without opening each: for stores that keep an array in many
    /// files.
    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>>;
}
