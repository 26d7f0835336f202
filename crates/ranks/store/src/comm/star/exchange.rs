//! What the threads of a star share: messages that came, messages that go, and why it is broken.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Result};

use crate::comm::{
    frame::{FrameHeader, FrameKind, ReceivedFrame},
    gone,
    rank_states::{RankState, RankStates},
    star::connection::Outgoing,
};

/// What one rank brings to a collective call.
#[derive(Debug, Default)]
pub struct StarMessage {
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Open files, where the star is one of unix sockets.
    pub descriptors: Vec<OwnedFd>,
}

/// A message with the call that it belongs to.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) header: FrameHeader,
    pub(super) message: StarMessage,
}

#[derive(Debug)]
pub(super) struct Exchange {
    /// The number of the next collective call, or of the one that runs.
    pub(super) number: u64,
    pub(super) is_busy: bool,
    pub(super) is_stopping: bool,
    pub(super) broken: Option<Error>,
    /// What came, by member; a leaf hears of the hub alone.
    pub(super) inbox: Vec<VecDeque<Arrived>>,
    /// What is to be sent, by member.
    pub(super) outbox: Vec<Vec<Outgoing>>,
    /// Frames that were put into the outbox and are not out yet.
    pub(super) unsent: usize,
    /// Members whose connection has ended.
    pub(super) closed: Vec<bool>,
    /// Ranks that have not come, as the hub says.
    pub(super) missing: Vec<u64>,
    /// Descriptors that become readable when a member ends.
    pub(super) ends: Vec<(usize, OwnedFd)>,
}

/// A rank that brings more than this to calls that nobody has answered is not one of ours.
const MOST_AHEAD: usize = 2;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) own: usize,
    /// The numbers of the members, the hub's first.
    pub(super) ranks: Vec<usize>,
    pub(super) states: Arc<RankStates>,
    exchange: Mutex<Exchange>,
    changed: Condvar,
    wake: OwnedFd,
}

impl Shared {
    pub(super) fn new(own: usize, ranks: Vec<usize>, states: Arc<RankStates>, wake: OwnedFd) -> Self {
        let exchange = Exchange {
            number: 0,
            is_busy: false,
            is_stopping: false,
            broken: None,
            inbox: ranks.iter().map(|_| VecDeque::new()).collect(),
            outbox: ranks.iter().map(|_| Vec::new()).collect(),
            unsent: 0,
            closed: vec![false; ranks.len()],
            missing: Vec::new(),
            ends: Vec::new(),
        };
        Self { own, ranks, states, exchange: Mutex::new(exchange), changed: Condvar::new(), wake }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Exchange> {
        // A panic elsewhere leaves whole messages.
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(
        &self,
        exchange: MutexGuard<'a, Exchange>,
        step: Duration,
    ) -> MutexGuard<'a, Exchange> {
        self.changed.wait_timeout(exchange, step).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Has the event loop look at what was posted.
    pub(super) fn wake(&self) {
        // It fails only where it is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(super) fn is_hub(&self) -> bool {
        self.own == 0
    }

    /// Members that this one has a connection with.
    pub(super) fn neighbours(&self) -> std::ops::Range<usize> {
        if self.is_hub() { 1..self.ranks.len() } else { 0..1 }
    }

    /// Puts a frame into the outbox of `to`.
    pub(super) fn post(&self, exchange: &mut Exchange, to: usize, frame: Outgoing) {
        exchange.outbox[to].push(frame);
        exchange.unsent += 1;
        self.wake();
    }

    /// Tells all neighbours but `except`.
    pub(super) fn post_note(
        &self,
        exchange: &mut Exchange,
        header: FrameHeader,
        message: Vec<u8>,
        except: Option<usize>,
    ) {
        let Ok(frame) = Outgoing::new(header, Arc::new(message), Arc::default()) else { return };
        for to in self.neighbours().filter(|to| Some(*to) != except) {
            self.post(exchange, to, frame.clone());
        }
    }

    /// Makes this and every later collective call an error, here and on the other ranks.
    pub(super) fn fail(&self, exchange: &mut Exchange, error: Error, told_by: Option<usize>) {
        if exchange.broken.is_some() {
            return;
        }
        let mut header = FrameHeader::new(FrameKind::Failed, exchange.number, 0);
        header.detail = u8::from(error.kind() == ErrorKind::Invalid);
        let mut text = error.to_string().into_bytes();
        text.truncate(MOST_TEXT);
        self.post_note(exchange, header, text, told_by);
        exchange.broken = Some(error);
        self.notify();
    }

    /// Where a member runs no more that has not come to the call, the call cannot end well.
    pub(super) fn fail_for_ended(&self, exchange: &mut Exchange) {
        if exchange.broken.is_some() || !self.is_hub() {
            return;
        }
        // One that left has said before why, if there is a reason, and that is still to be read until its connection ends.
        let ended = self.neighbours().find(|index| {
            let is_over = exchange.closed[*index] || self.states.get(*index) == RankState::Gone;
            exchange.inbox[*index].is_empty() && is_over
        });
        if let Some(index) = ended {
            self.fail(exchange, self.ended(index), None);
        }
    }

    /// The error for a member that runs no more.
    pub(super) fn ended(&self, index: usize) -> Error {
        let rank = self.ranks[index];
        match self.states.get(index) {
            RankState::Left => Error::new(ErrorKind::Unavailable, format!("rank {rank} has left the job"))
                .hint("close stores on all ranks"),
            RankState::Running | RankState::Gone => gone(rank),
        }
    }

    /// Takes a frame of a collective call, or what a member says of another.
    pub(super) fn arrived(&self, from: usize, frame: ReceivedFrame, descriptors: Vec<OwnedFd>) -> Result<()> {
        let mut exchange = self.lock();
        let header = frame.header;
        match header.kind {
            FrameKind::Offer | FrameKind::Answer if self.is_hub() == (header.kind == FrameKind::Offer) => {
                if exchange.inbox[from].len() >= MOST_AHEAD {
                    return Err(Error::corrupt("a rank brings messages to calls that nobody made"));
                }
                let message = StarMessage { bytes: frame.message, descriptors };
                exchange.inbox[from].push_back(Arrived { header, message });
            }
            FrameKind::Failed => {
                let kind = if header.detail == 1 { ErrorKind::Invalid } else { ErrorKind::Unavailable };
                let text = String::from_utf8_lossy(&frame.message).into_owned();
                self.fail(&mut exchange, Error::new(kind, text), Some(from));
            }
            FrameKind::Missing if !self.is_hub() => {
                exchange.missing = frame
                    .message
                    .chunks_exact(8)
                    .filter_map(|rank| Some(u64::from_le_bytes(rank.try_into().ok()?)))
                    .collect();
            }
            FrameKind::Gone | FrameKind::Left => {
                let index = usize::try_from(header.number).unwrap_or(usize::MAX);
                self.note_end(&mut exchange, index, header.kind == FrameKind::Left, Some(from));
            }
            kind => {
                return Err(Error::corrupt(format!(
                    "a frame of the kind {kind:?} from rank {}",
                    self.ranks[from]
                )));
            }
        }
        self.notify();
        Ok(())
    }

    /// Keeps that a member has ended, and passes it on.
    pub(super) fn note_end(
        &self,
        exchange: &mut Exchange,
        index: usize,
        is_in_order: bool,
        told_by: Option<usize>,
    ) {
        if index == self.own || !self.states.end(index, is_in_order) {
            return;
        }
        let kind = if is_in_order { FrameKind::Left } else { FrameKind::Gone };
        self.post_note(exchange, FrameHeader::new(kind, index as u64, 0), Vec::new(), told_by);
        self.notify();
    }
}

/// Bytes of an error that others are told.
const MOST_TEXT: usize = 4096;
