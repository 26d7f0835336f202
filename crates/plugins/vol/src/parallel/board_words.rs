//! The words of one rank on the board: counters, and a list of spans under a sequence lock.

#![expect(unsafe_code, reason = "words in memory that other processes read at the same time")]

use std::{
    hint,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use forebay_store::ShardMemory;

use super::byte_spans::ByteSpans;

/// Counters before the spans: accepted, drained, writes, failed, waits, sequence, number of spans, none.
const HEAD: usize = 8;
pub(crate) const HEAD_BYTES: usize = HEAD * size_of::<u64>();
/// Spans of a rank: a write of many short pieces is told as if it were of longer ones.
pub(crate) const MOST_SPANS: usize = 1024;
/// Bytes of a rank's part.
pub(crate) const PART_BYTES: usize = HEAD_BYTES + MOST_SPANS * 2 * size_of::<u64>();
/// A list that its owner keeps changing is taken for one that overlaps.
const MOST_TRIES: u32 = 1000;

/// Which counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BoardWord {
    Accepted = 0,
    Drained = 1,
    Writes = 2,
    Failed = 3,
    Waits = 4,
    Sequence = 5,
    SpanCount = 6,
}

/// What one rank tells the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankProgress {
    /// Writes that its log has accepted.
    pub(crate) accepted: u64,
    /// How many of them are in the file.
    pub(crate) drained: u64,
    /// Writes of any kind that it has made.
    pub(crate) writes: u64,
    /// Not 0 once its log could not be drained.
    pub(crate) failed: u64,
    /// Not 0 while it waits for another's writes.
    pub(crate) waits: u64,
}

impl RankProgress {
    /// As it was read from another host.
    pub(crate) fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Self {
        let word = |which: BoardWord| {
            let from = which as usize * size_of::<u64>();
            u64::from_ne_bytes(bytes[from..from + size_of::<u64>()].try_into().expect("eight bytes"))
        };
        Self::by(word)
    }

    fn by(word: impl Fn(BoardWord) -> u64) -> Self {
        Self {
            accepted: word(BoardWord::Accepted),
            drained: word(BoardWord::Drained),
            writes: word(BoardWord::Writes),
            failed: word(BoardWord::Failed),
            waits: word(BoardWord::Waits),
        }
    }
}

/// The part of one rank of this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoardPart<'a>(&'a ShardMemory);

impl<'a> BoardPart<'a> {
    /// The part in `memory`.
    pub(crate) fn of(memory: &'a ShardMemory) -> Self {
        assert!(memory.len() >= PART_BYTES as u64, "a part has its words");
        Self(memory)
    }

    fn at(self, index: usize) -> &'a AtomicU64 {
        assert!(index < PART_BYTES / size_of::<u64>(), "a word of the part");
        // SAFETY: a mapping of at least PART_BYTES, aligned to a page, that lives as long as the reference; all use of it is atomic.
        unsafe { AtomicU64::from_ptr(self.0.address().cast::<u64>().add(index)) }
    }

    /// A counter.
    pub(crate) fn word(self, which: BoardWord) -> &'a AtomicU64 {
        self.at(which as usize)
    }

    /// What the rank tells.
    pub(crate) fn progress(self) -> RankProgress {
        // What is drained is read first: it is never more than what was accepted.
        let drained = self.word(BoardWord::Drained).load(SeqCst);
        RankProgress { drained, ..RankProgress::by(|which| self.word(which).load(SeqCst)) }
    }

    /// Tells `spans`. Called by the owner, one thread at a time.
    pub(crate) fn tell(self, spans: &[Range<u64>]) {
        self.word(BoardWord::Sequence).fetch_add(1, SeqCst);
        self.word(BoardWord::SpanCount).store(spans.len() as u64, SeqCst);
        for (index, span) in spans.iter().enumerate() {
            self.at(HEAD + 2 * index).store(span.start, SeqCst);
            self.at(HEAD + 2 * index + 1).store(span.end, SeqCst);
        }
        self.word(BoardWord::Sequence).fetch_add(1, SeqCst);
    }

    /// True when some of the told spans have bytes of `spans`, or when that cannot be found out.
    pub(crate) fn overlaps(self, spans: &ByteSpans) -> bool {
        for _ in 0..MOST_TRIES {
            let before = self.word(BoardWord::Sequence).load(SeqCst);
            let count = self.word(BoardWord::SpanCount).load(SeqCst).min(MOST_SPANS as u64);
            let told = (0..usize::try_from(count).unwrap_or(0)).map(|index| {
                self.at(HEAD + 2 * index).load(SeqCst)..self.at(HEAD + 2 * index + 1).load(SeqCst)
            });
            let overlaps = spans.overlaps(told);
            if before.is_multiple_of(2) && self.word(BoardWord::Sequence).load(SeqCst) == before {
                return overlaps;
            }
            hint::spin_loop();
        }
        true
    }
}
