//! What one rank has of a communicator over TCP: its connections, the shards that it serves, and who is gone.

use std::{
    net::SocketAddr,
    ops::Range,
    sync::{Arc, atomic::AtomicU64},
};

use forebay_process::{Error, ErrorKind, PerProcess, ProcessIdentity, Result};
use forebay_store::{NodeLink, RankState, Star, StarCall, StarMessage, Wait};
use serde::Serialize;

use crate::{
    comm::acceptor::Acceptor,
    connection::call::Caller,
    reads::{peers::Peers, server::ServedWindows},
};

/// One rank.
#[derive(Debug)]
pub(crate) struct TcpRank {
    pub(crate) rank: usize,
    pub(crate) hosts: Vec<usize>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) caller: Caller,
    // Dropped first: it tells the others that this rank leaves.
    pub(crate) star: Star,
    pub(crate) link: Arc<NodeLink>,
    pub(crate) _acceptor: Acceptor,
    pub(crate) windows: Arc<ServedWindows>,
    pub(crate) next_window: AtomicU64,
    pub(crate) process: ProcessIdentity,
    /// A forked child has connections of its own: two processes that read from one socket would get parts of each other's bytes.
    pub(crate) peers: PerProcess<Arc<Peers>>,
}

impl TcpRank {
    /// What all ranks bring. Collective.
    pub(crate) fn exchange(&self, call: StarCall, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        let mine = StarMessage { bytes, descriptors: Vec::new() };
        Ok(self.star.exchange(call, mine, wait)?.into_iter().map(|message| message.bytes).collect())
    }

    /// The first of `ranks` that runs no more.
    pub(crate) fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        let states = self.star.states();
        let told = match states.all_run() {
            true => None,
            false => ranks.clone().find(|rank| states.get(*rank) == RankState::Gone),
        };
        let seen = self.link.first_gone(ranks);
        told.into_iter().chain(seen).min()
    }
}

/// What ranks say to each other, as bytes.
pub(crate) fn message(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value)
        .map_err(|error| Error::new(ErrorKind::Bug, "a message cannot be written").because(error))
}

/// What another rank said.
pub(crate) fn received<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|error| Error::corrupt("a message of another rank cannot be read").because(error))
}
