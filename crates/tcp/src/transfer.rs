//! Reads of other ranks in flight: all requests are sent, then all answers are received straight into their places.

use std::io::IoSliceMut;

use forebay_source::{Error, ErrorKind, Result};
use forebay_store::{FrameHeader, FrameKind, Wait};
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvFlags, SendFlags, recvmsg},
};

use crate::{
    peers::Lease,
    read_request::{MOST_PIECES, PieceRequest, request_len},
    server::ReadRefusal,
    sockets::poll_step,
};

/// A piece of a shard, and where it goes.
pub(crate) type RemotePiece<'a> = (u64, &'a mut [u8]);

/// What is read of one rank over one connection.
#[derive(Debug)]
pub(crate) struct Transfer<'a> {
    rank: usize,
    window: u64,
    lease: Lease,
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

/// Pieces that one call receives; Linux takes 1,024.
const MOST_VECTORS: usize = 256;

impl<'a> Transfer<'a> {
    /// Pieces that each have at least one byte.
    pub(crate) fn new(rank: usize, window: u64, lease: Lease, pieces: Vec<RemotePiece<'a>>) -> Self {
        let header = [0; FrameHeader::LEN];
        Self {
            rank,
            window,
            lease,
            pieces,
            request: Vec::new(),
            sent: 0,
            asked: 0,
            header,
            header_len: 0,
            piece: 0,
            within: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.piece == self.pieces.len()
    }

    fn is_asking(&self) -> bool {
        self.sent < self.request.len() || self.asked < self.pieces.len()
    }

    /// Sends as much of the requests as the socket takes.
    fn send(&mut self) -> Result<()> {
        while self.is_asking() {
            if self.sent == self.request.len() {
                self.next_request();
            }
            let socket = self.lease.socket().ok_or_else(|| closed(self.rank))?;
            match rustix::net::send(
                socket,
                &self.request[self.sent..],
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(len) => self.sent += len,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(_) => return Err(closed(self.rank)),
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
        let socket = self.lease.socket().ok_or_else(|| closed(self.rank))?;
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
            Ok(received) if received.bytes == 0 => Err(closed(self.rank)),
            Ok(received) => {
                self.advance(received.bytes, first, end)?;
                Ok(received.bytes == wanted)
            }
            Err(Errno::INTR | Errno::WOULDBLOCK) => Ok(false),
            Err(_) => Err(closed(self.rank)),
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
            self.check_header(first, end)?;
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

    /// Whatever is wrong with a header, bytes of it may have gone to the pieces: the connection is of no use any more.
    fn check_header(&self, first: usize, end: usize) -> Result<()> {
        let header = FrameHeader::parse(&self.header)?;
        let total: u64 = self.pieces[first..end].iter().map(|(_, into)| into.len() as u64).sum();
        let is_expected = header.number == first as u64;
        match header.kind {
            FrameKind::Bytes if is_expected && header.len == total => Ok(()),
            FrameKind::Refused if header.detail == ReadRefusal::NoWindow as u8 => {
                let what = format!("rank {} has closed the window, or left the job", self.rank);
                Err(Error::new(ErrorKind::Unavailable, what))
            }
            FrameKind::Refused => {
                Err(Error::invalid(format!("rank {} holds less than is read of it", self.rank)))
            }
            _ => Err(Error::corrupt(format!("rank {} answers what was not asked", self.rank))),
        }
    }
}

fn closed(rank: usize) -> Error {
    let what = format!("rank {rank} is gone: it has closed its connection");
    Error::new(ErrorKind::Unavailable, what).hint("see its output for the reason")
}

/// Whether a rank is known to run no more.
pub(crate) type IsGone<'a> = &'a dyn Fn(usize) -> bool;

/// Completes all transfers; gives the outcome of each, in their order.
pub(crate) fn complete(
    transfers: Vec<Transfer<'_>>,
    is_gone: IsGone<'_>,
    wait: &Wait<'_>,
) -> Vec<Result<()>> {
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
                let ready = ready(&running, wait);
                let mut index = 0;
                step(&mut running, &mut outcomes, &mut |transfer| {
                    let is_ready = ready.get(index).copied().unwrap_or(false);
                    index += 1;
                    transfer.send()?;
                    while is_ready && !transfer.is_done() && transfer.receive(RecvFlags::DONTWAIT)? {}
                    Ok(())
                });
            }
        }
        step(&mut running, &mut outcomes, &mut |transfer| {
            if is_gone(transfer.rank) {
                return Err(forebay_store::gone(transfer.rank));
            }
            wait.go_on(|| format!("rank {} does not answer a read", transfer.rank))
        });
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
fn ready(running: &[(usize, Transfer<'_>)], wait: &Wait<'_>) -> Vec<bool> {
    let mut polled = Vec::with_capacity(running.len());
    for (_, transfer) in running {
        let sending = if transfer.is_asking() { PollFlags::OUT } else { PollFlags::empty() };
        if let Some(socket) = transfer.lease.socket() {
            polled.push(PollFd::from_borrowed_fd(socket, PollFlags::IN | sending));
        }
    }
    // Where the call fails, each of them is tried.
    match poll_step(&mut polled, wait) {
        Ok(()) => polled.iter().map(|polled| polled.revents().intersects(!PollFlags::OUT)).collect(),
        Err(_) => vec![true; running.len()],
    }
}
