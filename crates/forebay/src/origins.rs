//! Where files are looked for: on this machine, or behind a URL.

use std::sync::Arc;

use forebay_source::{FileOrigin, Locator, ObjectOrigin, Origin, WholeOrigin};

/// An origin for paths and one for URLs.
///
/// A file is opened, with all that it names, on the side its own name belongs to: whatever a remote file says, it
/// leads to no file of this machine, because the origin it is read by opens none.
#[derive(Clone, Debug)]
pub struct Origins {
    near: Arc<dyn Origin>,
    far: Arc<dyn Origin>,
}

impl Origins {
    /// This machine's file systems, and the object stores and web servers that the environment gives access to.
    pub fn new() -> Self {
        Self { near: Arc::new(FileOrigin::new()), far: Arc::new(ObjectOrigin::new()) }
    }

    /// One origin for all names.
    pub(crate) fn only(origin: Arc<dyn Origin>) -> Self {
        Self { near: Arc::clone(&origin), far: origin }
    }

    /// The same, with small files behind a network read whole; of each side at most `budget_bytes` are held.
    pub(crate) fn reading_whole(&self, budget_bytes: u64) -> Self {
        let whole =
            |origin: &Arc<dyn Origin>| Arc::new(WholeOrigin::new(Arc::clone(origin), budget_bytes)) as _;
        Self { near: whole(&self.near), far: whole(&self.far) }
    }

    /// What opens the file at `at` and all that it names.
    pub fn of(&self, at: &Locator) -> &Arc<dyn Origin> {
        if at.is_url() { &self.far } else { &self.near }
    }
}

impl Default for Origins {
    fn default() -> Self {
        Self::new()
    }
}
