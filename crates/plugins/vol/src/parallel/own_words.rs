//! The part of the board that this rank writes.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::SeqCst},
};

use forebay_process::Result;
use forebay_store::{ShardMemory, ShardPlace};

use super::{
    board_words::{BoardPart, BoardWord, MOST_SPANS, PART_BYTES, RankProgress},
    byte_spans::ByteSpans,
};

/// The words that this rank writes.
#[derive(Clone, Debug)]
pub(crate) struct OwnWords {
    memory: Arc<ShardMemory>,
    pending: Arc<Mutex<Vec<PendingSpan>>>,
}

/// Bytes that were accepted by the write with this number.
#[derive(Clone, Debug)]
struct PendingSpan {
    number: u64,
    span: Range<u64>,
}

impl OwnWords {
    /// Words of zeros.
    pub(crate) fn new() -> Result<Self> {
        let memory = Arc::new(ShardMemory::new(PART_BYTES as u64, &ShardPlace::Memory)?);
        Ok(Self { memory, pending: Arc::default() })
    }

    /// Where they lie.
    pub(crate) fn memory(&self) -> Arc<ShardMemory> {
        Arc::clone(&self.memory)
    }

    fn part(&self) -> BoardPart<'_> {
        BoardPart::of(&self.memory)
    }

    fn pending(&self) -> MutexGuard<'_, Vec<PendingSpan>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, pending: &[PendingSpan]) {
        let all = pending.iter().map(|one| one.span.clone()).collect();
        self.part().tell(ByteSpans::new(all, MOST_SPANS).spans());
    }

    /// The next write will be of `spans`: told before it is accepted.
    pub(crate) fn announce(&self, spans: &ByteSpans) {
        let mut pending = self.pending();
        let number = self.now().accepted + 1;
        pending.extend(spans.spans().iter().map(|span| PendingSpan { number, span: span.clone() }));
        self.tell(&pending);
    }

    /// One more write was accepted; gives how many now.
    pub(crate) fn accept(&self) -> u64 {
        self.part().word(BoardWord::Accepted).fetch_add(1, SeqCst) + 1
    }

    /// All up to `accepted` are in the file.
    pub(crate) fn drained(&self, accepted: u64) {
        let mut pending = self.pending();
        pending.retain(|one| one.number > accepted);
        self.tell(&pending);
        self.part().word(BoardWord::Drained).fetch_max(accepted, SeqCst);
        self.part().word(BoardWord::Failed).store(0, SeqCst);
    }

    /// One more write of any kind was made.
    pub(crate) fn wrote(&self) {
        self.part().word(BoardWord::Writes).fetch_add(1, SeqCst);
    }

    /// The log cannot be drained.
    pub(crate) fn failed(&self) {
        self.part().word(BoardWord::Failed).store(1, SeqCst);
    }

    /// This rank waits for others, as long as the answer lives.
    pub(crate) fn waiting(&self) -> WaitingRank<'_> {
        self.part().word(BoardWord::Waits).store(1, SeqCst);
        WaitingRank(self)
    }

    /// What the others see.
    pub(crate) fn now(&self) -> RankProgress {
        self.part().progress()
    }
}

/// A rank that waits for writes of others.
#[derive(Debug)]
pub(crate) struct WaitingRank<'a>(&'a OwnWords);

impl Drop for WaitingRank<'_> {
    fn drop(&mut self) {
        self.0.part().word(BoardWord::Waits).store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drained_never_goes_back_and_ends_a_failure() {
        let words = OwnWords::new().unwrap();
        assert_eq!((words.accept(), words.accept()), (1, 2));
        words.wrote();
        words.failed();
        let told = RankProgress { accepted: 2, drained: 0, writes: 1, failed: 1, waits: 0 };
        assert_eq!(words.now(), told);
        let waits = words.waiting();
        assert_eq!(words.now().waits, 1);
        drop(waits);
        words.drained(2);
        words.drained(1);
        assert_eq!(words.now(), RankProgress { drained: 2, failed: 0, ..told });
    }

    #[test]
    fn spans_are_told_from_before_a_write_until_it_is_drained() {
        let words = OwnWords::new().unwrap();
        let spans = |from: u64, to: u64| ByteSpans::new(std::iter::once(from..to).collect(), MOST_SPANS);
        words.announce(&spans(0, 10));
        let first = words.accept();
        words.announce(&spans(100, 110));
        words.accept();
        assert!(words.part().overlaps(&spans(5, 6)) && words.part().overlaps(&spans(109, 200)));
        assert!(!words.part().overlaps(&spans(10, 100)));
        words.drained(first);
        assert!(!words.part().overlaps(&spans(5, 6)) && words.part().overlaps(&spans(100, 101)));
    }
}
