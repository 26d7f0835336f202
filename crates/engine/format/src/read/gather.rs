//! Reads bytes that go to the output as they are: windows of near ones as one, the others straight to their places.

use forebay_process::Result;
use forebay_source::{Fill, SourceExt};

use crate::Opened;
use forebay_container::{
    Dtype, native,
    windows::{PlacedBytes, ReadWindow, WindowJoiner},
};

/// Fills that wait for each other: a request each to a far source, at most.
const MOST_WAITING: usize = 4096;

/// Reads what it is given into the output, in native order.
#[derive(Debug)]
pub(super) struct Gather<'a> {
    opened: &'a Opened,
    /// The type that stored bytes are made native as; none where that is left to the caller.
    dtype: Option<&'a Dtype>,
    out: &'a mut [u8],
    windows: WindowJoiner,
    /// What lies alone, and goes straight to its place with others like it.
    alone: Vec<PlacedBytes>,
}

impl<'a> Gather<'a> {
    /// Reads whole elements of `dtype` into `out`, or bytes as they are stored where there is none.
    pub(super) fn new(opened: &'a Opened, dtype: Option<&'a Dtype>, out: &'a mut [u8]) -> Self {
        Self { opened, dtype, out, windows: WindowJoiner::default(), alone: Vec::new() }
    }

    /// Wants `placed`; no byte of the output may be wanted twice.
    pub(super) fn push(&mut self, placed: PlacedBytes) -> Result<()> {
        match self.windows.push(placed) {
            Some(window) => self.take(window),
            None => Ok(()),
        }
    }

    /// Wants `placed` by itself, whatever lies beside it.
    pub(super) fn push_alone(&mut self, placed: PlacedBytes) -> Result<()> {
        self.alone.push(placed);
        if self.alone.len() < MOST_WAITING { Ok(()) } else { self.read_alone() }
    }

    /// The output, for what is not read but known.
    pub(super) fn out(&mut self) -> &mut [u8] {
        self.out
    }

    /// Reads all that is still wanted: after it a byte of the output may be wanted again.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(window) = self.windows.last() {
            self.take(window)?;
        }
        self.read_alone()
    }

    /// Reads all that is still wanted, and gives the output back.
    pub(super) fn finish(mut self) -> Result<&'a mut [u8]> {
        self.flush()?;
        Ok(self.out)
    }

    fn take(&mut self, window: ReadWindow) -> Result<()> {
        if let [placed] = window.parts[..] {
            return self.push_alone(placed);
        }
        let bytes = self.opened.source(window.source)?.fetch_one(window.range)?;
        let mut done = 0..0;
        for PlacedBytes { range, to, .. } in window.parts {
            let from = index(range.start - window.range.start);
            let len = index(range.len());
            self.out[to..to + len].copy_from_slice(&bytes[from..from + len]);
            if to != done.end {
                make_native(self.dtype, &mut self.out[done]);
                done = to..to;
            }
            done.end = to + len;
        }
        make_native(self.dtype, &mut self.out[done]);
        Ok(())
    }

    fn read_alone(&mut self) -> Result<()> {
        let mut alone = std::mem::take(&mut self.alone);
        // The usual case, a row by itself, needs no list of fills.
        if let [PlacedBytes { source, range, to }] = alone[..] {
            let into = &mut self.out[to..to + index(range.len())];
            self.opened.source(source)?.fetch_into(&mut [Fill { range, into: &mut *into }])?;
            make_native(self.dtype, into);
            return Ok(());
        }
        alone.sort_unstable_by_key(|placed| (placed.source, placed.to));
        for same_source in alone.chunk_by(|one, next| one.source == next.source) {
            let mut fills = Vec::with_capacity(same_source.len());
            let (mut rest, mut passed) = (&mut *self.out, 0);
            for PlacedBytes { range, to, .. } in same_source {
                let (_, after) = rest.split_at_mut(to - passed);
                let (into, after) = after.split_at_mut(index(range.len()));
                passed = to + into.len();
                fills.push(Fill { range: *range, into });
                rest = after;
            }
            self.opened.source(same_source[0].source)?.fetch_into(&mut fills)?;
            fills.into_iter().for_each(|fill| make_native(self.dtype, fill.into));
        }
        Ok(())
    }
}

fn make_native(dtype: Option<&Dtype>, bytes: &mut [u8]) {
    if let Some(dtype) = dtype {
        native::make_native(dtype, bytes);
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory")
}
