//! The redo log of a killed process, replayed.

use std::{fs::File, path::Path, sync::Arc};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, disk};
use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
};

use crate::{
    area::{
        room::{ALIVE, number_in},
        status::{ItemKind, ItemState},
    },
    on_disk::{
        facts_file::{DestinationFacts, FactsFile},
        item_files::{find_journal, is_draft, write_journal},
        journal::Journal,
        log_record::{FoundRecord, RecordKind, ScanDepth},
        stamp::{FileStamp, is_regular, now_ns},
    },
    recover::{
        recovery::{RecoverVerdict, Recovery, UpdateSibling},
        survey::{FoundSegment, facts_in, has_facts, segments_of},
    },
    update::{
        batch::{DrainBatch, Truncation},
        pending::{PendingMap, PendingPiece},
        redo_state::facts_name,
        segment::LogSegment,
    },
};

/// A process that was killed while it wrote said at least every quarter of a second that it lives; a busy machine takes longer.
/// Who changes a destination within this time after the kill is not noticed.
const SLACK_NS: u64 = 3_000_000_000;
/// Bytes of one write to the destination.
const RUN_BYTES: u64 = 8 << 20;

/// A record and the segment that its bytes are in.
type LoggedRecord = (Arc<LogSegment>, FoundRecord);

/// What is to become of the log.
pub(crate) fn judge(recovery: &Recovery<'_>, journal: &Journal) -> Result<RecoverVerdict> {
    let Some(facts) = facts_of(recovery)? else {
        let is_empty = segments_of(recovery.folder, journal.log, ScanDepth::Heads)?.is_empty();
        let has_facts = has_facts(recovery.folder, recovery.id)?;
        // A flush syncs the names of the facts and of the segments before it promises anything.
        let is_lost = !recovery.is_same_boot && !has_facts;
        // And the bytes of the facts before it syncs the journal.
        let is_damaged = has_facts && !is_draft(recovery.folder, recovery.id)?;
        // The facts are written before the first record: without them nothing was accepted.
        return Ok(if is_empty && !is_damaged || is_lost {
            RecoverVerdict::Discard
        } else {
            RecoverVerdict::Refuse(
                Error::corrupt("what its destination looked like is lost").hint(recovery.discard_hint()),
            )
        });
    };
    let records = match records_of(recovery, journal, &facts) {
        Ok(records) => records,
        Err(error) => return Ok(RecoverVerdict::Refuse(error)),
    };
    if !records.iter().any(|(_, record)| record.head.kind != RecordKind::Mark) {
        return left_out(recovery, journal, &facts, &records);
    }
    match check_destination(recovery, journal, &facts) {
        Ok(()) => Ok(RecoverVerdict::Finish),
        Err(error) => Ok(RecoverVerdict::Refuse(error)),
    }
}

/// What is to become of a log of which nothing is replayed: who asks for it to be applied is not answered by its removal.
fn left_out(
    recovery: &Recovery<'_>,
    journal: &Journal,
    facts: &DestinationFacts,
    records: &[LoggedRecord],
) -> Result<RecoverVerdict> {
    let segments = segments_of(recovery.folder, journal.log, ScanDepth::Heads)?;
    let base = base_of(&segments, facts.base);
    let mut left = segments.iter().flat_map(|segment| &segment.records).map(|record| record.head);
    let is_left = left.any(|head| head.kind != RecordKind::Mark && head.sequence >= base);
    if recovery.is_forced && (is_left || lost_record(facts, base, records).is_some()) {
        let error = Error::corrupt("nothing of the redo log can be applied");
        return Ok(RecoverVerdict::Refuse(error.hint(recovery.discard_hint())));
    }
    Ok(RecoverVerdict::Discard)
}

/// Replays the log.
pub(crate) fn finish(recovery: &Recovery<'_>, journal: &Journal) -> Result<()> {
    let Some(facts) = facts_of(recovery)? else { return Ok(()) };
    let records = records_of(recovery, journal, &facts)?;
    let file = open_destination(&journal.destination())?;
    lock_destination(recovery, &file)?;
    // Others may have replaced or changed it since it was judged.
    check_stamp(recovery, journal, &facts, &FileStamp::of(&file)?)?;
    // Who asks from now on whether the destination may be opened waits for this process.
    let mut draining = journal.clone();
    draining.state = ItemState::Draining;
    write_journal(recovery.folder, recovery.id, &draining, true)?;
    // Should this process be killed as well, the next one must know who changed the destination.
    let facts_file = FactsFile::reopen(recovery.folder.open_existing(facts_name(recovery.id))?)?;
    beat(recovery.folder)?;
    let stamp = FileStamp::of(&file)?;
    let is_known = is_known(recovery, &stamp)?;
    facts_file.write(&DestinationFacts { stamp, is_active: true, ..facts })?;
    let (pending, truncation) = newest(&records);
    if let Some(truncation) = truncation {
        disk::set_len(&file, truncation.cut)
            .and_then(|()| disk::set_len(&file, truncation.len))
            .map_err(Error::from_io)?;
    }
    let batch = DrainBatch::new(pending.through(u32::MAX), 0, None, RUN_BYTES);
    let mut buffer = Vec::new();
    for run in batch.jobs.iter().flatten() {
        let Some(first) = run.first() else { continue };
        let len: u64 = run.iter().map(PendingPiece::len).sum();
        buffer.resize(usize::try_from(len).unwrap_or(0), 0);
        let mut rest = buffer.as_mut_slice();
        for piece in run {
            let (own, after) = rest.split_at_mut(usize::try_from(piece.len()).unwrap_or(0));
            piece.segment.read(piece.position, own)?;
            rest = after;
        }
        beat(recovery.folder)?;
        disk::write_all_at(&file, &buffer, first.start)
            .map_err(|error| Error::from_io(error).at(format!("byte {}", first.start)))?;
        recovery.tell(len)?;
    }
    disk::sync_all(&file).map_err(Error::from_io)?;
    // Where others had changed it, each of its items is asked about.
    if !is_known {
        return Ok(());
    }
    let stamp = FileStamp::of(&file)?;
    tell_siblings(recovery, stamp)?;
    tell_new_files(recovery, journal, stamp)
}

/// Tells the new files that wait for the destination what the process left there, before an update goes of which nothing is replayed. With
/// `is_named`, the user has asked for that, and a destination that cannot be looked at does not keep the item.
pub(crate) fn tell_what_it_left(recovery: &Recovery<'_>, journal: &Journal, is_named: bool) -> Result<()> {
    let found = match FileStamp::at(&journal.destination()) {
        Err(_) if is_named => None,
        found => found?,
    };
    match found {
        Some(stamp) if is_known(recovery, &stamp)? => tell_new_files(recovery, journal, stamp),
        _ => Ok(()),
    }
}

/// Tells the new files that are to replace the destination what it looks like now: others did not change it.
fn tell_new_files(recovery: &Recovery<'_>, journal: &Journal, stamp: FileStamp) -> Result<()> {
    for (folder, id) in recovery.items {
        let Some(mut waiting) = find_journal(folder, id)? else { continue };
        let replaces_it = waiting.expected.iter().flatten().any(|expected| expected.is_same_file(&stamp));
        if waiting.kind == ItemKind::Create
            && waiting.image.is_some()
            && waiting.destination() == journal.destination()
            && replaces_it
        {
            waiting.expected.push(Some(stamp));
            write_journal(folder, id, &waiting, true)?;
        }
    }
    Ok(())
}

/// Returns whether one of the processes that were killed left the destination so.
fn is_known(recovery: &Recovery<'_>, stamp: &FileStamp) -> Result<bool> {
    let is_told = facts_of(recovery)?.is_some_and(|facts| facts.stamp == *stamp);
    Ok(is_told || recovery.siblings.iter().any(|sibling| sibling.may_have_left(stamp)))
}

fn facts_of(recovery: &Recovery<'_>) -> Result<Option<DestinationFacts>> {
    facts_in(recovery.folder, recovery.id)
}

/// What the process of the update `id` knew of its destination.
pub(crate) fn sibling(
    folder: &Arc<OwnFolder>,
    id: &str,
    journal: &Journal,
    is_same_boot: bool,
) -> Result<Option<UpdateSibling>> {
    let Some(DestinationFacts { stamp, is_active, .. }) = facts_in(folder, id)? else { return Ok(None) };
    // Killed while it wrote, or before the system had written what it said: the time is at most that of its last beat.
    let alive = number_in(folder, Path::new(ALIVE)).max(stamp.modified_ns);
    let until_ns = (is_active || !is_same_boot).then(|| alive.saturating_add(SLACK_NS));
    let (folder, id) = (Arc::clone(folder), id.to_owned());
    Ok(Some(UpdateSibling { folder, id, destination: journal.destination(), stamp, until_ns }))
}

/// Tells the other updates of the destination what it looks like now, should the next recovery have to go on with them.
fn tell_siblings(recovery: &Recovery<'_>, stamp: FileStamp) -> Result<()> {
    for other in recovery.siblings.iter().filter(|other| other.id != recovery.id) {
        // One that is gone is done.
        let Some(facts) = facts_in(&other.folder, &other.id)? else { continue };
        let file = FactsFile::reopen(other.folder.open_existing(facts_name(&other.id))?)?;
        file.write(&DestinationFacts { stamp, ..facts })?;
    }
    Ok(())
}

fn beat(folder: &OwnFolder) -> Result<()> {
    disk::write_all_at(&folder.open_or_create(ALIVE)?, &now_ns().to_le_bytes(), 0).map_err(Error::from_io)
}

/// The newest bytes of the records, and how the file has to be cut before.
fn newest(records: &[LoggedRecord]) -> (PendingMap, Option<Truncation>) {
    let (mut pending, mut truncation) = (PendingMap::default(), None);
    for (segment, FoundRecord { head, position }) in records {
        match head.kind {
            RecordKind::Write | RecordKind::Unsummed if head.len > 0 => {
                pending.insert(PendingPiece {
                    start: head.offset,
                    end: head.offset + head.len,
                    sequence: head.sequence,
                    number: 0,
                    segment: Arc::clone(segment),
                    position: *position,
                });
            }
            RecordKind::Truncate => {
                pending.cut(head.offset);
                truncation = Some(Truncation::then(truncation, head.offset));
            }
            RecordKind::Write | RecordKind::Unsummed | RecordKind::Mark => {}
        }
    }
    (pending, truncation)
}

/// The first record of which the facts say that it was promised and that is neither in the destination nor among `records`, which begin
/// with `base`.
fn lost_record(facts: &DestinationFacts, base: u64, records: &[LoggedRecord]) -> Option<u64> {
    let end = records.last().map_or(base, |(_, record)| record.head.sequence.saturating_add(1));
    (end <= facts.promised).then_some(end)
}

fn missing(record: u64) -> Error {
    Error::corrupt(format!("redo log is damaged: record {record} is missing"))
}

/// The records that count, from those on that are not in the destination; an error where some are missing that were promised, unless the
/// user wants what comes before.
fn records_of(
    recovery: &Recovery<'_>,
    journal: &Journal,
    facts: &DestinationFacts,
) -> Result<Vec<LoggedRecord>> {
    let depth = if recovery.is_same_boot { ScanDepth::SameBoot } else { ScanDepth::Checked };
    let mut segments = segments_of(recovery.folder, journal.log, depth)?;
    let base = base_of(&segments, facts.base);
    if !recovery.is_same_boot {
        // Nothing behind the last mark was promised, whatever is missing there.
        let heads = segments.iter().flat_map(|segment| &segment.records).map(|record| record.head);
        let marks = heads.filter(|head| head.kind == RecordKind::Mark).map(|head| head.sequence);
        let last = marks.max().unwrap_or(0);
        segments.retain(|segment| segment.head.first <= last);
    }
    let ordered = in_order(segments, base, recovery.is_forced).and_then(|records| {
        let lost = lost_record(facts, base, &records).filter(|_| !recovery.is_forced);
        lost.map_or(Ok(records), |record| Err(missing(record)))
    });
    let mut records = ordered.map_err(|error| {
        error.hint(format!(
            "'--apply {0}' applies what comes before, {1}",
            recovery.id,
            recovery.discard_hint()
        ))
    })?;
    if !recovery.is_same_boot {
        // What was not synced may be there in part: up to the last mark all of it is.
        let marks = records.iter().rposition(|(_, record)| record.head.kind == RecordKind::Mark);
        records.truncate(marks.map_or(0, |mark| mark + 1));
    }
    Ok(records)
}

/// The first record that is not in the destination, as facts and marks know it: facts may be older after a power loss.
fn base_of(segments: &[FoundSegment], base: u64) -> u64 {
    let heads = segments.iter().flat_map(|segment| &segment.records).map(|record| record.head);
    let marks = heads.filter(|head| head.kind == RecordKind::Mark && head.offset <= head.sequence);
    marks.map(|mark| mark.offset).fold(base, u64::max)
}

/// The records from `base` on, each with the next number; an error where some are missing in between, or, with
/// `stops_at_gaps`, those before.
pub(crate) fn in_order(
    segments: Vec<FoundSegment>,
    base: u64,
    stops_at_gaps: bool,
) -> Result<Vec<LoggedRecord>> {
    let mut records = Vec::new();
    let mut next = base;
    for found in segments {
        let FoundSegment { file, name, len, head, records: inside } = found;
        let end = head.first.saturating_add(inside.len() as u64);
        // Recycled since, but not written again: all of it is in the destination.
        if end <= next && head.first < base {
            continue;
        }
        if head.first > next {
            if stops_at_gaps {
                break;
            }
            return Err(missing(next));
        }
        let segment = Arc::new(LogSegment::found(file, name, len));
        let news = inside.into_iter().filter(|record| record.head.sequence >= next);
        records.extend(news.map(|record| (Arc::clone(&segment), record)));
        next = next.max(end);
    }
    Ok(records)
}

fn open_destination(path: &Path) -> Result<File> {
    let opened = disk::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).map(File::from);
    let file = opened.map_err(|error| Error::from_io(error).at(path.display()))?;
    if is_regular(&file) {
        return Ok(file);
    }
    Err(Error::invalid("expected a regular file").at(path.display()))
}

/// Keeps programs that lock what they open from the destination, until `file` is closed.
fn lock_destination(recovery: &Recovery<'_>, file: &File) -> Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let error = Error::new(ErrorKind::Unavailable, "is open and locked by a process");
            Err(error.hint(format!("close it and run this again; {}", recovery.discard_hint())))
        }
        // Some file systems have no locks.
        _ => Ok(()),
    }
}

/// Whether the destination is as the process left it.
fn check_destination(recovery: &Recovery<'_>, journal: &Journal, facts: &DestinationFacts) -> Result<()> {
    let Some(stamp) = FileStamp::at(&journal.destination())? else {
        return Err(Error::new(ErrorKind::NotFound, "was removed since").hint(recovery.discard_hint()));
    };
    check_stamp(recovery, journal, facts, &stamp)
}

fn check_stamp(
    recovery: &Recovery<'_>,
    journal: &Journal,
    facts: &DestinationFacts,
    stamp: &FileStamp,
) -> Result<()> {
    if recovery.is_forced {
        return Ok(());
    }
    if facts.is_foreign {
        return Err(recovery.changed("was changed by others while writes to it were staged"));
    }
    if !stamp.is_same_file(&facts.stamp) {
        return Err(recovery.changed("was replaced by another file since"));
    }
    // Several processes may have written to it: the last one left it as it is. Ranks write beside their logs as well.
    if journal.is_shared || is_known(recovery, stamp)? {
        Ok(())
    } else {
        Err(recovery.changed("was changed by others since"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_disk::log_record::{RecordHead, SegmentHead};

    fn segment(first: u64, records: &[(RecordKind, u64)]) -> FoundSegment {
        let records = records.iter().zip(first..).map(|((kind, offset), sequence)| FoundRecord {
            head: RecordHead { kind: *kind, sequence, offset: *offset, len: 1 },
            position: 0,
        });
        let head = SegmentHead { log: 1, number: 0, first };
        let file = tempfile::tempfile().unwrap();
        FoundSegment { file, name: String::new(), len: 0, head, records: records.collect() }
    }

    #[test]
    fn a_mark_says_how_far_the_destination_is_where_the_facts_are_older() {
        use RecordKind::{Mark, Write};
        // Records 1 to 3 are in the destination and synced, which the facts, lost with the power, do not know.
        let log = || vec![segment(1, &[(Write, 0), (Write, 10), (Mark, 0), (Mark, 4), (Write, 20)])];
        assert_eq!(base_of(&log(), 1), 4);
        assert_eq!(base_of(&log(), 5), 5, "facts may be newer too");
        let sequences = |base| {
            let records = in_order(log(), base, false).unwrap();
            records.iter().map(|(_, record)| record.head.sequence).collect::<Vec<_>>()
        };
        assert_eq!(sequences(base_of(&log(), 1)), [4, 5]);
        assert_eq!(base_of(&[segment(1, &[(Mark, 99)])], 1), 1, "no mark knows of records behind it");
    }
}
