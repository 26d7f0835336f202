//! The shards of all ranks: those of this host by loads, those of others by gets of MPI.

mod remote_gets;
pub(crate) mod rma;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{Ordering::SeqCst, fence},
    },
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{ShardMemory, Wait, Window, WindowRead};

use crate::{
    calls::{ranks::Ranks, window_use::WindowUse},
    window::{remote_gets::RemoteGets, rma::RemoteWindow},
};

/// A window over the ranks of an [`MpiComm`](crate::comm::MpiComm).
pub(crate) struct MpiWindow {
    pub(crate) ranks: Arc<Ranks>,
    /// Of ranks of this host.
    pub(crate) shared: Vec<Option<Arc<ShardMemory>>>,
    /// Lengths of all shards.
    pub(crate) lens: Vec<u64>,
    /// For ranks of other hosts, where there are any.
    pub(crate) remote: Option<RemoteWindow>,
    pub(crate) usage: Arc<WindowUse>,
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

impl MpiWindow {
    /// Reads what `chosen` names of ranks of other hosts.
    fn get_remote(&self, reads: &mut [WindowRead<'_>], chosen: &[usize], wait: &Wait<'_>) -> Result<()> {
        self.ranks.check_callable()?;
        // The window is not freed before it ends.
        let _reader = self.usage.enter()?;
        let missing = || Error::new(ErrorKind::Bug, "no window to ranks of other hosts");
        let remote = self.remote.as_ref().ok_or_else(missing)?;
        RemoteGets::new(&self.ranks, (remote.handle, &self.usage), reads, chosen).fill(wait);
        Ok(())
    }
}

impl Window for MpiWindow {
    fn publish(&self, wait: &Wait<'_>) -> Result<()> {
        let calls = self.ranks.collectively(wait)?;
        // What this rank stored comes before what others load after the barrier.
        fence(SeqCst);
        if let Some(remote) = &self.remote {
            calls.in_step(remote.sync(&self.ranks))?;
        }
        calls.barrier(wait)?;
        if let Some(remote) = &self.remote {
            calls.in_step(remote.sync(&self.ranks))?;
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
        if let Err(error) = self.get_remote(reads, &remote, wait) {
            remote.iter().for_each(|index| reads[*index].outcome = Err(error.clone()));
        }
    }

    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        if self.usage.check_open().is_err() {
            return Ok(());
        }
        let calls = self.ranks.collectively(wait)?;
        if !self.usage.close() {
            return Ok(());
        }
        // Reads of other threads may have been given up since: the barrier would do, but the window is freed behind it.
        calls.in_step(self.usage.await_readers(wait).and_then(|()| self.ranks.await_late(wait)))?;
        // No rank gets from this one any more once all are here.
        calls.barrier(wait)?;
        match &self.remote {
            Some(remote) => calls.in_step(remote.free(&self.ranks)),
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
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}
