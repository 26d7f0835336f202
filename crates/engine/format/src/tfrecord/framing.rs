//! The frame around each record.

use forebay_process::{Error, Result};
use forebay_source::ByteRange;

use super::window::FileWindow;

/// Bytes before a payload: its length and the checksum of that.
const HEAD_BYTES: u64 = 12;
/// Bytes after a payload: its checksum.
const TAIL_BYTES: u64 = 4;

/// Where one record lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordRange {
    pub(super) payload: ByteRange,
    /// One past its last byte, where the next one starts.
    pub(super) end: u64,
}

/// True when `head` is the start of a record that fits a file of `file_len` bytes.
pub(super) fn is_record_start(head: &[u8], file_len: u64) -> bool {
    let Some((len, sum)) = head_of(head) else { return false };
    let fits = len.checked_add(HEAD_BYTES + TAIL_BYTES).is_some_and(|end| end <= file_len);
    fits && sum == masked(&len.to_le_bytes())
}

/// The record that starts at `at`.
pub(super) fn next_record(window: &mut FileWindow<'_>, at: u64, checks_payload: bool) -> Result<RecordRange> {
    let file_len = window.file_len();
    let head = window.get(ByteRange::checked(at, HEAD_BYTES, file_len)?)?;
    let (len, sum) = head_of(head).ok_or_else(|| Error::corrupt("ends inside its head"))?;
    if !cfg!(fuzzing) && sum != masked(&len.to_le_bytes()) {
        return Err(
            Error::corrupt("bad checksum of its length").hint("the file is damaged or no TFRecord file")
        );
    }
    let payload = ByteRange::checked(at + HEAD_BYTES, len, file_len)?;
    let tail = ByteRange::checked(payload.end, TAIL_BYTES, file_len)?;
    if checks_payload {
        let mut found = 0;
        window.each_part(payload, |part| found = crc32c::crc32c_append(found, part))?;
        let wanted = window.get(tail)?;
        if wanted != mask(found).to_le_bytes() {
            return Err(Error::corrupt("bad checksum of its payload").hint("copy or write the file anew"));
        }
    }
    Ok(RecordRange { payload, end: tail.end })
}

fn head_of(bytes: &[u8]) -> Option<(u64, u32)> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*len), u32::from_le_bytes(*rest.first_chunk::<4>()?)))
}

/// The checksum that TensorFlow writes: turned and shifted, so that sums of sums do not collide.
fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

fn mask(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_record_is_told_by_its_checksum() {
        let mut head = 5u64.to_le_bytes().to_vec();
        head.extend(masked(&5u64.to_le_bytes()).to_le_bytes());
        assert!(is_record_start(&head, 21));
        assert!(!is_record_start(&head, 20), "a file that is too short for it");
        head[0] = 6;
        assert!(!is_record_start(&head, 100));
        assert!(!is_record_start(&head[..11], 100));
    }
}
