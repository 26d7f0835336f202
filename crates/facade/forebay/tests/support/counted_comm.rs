//! Ranks that are threads, whose reads of each other are counted and may stall.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use forebay::{
    process::Result,
    store::{Comm, CommThreads, LocalComm, ShardMemory, Wait, Window, WindowRead},
};

/// A rank of a [`LocalComm`] whose reads are counted.
#[derive(Clone, Debug)]
pub(crate) struct CountedComm {
    inner: Arc<LocalComm>,
    pub(crate) counts: Arc<ReadCounts>,
}

/// What a rank has read of others.
#[derive(Debug, Default)]
pub(crate) struct ReadCounts {
    /// Calls of `get`.
    pub(crate) gets: AtomicU64,
    /// No rank answers this one.
    pub(crate) is_stalled: AtomicBool,
    /// Calls that waited in vain.
    pub(crate) stalled: AtomicU64,
}

impl CountedComm {
    pub(crate) fn on_hosts(hosts: &[usize]) -> Vec<Self> {
        let ranks = LocalComm::on_hosts(hosts).into_iter();
        ranks.map(|inner| Self { inner: Arc::new(inner), counts: Arc::default() }).collect()
    }
}

impl Comm for CountedComm {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn host_of(&self, rank: usize) -> usize {
        self.inner.host_of(rank)
    }

    fn threads(&self) -> CommThreads {
        self.inner.threads()
    }

    fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        self.inner.first_gone(ranks)
    }

    fn transport(&self) -> String {
        self.inner.transport()
    }

    fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.inner.barrier(wait)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        self.inner.broadcast(root, bytes, wait)
    }

    fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        self.inner.all_gather(mine, wait)
    }

    fn window(&self, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Arc<dyn Window>> {
        let inner = self.inner.window(mine, wait)?;
        Ok(Arc::new(CountedWindow { inner, counts: Arc::clone(&self.counts) }))
    }
}

#[derive(Debug)]
struct CountedWindow {
    inner: Arc<dyn Window>,
    counts: Arc<ReadCounts>,
}

impl Window for CountedWindow {
    fn publish(&self, wait: &Wait<'_>) -> Result<()> {
        self.inner.publish(wait)
    }

    fn shared(&self, rank: usize) -> Option<&ShardMemory> {
        self.inner.shared(rank)
    }

    fn get(&self, reads: &mut [WindowRead<'_>], wait: &Wait<'_>) {
        self.counts.gets.fetch_add(1, SeqCst);
        if !self.counts.is_stalled.load(SeqCst) {
            return self.inner.get(reads, wait);
        }
        self.counts.stalled.fetch_add(1, SeqCst);
        let error = loop {
            match wait.go_on(|| "a rank does not answer".to_owned()) {
                Ok(()) => thread::sleep(wait.step()),
                Err(error) => break error,
            }
        };
        reads.iter_mut().for_each(|read| read.outcome = Err(error.clone()));
    }

    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        self.inner.close(wait)
    }
}
