//! The position in a staged file, and small writes put together before they reach the area.

use forebay::{Error, Result, stage::StagedFile};

/// Writes that are shorter are put together with those that follow them: `pickle` and `zipfile` write tens of bytes at a time, and
/// a write to the area costs a system call. Longer ones would lose by the copy: 64 KiB took 40 us instead of 32.
pub(crate) const SMALL_BYTES: usize = 32 << 10;
/// The most that is put together.
const MERGED_BYTES: usize = 128 << 10;

/// Where a file's next byte goes, and bytes that did not reach the area yet.
#[derive(Default)]
pub(crate) struct StageCursor {
    position: u64,
    pending: Vec<u8>,
    pending_at: u64,
}

impl StageCursor {
    /// The position.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the file, those that did not reach the area included.
    pub(crate) fn len(&self, file: &StagedFile) -> Result<u64> {
        let pending_end =
            if self.pending.is_empty() { 0 } else { self.pending_at + self.pending.len() as u64 };
        Ok(file.len()?.max(pending_end))
    }

    /// Puts a few bytes beside those before them; false where they do not follow or have no room.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<bool> {
        let end = self.end_after(bytes.len())?;
        if self.pending.is_empty() {
            self.pending_at = self.position;
        }
        let follows = self.pending_at + self.pending.len() as u64 == self.position;
        if !follows || self.pending.len() + bytes.len() > MERGED_BYTES {
            return Ok(false);
        }
        self.pending.extend_from_slice(bytes);
        self.position = end;
        Ok(true)
    }

    /// Writes a few bytes at the position.
    pub(crate) fn write(&mut self, file: &StagedFile, bytes: &[u8]) -> Result<()> {
        if self.append(bytes)? {
            return Ok(());
        }
        self.flush(file)?;
        if self.append(bytes)? {
            return Ok(());
        }
        let begin = self.reserve(file, bytes.len())?;
        file.write_at(begin, bytes)
    }

    /// Moves the position over `len` bytes that the caller is about to write, and gives where they begin.
    pub(crate) fn reserve(&mut self, file: &StagedFile, len: usize) -> Result<u64> {
        let end = self.end_after(len)?;
        self.flush(file)?;
        let begin = self.position;
        self.position = end;
        Ok(begin)
    }

    /// Moves the position over up to `len` bytes that the caller is about to read, and gives where they begin and how many
    /// there are before the end of the file.
    pub(crate) fn reserve_read(&mut self, file: &StagedFile, len: Option<usize>) -> Result<(u64, usize)> {
        self.flush(file)?;
        let left = usize::try_from(file.len()?.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let (begin, len) = (self.position, len.map_or(left, |len| len.min(left)));
        self.position += len as u64;
        Ok((begin, len))
    }

    /// Moves the position, from the begin (0), from itself (1) or from the end (2).
    pub(crate) fn seek(&mut self, file: &StagedFile, offset: i64, whence: i32) -> Result<u64> {
        let base = match whence {
            0 => 0,
            1 => self.position,
            2 => self.len(file)?,
            _ => return Err(Error::invalid(format!("whence {whence} is none of 0, 1 and 2"))),
        };
        let Some(position) =
            base.checked_add_signed(offset).filter(|position| i64::try_from(*position).is_ok())
        else {
            return Err(Error::invalid(format!("no position is {offset} bytes from {base}")));
        };
        self.position = position;
        Ok(position)
    }

    /// Cuts or extends the file.
    pub(crate) fn truncate(&mut self, file: &StagedFile, len: u64) -> Result<()> {
        self.flush(file)?;
        file.set_len(len)
    }

    /// Hands what was put together to the area.
    pub(crate) fn flush(&mut self, file: &StagedFile) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        file.write_at(self.pending_at, &self.pending)?;
        self.pending.clear();
        Ok(())
    }

    fn end_after(&self, len: usize) -> Result<u64> {
        let end = self.position.checked_add(len as u64).filter(|end| i64::try_from(*end).is_ok());
        end.ok_or_else(|| Error::invalid(format!("{len} bytes at {} end beyond any file", self.position)))
    }
}
