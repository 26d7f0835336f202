//! A cache of small sources behind a network: each is read whole, by one request.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use bytes::Bytes;
use forebay_process::{PerProcess, Result};

use crate::{
    locator::Locator,
    origin::Origin,
    range::{ByteRange, Fill},
    source::{Source, SourceExt, SourceId, Trust, check_ranges, fill_by_fetching},
};

/// An origin over another: a source no longer than [`Source::request_bytes`] is read by one request and cached (FIFO).
///
/// Such a source is read whole when something of it is first fetched, and served from memory from then on. The
/// bytes are shared by all sources of the same id and are kept within a budget, the oldest evicted first; a source
/// that was evicted is read again. Concurrent readers cause one request (single flight). Larger and near sources are handed
/// through as they are.
///
/// A source that changes is noticed when it is opened or read again, and not while it is served from memory: until
/// then its bytes are those of its id. A source too young for its id to be trusted is not shared.
#[derive(Debug)]
pub struct SmallSourceCache {
    inner: Arc<dyn Origin>,
    cache: Arc<SourceCache>,
    /// Tells opens of young sources apart.
    opens: AtomicU64,
}

impl SmallSourceCache {
    /// `inner`, with at most `budget_bytes` kept besides what readers still hold.
    pub fn new(inner: Arc<dyn Origin>, budget_bytes: u64) -> Self {
        let cache = SourceCache { budget_bytes, state: PerProcess::new(Mutex::default()) };
        Self { inner, cache: Arc::new(cache), opens: AtomicU64::new(0) }
    }
}

impl Origin for SmallSourceCache {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let inner = self.inner.open(at)?;
        let (id, wished_bytes) = (inner.id(), inner.request_bytes());
        if wished_bytes == 0 || id.len > wished_bytes || id.len > self.cache.budget_bytes {
            return Ok(inner);
        }
        let is_shared = id.version.is_settled(SystemTime::now());
        let open = (!is_shared).then(|| self.opens.fetch_add(1, Relaxed));
        let key = Arc::new(SourceCacheKey { id: id.clone(), open });
        Ok(Arc::new(CachedSource { inner, key, cache: Arc::clone(&self.cache) }))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.inner.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.inner.survey(under)
    }
}

#[derive(Debug)]
struct CachedSource {
    inner: Arc<dyn Source>,
    key: Arc<SourceCacheKey>,
    cache: Arc<SourceCache>,
}

impl Source for CachedSource {
    fn id(&self) -> &SourceId {
        self.inner.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(self.id(), ranges.iter().copied())?;
        if ranges.iter().all(|range| range.is_empty()) {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        let whole = self.cache.get(&self.key, || self.inner.fetch_one(ByteRange::at(0, self.id().len)))?;
        Ok(ranges.iter().map(|range| range.cut(&whole, 0)).collect())
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        fill_by_fetching(self, fills)
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    /// That of the source below: what is cached here may be evicted, so a caller that reads often keeps the bytes itself.
    fn request_bytes(&self) -> u64 {
        self.inner.request_bytes()
    }

    fn will_read(&self, _: ByteRange) {}
}

/// The key of cached bytes: their id, and the number of the open where the id alone is not trusted.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SourceCacheKey {
    id: SourceId,
    open: Option<u64>,
}

/// The cached bytes, within a budget; each process has its own.
#[derive(Debug)]
struct SourceCache {
    budget_bytes: u64,
    state: PerProcess<Mutex<SmallSources>>,
}

/// The bytes of one source once they have come; locked while they are on their way.
type CachedBytes = Arc<Mutex<Option<Bytes>>>;

#[derive(Debug, Default)]
struct SmallSources {
    entries: HashMap<Arc<SourceCacheKey>, CachedBytes>,
    /// Of entries whose bytes have come, oldest first.
    order: VecDeque<Arc<SourceCacheKey>>,
    bytes: u64,
}

/// A panic elsewhere cannot leave bytes half-come: they are whole or absent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SourceCache {
    /// The bytes of `key`: cached, or read by `read` under the lock of their entry.
    fn get(&self, key: &Arc<SourceCacheKey>, read: impl FnOnce() -> Result<Bytes>) -> Result<Bytes> {
        let state = self.state.get(Mutex::default);
        let entry = Arc::clone(lock(&state).entries.entry(Arc::clone(key)).or_default());
        let mut held = lock(&entry);
        if let Some(bytes) = &*held {
            return Ok(bytes.clone());
        }
        match read() {
            Ok(bytes) => {
                *held = Some(bytes.clone());
                lock(&state).admit(key, &entry, self.budget_bytes);
                Ok(bytes)
            }
            Err(error) => {
                drop(held);
                lock(&state).forget(key, &entry);
                Err(error)
            }
        }
    }
}

impl SmallSources {
    /// Counts the bytes of `entry`, which have come, and evicts the oldest beyond the budget.
    fn admit(&mut self, key: &Arc<SourceCacheKey>, entry: &CachedBytes, budget_bytes: u64) {
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

    /// Removes `entry`, whose read failed, unless another thread waits to try again.
    fn forget(&mut self, key: &Arc<SourceCacheKey>, entry: &CachedBytes) {
        let is_there = self.entries.get(key).is_some_and(|there| Arc::ptr_eq(there, entry));
        // One reference is the cache's, one the caller's.
        if is_there && Arc::strong_count(entry) == 2 {
            self.entries.remove(key);
        }
    }
}
