//! The memory of all ranks as one of them reads it: that of its own host mapped, that of others over TCP.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use forebay_process::{Error, ErrorKind, Result, current_process};
use forebay_store::{ShardMemory, StarCall, Wait, Window, WindowRead, gone};
use serde::{Deserialize, Serialize};

use crate::{
    comm::tcp_rank::{TcpRank, message, received},
    reads::{
        peers::Peers,
        transfer::{RemotePiece, Transfer, complete},
    },
};

/// The shards of all ranks: those of this host mapped, those of others behind a connection.
#[derive(Debug)]
pub(crate) struct TcpWindow {
    inner: Arc<TcpRank>,
    /// By which others ask this rank for bytes of it.
    number: u64,
    told: Vec<ToldShard>,
    shards: BTreeMap<usize, Arc<ShardMemory>>,
}

/// What a rank tells the others of its shard. The number is its own: ranks may have opened windows in vain, and count apart.
#[derive(Debug, Serialize, Deserialize)]
struct ToldShard {
    len: u64,
    number: u64,
}

impl TcpWindow {
    /// The window of which `mine` is the shard of this rank. Collective.
    pub(crate) fn open(inner: &Arc<TcpRank>, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Self> {
        let number = inner.next_window.fetch_add(1, SeqCst);
        inner.windows.add(number, Arc::clone(&mine));
        // From now on dropping it closes what was opened.
        let mut window = Self { inner: Arc::clone(inner), number, told: Vec::new(), shards: BTreeMap::new() };
        let shared = inner.link.share(&mine, wait);
        let own = shared.as_ref().map(|_| ToldShard { len: mine.len(), number });
        let told = inner.exchange(StarCall::Share, message(&own.map_err(ToString::to_string))?, wait)?;
        window.shards = inner.link.members().iter().copied().zip(shared?).collect();
        for (rank, told) in told.iter().enumerate() {
            let told: Result<ToldShard, String> = received(told)?;
            let failed = |what| Error::new(ErrorKind::Unavailable, format!("rank {rank}: {what}"));
            window.told.push(told.map_err(failed)?);
        }
        Ok(window)
    }

    /// Makes sure that every piece lies within the shard of a rank that runs.
    fn check(&self, read: &WindowRead<'_>) -> Result<()> {
        let told = self.told.get(read.rank);
        let len = told.ok_or_else(|| Error::invalid(format!("there is no rank {}", read.rank)))?.len;
        for piece in &read.pieces {
            if piece.offset.checked_add(piece.into.len() as u64).is_none_or(|end| end > len) {
                let what =
                    format!("{} bytes at {} of a shard of {len} bytes", piece.into.len(), piece.offset);
                return Err(Error::invalid(what).at(format!("rank {}", read.rank)));
            }
        }
        match self.inner.first_gone(read.rank..read.rank + 1) {
            None => Ok(()),
            Some(rank) => Err(gone(rank)),
        }
    }

    fn peers(&self) -> Arc<Peers> {
        let make = || Arc::new(Peers::new(self.inner.caller.clone(), &self.inner.addresses));
        Arc::clone(&self.inner.peers.get(make))
    }
}

/// Pieces of one rank, and the outcomes of the reads that they are of.
type RankReads<'a> = (Vec<RemotePiece<'a>>, Vec<&'a mut Result<()>>);

impl Window for TcpWindow {
    fn publish(&self, wait: &Wait<'_>) -> Result<()> {
        self.inner.exchange(StarCall::Barrier, Vec::new(), wait).map(drop)
    }

    fn shared(&self, rank: usize) -> Option<&ShardMemory> {
        self.shards.get(&rank).map(|shard| &**shard)
    }

    fn get(&self, reads: &mut [WindowRead<'_>], wait: &Wait<'_>) {
        let mut remote: BTreeMap<usize, RankReads<'_>> = BTreeMap::new();
        for read in reads {
            if let Some(shard) = self.shards.get(&read.rank) {
                read.outcome =
                    read.pieces.iter_mut().try_for_each(|piece| shard.copy_to(piece.offset, piece.into));
                continue;
            }
            read.outcome = self.check(read);
            if read.outcome.is_ok() {
                let (pieces, outcomes) = remote.entry(read.rank).or_default();
                let filled = read.pieces.iter_mut().filter(|piece| !piece.into.is_empty());
                pieces.extend(filled.map(|piece| (piece.offset, &mut *piece.into)));
                outcomes.push(&mut read.outcome);
            }
        }
        remote.retain(|_, (pieces, _)| !pieces.is_empty());
        if remote.is_empty() {
            return;
        }
        let peers = self.peers();
        let mut transfers = Vec::with_capacity(remote.len());
        let mut told = Vec::with_capacity(remote.len());
        let is_gone = |rank: usize| self.inner.first_gone(rank..rank + 1).is_some();
        for (rank, (pieces, outcomes)) in remote {
            match peers.lease(rank, &is_gone, wait) {
                Ok(lease) => {
                    transfers.push(Transfer::new((rank, self.told[rank].number), lease, pieces, *wait));
                    told.push(outcomes);
                }
                Err(error) => outcomes.into_iter().for_each(|outcome| *outcome = Err(error.clone())),
            }
        }
        for (outcome, told) in complete(transfers, &is_gone).into_iter().zip(told) {
            told.into_iter().for_each(|place| *place = outcome.clone());
        }
    }

    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        let closed = self.inner.exchange(StarCall::Barrier, Vec::new(), wait).map(drop);
        self.inner.windows.remove(self.number);
        closed
    }
}

impl Drop for TcpWindow {
    fn drop(&mut self) {
        // In a forked child nobody is served, and a thread of the parent may have held the lock for ever.
        if current_process() == self.inner.process {
            self.inner.windows.remove(self.number);
        }
    }
}
