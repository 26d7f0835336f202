//! A redo log: records in segments, appended at one end and forgotten at the other.

use std::{collections::VecDeque, sync::Arc};

use forebay_scratch::nonce;
use forebay_source::Result;

use crate::{
    log_record::{HEAD_LEN, RecordHead, RecordKind, SegmentHead},
    room::ProcessRoom,
    segment::{LogSegment, SegmentPool},
};

/// The log of one item.
#[derive(Debug)]
pub(crate) struct RedoLog {
    log: u64,
    segments: VecDeque<UsedSegment>,
    /// Where the next record goes in the last segment.
    position: u64,
    next_sequence: u64,
    next_number: u32,
}

#[derive(Debug)]
struct UsedSegment {
    segment: Arc<LogSegment>,
    head: SegmentHead,
    is_synced: bool,
}

/// Where a record went.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) segment: Arc<LogSegment>,
    pub(crate) number: u32,
    pub(crate) position: u64,
    pub(crate) sequence: u64,
}

impl RedoLog {
    /// An empty log with a number of its own.
    pub(crate) fn new() -> Self {
        Self { log: nonce(), segments: VecDeque::new(), position: 0, next_sequence: 1, next_number: 0 }
    }

    /// The number of the log.
    pub(crate) fn log(&self) -> u64 {
        self.log
    }

    /// The sequence number of the next record.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Whether it has no records, drained or not.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Appends a record; on an error the log is as before.
    pub(crate) fn append(
        &mut self,
        (room, pool): (&ProcessRoom, &SegmentPool),
        kind: RecordKind,
        offset: u64,
        bytes: &[u8],
    ) -> Result<Appended> {
        let needed = (HEAD_LEN + bytes.len()) as u64;
        // A mark always finds its place: what was promised must not wait for room.
        let fits =
            |last: &UsedSegment| kind == RecordKind::Mark || self.position + needed <= last.segment.capacity;
        let has_room = self.segments.back().is_some_and(fits);
        if !has_room {
            let segment = pool.take(room, bytes.len() as u64, self.next_number)?;
            let head = SegmentHead { log: self.log, number: self.next_number, first: self.next_sequence };
            self.segments.push_back(UsedSegment { segment, head, is_synced: false });
            self.next_number += 1;
            self.position = 0;
        }
        let sequence = self.next_sequence;
        let record = RecordHead { kind, sequence, offset, len: bytes.len() as u64 };
        let appended = self.write(&record, bytes);
        if appended.is_err() && !has_room {
            // Nothing was written to it that counts.
            if let Some(unused) = self.segments.pop_back() {
                pool.give_back(room, unused.segment);
            }
            self.position = self.segments.back().map_or(0, |last| last.segment.capacity);
        }
        appended
    }

    fn write(&mut self, record: &RecordHead, bytes: &[u8]) -> Result<Appended> {
        let last = self.segments.back_mut().expect("a segment was just added where there was none");
        let head = record.encode(&last.head, bytes);
        let position = if self.position == 0 {
            last.segment.write(0, &[&last.head.encode(), &head, bytes])?;
            2 * HEAD_LEN as u64
        } else {
            last.segment.write(self.position, &[&head, bytes])?;
            self.position + HEAD_LEN as u64
        };
        last.is_synced = false;
        self.position = position + bytes.len() as u64;
        self.next_sequence += 1;
        let (segment, number) = (Arc::clone(&last.segment), last.head.number);
        Ok(Appended { segment, number, position, sequence: record.sequence })
    }

    /// The number of the newest segment such that those up to it hold at least `bytes`, or all there are, and the first
    /// sequence number after it.
    pub(crate) fn through(&self, bytes: u64) -> Option<(u32, u64)> {
        let mut total = 0;
        for (index, used) in self.segments.iter().enumerate() {
            total += used.segment.capacity;
            if total >= bytes || index + 1 == self.segments.len() {
                let next = self.segments.get(index + 1).map_or(self.next_sequence, |next| next.head.first);
                return Some((used.head.number, next));
            }
        }
        None
    }

    /// Gives the segments back whose records all come before `base`.
    pub(crate) fn trim(&mut self, base: u64, room: &ProcessRoom, pool: &SegmentPool) {
        loop {
            let end = self.segments.get(1).map_or(self.next_sequence, |next| next.head.first);
            if self.segments.is_empty() || end > base {
                return;
            }
            if let Some(done) = self.segments.pop_front() {
                pool.give_back(room, done.segment);
            }
        }
    }

    /// The segments that have to be synced; they count as synced from now on.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<LogSegment>> {
        let unsynced = self.segments.iter_mut().filter(|used| !used.is_synced);
        unsynced
            .map(|used| {
                used.is_synced = true;
                Arc::clone(&used.segment)
            })
            .collect()
    }

    /// Says that no segment is synced: a sync has failed.
    pub(crate) fn forget_syncs(&mut self) {
        self.segments.iter_mut().for_each(|used| used.is_synced = false);
    }
}
