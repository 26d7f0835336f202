//! A redo log: records in segments, appended at one end and forgotten at the other.

use std::{collections::VecDeque, sync::Arc};

use forebay_process::Result;
use forebay_scratch::nonce;

use crate::{
    area::room::ProcessRoom,
    on_disk::log_record::{HEAD_LEN, RecordHead, RecordKind, SegmentHead, record_start},
    update::segment::{LogSegment, SegmentPool},
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
        let read = |at: u64, into: &mut [u8]| self.segment.read(at, into);
        for (record, position) in &self.records {
            let record = RecordHead { kind: RecordKind::Write, ..*record };
            let head = record.encode_stored(&self.head, &read, *position)?;
            self.segment.write(position - HEAD_LEN as u64, &[&head])?;
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
        let position_before = self.position;
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
            // A mark that comes next stands right behind the last record, or it would not be found.
            self.position = position_before;
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

    /// The segments whose names are not on the disk yet.
    pub(crate) fn unnamed(&self) -> Vec<Arc<LogSegment>> {
        let unnamed = self.segments.iter().filter(|used| !used.segment.is_name_synced());
        unnamed.map(|used| Arc::clone(&used.segment)).collect()
    }

    /// Says that these have their checksums: their heads were written since their segments were synced, if they were.
    pub(crate) fn note_summed(&mut self, summed: &[UnsummedRecords]) {
        for UnsummedRecords { segment, .. } in summed {
            if let Some(used) = self.segments.iter_mut().find(|used| Arc::ptr_eq(&used.segment, segment)) {
                used.is_synced = false;
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::{
        area::settings::AreaSettings,
        on_disk::log_record::{ScanDepth, scan_segment},
    };

    fn room(folder: &std::path::Path) -> ProcessRoom {
        ProcessRoom::open(&AreaSettings { free_floor: 0, ..AreaSettings::folder(folder) })
    }

    /// The records that a scan of the only segment finds.
    fn kinds(log: &RedoLog) -> Vec<RecordKind> {
        let UsedSegment { segment, head, .. } = &log.segments[0];
        let read = |at: u64, into: &mut [u8]| segment.read(at, into);
        let found = scan_segment(&read, log.position, head, ScanDepth::Checked).unwrap();
        found.iter().map(|record| record.head.kind).collect()
    }

    #[test]
    fn a_mark_is_found_behind_the_last_record_when_a_new_segment_could_not_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let (room, pool) = (room(folder.path()), SegmentPool::default());
        let mut log = RedoLog::new();
        log.append((&room, &pool), RecordKind::Write, 0, &[1; 1000]).unwrap();
        // The next segment comes from the pool and cannot be written.
        let refuses = File::open(folder.path()).unwrap();
        pool.give_back(&room, Arc::new(LogSegment::found(refuses, "refuses".to_owned(), 4 << 20)));
        assert!(log.append((&room, &pool), RecordKind::Write, 1000, &[2; 3 << 20]).is_err());
        log.append((&room, &pool), RecordKind::Mark, 0, &[]).unwrap();
        assert_eq!(kinds(&log), [RecordKind::Write, RecordKind::Mark]);
    }

    #[test]
    fn a_segment_whose_records_got_their_checksums_is_synced_again() {
        let folder = tempfile::tempdir().unwrap();
        let (room, pool) = (room(folder.path()), SegmentPool::default());
        let mut log = RedoLog::new();
        log.append((&room, &pool), RecordKind::Write, 0, &[1; 100_000]).unwrap();
        let unsummed = log.take_unsummed();
        assert_eq!(kinds(&log), [], "it has no checksum yet");
        // Another thread syncs all there is while the checksums are made.
        assert_eq!(log.take_unsynced().len(), 1);
        unsummed.iter().try_for_each(UnsummedRecords::sum).unwrap();
        log.note_summed(&unsummed);
        assert_eq!(log.take_unsynced().len(), 1);
        assert_eq!(kinds(&log), [RecordKind::Write]);
    }
}
