//! What was left out, or done otherwise than the user may think, and why.
//!
//! Below the front ends nothing is printed: all that the engine has to tell besides its answers is an [`Event`]. It goes to the
//! subscriber of the program, by `tracing` under the target `forebay`, and a warning also waits for the front end to show it:
//! the command prints it, Python raises it as `forebay.ForebayWarning`.

use std::{
    collections::HashSet,
    fmt,
    sync::{Mutex, PoisonError},
};

use crate::process::PerProcess;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A tier was left out, has no room, or gains nothing.
    Tier,
    /// Files or folders were left out of a list.
    List,
    /// Samples were left out, or will be.
    Sample,
    /// A sample that cannot be read is left out of its batch, as the user asked; the batch names it too.
    Skipped,
    /// Samples that do not fill a batch are left out of each epoch.
    Tail,
    /// Decoded values are not kept on disk.
    Spill,
    /// Another library reads what this one cannot.
    Library,
    /// Files are not copied from mappings.
    Mapping,
    /// The system's limits allow few files to be open.
    Descriptors,
    /// A staging area cannot be used, and what is written goes straight to its destination.
    Stage,
    /// A rank of the job is gone, and what it held is read from elsewhere.
    Rank,
}

impl EventKind {
    /// True for what the user ought to see unasked; the others are notes, for programs that subscribe.
    pub fn is_warning(self) -> bool {
        matches!(self, Self::Tier | Self::List | Self::Sample | Self::Spill | Self::Stage | Self::Rank)
    }

    /// The kind as one word, which stays the same: subscribers filter by it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tier => "tier",
            Self::List => "list",
            Self::Sample => "sample",
            Self::Skipped => "skipped",
            Self::Tail => "tail",
            Self::Spill => "spill",
            Self::Library => "library",
            Self::Mapping => "mapping",
            Self::Descriptors => "descriptors",
            Self::Stage => "stage",
            Self::Rank => "rank",
        }
    }
}

/// Something that was left out or done otherwise, and why.
///
/// # Contract
/// - An event is given once in a process for each kind and subject: neither subscribers nor users hear of the same thing
///   twice. A forked child begins anew.
/// - Of warnings and of notes the last 1000 or fewer are remembered: none is lost, but one that came long ago may come again.
///   At most 100 warnings wait to be shown.
/// - To emit one never fails, and holds no lock while a subscriber is called. It is for what happens seldom, not for each
///   request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub kind: EventKind,
    /// Which tier, folder, file or field; the text itself where there is nothing shorter.
    pub subject: String,
    /// A sentence without its full stop: what was left out, and why.
    pub text: String,
}

/// Events that are remembered, so that none is given twice; a run that skips every sample gives one for each.
const MOST_REMEMBERED: usize = 1000;

/// More would not be read.
const MOST_WARNINGS: usize = 100;

/// A child begins with none: a thread of its parent may have held the lock when it forked.
static EVENTS: PerProcess<Mutex<Events>> = PerProcess::empty();

#[derive(Debug, Default)]
struct Events {
    warnings: HashSet<(EventKind, String)>,
    notes: HashSet<(EventKind, String)>,
    waiting: Vec<Event>,
}

impl Event {
    /// An event that tells `text`, and whose subject is that.
    pub fn new(kind: EventKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, subject: text.clone(), text }
    }

    /// The same, about `subject`: one event is given of it, whatever else the text tells.
    #[must_use]
    pub fn about(self, subject: impl fmt::Display) -> Self {
        Self { subject: subject.to_string(), ..self }
    }

    /// Gives the event to the program's subscriber, and keeps a warning until it is taken.
    pub fn emit(self) {
        if !self.is_new() {
            return;
        }
        let Self { kind, subject, text } = self;
        if kind.is_warning() {
            tracing::warn!(target: "forebay", kind = kind.word(), subject, "{text}");
        } else {
            tracing::info!(target: "forebay", kind = kind.word(), subject, "{text}");
        }
    }

    /// Whether no such event was given yet; a new warning is kept.
    fn is_new(&self) -> bool {
        let events = EVENTS.get(Mutex::default);
        let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
        let given = if self.kind.is_warning() { &mut events.warnings } else { &mut events.notes };
        if given.len() >= MOST_REMEMBERED {
            given.clear();
        }
        let is_new = given.insert((self.kind, self.subject.clone()));
        if is_new && self.kind.is_warning() && events.waiting.len() < MOST_WARNINGS {
            events.waiting.push(self.clone());
        }
        is_new
    }
}

/// The warnings since this was last asked, to be shown.
pub fn take_warnings() -> Vec<Event> {
    let Some(events) = EVENTS.peek() else { return Vec::new() };
    std::mem::take(&mut events.lock().unwrap_or_else(PoisonError::into_inner).waiting)
}
