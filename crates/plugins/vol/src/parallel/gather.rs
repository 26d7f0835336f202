//! Bytes of a program's memory, run by run, put together for places in a file.

#![expect(unsafe_code, reason = "reads a program's memory by address")]

use forebay_process::Result;

use crate::dataset::selection::ByteRun;

/// Where bytes for a place in the file go.
pub(crate) type WriteAt<'a> = &'a dyn Fn(u64, &[u8]) -> Result<()>;

/// Pieces at least this long go to the log as they lie in memory; shorter ones are put together first.
const DIRECT_BYTES: u64 = 64 << 10;
/// Bytes that are put together at most.
const GATHERED_BYTES: usize = 1 << 20;

/// Reads a selection of memory from its first byte to its last.
#[derive(Debug)]
pub(crate) struct GatherSource<'a> {
    base: *const u8,
    runs: &'a [ByteRun],
    run: usize,
    within: u64,
}

impl<'a> GatherSource<'a> {
    /// The bytes of `runs`, counted from `base`.
    pub(crate) fn new(base: *const u8, runs: &'a [ByteRun]) -> Self {
        Self { base, runs, run: 0, within: 0 }
    }

    /// The next bytes that lie side by side, at most `len`; `None` at the end.
    ///
    /// # Safety
    /// The memory of the selection is there, and not written meanwhile.
    unsafe fn next(&mut self, len: u64) -> Option<&'a [u8]> {
        let run = self.runs.get(self.run)?;
        let part = len.min(run.len - self.within);
        let at = usize::try_from(run.at + self.within).ok()?;
        let count = usize::try_from(part).ok()?;
        // SAFETY: as promised by the caller.
        let bytes = unsafe { std::slice::from_raw_parts(self.base.add(at), count) };
        self.within += part;
        if self.within == run.len {
            (self.run, self.within) = (self.run + 1, 0);
        }
        Some(bytes)
    }

    /// Fills `into`.
    ///
    /// # Safety
    /// As for `next`.
    pub(crate) unsafe fn fill(&mut self, into: &mut [u8]) -> Option<()> {
        let mut filled = 0;
        while filled < into.len() {
            // SAFETY: as promised by the caller.
            let bytes = unsafe { self.next((into.len() - filled) as u64)? };
            into[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        }
        Some(())
    }
}

/// Puts short pieces that lie side by side in the file together.
pub(crate) struct Gathering<'a> {
    write: WriteAt<'a>,
    at: u64,
    bytes: Vec<u8>,
}

impl<'a> Gathering<'a> {
    /// Nothing yet; what comes together goes to `write`.
    pub(crate) fn new(write: WriteAt<'a>) -> Self {
        Self { write, at: 0, bytes: Vec::new() }
    }

    /// Takes `len` bytes of `memory` for place `at` of the file.
    ///
    /// # Safety
    /// As for [`GatherSource::fill`].
    pub(crate) unsafe fn take(
        &mut self,
        mut at: u64,
        mut len: u64,
        memory: &mut GatherSource<'_>,
    ) -> Result<()> {
        while len > 0 {
            // SAFETY: as promised by the caller.
            let Some(bytes) = (unsafe { memory.next(len) }) else { return Ok(()) };
            self.put(at, bytes)?;
            at += bytes.len() as u64;
            len -= bytes.len() as u64;
        }
        Ok(())
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let follows =
            self.at + self.bytes.len() as u64 == at && self.bytes.len() + bytes.len() <= GATHERED_BYTES;
        if !follows {
            self.flush()?;
        }
        if bytes.len() as u64 >= DIRECT_BYTES {
            self.flush()?;
            return (self.write)(at, bytes);
        }
        if self.bytes.is_empty() {
            self.at = at;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Hands on what is left.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let written = (self.write)(self.at, &self.bytes);
        self.bytes.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn short_pieces_side_by_side_become_one_and_order_is_kept() {
        let memory: Vec<u8> = (0..=u8::MAX).cycle().take(200_000).collect();
        let runs =
            [ByteRun { at: 10, len: 4 }, ByteRun { at: 30, len: 6 }, ByteRun { at: 100, len: 150_000 }];
        let written = RefCell::new(Vec::new());
        let write = |at: u64, bytes: &[u8]| {
            written.borrow_mut().push((at, bytes.to_vec()));
            Ok(())
        };
        let mut source = GatherSource::new(memory.as_ptr(), &runs);
        let mut gathering = Gathering::new(&write);
        // SAFETY: all runs lie in `memory`.
        unsafe {
            gathering.take(1000, 8, &mut source).unwrap();
            gathering.take(5000, 2, &mut source).unwrap();
            gathering.take(9000, 150_000, &mut source).unwrap();
        }
        gathering.flush().unwrap();
        let written = written.into_inner();
        let first: Vec<u8> = memory[10..14].iter().chain(&memory[30..34]).copied().collect();
        assert_eq!(written[0], (1000, first));
        assert_eq!(written[1], (5000, memory[34..36].to_vec()));
        assert_eq!(written[2], (9000, memory[100..150_100].to_vec()));
        assert_eq!(written.len(), 3);
    }
}
