//! New files for one destination, published one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forebay_process::Error;

use crate::on_disk::stamp::FileStamp;

/// A sealed file that waits for those before it.
pub(crate) trait Successor: Send + Sync {
    /// Its name.
    fn id(&self) -> &str;
    /// Says that the destination may be the file with this stamp: it is ours.
    fn expect(&self, stamp: FileStamp);
}

/// The files that this process has sealed for one destination, in their order.
#[derive(Default)]
pub(crate) struct Lineage {
    inner: Mutex<LineageInner>,
}

#[derive(Default)]
struct LineageInner {
    members: Vec<Weak<dyn Successor>>,
    /// What the destination may be without that others changed it.
    expected: Vec<Option<FileStamp>>,
    failure: Option<Error>,
    /// When the newest of the published files was sealed.
    published_ns: u64,
}

impl std::fmt::Debug for Lineage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lineage").field("members", &self.lock().members.len()).finish()
    }
}

impl Lineage {
    fn lock(&self) -> MutexGuard<'_, LineageInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sealed file behind the others; gives what the destination may be, `now` included if that is known.
    pub(crate) fn join(
        &self,
        member: Weak<dyn Successor>,
        now: Option<Option<FileStamp>>,
    ) -> Vec<Option<FileStamp>> {
        let mut inner = self.lock();
        inner.members.retain(|member| member.strong_count() > 0);
        if inner.members.is_empty() {
            inner.expected.clear();
            inner.failure = None;
        }
        if let Some(now) = now
            && !inner.expected.contains(&now)
        {
            inner.expected.push(now);
        }
        inner.members.push(member);
        inner.expected.clone()
    }

    /// Whether it is the turn of the file `id`.
    pub(crate) fn is_first(&self, id: &str) -> bool {
        let first = self.lock().members.first().and_then(Weak::upgrade);
        first.is_none_or(|first| first.id() == id)
    }

    /// Tells the files behind `id` what the destination is about to be.
    pub(crate) fn about_to_publish(&self, id: &str, stamp: FileStamp) {
        let mut inner = self.lock();
        inner.expected.push(Some(stamp));
        let members: Vec<Arc<dyn Successor>> = inner.members.iter().filter_map(Weak::upgrade).collect();
        drop(inner);
        for member in members.iter().filter(|member| member.id() != id) {
            member.expect(stamp);
        }
    }

    /// Why the first file cannot be published, if it cannot.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// Says whether the first file can be published.
    pub(crate) fn set_failure(&self, failure: Option<Error>) {
        self.lock().failure = failure;
    }

    /// Lets those behind `id` go first, which cannot be published because others changed the destination: they were sealed after that,
    /// or find out for themselves.
    pub(crate) fn yield_turn(&self, id: &str) {
        self.lock().members.retain(|member| member.upgrade().is_some_and(|member| member.id() != id));
    }

    /// Notes that a file that was sealed at `sealed_ns` is published.
    pub(crate) fn note_published(&self, sealed_ns: u64) {
        let mut inner = self.lock();
        inner.published_ns = inner.published_ns.max(sealed_ns);
    }

    /// Returns whether a file that was sealed after `sealed_ns` is published.
    pub(crate) fn has_later(&self, sealed_ns: u64) -> bool {
        self.lock().published_ns > sealed_ns
    }

    /// Removes `id`, which is published or given up.
    pub(crate) fn leave(&self, id: &str) {
        let mut inner = self.lock();
        inner.members.retain(|member| member.upgrade().is_some_and(|member| member.id() != id));
        inner.failure = None;
    }
}
