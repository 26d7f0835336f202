//! A redo log: records in segments, appended at one end and forgotten at the other.

use std::{collections::VecDeque, sync::Arc};

use forebay_scratch::nonce;
use forebay_source::Result;

use crate::{
    log_record::{HEAD_LEN, RecordHead, RecordKind, SegmentHead, record_start},
    room::ProcessRoom,
    segment::{LogSegment, SegmentPool},
};

/// Records of at least so many bytes get their checksum with the next flush, which costs a second `pwrite` for the head: too much
/// for small ones. Where the border lies best was not measured.
const SUM_LATER_BYTES: usize = 64 << 10;

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
    /// Records whose checksums are not known yet, and where their bytes begin.
    unsummed: Vec<(RecordHead, u64)>,
}

/// Records of a segment that need their checksums.
#[derive(Debug)]
pub(crate) struct UnsummedRecords {
    segment: Arc<LogSegment>,
    head: SegmentHead,
    records: Vec<(RecordHead, u64)>,
}

impl UnsummedRecords {
    /// Gives them their checksums.
    pub(crate) fn sum(&self) -> Result<()> {
        let mut buffer = Vec::new();
        for (record, position) in &self.records {
            buffer.resize(usize::try_from(record.len).unwrap_or(0), 0);
            self.segment.read(*position, &mut buffer)?;
            let record = RecordHead { kind: RecordKind::Write, ..*record };
            self.segment.write(position - HEAD_LEN as u64, &[&record.encode(&self.head, &buffer)])?;
        }
        Ok(())
    }
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
        let needed = HEAD_LEN as u64 + bytes.len() as u64;
        // A mark always finds its place: what was promised must not wait for room.
        let fits = |last: &UsedSegment| {
            kind == RecordKind::Mark || record_start(self.position) + needed <= last.segment.capacity
        };
        let has_room = self.segments.back().is_some_and(fits);
        if !has_room {
            let segment = pool.take(room, bytes.len() as u64, self.next_number)?;
            let head = SegmentHead { log: self.log, number: self.next_number, first: self.next_sequence };
            self.segments.push_back(UsedSegment { segment, head, is_synced: false, unsummed: Vec::new() });
            self.next_number += 1;
            self.position = 0;
        }
        let sequence = self.next_sequence;
        // What lies in memory ends with the process: nobody will have to tell whether it is whole.
        let is_later = kind == RecordKind::Write && (!room.is_lasting() || bytes.len() >= SUM_LATER_BYTES);
        let kind = if is_later { RecordKind::Unsummed } else { kind };
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
        if self.position == 0 {
            last.segment.write(0, &[&last.head.encode()])?;
        }
        let start = record_start(self.position.max(HEAD_LEN as u64));
        let position = start + HEAD_LEN as u64;
        if record.kind == RecordKind::Unsummed {
            // The head last: a record that a killed process wrote half has none.
            last.segment.write(position, &[bytes])?;
            last.segment.write(start, &[&record.encode(&last.head, &[])])?;
            // Nobody asks for the checksum of what lies in memory.
            if last.segment.memory().is_none() {
                last.unsummed.push((*record, position));
            }
        } else {
            last.segment.write(start, &[&record.encode(&last.head, bytes), bytes])?;
        }
        last.is_synced = false;
        self.position = position + bytes.len() as u64;
        self.next_sequence += 1;
        let (segment, number) = (Arc::clone(&last.segment), last.head.number);
        Ok(Appended { segment, number, position, sequence: record.sequence })
    }

    /// The records that have no checksum yet; they count as summed from now on.
    pub(crate) fn take_unsummed(&mut self) -> Vec<UnsummedRecords> {
        let used = self.segments.iter_mut().filter(|used| !used.unsummed.is_empty());
        used.map(|used| UnsummedRecords {
            segment: Arc::clone(&used.segment),
            head: used.head,
            records: std::mem::take(&mut used.unsummed),
        })
        .collect()
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

    /// Says that these have no checksum after all.
    pub(crate) fn give_back_unsummed(&mut self, unsummed: Vec<UnsummedRecords>) {
        for UnsummedRecords { segment, records, .. } in unsummed {
            if let Some(used) = self.segments.iter_mut().find(|used| Arc::ptr_eq(&used.segment, &segment)) {
                used.unsummed.extend(records);
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
