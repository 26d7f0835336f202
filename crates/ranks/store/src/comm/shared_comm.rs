//! Ranks that are processes of one host: they read each other's shards by loads from shared memory.

use std::{ops::Range, sync::Arc};

use forebay_process::{Error, Result};

use crate::{
    comm::{Comm, CommThreads, Window, WindowRead, job_name::JobName, node_link::NodeLink},
    store::shard_memory::ShardMemory,
    wait::Wait,
};

/// One rank of a communicator whose ranks are processes of one host.
#[derive(Debug)]
pub struct SharedComm {
    rank: usize,
    link: Arc<NodeLink>,
}

impl SharedComm {
    /// Connects rank `rank` of `size` with the others. Collective.
    pub fn new(rank: usize, size: usize, job: &JobName, wait: &Wait<'_>) -> Result<Self> {
        let members: Vec<_> = (0..size).collect();
        Ok(Self { rank, link: Arc::new(NodeLink::connect(job.as_str(), rank, &members, wait)?) })
    }
}

impl Comm for SharedComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.link.members().len()
    }

    fn host_of(&self, _: usize) -> usize {
        0
    }

    fn threads(&self) -> CommThreads {
        CommThreads::Any
    }

    fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        self.link.first_gone(ranks)
    }

    fn transport(&self) -> String {
        "shared memory".to_owned()
    }

    fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.link.barrier(wait)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        self.link.broadcast(root, bytes, wait)
    }

    fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        self.link.all_gather(mine, wait)
    }

    fn window(&self, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Arc<dyn Window>> {
        let shards = self.link.share(&mine, wait)?;
        Ok(Arc::new(SharedWindow { link: Arc::clone(&self.link), shards }))
    }
}

/// Shards that are all mapped here. What a rank published stays readable when it is gone.
#[derive(Debug)]
struct SharedWindow {
    link: Arc<NodeLink>,
    shards: Vec<Arc<ShardMemory>>,
}

impl Window for SharedWindow {
    fn publish(&self, wait: &Wait<'_>) -> Result<()> {
        self.link.barrier(wait)
    }

    fn shared(&self, rank: usize) -> Option<&ShardMemory> {
        self.shards.get(rank).map(|shard| &**shard)
    }

    fn get(&self, reads: &mut [WindowRead<'_>], _: &Wait<'_>) {
        for read in reads {
            read.outcome = match self.shards.get(read.rank) {
                None => Err(Error::invalid(format!("there is no rank {}", read.rank))),
                Some(shard) => {
                    read.pieces.iter_mut().try_for_each(|piece| shard.copy_to(piece.offset, piece.into))
                }
            };
        }
    }

    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        self.link.barrier(wait)
    }
}
