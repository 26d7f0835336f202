//! Bytes that go to the output as they are: those that lie near each other are read as one and copied from there.

use forebay_source::{ByteRange, Fill, Result, SourceExt};

use crate::Opened;
use forebay_container::{Dtype, SourceIndex, native};

/// Bytes this near are read as one: the same limit, for the same reason, as files have.
const GAP_BYTES: u64 = 4096;
/// The most that is read as one for the sake of what lies in it.
const WINDOW_BYTES: u64 = 8 << 20;
/// Bytes as many as these are read by themselves: to copy them takes longer than one more request to a local file.
const ALONE_BYTES: u64 = 128 << 10;
/// Fills that wait for each other: a request each to a far source, at most.
const MOST_WAITING: usize = 4096;

/// Some bytes of a source, and where in the output they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedBytes {
    pub(super) source: SourceIndex,
    pub(super) range: ByteRange,
    /// Bytes of output before them.
    pub(super) to: usize,
}

/// Bytes that are read as one.
#[derive(Debug)]
pub(super) struct ReadWindow {
    pub(super) source: SourceIndex,
    pub(super) range: ByteRange,
    parts: Vec<PlacedBytes>,
}

impl ReadWindow {
    /// Adds `placed`, where it is near enough.
    fn takes(&mut self, placed: PlacedBytes) -> bool {
        let PlacedBytes { source, range, to } = placed;
        if source != self.source || range.start < self.range.end {
            return false;
        }
        // What follows in the file and in the output is read as one without being copied.
        if let [only] = &mut self.parts[..]
            && range.start == only.range.end
            && to == only.to + index(only.range.len())
        {
            only.range.end = range.end;
            self.range.end = range.end;
            return true;
        }
        let is_near =
            range.start - self.range.end <= GAP_BYTES && range.end - self.range.start <= WINDOW_BYTES;
        let last_len = self.parts.last().map_or(0, |last| last.range.len());
        if !is_near || last_len.max(range.len()) >= ALONE_BYTES {
            return false;
        }
        self.range.end = range.end;
        self.parts.push(placed);
        true
    }
}

/// Joins what comes in the order of the file into windows.
#[derive(Debug, Default)]
pub(super) struct WindowJoiner(Option<ReadWindow>);

impl WindowJoiner {
    /// Adds `placed`; gives the window before it, if `placed` begins another.
    pub(super) fn push(&mut self, placed: PlacedBytes) -> Option<ReadWindow> {
        if self.0.as_mut().is_some_and(|window| window.takes(placed)) {
            return None;
        }
        let PlacedBytes { source, range, .. } = placed;
        self.0.replace(ReadWindow { source, range, parts: vec![placed] })
    }

    /// The window that is not yet given.
    pub(super) fn last(&mut self) -> Option<ReadWindow> {
        self.0.take()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(start: u64, len: u64) -> PlacedBytes {
        PlacedBytes { source: SourceIndex(0), range: ByteRange::at(start, len), to: 0 }
    }

    fn windows(all: &[PlacedBytes]) -> Vec<(u64, u64)> {
        let mut windows = WindowJoiner::default();
        let mut found: Vec<_> = all.iter().filter_map(|placed| windows.push(*placed)).collect();
        found.extend(windows.last());
        found.iter().map(|window| (window.range.start, window.range.end)).collect()
    }

    #[test]
    fn near_bytes_are_one_window_and_far_ones_are_not() {
        assert_eq!(windows(&[placed(0, 8), placed(16, 8), placed(24 + 4096, 8)]), [(0, 24 + 4096 + 8)]);
        assert_eq!(windows(&[placed(0, 8), placed(8 + 4097, 8)]), [(0, 8), (4105, 4113)]);
    }

    #[test]
    fn bytes_that_lie_before_or_over_those_already_met_begin_anew() {
        assert_eq!(windows(&[placed(8, 8), placed(0, 8)]), [(8, 16), (0, 8)]);
        assert_eq!(windows(&[placed(0, 8), placed(4, 8)]), [(0, 8), (4, 12)]);
    }

    #[test]
    fn a_window_does_not_grow_without_bound_nor_by_what_is_long() {
        let many: Vec<_> = (0..3 * WINDOW_BYTES / 4096).map(|number| placed(4096 * number, 8)).collect();
        let found = windows(&many);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|(start, end)| end - start <= WINDOW_BYTES));
        assert_eq!(windows(&[placed(0, ALONE_BYTES), placed(ALONE_BYTES, 8)]).len(), 2);
    }

    #[test]
    fn what_follows_in_the_file_and_in_the_output_is_one_part_however_long() {
        let place = |number: u64| PlacedBytes {
            to: index(number * WINDOW_BYTES),
            ..placed(number * WINDOW_BYTES, WINDOW_BYTES)
        };
        let mut windows = WindowJoiner::default();
        assert!((0..5).all(|number| windows.push(place(number)).is_none()));
        let window = windows.last().unwrap();
        assert_eq!((window.range.len(), window.parts.len()), (5 * WINDOW_BYTES, 1));
    }
}
