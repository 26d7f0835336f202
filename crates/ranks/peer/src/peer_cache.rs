//! The parts of all hosts, opened and closed by all ranks together.

use std::sync::Arc;

use forebay_process::{Error, Result};
use forebay_source::SourceId;
use forebay_store::{Comm, ShardMemory, ShardPlace, Wait, agree};
use forebay_tier::Usage;

use crate::{
    host_shard::HostShard,
    host_table::HostTableShape,
    peer_blocks::PeerBlocks,
    peer_stats::PeerStats,
    peer_view::{HostPart, PeerView},
};

/// What ranks have cached, as one of them reads it.
#[derive(Debug)]
pub struct PeerCache {
    view: Arc<PeerView>,
}

impl PeerCache {
    /// The rank that has the shard of the host of `comm`'s own rank: the first of them.
    pub fn leader(comm: &dyn Comm) -> usize {
        let host = comm.host_of(comm.rank());
        (0..comm.size()).find(|rank| comm.host_of(*rank) == host).unwrap_or(comm.rank())
    }

    /// A window over the parts of all hosts; leaders bring their hosts' parts, which may hold blocks already. Collective: an error is
    /// one on all ranks.
    pub fn open(
        comm: Arc<dyn Comm>,
        shard: Option<&HostShard>,
        stats: &'static PeerStats,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let is_leader = Self::leader(&*comm) == comm.rank();
        let shard = shard.filter(|_| is_leader);
        let memory = match shard {
            Some(shard) => Ok(Arc::clone(&shard.memory)),
            None => ShardMemory::new(0, &ShardPlace::Memory).map(Arc::new),
        };
        let shape = shard.map_or(HostTableShape { slots: 0, slot_len: 1 }, |shard| shard.shape);
        Self::open_with(comm, (memory, shape), stats, wait)
    }

    /// The same with what this rank brings: a rank that has nothing says so to the others, who would wait for it.
    fn open_with(
        comm: Arc<dyn Comm>,
        (memory, shape): (Result<Arc<ShardMemory>>, HostTableShape),
        stats: &'static PeerStats,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let memory = agree(&*comm, memory, wait)?;
        let window = comm.window(memory, wait)?;
        let said = [shape.slots.to_le_bytes(), shape.slot_len.to_le_bytes()].concat();
        let all = comm.all_gather(said, wait)?;
        window.publish(wait)?;
        let mut hosts: Vec<HostPart> = Vec::new();
        for (leader, said) in all.iter().enumerate() {
            let is_first = hosts.iter().all(|part| comm.host_of(part.leader) != comm.host_of(leader));
            if is_first {
                hosts.push(HostPart { leader, shape: shape_of(said)? });
            }
        }
        Ok(Self { view: Arc::new(PeerView::new(comm, window, hosts, stats)) })
    }

    /// The blocks of `source`.
    pub fn blocks(&self, source: &SourceId) -> Arc<PeerBlocks> {
        Arc::new(PeerBlocks::new(source, &self.view))
    }

    /// True where this host has a part of its own.
    pub fn has_room(&self) -> bool {
        self.view.own_table().is_some()
    }

    /// How full this host's part is.
    pub fn usage(&self) -> Usage {
        let HostTableShape { slots, slot_len } = self.view.hosts[self.view.own].shape;
        let used = self.view.own_table().map_or(0, |table| table.taken() * slot_len);
        Usage { used, quota: slots * slot_len, evicted: 0, faults: self.view.stats.counters().faults }
    }

    /// Gives up the window; the parts stay with their leaders. Collective.
    pub fn close(&self, wait: &Wait<'_>) -> Result<()> {
        if self.view.close() { self.view.window.close(wait) } else { Ok(()) }
    }
}

fn shape_of(said: &[u8]) -> Result<HostTableShape> {
    let word = |at: usize| said.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let shape = word(0).zip(word(8)).map(|(slots, slot_len)| HostTableShape { slots, slot_len });
    shape.ok_or_else(|| Error::corrupt("what a rank says of its shard cannot be read"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_process::ErrorKind;
    use forebay_store::LocalComm;

    use super::*;

    #[test]
    fn a_rank_without_memory_is_an_error_on_all_and_none_waits_for_it() {
        let stats: &PeerStats = Box::leak(Box::default());
        let errors = LocalComm::run(&[0, 0, 1], |comm| {
            let memory = match comm.rank() {
                1 => Err(Error::new(ErrorKind::Io, "too many open files")),
                _ => ShardMemory::new(0, &ShardPlace::Memory).map(Arc::new),
            };
            let shape = HostTableShape { slots: 0, slot_len: 1 };
            let wait = Wait::at_most(Duration::from_secs(300));
            let opened = PeerCache::open_with(Arc::clone(&comm), (memory, shape), stats, &wait);
            comm.barrier(&wait).unwrap();
            opened.unwrap_err().to_string()
        });
        assert!(errors.iter().all(|error| error.contains("too many open files")), "{errors:?}");
    }
}
