//! Ranks of an MPI job that work together without MPI.

use std::{
    ops::Range,
    sync::{Arc, Weak},
};

use forebay_process::Result;
use forebay_store::{Comm, CommThreads, ShardMemory, Wait, Window, gone};

use crate::calls::{lifetime, stall::RankWatch};

/// A communicator whose ranks an MPI launcher started, but whose bytes and messages travel without MPI.
///
/// A rank that it has lost is lost for `MPI_Finalize` too, which waits for all of them.
#[derive(Debug)]
pub struct MpiLaunchedComm {
    watch: Arc<CommWatch>,
}

#[derive(Debug)]
struct CommWatch {
    comm: Arc<dyn Comm>,
}

impl MpiLaunchedComm {
    /// The ranks of `comm`.
    pub fn new(comm: Arc<dyn Comm>) -> Self {
        let watch = Arc::new(CommWatch { comm });
        let weak: Weak<CommWatch> = Arc::downgrade(&watch);
        lifetime::add_watch(weak);
        Self { watch }
    }

    fn comm(&self) -> &dyn Comm {
        &*self.watch.comm
    }
}

impl RankWatch for CommWatch {
    fn lost_rank(&self) -> Option<String> {
        self.comm.first_gone(0..self.comm.size()).map(|rank| gone(rank).to_string())
    }
}

impl Drop for MpiLaunchedComm {
    fn drop(&mut self) {
        if let Some(reason) = self.watch.lost_rank() {
            lifetime::lose_rank(reason);
        }
    }
}

impl Comm for MpiLaunchedComm {
    fn rank(&self) -> usize {
        self.comm().rank()
    }

    fn size(&self) -> usize {
        self.comm().size()
    }

    fn host_of(&self, rank: usize) -> usize {
        self.comm().host_of(rank)
    }

    fn threads(&self) -> CommThreads {
        self.comm().threads()
    }

    fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        self.comm().first_gone(ranks)
    }

    fn transport(&self) -> String {
        self.comm().transport()
    }

    fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.comm().barrier(wait)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        self.comm().broadcast(root, bytes, wait)
    }

    fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        self.comm().all_gather(mine, wait)
    }

    fn window(&self, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Arc<dyn Window>> {
        self.comm().window(mine, wait)
    }
}
