//! Records of a redo log, and how a segment of them is read back.
//!
//! ```text
//! segment: head (48 bytes) | record | record | …        old records of a recycled segment, which nothing reads
//! head:    "FBRS" | crc u32 | version u32 | number u32 | log u64 | first u64 | 16 bytes of zeros
//! record:  "FBRL" | crc u32 | log u64 | number u32 | kind u32 | sequence u64 | offset u64 | len u64 | bytes
//! ```
//!
//! Heads begin on multiples of 64, so that none lies on two pages. A record counts if it names this log and this segment, has
//! the next sequence number and a good CRC32C: what a recycled segment held before, and what a killed process wrote half, is
//! none.
//!
//! The checksum of a long record takes a fifth of the time of its write, and what is drained soon does not need it: it is left
//! to the next flush. Until then the record has a kind of its own, and its head, written after its bytes, is all that is
//! summed. That is enough after a kill, as the system has all that was written; after a loss of power it does not count.

use forebay_process::Result;

/// Bytes of a segment's head, and of a record's.
pub(crate) const HEAD_LEN: usize = 48;
const SEGMENT_MAGIC: [u8; 4] = *b"FBRS";
const RECORD_MAGIC: [u8; 4] = *b"FBRL";
const VERSION: u32 = 2;
const ALIGNMENT: u64 = 64;
/// Payloads are summed in pieces of this size.
const PIECE_BYTES: u64 = 256 << 10;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Bytes for an offset.
    Write,
    /// Bytes for an offset, whose checksum is not known yet.
    Unsummed,
    /// The file has this length, which stands as the offset.
    Truncate,
    /// All before it was synced. All before the record that stands as the offset is in the destination, synced.
    Mark,
}

impl RecordKind {
    fn number(self) -> u32 {
        match self {
            Self::Write => 1,
            Self::Truncate => 2,
            Self::Mark => 3,
            Self::Unsummed => 4,
        }
    }

    /// Whether bytes follow the head.
    fn has_bytes(self) -> bool {
        matches!(self, Self::Write | Self::Unsummed)
    }

    fn of(number: u32) -> Option<Self> {
        [Self::Write, Self::Unsummed, Self::Truncate, Self::Mark]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    /// Which log it belongs to.
    pub(crate) log: u64,
    /// Its place among the segments of the log.
    pub(crate) number: u32,
    /// The sequence number of its first record.
    pub(crate) first: u64,
}

/// A record without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) kind: RecordKind,
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A record that was found in a segment, and where its bytes begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    pub(crate) head: RecordHead,
    pub(crate) position: u64,
}

impl SegmentHead {
    pub(crate) fn encode(&self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        bytes[..4].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.log.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEAD_LEN]) -> Option<Self> {
        let is_sound = bytes[..4] == SEGMENT_MAGIC
            && u32_at(bytes, 8) == VERSION
            && (cfg!(fuzzing) || u32_at(bytes, 4) == crc32c::crc32c(&bytes[8..]));
        let head = Self { number: u32_at(bytes, 12), log: u64_at(bytes, 16), first: u64_at(bytes, 24) };
        is_sound.then_some(head)
    }
}

impl RecordHead {
    /// The head of this record in segment `number` of `log`, with the checksum of itself and `payload`.
    pub(crate) fn encode(&self, segment: &SegmentHead, payload: &[u8]) -> [u8; HEAD_LEN] {
        let mut bytes = self.encode_unsummed(segment);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..]), payload);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The same for bytes that are stored already, from `position` of the segment on.
    pub(crate) fn encode_stored(
        &self,
        segment: &SegmentHead,
        read: &SegmentBytes<'_>,
        position: u64,
    ) -> Result<[u8; HEAD_LEN]> {
        let mut bytes = self.encode_unsummed(segment);
        let sum = sum_stored(crc32c::crc32c(&bytes[8..]), read, position..position + self.len)?;
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    fn encode_unsummed(&self, segment: &SegmentHead) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        bytes[..4].copy_from_slice(&RECORD_MAGIC);
        bytes[8..16].copy_from_slice(&segment.log.to_le_bytes());
        bytes[16..20].copy_from_slice(&segment.number.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.kind.number().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.offset.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// The head and its checksum, if it names this segment.
    fn decode(bytes: &[u8; HEAD_LEN], segment: &SegmentHead) -> Option<(Self, u32)> {
        let is_of_segment = bytes[..4] == RECORD_MAGIC
            && u64_at(bytes, 8) == segment.log
            && u32_at(bytes, 16) == segment.number;
        if !is_of_segment {
            return None;
        }
        let kind = RecordKind::of(u32_at(bytes, 20))?;
        let head = Self {
            kind,
            sequence: u64_at(bytes, 24),
            offset: u64_at(bytes, 32),
            len: if kind.has_bytes() { u64_at(bytes, 40) } else { 0 },
        };
        // Beyond what a file can have.
        head.offset.checked_add(head.len).filter(|end| i64::try_from(*end).is_ok())?;
        Some((head, u32_at(bytes, 4)))
    }
}

/// Where a record can begin, at `position` or behind it.
pub(crate) fn record_start(position: u64) -> u64 {
    position.next_multiple_of(ALIGNMENT)
}

/// The bytes of a segment: fills all of the buffer from a position on.
pub(crate) type SegmentBytes<'a> = dyn Fn(u64, &mut [u8]) -> Result<()> + 'a;

/// The head of a segment of `len` bytes.
pub(crate) fn segment_head(read: &SegmentBytes<'_>, len: u64) -> Result<Option<SegmentHead>> {
    let mut head = [0; HEAD_LEN];
    if len < HEAD_LEN as u64 {
        return Ok(None);
    }
    read(0, &mut head)?;
    Ok(SegmentHead::decode(&head))
}

/// Whether the bytes of records are looked at too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanDepth {
    /// All of a record has to be there, by its checksum.
    Checked,
    /// The same, but the system has run since: what has no checksum yet is there as well.
    SameBoot,
    /// Its head is enough: how much there is, roughly, of a log that may still be written.
    Heads,
}

/// The records of a segment of `len` bytes, up to the first that does not count.
pub(crate) fn scan_segment(
    read: &SegmentBytes<'_>,
    len: u64,
    segment: &SegmentHead,
    depth: ScanDepth,
) -> Result<Vec<FoundRecord>> {
    let mut found = Vec::new();
    let mut at = record_start(HEAD_LEN as u64);
    let mut sequence = segment.first;
    let mut head = [0; HEAD_LEN];
    while let Some(position) = at.checked_add(HEAD_LEN as u64).filter(|position| *position <= len) {
        read(at, &mut head)?;
        let Some((record, sum)) = RecordHead::decode(&head, segment) else { break };
        let Some(end) = position.checked_add(record.len).filter(|end| *end <= len) else { break };
        if record.sequence != sequence {
            break;
        }
        let summed = match (depth, record.kind) {
            (ScanDepth::Checked, RecordKind::Unsummed) => break,
            (ScanDepth::SameBoot, RecordKind::Unsummed) => position..position,
            _ => position..end,
        };
        if depth != ScanDepth::Heads && !has_sum(read, &head, summed, sum)? {
            break;
        }
        found.push(FoundRecord { head: record, position });
        let (Some(next), Some(after)) = (sequence.checked_add(1), end.checked_next_multiple_of(ALIGNMENT))
        else {
            break;
        };
        (at, sequence) = (after, next);
    }
    Ok(found)
}

fn has_sum(
    read: &SegmentBytes<'_>,
    head: &[u8; HEAD_LEN],
    payload: std::ops::Range<u64>,
    sum: u32,
) -> Result<bool> {
    let found = sum_stored(crc32c::crc32c(&head[8..]), read, payload)?;
    Ok(cfg!(fuzzing) || found == sum)
}

/// The checksum of stored bytes behind what `sum` is of.
fn sum_stored(mut sum: u32, read: &SegmentBytes<'_>, stored: std::ops::Range<u64>) -> Result<u32> {
    let mut at = stored.start;
    let mut piece = Vec::new();
    while at < stored.end {
        let len = (stored.end - at).min(PIECE_BYTES);
        piece.resize(usize::try_from(len).unwrap_or(0), 0);
        read(at, &mut piece)?;
        sum = crc32c::crc32c_append(sum, &piece);
        at += len;
    }
    Ok(sum)
}

fn u32_at(bytes: &[u8; HEAD_LEN], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8; HEAD_LEN], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
mod tests {
    use forebay_process::Error;

    use super::*;

    const SEGMENT: SegmentHead = SegmentHead { log: 99, number: 3, first: 41 };

    fn segment(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = SEGMENT.encode().to_vec();
        for (index, payload) in payloads.iter().enumerate() {
            let head = RecordHead {
                kind: RecordKind::Write,
                sequence: SEGMENT.first + index as u64,
                offset: 1000 * index as u64,
                len: payload.len() as u64,
            };
            bytes.resize(record_start(bytes.len() as u64) as usize, 0);
            bytes.extend_from_slice(&head.encode(&SEGMENT, payload));
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    fn scan(bytes: &[u8]) -> Vec<FoundRecord> {
        let read = |at: u64, into: &mut [u8]| {
            let at = at as usize;
            let found = bytes.get(at..at + into.len()).ok_or_else(|| Error::corrupt("short"))?;
            into.copy_from_slice(found);
            Ok(())
        };
        let Some(head) = segment_head(&read, bytes.len() as u64).unwrap() else { return Vec::new() };
        scan_segment(&read, bytes.len() as u64, &head, ScanDepth::Checked).unwrap()
    }

    #[test]
    fn records_are_found_again_up_to_the_first_that_is_cut_or_changed() {
        let whole = segment(&[b"abc", b"", b"defgh"]);
        let found = scan(&whole);
        assert_eq!(found.iter().map(|record| record.head.sequence).collect::<Vec<_>>(), [41, 42, 43]);
        assert_eq!(&whole[found[2].position as usize..][..5], b"defgh");
        for len in 0..whole.len() {
            assert!(scan(&whole[..len]).len() < 3);
        }
        let ends: Vec<usize> =
            found.iter().map(|record| (record.position + record.head.len) as usize).collect();
        for at in (0..whole.len()).filter(|at| *at >= HEAD_LEN) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let hit = found.iter().position(|record| {
                let start = record.position as usize - HEAD_LEN;
                (start..start + HEAD_LEN + record.head.len as usize).contains(&at)
            });
            assert_eq!(scan(&changed).len(), hit.unwrap_or(ends.len()), "byte {at}");
        }
    }

    #[test]
    fn a_record_without_a_checksum_counts_after_a_kill_and_not_after_a_loss_of_power() {
        let head = RecordHead { kind: RecordKind::Unsummed, sequence: 41, offset: 0, len: 3 };
        let mut bytes = SEGMENT.encode().to_vec();
        bytes.resize(record_start(bytes.len() as u64) as usize, 0);
        bytes.extend_from_slice(&head.encode(&SEGMENT, &[]));
        bytes.extend_from_slice(b"abc");
        let read = |at: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[at as usize..at as usize + into.len()]);
            Ok(())
        };
        let count = |depth| scan_segment(&read, bytes.len() as u64, &SEGMENT, depth).unwrap().len();
        assert_eq!(
            (count(ScanDepth::SameBoot), count(ScanDepth::Checked), count(ScanDepth::Heads)),
            (1, 0, 1)
        );
    }

    #[test]
    fn records_that_a_recycled_segment_held_before_do_not_count() {
        let old = segment(&[b"abcdef", b"ghijkl"]);
        let mut bytes = SegmentHead { number: 4, ..SEGMENT }.encode().to_vec();
        bytes.extend_from_slice(&old[HEAD_LEN..]);
        assert!(scan(&bytes).is_empty());
    }
}
