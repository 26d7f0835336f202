//! An object that is open.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Sender},
    },
};

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    address::Address,
    engine::stopped,
    parts::{parts, runs},
    state::ObjectState,
    store_error::from_store,
    stores::Stores,
};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{
    ByteRange, Fill, Locator, Source, SourceId, Trust, changed_error, check_fills, check_ranges,
};

/// A request costs 20 to 50 ms before its first byte, whatever its length, and then some 100 MB/s come by one
/// connection: with 4 MiB the wait for the first byte is half of the time or less.
const REQUEST_BYTES: u64 = 4 << 20;

/// Requests of one call that are under way at once: half of those of the process.
const MOST_REQUESTS: usize = 64;

/// An object that is open.
pub(super) struct ObjectSource {
    id: SourceId,
    stores: Arc<Stores>,
    address: Address,
    state: ObjectState,
}

impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSource").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Where bytes of the object start, and the bytes.
type ObjectPart = (u64, Bytes);

impl ObjectSource {
    pub(super) fn new(stores: Arc<Stores>, locator: Locator, address: Address, state: ObjectState) -> Self {
        Self { id: state.id(locator), stores, address, state }
    }

    /// Reads `parts`, and gives their bytes to `place` as they come, in any order.
    fn read(&self, parts: Vec<ByteRange>, place: impl FnMut(u64, &[u8])) -> Result<()> {
        self.try_read(parts, place).map_err(|error| {
            let error = match error.kind() {
                ErrorKind::NotFound => changed_error("gone since it was opened").because(error),
                _ => error,
            };
            // Perhaps because the object changed: the next open asks the store.
            self.stores.forget(&self.address);
            error.at(&self.id.locator)
        })
    }

    fn try_read(&self, parts: Vec<ByteRange>, mut place: impl FnMut(u64, &[u8])) -> Result<()> {
        let mut left: u64 = parts.iter().map(|part| part.len()).sum();
        if left == 0 {
            return Ok(());
        }
        let engine = self.stores.engines.current();
        let handle = engine.handle()?;
        let client = self.stores.client(&engine, &self.address)?;
        let tasks = parts.len().min(MOST_REQUESTS);
        let work = Arc::new(ObjectFetch {
            client,
            address: self.address.clone(),
            state: self.state.clone(),
            parts,
            requests: engine.requests(),
            next: AtomicUsize::new(0),
        });
        let (sender, receiver) = mpsc::channel();
        // Dropped on the way out, which ends requests that nobody waits for any more.
        let mut running = JoinSet::new();
        for _ in 0..tasks {
            running.spawn_on(Arc::clone(&work).run(sender.clone()), &handle);
        }
        drop(sender);
        for piece in receiver {
            let (start, bytes) = piece?;
            place(start, &bytes);
            left = left.saturating_sub(bytes.len() as u64);
        }
        if left == 0 { Ok(()) } else { Err(stopped()) }
    }
}

impl Source for ObjectSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        check_ranges(&self.id, ranges.iter().copied())?;
        let runs = runs(ranges);
        let memory = runs.iter().map(|run| memory(*run)).collect::<Result<Vec<_>>>();
        let mut memory = memory.map_err(|error| error.at(&self.id.locator))?;
        self.read(parts(&runs), |start, bytes| {
            let index = run_of(&runs, start);
            copy(bytes, start, runs[index].start, &mut memory[index]);
        })?;
        let read: Vec<_> = memory.into_iter().map(Bytes::from).collect();
        let lend = |range: &ByteRange| {
            if range.is_empty() {
                return Bytes::new();
            }
            let index = run_of(&runs, range.start);
            range.cut(&read[index], runs[index].start)
        };
        Ok(ranges.iter().map(lend).collect())
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        check_ranges(&self.id, fills.iter().map(|fill| fill.range))?;
        check_fills(&self.id, fills)?;
        let runs = runs(&fills.iter().map(|fill| fill.range).collect::<Vec<_>>());
        // The fills of each run, in the order of its bytes.
        let mut of_run: Vec<Vec<&mut Fill<'_>>> = runs.iter().map(|_| Vec::new()).collect();
        for fill in fills.iter_mut().filter(|fill| !fill.range.is_empty()) {
            of_run[run_of(&runs, fill.range.start)].push(fill);
        }
        for fills in &mut of_run {
            fills.sort_unstable_by_key(|fill| fill.range.start);
        }
        self.read(parts(&runs), |start, bytes| {
            let end = start + bytes.len() as u64;
            let begun = of_run[run_of(&runs, start)].iter_mut().take_while(|fill| fill.range.start < end);
            for fill in begun.filter(|fill| fill.range.end > start) {
                copy(bytes, start, fill.range.start, fill.into);
            }
        })?;
        Ok(Trust::Verified)
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn request_bytes(&self) -> u64 {
        REQUEST_BYTES
    }

    fn will_read(&self, _: ByteRange) {}
}

/// The run that byte `at` lies in.
fn run_of(runs: &[ByteRange], at: u64) -> usize {
    runs.partition_point(|run| run.start <= at).saturating_sub(1)
}

/// Memory for `run`.
fn memory(run: ByteRange) -> Result<Vec<u8>> {
    let full = || Error::new(ErrorKind::Full, format!("no memory for {} bytes", run.len()));
    let len = usize::try_from(run.len()).map_err(|_| full())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).map_err(|error| full().because(error))?;
    memory.resize(len, 0);
    Ok(memory)
}

/// Copies what `bytes`, from `start` on, and `into`, from `into_start` on, have in common.
fn copy(bytes: &[u8], start: u64, into_start: u64, into: &mut [u8]) {
    let skip = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let bytes = bytes.get(skip(start, into_start)..).unwrap_or_default();
    let into = into.get_mut(skip(into_start, start)..).unwrap_or_default();
    let len = bytes.len().min(into.len());
    into[..len].copy_from_slice(&bytes[..len]);
}

/// Parts to read, which tasks take one after the other.
struct ObjectFetch {
    client: Arc<dyn ObjectStore>,
    address: Address,
    state: ObjectState,
    parts: Vec<ByteRange>,
    requests: Arc<Semaphore>,
    next: AtomicUsize,
}

impl ObjectFetch {
    /// Reads parts until none is left or nobody listens.
    async fn run(self: Arc<Self>, sender: Sender<Result<ObjectPart>>) {
        while let Some(part) = self.parts.get(self.next.fetch_add(1, Relaxed)) {
            if let Err(error) = self.read(*part, &sender).await {
                drop(sender.send(Err(error.at(format!("byte {}", part.start)))));
                return;
            }
        }
    }

    async fn read(&self, part: ByteRange, sender: &Sender<Result<ObjectPart>>) -> Result<()> {
        let converted = |error| from_store(error, self.address.store());
        // It is never closed.
        let _under_way = self.requests.acquire().await.map_err(|_| stopped())?;
        let answer =
            self.client.get_opts(self.address.key(), self.state.request(part)).await.map_err(converted)?;
        self.state.verify(&answer.meta)?;
        let mut body = answer.into_stream();
        let mut at = part.start;
        while let Some(bytes) = body.try_next().await.map_err(converted)? {
            let start = at;
            at = start.saturating_add(bytes.len() as u64);
            // More than was asked for would land where other bytes belong.
            if at > part.end || sender.send(Ok((start, bytes))).is_err() {
                break;
            }
        }
        if at == part.end {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unavailable, format!("{} bytes came of {}", at - part.start, part.len()))
            .hint("try again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_stretches_have_in_common_is_copied() {
        let bytes: Vec<u8> = (0..10).collect();
        let copied = |start, into_start, len| {
            let mut into = vec![99; len];
            copy(&bytes, start, into_start, &mut into);
            into
        };
        assert_eq!(copied(0, 0, 10), bytes);
        assert_eq!(copied(5, 7, 3), [2, 3, 4]);
        assert_eq!(copied(7, 5, 4), [99, 99, 0, 1]);
        assert_eq!(copied(0, 8, 4), [8, 9, 99, 99]);
        assert_eq!(copied(0, 20, 2), [99, 99]);
        assert_eq!(copied(20, 0, 2), [99, 99]);
    }
}
