//! Connections to other ranks for reads: made when they are needed first, kept, and never used by two threads at once.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use forebay_source::{Error, ErrorKind, Result};
use forebay_store::Wait;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::{
    handshake::{Challenge, ConnectionPurpose, Hello},
    secret::JobKey,
    sockets::{connect_to, receive_exact, send_all},
};

/// Where the other ranks listen, and what one needs to be let in.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) rank: usize,
    pub(crate) from: IpAddr,
    pub(crate) key: JobKey,
}

/// How long one waits before it tries again to connect to a rank that does not listen yet, or is too busy to answer.
const RETRY: Duration = Duration::from_millis(20);

impl Caller {
    /// A connection to `rank`, which listens at `address`; tried until it succeeds while `may_start` says that it may still
    /// have to start.
    pub(crate) fn call(
        &self,
        purpose: ConnectionPurpose,
        (rank, address): (usize, SocketAddr),
        may_start: bool,
        wait: &Wait<'_>,
    ) -> Result<OwnedFd> {
        loop {
            if let Some(socket) = self.try_call(purpose, rank, address, wait)? {
                return Ok(socket);
            }
            if !may_start {
                let what = format!("rank {rank} is gone: nobody listens at {address}");
                return Err(Error::new(ErrorKind::Unavailable, what).hint("see its output for the reason"));
            }
            wait.go_on(|| format!("rank {rank} does not let this rank in"))?;
            thread::sleep(wait.step().min(RETRY));
        }
    }

    fn try_call(
        &self,
        purpose: ConnectionPurpose,
        rank: usize,
        address: SocketAddr,
        wait: &Wait<'_>,
    ) -> Result<Option<OwnedFd>> {
        let named = |error: Error| error.at(format!("rank {rank}"));
        let number = |rank: usize| u32::try_from(rank).map_err(|_| Error::invalid("more than 2^32 ranks"));
        let Some(socket) = connect_to(address, self.from, wait).map_err(named)? else { return Ok(None) };
        let hello = Hello::new(purpose, number(self.rank)?, number(rank)?)?;
        if !send_all(socket.as_fd(), &hello.to_bytes(), wait).map_err(named)? {
            return Ok(None);
        }
        let Some(challenge) = receive_exact(socket.as_fd(), wait).map_err(named)? else { return Ok(None) };
        let code = Challenge::answer(&challenge, &hello, &self.key)?;
        if !send_all(socket.as_fd(), &code, wait).map_err(named)? {
            return Ok(None);
        }
        match receive_exact::<1>(socket.as_fd(), wait).map_err(named)? {
            Some(_) => Ok(Some(socket)),
            None => {
                let what = format!("rank {rank} does not take this rank for one of the job");
                Err(Error::new(ErrorKind::Denied, what)
                    .hint("give the same secret file and job to all ranks"))
            }
        }
    }
}

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

    /// A connection to `rank`, for the caller alone until it is dropped. A thread takes those of several ranks in ascending
    /// order: two that wait for each other would wait for ever.
    pub(crate) fn lease(self: &Arc<Self>, rank: usize, wait: &Wait<'_>) -> Result<Lease> {
        let peer = &self.peers[rank];
        let mut connections = peer.lock();
        loop {
            if let Some(socket) = connections.idle.pop() {
                return Ok(Lease { peers: Arc::clone(self), rank, socket: Some(socket), is_sound: false });
            }
            if connections.open < self.most {
                break;
            }
            wait.go_on(|| format!("other threads wait for rank {rank}"))?;
            connections =
                peer.freed.wait_timeout(connections, wait.step()).unwrap_or_else(PoisonError::into_inner).0;
        }
        connections.open += 1;
        drop(connections);
        // From now on dropping it counts one less, whether there is a connection or not.
        let mut lease = Lease { peers: Arc::clone(self), rank, socket: None, is_sound: false };
        let socket = self.caller.call(ConnectionPurpose::Reads, (rank, peer.address), false, wait)?;
        let prepared = rustix::io::ioctl_fionbio(&socket, false)
            .and_then(|()| set_socket_timeout(&socket, Timeout::Recv, Some(Wait::STEP)));
        prepared.map_err(|errno| Error::from_io(errno.into()))?;
        lease.socket = Some(socket);
        Ok(lease)
    }
}

impl ReadPeer {
    fn lock(&self) -> MutexGuard<'_, PeerConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. It blocks for at most [`Wait::STEP`].
#[derive(Debug)]
pub(crate) struct Lease {
    peers: Arc<Peers>,
    rank: usize,
    socket: Option<OwnedFd>,
    is_sound: bool,
}

impl Lease {
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
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
