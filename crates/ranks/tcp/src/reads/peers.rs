//! Connections to other ranks for reads: made when they are needed first, kept, and never used by two threads at once.

use std::{
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use forebay_process::{Error, Result};
use forebay_store::{Wait, gone};
use rustix::{
    event::PollFlags,
    net::sockopt::{Timeout, set_socket_timeout},
};

use crate::{
    connection::{
        call::{Call, CallStep, Caller},
        sockets::enlarge_receive_buffer,
    },
    handshake::ConnectionPurpose,
};

/// Whether a rank is known to run no more.
pub(crate) type IsGone<'a> = &'a dyn Fn(usize) -> bool;

/// The connections of one process to all ranks of other hosts.
#[derive(Debug)]
pub(crate) struct Peers {
    caller: Caller,
    peers: Vec<ReadPeer>,
    most: usize,
}

#[derive(Debug)]
struct ReadPeer {
    address: SocketAddr,
    connections: Mutex<PeerConnections>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct PeerConnections {
    idle: Vec<OwnedFd>,
    /// Those in use, too.
    open: usize,
}

/// Connections of a small job to one rank: so many threads read of it at once. Large jobs have one, since a rank of a thousand
/// has a thousand of them anyway.
const MOST_CONNECTIONS: usize = 4;

impl Peers {
    pub(crate) fn new(caller: Caller, addresses: &[SocketAddr]) -> Self {
        let peer = |address: &SocketAddr| ReadPeer {
            address: *address,
            connections: Mutex::default(),
            freed: Condvar::new(),
        };
        let most = (256 / addresses.len().max(1)).clamp(1, MOST_CONNECTIONS);
        Self { caller, peers: addresses.iter().map(peer).collect(), most }
    }

    /// A connection to `rank`, for the caller alone until it is dropped; a new one is still to be made. A thread takes those of
    /// several ranks in ascending order: two that wait for each other would wait for ever.
    pub(crate) fn lease(
        self: &Arc<Self>,
        rank: usize,
        is_gone: IsGone<'_>,
        wait: &Wait<'_>,
    ) -> Result<Lease> {
        let socket = self.peers[rank].take(self.most, || match is_gone(rank) {
            true => Err(gone(rank)),
            false => wait.go_on(|| format!("other threads wait for rank {rank}")).map(|()| wait.step()),
        })?;
        // From now on dropping it counts one less, whether there is a connection or not.
        let mut lease = Lease { peers: Arc::clone(self), rank, socket, call: None, is_sound: false };
        if lease.socket.is_none() {
            let address = self.peers[rank].address;
            lease.call = Some(self.caller.start(ConnectionPurpose::Reads, rank, address)?);
        }
        Ok(lease)
    }
}

impl ReadPeer {
    /// A connection that nobody uses; nothing where there may be one more than the `most` that there are. Before every wait
    /// `go_on` says how long it may be.
    fn take(&self, most: usize, go_on: impl Fn() -> Result<Duration>) -> Result<Option<OwnedFd>> {
        let mut connections = self.lock();
        loop {
            if let Some(socket) = connections.idle.pop() {
                return Ok(Some(socket));
            }
            if connections.open < most {
                connections.open += 1;
                return Ok(None);
            }
            let step = go_on()?;
            connections =
                self.freed.wait_timeout(connections, step).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, PeerConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use, or one that is made to be used. It blocks for at most [`Wait::STEP`].
#[derive(Debug)]
pub(crate) struct Lease {
    peers: Arc<Peers>,
    rank: usize,
    socket: Option<OwnedFd>,
    call: Option<Call>,
    is_sound: bool,
}

impl Lease {
    /// The connection, once it is made.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// What to wait for before a connection can be made further.
    pub(crate) fn awaited(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.call.as_ref().map(|call| (call.socket(), call.awaited()))
    }

    /// Goes on making the connection; true once there is one.
    pub(crate) fn connect(&mut self) -> Result<bool> {
        let Some(call) = &mut self.call else { return Ok(true) };
        match call.go_on()? {
            CallStep::Waiting => return Ok(false),
            CallStep::TurnedAway => return Err(call.turned_away()),
            CallStep::LetIn => {}
        }
        self.socket = self.call.take().map(Call::into_socket);
        if let Some(socket) = &self.socket {
            let prepared = rustix::io::ioctl_fionbio(socket, false)
                .and_then(|()| set_socket_timeout(socket, Timeout::Recv, Some(Wait::STEP)));
            prepared.map_err(|errno| Error::from_io(errno.into()))?;
            enlarge_receive_buffer(socket.as_fd());
        }
        Ok(true)
    }

    /// Gives it back to be used again: all that was asked on it was answered.
    pub(crate) fn give_back(mut self) {
        self.is_sound = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let peer = &self.peers.peers[self.rank];
        let mut connections = peer.lock();
        match self.socket.take().filter(|_| self.is_sound) {
            Some(socket) => connections.idle.push(socket),
            None => connections.open -= 1,
        }
        peer.freed.notify_one();
    }
}
