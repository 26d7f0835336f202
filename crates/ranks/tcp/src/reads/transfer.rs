//! Reads of other ranks in flight: all requests are sent, then all answers are received straight into their places.

use std::{io::IoSliceMut, time::Duration};

use forebay_process::Result;
use forebay_store::{FrameHeader, FrameKind, Wait};
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvFlags, SendFlags, recvmsg},
};

use crate::{
    connection::{
        loss_watch::LossWatch,
        sockets::{closed, poll_for},
    },
    reads::{
        peers::{IsGone, Lease},
        read_request::{MOST_PIECES, PieceRequest, check_answer, request_len},
    },
};

/// A piece of a shard, and where it goes.
pub(crate) type RemotePiece<'a> = (u64, &'a mut [u8]);

/// What is read of one rank over one connection.
#[derive(Debug)]
pub(crate) struct Transfer<'a> {
    rank: usize,
    window: u64,
    lease: Lease,
    loss: LossWatch,
    /// How long nothing may come; it begins anew with every byte.
    wait: Wait<'a>,
    /// The bound on what is done now.
    current: Wait<'a>,
    pieces: Vec<RemotePiece<'a>>,
    /// The request that goes out, and how much of it has.
    request: Vec<u8>,
    sent: usize,
    /// Pieces that were asked for.
    asked: usize,
    /// The frame that comes in.
    header: [u8; FrameHeader::LEN],
    header_len: usize,
    /// Where the next byte goes: a piece, and a place in it.
    piece: usize,
    within: usize,
}

/// How long a rank may take to let this one in.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// Pieces that one call receives; Linux takes 1,024.
const MOST_VECTORS: usize = 256;

impl<'a> Transfer<'a> {
    /// Pieces of a rank's window by its number, that each have at least one byte.
    pub(crate) fn new(
        (rank, window): (usize, u64),
        lease: Lease,
        pieces: Vec<RemotePiece<'a>>,
        wait: Wait<'a>,
    ) -> Self {
        let header = [0; FrameHeader::LEN];
        let mut transfer = Self {
            rank,
            window,
            lease,
            loss: LossWatch::default(),
            wait,
            current: wait,
            pieces,
            request: Vec::new(),
            sent: 0,
            asked: 0,
            header,
            header_len: 0,
            piece: 0,
            within: 0,
        };
        // The wait for a free connection has taken none of the time for bytes.
        transfer.current = transfer.fresh_wait();
        transfer
    }

    /// Makes the connection, as far as that goes now; true once there is one.
    fn connect(&mut self) -> Result<bool> {
        let was_connected = self.lease.socket().is_some();
        let is_connected = self.lease.connect()?;
        if is_connected && !was_connected {
            self.current = self.fresh_wait();
        }
        Ok(is_connected)
    }

    /// The bound on what is done now, from its beginning.
    fn fresh_wait(&self) -> Wait<'a> {
        match self.lease.socket() {
            Some(_) => self.wait.renewed(),
            None => self.wait.renewed().shortened(CONNECT_PATIENCE),
        }
    }

    fn can_go_on(&self) -> bool {
        let mut polled: Vec<_> = self.awaited().into_iter().collect();
        poll_for(&mut polled, Duration::ZERO).is_ok()
            && polled.iter().any(|polled| !polled.revents().is_empty())
    }

    /// What is to be polled, and for what; nothing where there is no socket.
    fn awaited(&self) -> Option<PollFd<'_>> {
        if let Some((socket, events)) = self.lease.awaited() {
            return Some(PollFd::from_borrowed_fd(socket, events));
        }
        let sending = if self.is_asking() { PollFlags::OUT } else { PollFlags::empty() };
        Some(PollFd::from_borrowed_fd(self.lease.socket()?, PollFlags::IN | sending))
    }

    /// An error where the other rank is gone, its node lost, or nothing has come for too long.
    fn check(&mut self, is_gone: IsGone<'_>) -> Result<()> {
        if is_gone(self.rank) {
            return Err(forebay_store::gone(self.rank));
        }
        if self.current.step().is_zero() && self.can_go_on() {
            // This process was stopped itself: what it waited for is there.
            self.current = self.fresh_wait();
        }
        let Some(socket) = self.lease.socket() else {
            return self.current.go_on(|| format!("rank {} does not let this rank in", self.rank));
        };
        if self.loss.is_lost(socket) {
            return Err(closed(self.rank, Errno::TIMEDOUT));
        }
        self.current.go_on(|| format!("rank {} does not answer a read", self.rank))
    }

    fn is_done(&self) -> bool {
        self.piece == self.pieces.len()
    }

    fn is_asking(&self) -> bool {
        self.sent < self.request.len() || self.asked < self.pieces.len()
    }

    /// Sends as much of the requests as the socket takes.
    fn send(&mut self) -> Result<()> {
        if !self.connect()? {
            return Ok(());
        }
        while self.is_asking() {
            if self.sent == self.request.len() {
                self.next_request();
            }
            let socket = self.lease.socket().ok_or_else(|| closed(self.rank, Errno::PIPE))?;
            match rustix::net::send(
                socket,
                &self.request[self.sent..],
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(len) => self.sent += len,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(errno) => return Err(closed(self.rank, errno)),
            }
        }
        Ok(())
    }

    fn next_request(&mut self) {
        let end = self.pieces.len().min(self.asked + MOST_PIECES);
        let pieces = &self.pieces[self.asked..end];
        self.request.clear();
        self.sent = 0;
        let header = FrameHeader::new(FrameKind::Read, self.asked as u64, request_len(pieces.len()));
        self.request.extend(header.to_bytes());
        let pieces = pieces.iter().map(|(offset, into)| (*offset, into.len() as u64));
        PieceRequest::write(&mut self.request, self.window, pieces);
        self.asked = end;
    }

    /// Receives once; true when there may be more at once. With `WAITALL` it waits for all, up to a step.
    fn receive(&mut self, flags: RecvFlags) -> Result<bool> {
        let first = self.piece / MOST_PIECES * MOST_PIECES;
        let end = self.pieces.len().min(first + MOST_PIECES);
        let socket = self.lease.socket().ok_or_else(|| closed(self.rank, Errno::PIPE))?;
        let mut wanted = FrameHeader::LEN - self.header_len;
        let mut into = Vec::with_capacity(MOST_VECTORS.min(end - self.piece + 1));
        if wanted > 0 {
            into.push(IoSliceMut::new(&mut self.header[self.header_len..]));
        }
        let mut within = self.within;
        for (_, piece) in self.pieces[self.piece..end].iter_mut().take(MOST_VECTORS - 1) {
            let rest = &mut piece[std::mem::take(&mut within)..];
            wanted = wanted.saturating_add(rest.len());
            into.push(IoSliceMut::new(rest));
        }
        match recvmsg(socket, &mut into, &mut RecvAncillaryBuffer::default(), flags) {
            Ok(received) if received.bytes == 0 => Err(closed(self.rank, Errno::PIPE)),
            Ok(received) => {
                self.current = self.fresh_wait();
                self.advance(received.bytes, first, end)?;
                Ok(received.bytes == wanted)
            }
            Err(Errno::INTR | Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(closed(self.rank, errno)),
        }
    }

    /// Takes `len` bytes that came for the frame of the pieces from `first` to `end`.
    fn advance(&mut self, mut len: usize, first: usize, end: usize) -> Result<()> {
        let of_header = len.min(FrameHeader::LEN - self.header_len);
        if of_header > 0 {
            self.header_len += of_header;
            len -= of_header;
            if self.header_len < FrameHeader::LEN {
                return Ok(());
            }
            let total = self.pieces[first..end].iter().map(|(_, into)| into.len() as u64).sum();
            check_answer(&self.header, self.rank, first as u64, total)?;
        }
        while len > 0 {
            let left = self.pieces[self.piece].1.len() - self.within;
            if len < left {
                self.within += len;
                break;
            }
            len -= left;
            (self.piece, self.within) = (self.piece + 1, 0);
        }
        if self.piece == end {
            self.header_len = 0;
        }
        Ok(())
    }
}

/// Completes all transfers; gives the outcome of each, in their order.
pub(crate) fn complete(transfers: Vec<Transfer<'_>>, is_gone: IsGone<'_>) -> Vec<Result<()>> {
    let mut running: Vec<(usize, Transfer<'_>)> = transfers.into_iter().enumerate().collect();
    let mut outcomes: Vec<Result<()>> = running.iter().map(|_| Ok(())).collect();
    step(&mut running, &mut outcomes, &mut |transfer| transfer.send());
    while !running.is_empty() {
        match &mut running[..] {
            // One rank: the system waits and copies in one call.
            [(_, transfer)] if !transfer.is_asking() => {
                let received = transfer.receive(RecvFlags::WAITALL);
                step(&mut running, &mut outcomes, &mut |_| received.clone().map(drop));
            }
            _ => {
                let ready = ready(&running);
                let mut index = 0;
                step(&mut running, &mut outcomes, &mut |transfer| {
                    let is_ready = ready.get(index).copied().unwrap_or(false);
                    index += 1;
                    transfer.send()?;
                    let is_ready = is_ready && transfer.lease.socket().is_some();
                    while is_ready && !transfer.is_done() && transfer.receive(RecvFlags::DONTWAIT)? {}
                    Ok(())
                });
            }
        }
        step(&mut running, &mut outcomes, &mut |transfer| transfer.check(is_gone));
    }
    outcomes
}

/// Has each transfer go on; those that are done or fail leave the list.
fn step(
    running: &mut Vec<(usize, Transfer<'_>)>,
    outcomes: &mut [Result<()>],
    go_on: &mut dyn FnMut(&mut Transfer<'_>) -> Result<()>,
) {
    let mut kept = Vec::with_capacity(running.len());
    for (number, mut transfer) in running.drain(..) {
        match if transfer.is_done() { Ok(()) } else { go_on(&mut transfer) } {
            Ok(()) if transfer.is_done() => transfer.lease.give_back(),
            Ok(()) => kept.push((number, transfer)),
            Err(error) => outcomes[number] = Err(error),
        }
    }
    *running = kept;
}

/// Which of the transfers have something to read, or failed.
fn ready(running: &[(usize, Transfer<'_>)]) -> Vec<bool> {
    let mut polled: Vec<_> = running.iter().filter_map(|(_, transfer)| transfer.awaited()).collect();
    let step = running.iter().map(|(_, transfer)| transfer.current.step()).min();
    // Where the call fails, each of them is tried.
    match poll_for(&mut polled, step.unwrap_or(Wait::STEP)) {
        Ok(()) => polled.iter().map(|polled| polled.revents().intersects(!PollFlags::OUT)).collect(),
        Err(_) => vec![true; running.len()],
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Ipv4Addr, SocketAddr, TcpListener},
        sync::Arc,
        thread,
        time::Instant,
    };

    use forebay_process::ErrorKind;
    use forebay_store::JobName;

    use super::*;
    use crate::{
        connection::call::Caller,
        handshake::{
            Challenge, Hello,
            code::CODE_LEN,
            secret::{JobKey, Secret},
        },
        reads::peers::Peers,
    };

    fn key() -> JobKey {
        Secret::from_bytes(vec![7; 32]).expect("a secret").key_of(&JobName::new("job"), &[0; 32])
    }

    fn peers(addresses: &[SocketAddr]) -> Arc<Peers> {
        let caller = Caller { rank: 9, from: Ipv4Addr::LOCALHOST.into(), key: key() };
        Arc::new(Peers::new(caller, addresses))
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    /// Lets one rank in and answers one read of `len` bytes in ten parts, `pause` after each other.
    fn serve_slowly(listener: &TcpListener, len: usize, pause: Duration) {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut hello = [0; Hello::LEN];
        stream.read_exact(&mut hello).expect("a hello");
        let hello = Hello::parse(&hello).expect("one of ours");
        let challenge = Challenge::new(&hello, &key()).expect("random bytes");
        stream.write_all(&challenge.to_bytes()).expect("a challenge");
        stream.read_exact(&mut [0; CODE_LEN]).expect("a code");
        stream.write_all(&[1]).expect("welcome");
        stream.read_exact(&mut [0; FrameHeader::LEN + request_len(1)]).expect("a request");
        stream.write_all(&FrameHeader::new(FrameKind::Bytes, 0, len).to_bytes()).expect("a header");
        for _ in 0..10 {
            thread::sleep(pause);
            // Whoever has given up takes none.
            let _ = stream.write_all(&vec![5; len / 10]);
        }
    }

    fn read(peers: &Arc<Peers>, wait: Wait<'_>, into: &mut [&mut [u8]]) -> Vec<Result<()>> {
        let transfers = into.iter_mut().enumerate().map(|(rank, into)| {
            let lease = peers.lease(rank, &|_| false, &wait).expect("a free connection");
            Transfer::new((rank, 0), lease, vec![(0, &mut **into)], wait)
        });
        complete(transfers.collect(), &|_| false)
    }

    #[test]
    fn a_read_that_takes_longer_than_its_wait_succeeds_while_bytes_come() {
        let (listener, address) = listener();
        thread::scope(|scope| {
            scope.spawn(|| serve_slowly(&listener, 1000, Duration::from_millis(150)));
            let (started, mut into) = (Instant::now(), [0; 1000]);
            let outcomes =
                read(&peers(&[address]), Wait::at_most(Duration::from_millis(900)), &mut [&mut into]);
            outcomes[0].as_ref().expect("bytes came all the time");
            assert!(into == [5; 1000] && started.elapsed() > Duration::from_millis(1400));
        });
        thread::scope(|scope| {
            scope.spawn(|| serve_slowly(&listener, 1000, Duration::from_millis(300)));
            let outcomes =
                read(&peers(&[address]), Wait::at_most(Duration::from_millis(100)), &mut [&mut [0; 1000]]);
            let error = outcomes[0].as_ref().expect_err("nothing came for too long").to_string();
            assert!(error.contains("rank 0 does not answer"), "{error}");
        });
    }

    #[test]
    fn ranks_that_let_nobody_in_take_their_time_at_once_and_fail_no_other() {
        let (listener, address) = listener();
        let silent: Vec<_> = (0..4).map(|_| self::listener()).collect();
        let mut addresses: Vec<_> = silent.iter().map(|(_, address)| *address).collect();
        addresses.push(address);
        thread::scope(|scope| {
            scope.spawn(|| serve_slowly(&listener, 10, Duration::ZERO));
            let started = Instant::now();
            let mut into = [[0; 10]; 5];
            let mut into: Vec<&mut [u8]> = into.iter_mut().map(|into| &mut into[..]).collect();
            let outcomes = read(&peers(&addresses), Wait::at_most(Duration::from_secs(4)), &mut into);
            assert!(outcomes[4].is_ok() && into[4] == [5; 10], "{outcomes:?}");
            for (rank, outcome) in outcomes[..4].iter().enumerate() {
                let error = outcome.as_ref().expect_err("nobody lets it in");
                assert_eq!(error.kind(), ErrorKind::Unavailable);
                assert!(error.to_string().contains(&format!("rank {rank} does not let")), "{error}");
            }
            assert!(started.elapsed() < 2 * CONNECT_PATIENCE, "{:?}", started.elapsed());
        });
    }

    #[test]
    fn a_thread_that_waits_for_a_connection_has_all_its_time() {
        let (listener, address) = listener();
        let peers = peers(&[address; 256]);
        let wait = || Wait::at_most(Duration::from_secs(20));
        let lease = peers.lease(0, &|_| false, &wait()).expect("the one connection");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| peers.lease(0, &|_| false, &wait()).map(drop));
            thread::sleep(CONNECT_PATIENCE + Duration::from_millis(300));
            drop(lease);
            waiting.join().expect("a thread").expect("it was given back");
            let taken = peers.lease(1, &|_| false, &wait()).expect("the one connection");
            let error = peers.lease(1, &|_| true, &wait()).map(drop).expect_err("that rank is gone");
            assert!(error.to_string().contains("rank 1 is gone"), "{error}");
            drop(taken);
        });
        drop(listener);
    }
}
