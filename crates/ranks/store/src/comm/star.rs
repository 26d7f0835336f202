//! Collective calls over a star of sockets: every member sends what it brings to the hub, which sends all of it to all.
//!
//! ```text
//! leaf ─ Offer ─►      ─ Answer ─► leaf
//! leaf ─ Offer ─► hub  ─ Answer ─► leaf        one thread per member sends, receives, and notices members that end;
//! leaf ─ Offer ─►      ─ Failed ─► leaf        callers wait for what it brings
//! ```
//!
//! A leaf fails only by what the hub tells it, or when the hub is gone: the hub alone knows whether a member that ended had
//! come to the call before.

mod connection;
mod event_loop;
mod exchange;

use std::{
    os::fd::OwnedFd,
    sync::Arc,
    thread::{self, JoinHandle},
};

use forebay_process::{Error, ProcessIdentity, Result, current_process};
use rustix::event::{EventfdFlags, eventfd};

pub use event_loop::EndedElsewhere;
pub use exchange::StarMessage;

use self::{
    connection::{Connection, Outgoing},
    event_loop::EventLoop,
    exchange::{Arrived, Exchange, Shared},
};
use crate::{
    comm::{
        frame::{FrameHeader, FrameKind},
        rank_states::RankStates,
    },
    wait::Wait,
};

/// Members of a star, their states, and their sockets.
pub struct StarParts {
    /// The numbers of the members, the hub's first; errors name them.
    pub ranks: Vec<usize>,
    /// The place of this one among them.
    pub own: usize,
    /// Sockets, by the places of the members at their other ends: one of every leaf for the hub, one of the hub for a leaf.
    pub sockets: Vec<(usize, OwnedFd)>,
    /// What is known of the members, by their places.
    pub states: Arc<RankStates>,
    /// Whether a connection that ends means that its member did.
    pub ends_with_connection: bool,
    /// Members that are known to have ended by other means; asked several times a second.
    pub ended_elsewhere: Option<EndedElsewhere>,
}

/// One member's end of a star.
#[derive(Debug)]
pub struct Star {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    process: ProcessIdentity,
}

/// Which collective call: members that make different ones at once are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StarCall {
    /// `barrier`.
    Barrier,
    /// `broadcast`.
    Broadcast,
    /// `all_gather`.
    AllGather,
    /// `window`.
    Share,
}

impl Star {
    /// Begins to send and receive.
    pub fn new(parts: StarParts) -> Result<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = eventfd.map_err(|errno| Error::from_io(errno.into()))?;
        let poster = wake.try_clone().map_err(Error::from_io)?;
        let is_alone = parts.ranks.len() == 1;
        let mut connections: Vec<_> = parts.ranks.iter().map(|_| None).collect();
        for (index, socket) in parts.sockets {
            connections[index] = Some(Connection::new(socket));
        }
        let shared = Arc::new(Shared::new(parts.own, parts.ranks, parts.states, poster));
        let event_loop = EventLoop {
            shared: Arc::clone(&shared),
            wake,
            connections,
            ends_with_connection: parts.ends_with_connection,
            ended_elsewhere: parts.ended_elsewhere,
            looked: None,
            ends: Vec::new(),
        };
        let builder = thread::Builder::new().name("forebay-star".to_owned());
        let thread = match is_alone {
            true => None,
            false => Some(builder.spawn(move || event_loop.run()).map_err(Error::from_io)?),
        };
        Ok(Self { shared, thread, process: current_process() })
    }

    /// What is known of the members.
    pub fn states(&self) -> &RankStates {
        &self.shared.states
    }

    /// Watches a descriptor that becomes readable when a member ends.
    pub(crate) fn watch(&self, index: usize, end: OwnedFd) {
        self.shared.lock().ends.push((index, end));
        self.shared.wake();
    }

    /// What all members bring, by their places. Collective.
    pub fn exchange(&self, call: StarCall, mine: StarMessage, wait: &Wait<'_>) -> Result<Vec<StarMessage>> {
        if current_process() != self.process {
            let what = "a forked process makes a collective call";
            return Err(
                Error::invalid(what).hint("call it in the process that joined the job; children may read")
            );
        }
        let header = {
            let mut exchange = self.shared.lock();
            if exchange.is_busy {
                return Err(Error::invalid("two collective calls of one rank at once"));
            }
            exchange.is_busy = true;
            exchange.missing.clear();
            let header = FrameHeader::new(FrameKind::Offer, exchange.number, 0);
            FrameHeader { detail: call as u8, ..header }
        };
        let given = match self.shared.is_hub() {
            true => self.as_hub(header, mine, wait),
            false => self.as_leaf(header, mine, wait),
        };
        let mut exchange = self.shared.lock();
        exchange.is_busy = false;
        exchange.number += 1;
        if let Err(error) = &given {
            self.shared.fail(&mut exchange, error.clone(), None);
        }
        given
    }

    fn as_hub(&self, header: FrameHeader, mine: StarMessage, wait: &Wait<'_>) -> Result<Vec<StarMessage>> {
        let mut brought = vec![mine];
        for arrived in self.offers(wait)? {
            let FrameHeader { number, detail, .. } = arrived.header;
            if (number, detail) != (header.number, header.detail) {
                return Err(Error::invalid("ranks made different collective calls"));
            }
            brought.push(arrived.message);
        }
        let StarMessage { bytes, descriptors } = joined(&brought)?;
        let answer = Outgoing::new(
            FrameHeader { kind: FrameKind::Answer, ..header },
            Arc::new(bytes),
            Arc::new(descriptors),
        )?;
        let mut exchange = self.shared.lock();
        for index in self.shared.neighbours() {
            self.shared.post(&mut exchange, index, answer.clone());
        }
        drop(answer);
        // A process that ended now would take what is not out with it.
        while exchange.unsent > 0 {
            wait.go_on(|| "ranks do not take the answer to a collective call".to_owned())?;
            exchange = self.shared.wait(exchange, wait.step());
        }
        Ok(brought)
    }

    /// What every leaf brought to this call.
    fn offers(&self, wait: &Wait<'_>) -> Result<Vec<Arrived>> {
        let mut exchange = self.shared.lock();
        let mut told = 0;
        loop {
            self.shared.fail_for_ended(&mut exchange);
            if let Some(error) = &exchange.broken {
                return Err(error.clone());
            }
            let missing = self.missing(&exchange);
            if missing.is_empty() {
                return Ok(self
                    .shared
                    .neighbours()
                    .filter_map(|index| exchange.inbox[index].pop_front())
                    .collect());
            }
            wait.go_on(|| not_come(&missing))?;
            exchange = self.shared.wait(exchange, wait.step());
            if missing.len() != told {
                // So that a leaf whose time is up can say for whom it waited.
                told = missing.len();
                let header = FrameHeader::new(FrameKind::Missing, 0, 0);
                let list = missing.iter().take(MOST_NAMED).flat_map(|rank| rank.to_le_bytes()).collect();
                self.shared.post_note(&mut exchange, header, list, None);
            }
        }
    }

    fn missing(&self, exchange: &Exchange) -> Vec<u64> {
        let missing = self.shared.neighbours().filter(|index| exchange.inbox[*index].is_empty());
        missing.map(|index| self.shared.ranks[index] as u64).collect()
    }

    fn as_leaf(&self, header: FrameHeader, mine: StarMessage, wait: &Wait<'_>) -> Result<Vec<StarMessage>> {
        let offer = Outgoing::new(header, Arc::new(mine.bytes), Arc::new(mine.descriptors))?;
        let mut exchange = self.shared.lock();
        if let Some(error) = &exchange.broken {
            return Err(error.clone());
        }
        self.shared.post(&mut exchange, 0, offer);
        loop {
            if let Some(arrived) = exchange.inbox[0].pop_front() {
                if arrived.header.number != header.number {
                    return Err(Error::corrupt("the answer to another collective call"));
                }
                return arrived.message.parted(self.shared.ranks.len());
            }
            if let Some(error) = &exchange.broken {
                return Err(error.clone());
            }
            wait.go_on(|| match exchange.missing.is_empty() {
                true => format!("rank {} did not answer a collective call", self.shared.ranks[0]),
                false => not_come(&exchange.missing),
            })?;
            exchange = self.shared.wait(exchange, wait.step());
        }
    }
}

impl Drop for Star {
    fn drop(&mut self) {
        if current_process() != self.process {
            // The thread is the parent's: there is none to be joined here.
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.states.end(self.shared.own, true);
        let mut exchange = self.shared.lock();
        let left = FrameHeader::new(FrameKind::Left, self.shared.own as u64, 0);
        self.shared.post_note(&mut exchange, left, Vec::new(), None);
        exchange.is_stopping = true;
        drop(exchange);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // It ends within a second, and has nothing to say.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for StarParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StarParts")
            .field("ranks", &self.ranks)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

/// Ranks that an error names; more of them help nobody.
const MOST_NAMED: usize = 16;

fn not_come(missing: &[u64]) -> String {
    let named = missing.iter().take(MOST_NAMED).map(u64::to_string).collect::<Vec<_>>().join(", ");
    let more = if missing.len() > MOST_NAMED { " and others" } else { "" };
    match missing.len() {
        1 => format!("rank {named} did not come to a collective call"),
        _ => format!("ranks {named}{more} did not come to a collective call"),
    }
}

/// The answer of the hub: how many bytes and descriptors each member brought, then all of them.
fn joined(brought: &[StarMessage]) -> Result<StarMessage> {
    let len: usize = brought.iter().map(|message| message.bytes.len() + ENTRY_LEN).sum();
    let mut bytes = Vec::with_capacity(len);
    for message in brought {
        bytes.extend((message.bytes.len() as u64).to_le_bytes());
        bytes.extend((message.descriptors.len() as u64).to_le_bytes());
    }
    brought.iter().for_each(|message| bytes.extend(&message.bytes));
    let descriptors = brought.iter().flat_map(|message| &message.descriptors).map(OwnedFd::try_clone);
    let descriptors = descriptors.collect::<std::io::Result<_>>().map_err(Error::from_io)?;
    Ok(StarMessage { bytes, descriptors })
}

/// Bytes by which an answer describes what one member brought.
const ENTRY_LEN: usize = 16;

impl StarMessage {
    /// What each of `count` members brought, where this is the answer of the hub.
    pub fn parted(self, count: usize) -> Result<Vec<Self>> {
        let broken = || Error::corrupt("the answer to a collective call cannot be read");
        let (table, mut rest) = self.bytes.split_at_checked(count * ENTRY_LEN).ok_or_else(broken)?;
        let mut descriptors = self.descriptors.into_iter();
        let mut messages = Vec::with_capacity(count);
        for entry in table.chunks_exact(ENTRY_LEN) {
            let number = |at: usize| -> Option<usize> {
                usize::try_from(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?)).ok()
            };
            let (bytes, after) = number(0).and_then(|len| rest.split_at_checked(len)).ok_or_else(broken)?;
            rest = after;
            let descriptors = descriptors.by_ref().take(number(8).ok_or_else(broken)?).collect();
            messages.push(Self { bytes: bytes.to_vec(), descriptors });
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_answer_gives_back_what_was_brought(brought in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..9)) {
            let messages: Vec<_> =
                brought.iter().map(|bytes| StarMessage { bytes: bytes.clone(), descriptors: Vec::new() }).collect();
            let answer = joined(&messages).expect("an answer");
            let parted: Vec<_> = answer.parted(brought.len()).expect("as it was").into_iter().map(|one| one.bytes).collect();
            prop_assert_eq!(parted, brought);
        }

        #[test]
        fn any_bytes_are_an_answer_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), count in 1usize..9) {
            let _ = StarMessage { bytes, descriptors: Vec::new() }.parted(count);
        }
    }
}
