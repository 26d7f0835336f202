//! The central directory of a zip file, zip64 included.
//!
//! ```text
//! members … │ directory: one entry each │ [zip64 end │ its locator] │ end: entries, size and place of the directory
//! ```

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

/// How a member is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
    Other(u16),
}

/// One member, as the directory has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZipMember {
    pub(super) name: String,
    pub(super) method: Method,
    /// CRC32 of its bytes.
    pub(super) sum: u32,
    /// Bytes it takes in the file.
    stored_len: u64,
    /// Bytes it has.
    pub(super) len: u64,
    /// Where its own header lies.
    at: u64,
}

const END_LEN: u64 = 22;
const LOCATOR_LEN: u64 = 20;
const END64_LEN: u64 = 56;
const ENTRY_LEN: usize = 46;
const LOCAL_LEN: u64 = 30;
/// A comment may follow the end record.
const MOST_COMMENT_BYTES: u64 = 65_535;
const ENCRYPTED: u16 = 1;

/// All members of `file`.
pub(super) fn members(file: &dyn Source) -> Result<Vec<ZipMember>> {
    let (directory, count) = find(file)?;
    if count > directory.len() / ENTRY_LEN as u64 {
        return Err(Error::corrupt(format!("{count} members in a directory of {} bytes", directory.len())));
    }
    let bytes = file.fetch_one(directory)?;
    let mut rest = &bytes[..];
    let mut members = Vec::new();
    for number in 0..count {
        members.push(entry(&mut rest).ok_or_else(|| {
            Error::corrupt(format!("entry {number} of the directory at {:#x} is damaged", directory.start))
        })?);
    }
    Ok(members)
}

/// Where the bytes of `member` lie: its own header says how long it is itself.
pub(super) fn data_of(file: &dyn Source, member: &ZipMember) -> Result<ByteRange> {
    let file_len = file.id().len;
    let header = file.fetch_one(ByteRange::checked(member.at, LOCAL_LEN, file_len)?)?;
    let number = |at: usize| u16_at(&header, at).map(u64::from).unwrap_or(0);
    if !header.starts_with(b"PK\x03\x04") {
        return Err(Error::corrupt(format!("no member at {:#x}", member.at)));
    }
    if number(6) & u64::from(ENCRYPTED) != 0 {
        return Err(Error::new(ErrorKind::Unsupported, "is encrypted"));
    }
    let start = member.at.saturating_add(LOCAL_LEN + number(26) + number(28));
    if member.method == Method::Stored && member.stored_len != member.len {
        return Err(Error::corrupt("is stored in another length than it has"));
    }
    ByteRange::checked(start, member.stored_len, file_len)
}

/// Where the directory lies, and how many entries it has.
fn find(file: &dyn Source) -> Result<(ByteRange, u64)> {
    let file_len = file.id().len;
    let tail_len = file_len.min(END_LEN + MOST_COMMENT_BYTES);
    let tail_start = file_len - tail_len;
    let tail = file.fetch_one(ByteRange::at(tail_start, tail_len))?;
    let is_end = |at: &usize| {
        let comment = u16_at(&tail, at + 20).map(usize::from);
        tail[*at..].starts_with(b"PK\x05\x06") && comment.is_some_and(|len| at + 22 + len == tail.len())
    };
    let last = tail.len().checked_sub(22).ok_or_else(|| Error::corrupt("is too short for a zip file"))?;
    let at = (0..=last).rev().find(is_end).ok_or_else(|| {
        Error::corrupt("has no directory at its end").hint("it was cut short: copy or write it anew")
    })?;
    let end = &tail[at..];
    let (count, len, start) = (u16_at(end, 10), u32_at(end, 12), u32_at(end, 16));
    let place = (count.map(u64::from), len.map(u64::from), start.map(u64::from));
    let (Some(count), Some(len), Some(start)) = place else {
        return Err(Error::corrupt("has a damaged end"));
    };
    let is_large = count == u64::from(u16::MAX) || len == u64::from(u32::MAX) || start == u64::from(u32::MAX);
    let (count, len, start) = match is_large {
        true => end64(file, tail_start + at as u64)?.unwrap_or((count, len, start)),
        false => (count, len, start),
    };
    Ok((ByteRange::checked(start, len, file_len)?, count))
}

/// What the zip64 end says, whose locator lies right before the end at `end_at`.
fn end64(file: &dyn Source, end_at: u64) -> Result<Option<(u64, u64, u64)>> {
    let Some(locator_at) = end_at.checked_sub(LOCATOR_LEN) else { return Ok(None) };
    let locator = file.fetch_one(ByteRange::at(locator_at, LOCATOR_LEN))?;
    if !locator.starts_with(b"PK\x06\x07") {
        return Ok(None);
    }
    let at = u64_at(&locator, 8).unwrap_or(u64::MAX);
    let end = file.fetch_one(ByteRange::checked(at, END64_LEN, file.id().len)?)?;
    if !end.starts_with(b"PK\x06\x06") {
        return Err(Error::corrupt(format!("no zip64 end at {at:#x}")));
    }
    Ok(u64_at(&end, 32)
        .zip(u64_at(&end, 40))
        .zip(u64_at(&end, 48))
        .map(|((count, len), start)| (count, len, start)))
}

/// The entry that `rest` starts with, which it then no longer has.
fn entry(rest: &mut &[u8]) -> Option<ZipMember> {
    let fixed = rest.get(..ENTRY_LEN).filter(|fixed| fixed.starts_with(b"PK\x01\x02"))?;
    let len_at = |at: usize| u16_at(fixed, at).map(usize::from);
    let (name_len, extra_len, comment_len) = (len_at(28)?, len_at(30)?, len_at(32)?);
    let after = &rest[ENTRY_LEN..];
    let (name, after) = after.split_at_checked(name_len)?;
    let (extra, after) = after.split_at_checked(extra_len)?;
    let (_, after) = after.split_at_checked(comment_len)?;
    let mut member = ZipMember {
        name: String::from_utf8_lossy(name).into_owned(),
        method: match u16_at(fixed, 10)? {
            0 => Method::Stored,
            8 => Method::Deflated,
            other => Method::Other(other),
        },
        sum: u32_at(fixed, 16)?,
        stored_len: u32_at(fixed, 20)?.into(),
        len: u32_at(fixed, 24)?.into(),
        at: u32_at(fixed, 42)?.into(),
    };
    widen(&mut member, extra)?;
    *rest = after;
    Some(member)
}

/// Takes what does not fit 32 bits from the zip64 extra field, which has it in this order.
fn widen(member: &mut ZipMember, mut extra: &[u8]) -> Option<()> {
    let is_wide = |number: u64| number == u64::from(u32::MAX);
    while let (Some(id), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let (body, after) = extra[4..].split_at_checked(len.into())?;
        if id == 1 {
            let mut at = 0;
            for number in [&mut member.len, &mut member.stored_len, &mut member.at] {
                if is_wide(*number) {
                    *number = u64_at(body, at)?;
                    at += 8;
                }
            }
        }
        extra = after;
    }
    Some(())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
