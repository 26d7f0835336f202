//! The shards of all ranks: those of this host by loads, those of others by gets of MPI.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst, fence},
    },
};

use forebay_source::{Error, Result};
use forebay_store::{ShardMemory, Wait, Window, WindowRead};

use crate::{ranks::Ranks, rma::RemoteWindow};

/// A window over the ranks of an [`MpiComm`](crate::MpiComm).
pub(crate) struct MpiWindow {
    pub(crate) ranks: Arc<Ranks>,
    /// Of ranks of this host.
    pub(crate) shared: Vec<Option<Arc<ShardMemory>>>,
    /// Lengths of all shards.
    pub(crate) lens: Vec<u64>,
    /// For ranks of other hosts, where there are any.
    pub(crate) remote: Option<RemoteWindow>,
    pub(crate) is_closed: AtomicBool,
}

impl MpiWindow {
    fn check(&self, read: &WindowRead<'_>) -> Result<()> {
        let Some(len) = self.lens.get(read.rank) else {
            return Err(Error::invalid(format!("rank {} of {}", read.rank, self.lens.len())));
        };
        let beyond = read
            .pieces
            .iter()
            .find(|piece| piece.offset.checked_add(piece.into.len() as u64).is_none_or(|end| end > *len));
        beyond.map_or(Ok(()), |piece| {
            let what = format!("{} bytes at {} of a shard of {len} bytes", piece.into.len(), piece.offset);
            Err(Error::invalid(what).at(format!("rank {}", read.rank)))
        })
    }

    /// What is read of ranks of other hosts: those behind this rank first, so that not all ranks ask the same one at once.
    fn remote_reads(&self, reads: &[WindowRead<'_>]) -> Vec<usize> {
        let mut remote: Vec<usize> = (0..reads.len()).filter(|index| reads[*index].outcome.is_ok()).collect();
        remote.retain(|index| self.shared[reads[*index].rank].is_none());
        let (own, size) = (self.ranks.rank, self.ranks.size);
        remote.sort_by_key(|index| (reads[*index].rank + size - own) % size);
        remote
    }
}

impl Window for MpiWindow {
    fn publish(&self, wait: &Wait<'_>) -> Result<()> {
        // What this rank stored comes before what others load after the barrier.
        fence(SeqCst);
        if let Some(remote) = &self.remote {
            self.ranks.check_callable()?;
            remote.sync(&self.ranks)?;
        }
        self.ranks.barrier(wait)?;
        if let Some(remote) = &self.remote {
            remote.sync(&self.ranks)?;
        }
        fence(SeqCst);
        Ok(())
    }

    fn shared(&self, rank: usize) -> Option<&ShardMemory> {
        self.shared.get(rank)?.as_deref()
    }

    fn get(&self, reads: &mut [WindowRead<'_>], wait: &Wait<'_>) {
        for read in reads.iter_mut() {
            read.outcome = self.check(read).and_then(|()| match self.shared(read.rank) {
                Some(shard) => {
                    read.pieces.iter_mut().try_for_each(|piece| shard.copy_to(piece.offset, piece.into))
                }
                None => Ok(()),
            });
        }
        let remote = self.remote_reads(reads);
        if remote.is_empty() {
            return;
        }
        let closed = || Error::invalid("the window is closed");
        let is_open = !self.is_closed.load(SeqCst);
        let window = self.remote.as_ref().filter(|_| is_open).ok_or_else(closed);
        match self.ranks.check_callable().and(window) {
            Ok(window) => window.get(&self.ranks, reads, &remote, wait),
            Err(error) => {
                let (kind, what) = (error.kind(), error.to_string());
                remote.iter().for_each(|index| reads[*index].outcome = Err(Error::new(kind, what.clone())));
            }
        }
    }

    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        if self.is_closed.swap(true, SeqCst) {
            return Ok(());
        }
        // No rank gets from this one any more once all are here.
        self.ranks.barrier(wait)?;
        match &self.remote {
            Some(remote) => remote.free(&self.ranks).inspect_err(|error| self.ranks.break_off(error)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for MpiWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.shared.iter().flatten().count();
        f.debug_struct("MpiWindow")
            .field("lens", &self.lens)
            .field("shared", &shared)
            .field("is_unified", &self.remote.as_ref().map(RemoteWindow::is_unified))
            .finish_non_exhaustive()
    }
}
