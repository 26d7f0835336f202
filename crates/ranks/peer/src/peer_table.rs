//! The parts of all ranks, opened and closed by all of them together.

use std::sync::Arc;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::SourceId;
use forebay_store::{Comm, ShardMemory, ShardPlace, Wait, agree};

use crate::{
    block_table::TableShape,
    host_shard::HostShard,
    peer_blocks::PeerBlocks,
    peer_stats::PeerStats,
    placed_by::PlacedBy,
    table_use::TableUse,
    table_view::{TablePart, TableView},
};

/// Table of the blocks that the ranks of a job have cached, as one of them uses it.
#[derive(Clone, Debug)]
pub struct PeerTable {
    pub(crate) table: TableUse,
}

impl PeerTable {
    /// The rank that has the shard of the host of `comm`'s own rank: the first of them.
    pub fn leader(comm: &dyn Comm) -> usize {
        let host = comm.host_of(comm.rank());
        (0..comm.size()).find(|rank| comm.host_of(*rank) == host).unwrap_or(comm.rank())
    }

    /// Opens a table over the parts of all hosts, in which whichever rank reads a block first places it. Leaders bring their hosts'
    /// parts, which may hold blocks already. Collective: an error is one on all ranks.
    pub fn open(
        comm: Arc<dyn Comm>,
        shard: Option<&HostShard>,
        stats: &Arc<PeerStats>,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let is_leader = Self::leader(&*comm) == comm.rank();
        let shard = shard.filter(|_| is_leader);
        let memory = match shard {
            Some(shard) => Ok(Arc::clone(&shard.memory)),
            None => ShardMemory::new(0, &ShardPlace::Memory).map(Arc::new),
        };
        let shape = shard.map_or(TableShape { slots: 0, slot_len: 1 }, |shard| shard.shape);
        Self::open_parts(comm, (memory, shape), stats, wait)
    }

    /// Opens a table with what this rank brings: a rank that has nothing says so to the others, who would wait for it.
    fn open_parts(
        comm: Arc<dyn Comm>,
        (memory, shape): (Result<Arc<ShardMemory>>, TableShape),
        stats: &Arc<PeerStats>,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let memory = agree(&*comm, memory, wait)?;
        let window = comm.window(memory, wait)?;
        let said = [shape.slots.to_le_bytes(), shape.slot_len.to_le_bytes()].concat();
        let all = comm.all_gather(said, wait)?;
        window.publish(wait)?;
        let mut parts: Vec<TablePart> = Vec::new();
        for (leader, said) in all.iter().enumerate() {
            let is_first = parts.iter().all(|part| comm.host_of(part.leader) != comm.host_of(leader));
            if is_first {
                parts.push(TablePart { leader, shape: shape_of(said)? });
            }
        }
        Ok(Self::over(TableView::new((comm, window), parts, PlacedBy::AnyRank, Arc::clone(stats))))
    }

    /// Opens a table to which every rank gives `quota` bytes, and in which each block has one home rank that places it. Collective;
    /// `quota` and `block_len` are the same on every rank.
    pub(crate) fn with_homes(
        comm: Arc<dyn Comm>,
        quota: u64,
        block_len: u64,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let shape = TableShape::new(quota, block_len);
        let memory = memory_of_all(&*comm, shape.byte_len(), wait)?;
        let window = comm.window(Arc::new(memory), wait)?;
        // An empty table is all zeros, as new memory is.
        window.publish(wait)?;
        let parts = (0..comm.size()).map(|leader| TablePart { leader, shape }).collect();
        Ok(Self::over(TableView::new((comm, window), parts, PlacedBy::HomeRank, Arc::default())))
    }

    fn over(view: TableView) -> Self {
        Self { table: TableUse::new(Arc::new(view)) }
    }

    /// The same memory for another use, which ends by itself.
    pub(crate) fn again(&self) -> Self {
        Self { table: TableUse::new(Arc::clone(&self.table.view)) }
    }

    /// The blocks of `source`.
    pub fn blocks(&self, source: &SourceId) -> Arc<PeerBlocks> {
        Arc::new(PeerBlocks::new(source, &self.table))
    }

    /// True where this rank has a part to place blocks in.
    pub fn has_room(&self) -> bool {
        self.table.own_table().is_some()
    }

    /// Gives up the window; the memory stays with those who brought it. Collective.
    pub fn close(&self, wait: &Wait<'_>) -> Result<()> {
        self.table.end();
        let view = &self.table.view;
        if view.close() { view.window.close(wait) } else { Ok(()) }
    }
}

fn shape_of(said: &[u8]) -> Result<TableShape> {
    let word = |at: usize| said.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let shape = word(0).zip(word(8)).map(|(slots, slot_len)| TableShape { slots, slot_len });
    shape.ok_or_else(|| Error::corrupt("what a rank says of its shard cannot be read"))
}

/// `len` bytes on this rank, where every rank has them; else the same error on all, so that none waits for the others.
fn memory_of_all(comm: &dyn Comm, len: u64, wait: &Wait<'_>) -> Result<ShardMemory> {
    let memory = ShardMemory::new(len, &ShardPlace::Memory);
    let failure = memory.as_ref().err().map(|error| format!("{len} bytes: {error}")).unwrap_or_default();
    let failures = comm.all_gather(failure.into_bytes(), wait)?;
    match failures.iter().position(|failure| !failure.is_empty()) {
        Some(rank) => {
            let why = String::from_utf8_lossy(&failures[rank]);
            let error =
                Error::new(ErrorKind::Full, format!("rank {rank} lacks memory for its table of {why}"));
            Err(error.hint("give the tier of peers less memory"))
        }
        None => memory,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_store::LocalComm;

    use super::*;

    #[test]
    fn a_rank_without_memory_is_an_error_on_all_and_none_waits_for_it() {
        let stats = &Arc::default();
        let errors = LocalComm::run(&[0, 0, 1], |comm| {
            let memory = match comm.rank() {
                1 => Err(Error::new(ErrorKind::Io, "too many open files")),
                _ => ShardMemory::new(0, &ShardPlace::Memory).map(Arc::new),
            };
            let shape = TableShape { slots: 0, slot_len: 1 };
            let wait = Wait::at_most(Duration::from_secs(300));
            let opened = PeerTable::open_parts(Arc::clone(&comm), (memory, shape), stats, &wait);
            comm.barrier(&wait).unwrap();
            opened.unwrap_err().to_string()
        });
        assert!(errors.iter().all(|error| error.contains("too many open files")), "{errors:?}");
    }
}
