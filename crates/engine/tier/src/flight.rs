//! Single flight: each block is fetched once, however many readers ask.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind};

use crate::{
    block::SourceKey,
    sync::{Condvar, Mutex, lock},
};

/// What one flight fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlightPart {
    /// A block.
    Block(u64),
    /// Bytes from here on that no tier has room for.
    From(u64),
}

/// All that is being fetched by this process.
#[derive(Debug, Default)]
pub struct Flights {
    table: Mutex<HashMap<(SourceKey, FlightPart), Arc<Flight>>>,
}

/// Whose turn it is to fetch.
#[derive(Debug)]
pub enum Turn {
    /// The caller's.
    Lead(Lead),
    /// Another thread fetches already.
    Follow(Arc<Flight>),
}

/// The lead of a flight: its holder fetches, and reports the outcome to all followers.
#[derive(Debug)]
pub struct Lead {
    flights: Arc<Flights>,
    key: (SourceKey, FlightPart),
    flight: Arc<Flight>,
}

/// One fetch, shared by all readers that wait for it.
#[derive(Debug, Default)]
pub struct Flight {
    landed: Mutex<Option<Landed>>,
    change: Condvar,
}

/// The outcome of a fetch.
#[derive(Clone, Debug)]
pub enum Landed {
    /// The bytes.
    Bytes(Bytes),
    /// No tier had room for it, so that it was not fetched.
    NoRoom,
    /// The error, whole, for each reader that waits.
    Failed(Error),
}

impl Flights {
    /// Whose turn it is to fetch `part` of `source`.
    pub fn turn(self: &Arc<Self>, source: SourceKey, part: FlightPart) -> Turn {
        let mut table = lock(&self.table);
        if let Some(flight) = table.get(&(source, part)) {
            return Turn::Follow(Arc::clone(flight));
        }
        let flight = Arc::new(Flight::default());
        table.insert((source, part), Arc::clone(&flight));
        Turn::Lead(Lead { flights: Arc::clone(self), key: (source, part), flight })
    }

    /// The fetch of `part` of `source`, if there is one.
    pub fn find(&self, source: SourceKey, part: FlightPart) -> Option<Arc<Flight>> {
        lock(&self.table).get(&(source, part)).cloned()
    }
}

impl Lead {
    /// The flight, to wait for it elsewhere.
    pub fn flight(&self) -> Arc<Flight> {
        Arc::clone(&self.flight)
    }

    /// Hands `landed` to all readers that wait, and to all that ask until the lead is dropped; only then is the block fetched
    /// anew. The lead is kept until the bytes have their place in a tier.
    pub fn land(&self, landed: Landed) {
        let mut outcome = lock(&self.flight.landed);
        if outcome.is_none() {
            *outcome = Some(landed);
        }
        drop(outcome);
        self.flight.change.notify_all();
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        lock(&self.flights.table).remove(&self.key);
        // Followers of a thread that panicked or was stopped get an error at once.
        self.land(Landed::Failed(Error::new(ErrorKind::Unavailable, "was given up while it was fetched")));
    }
}

impl Flight {
    /// The outcome; nothing when it takes longer than `patience`.
    pub fn wait(&self, patience: Duration) -> Option<Landed> {
        let until = Instant::now() + patience;
        let mut landed = lock(&self.landed);
        loop {
            if let Some(landed) = &*landed {
                return Some(landed.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            landed = self.change.wait_timeout(landed, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Landed {
    /// The bytes if it was fetched, or the error.
    pub fn into_result(self) -> forebay_process::Result<Option<Bytes>> {
        match self {
            Self::Bytes(bytes) => Ok(Some(bytes)),
            Self::NoRoom => Ok(None),
            Self::Failed(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, SourceId, Version};

    use super::*;

    fn key() -> SourceKey {
        SourceKey::of(&SourceId { locator: Locator::new("a"), len: 9, version: Version::named("v") })
    }

    #[test]
    fn the_second_who_asks_gets_what_the_first_fetched() {
        let flights = Arc::new(Flights::default());
        let Turn::Lead(lead) = flights.turn(key(), FlightPart::Block(1)) else { panic!("nobody was first") };
        let Turn::Follow(flight) = flights.turn(key(), FlightPart::Block(1)) else { panic!("two lead") };
        assert!(matches!(flights.turn(key(), FlightPart::Block(2)), Turn::Lead(_)));
        assert!(flight.wait(Duration::from_millis(1)).is_none());
        lead.land(Landed::Bytes(Bytes::from_static(b"abc")));
        let landed = flight.wait(Duration::from_secs(90)).unwrap();
        assert_eq!(landed.into_result().unwrap().unwrap()[..], b"abc"[..]);
        assert!(matches!(flights.turn(key(), FlightPart::Block(1)), Turn::Follow(_)), "it has no place yet");
        drop(lead);
        assert!(matches!(flights.turn(key(), FlightPart::Block(1)), Turn::Lead(_)), "it is over");
    }

    #[test]
    fn a_leader_that_goes_away_is_an_error_and_no_wait() {
        let flights = Arc::new(Flights::default());
        let turn = flights.turn(key(), FlightPart::Block(1));
        let Turn::Follow(flight) = flights.turn(key(), FlightPart::Block(1)) else { panic!("two lead") };
        drop(turn);
        let error = flight.wait(Duration::from_secs(90)).unwrap().into_result().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}
