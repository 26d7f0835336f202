//! An origin that reads small, far sources whole.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use bytes::Bytes;

use crate::{
    ByteRange, Fill, Locator, Origin, Result, Source, SourceExt, SourceId, Trust, fill_by_fetching,
    process::PerProcess, source::check_ranges,
};

/// An origin over another: what is no longer than one request ought to be is read by one request.
///
/// Such a source is read whole when something of it is first fetched, and served from memory from then on. The
/// bytes are shared by all who open the same id and are kept within a budget, the oldest given up first; a source
/// that was given up is read again. Threads that ask at once cause one request. Larger and near sources are handed
/// through as they are.
///
/// A source that changes is noticed when it is opened or read again, and not while it is served from memory: until
/// then its bytes are those of its id. A source too young for its id to be trusted is not shared.
#[derive(Debug)]
pub struct WholeOrigin {
    inner: Arc<dyn Origin>,
    kept: Arc<Kept>,
    /// Tells opens of young sources apart.
    opens: AtomicU64,
}

impl WholeOrigin {
    /// `inner`, with at most `budget_bytes` kept besides what readers still hold.
    pub fn new(inner: Arc<dyn Origin>, budget_bytes: u64) -> Self {
        let kept = Kept { budget_bytes, shelf: PerProcess::new(Mutex::default()) };
        Self { inner, kept: Arc::new(kept), opens: AtomicU64::new(0) }
    }
}

impl Origin for WholeOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let inner = self.inner.open(at)?;
        let (id, wished_bytes) = (inner.id(), inner.request_bytes());
        if wished_bytes == 0 || id.len > wished_bytes || id.len > self.kept.budget_bytes {
            return Ok(inner);
        }
        let is_shared = id.version.is_settled(SystemTime::now());
        let open = (!is_shared).then(|| self.opens.fetch_add(1, Relaxed));
        let key = Arc::new(Key { id: id.clone(), open });
        Ok(Arc::new(WholeSource { inner, key, kept: Arc::clone(&self.kept) }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.inner.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.inner.survey(under)
    }
}

#[derive(Debug)]
struct WholeSource {
    inner: Arc<dyn Source>,
    key: Arc<Key>,
    kept: Arc<Kept>,
}

impl Source for WholeSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(self.id(), ranges.iter().copied())?;
        if ranges.iter().all(|range| range.is_empty()) {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        let whole = self.kept.get(&self.key, || self.inner.fetch_one(ByteRange::at(0, self.id().len)))?;
        Ok(ranges.iter().map(|range| range.cut(&whole, 0)).collect())
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        fill_by_fetching(self, fills)
    }

    fn vouch(&self) -> Result<()> {
        Ok(())
    }

    /// As far as ever: what is kept here may be given up, so whoever comes again and again keeps it himself.
    fn request_bytes(&self) -> u64 {
        self.inner.request_bytes()
    }

    fn expect(&self, _: ByteRange) {}
}

/// What tells kept bytes apart: their id, and the open they belong to where the id alone is not trusted.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    id: SourceId,
    open: Option<u64>,
}

/// Bytes of whole sources, within a budget; each process has its own.
#[derive(Debug)]
struct Kept {
    budget_bytes: u64,
    shelf: PerProcess<Mutex<Shelf>>,
}

/// The bytes of one source once they have come; locked while they are on their way.
type Entry = Arc<Mutex<Option<Bytes>>>;

#[derive(Debug, Default)]
struct Shelf {
    entries: HashMap<Arc<Key>, Entry>,
    /// Of entries whose bytes have come, oldest first.
    order: VecDeque<Arc<Key>>,
    bytes: u64,
}

/// A panic elsewhere cannot leave bytes half-come: they are whole or absent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// The bytes of `key`, by `read` if nobody has read them yet or is about to.
    fn get(&self, key: &Arc<Key>, read: impl FnOnce() -> Result<Bytes>) -> Result<Bytes> {
        let shelf = self.shelf.get(Mutex::default);
        let entry = Arc::clone(lock(&shelf).entries.entry(Arc::clone(key)).or_default());
        let mut held = lock(&entry);
        if let Some(bytes) = &*held {
            return Ok(bytes.clone());
        }
        match read() {
            Ok(bytes) => {
                *held = Some(bytes.clone());
                lock(&shelf).admit(key, &entry, self.budget_bytes);
                Ok(bytes)
            }
            Err(error) => {
                drop(held);
                lock(&shelf).forget(key, &entry);
                Err(error)
            }
        }
    }
}

impl Shelf {
    /// Counts the bytes of `entry`, which have come, and gives up the oldest beyond the budget.
    fn admit(&mut self, key: &Arc<Key>, entry: &Entry, budget_bytes: u64) {
        // Another may stand there by now, if an earlier reader failed and this one had waited for it.
        if !self.entries.get(key).is_some_and(|there| Arc::ptr_eq(there, entry)) {
            return;
        }
        self.order.push_back(Arc::clone(key));
        self.bytes += key.id.len;
        while self.bytes > budget_bytes
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
            self.bytes -= oldest.id.len;
        }
    }

    /// Removes `entry`, whose bytes did not come, unless somebody waits to try in its place.
    fn forget(&mut self, key: &Arc<Key>, entry: &Entry) {
        let is_there = self.entries.get(key).is_some_and(|there| Arc::ptr_eq(there, entry));
        // One is the shelf's, one the caller's.
        if is_there && Arc::strong_count(entry) == 2 {
            self.entries.remove(key);
        }
    }
}
