//! Windows: bytes of a source that lie near each other and are read as one. Arithmetic alone.

use forebay_source::ByteRange;

use crate::extents::source_index::SourceIndex;

/// Bytes this near are read as one: the same limit, for the same reason, as files have.
const GAP_BYTES: u64 = 4096;
/// The most that is read as one for the sake of what lies in it.
const WINDOW_BYTES: u64 = 8 << 20;
/// Bytes as many as these are read by themselves: to copy them takes longer than one more request to a local file.
const ALONE_BYTES: u64 = 128 << 10;

/// Some bytes of a source, and where in the output they go.
#[derive(Clone, Copy, Debug)]
pub struct PlacedBytes {
    /// Which source.
    pub source: SourceIndex,
    /// Which bytes of it.
    pub range: ByteRange,
    /// Bytes of output before them.
    pub to: usize,
}

/// Bytes that are read as one.
#[derive(Debug)]
pub struct ReadWindow {
    /// Which source.
    pub source: SourceIndex,
    /// Which bytes of it.
    pub range: ByteRange,
    /// What is wanted of them.
    pub parts: Vec<PlacedBytes>,
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
            && usize::try_from(only.range.len()).is_ok_and(|len| to == only.to + len)
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
pub struct WindowJoiner(Option<ReadWindow>);

impl WindowJoiner {
    /// Adds `placed`; gives the window before it, if `placed` begins another.
    pub fn push(&mut self, placed: PlacedBytes) -> Option<ReadWindow> {
        if self.0.as_mut().is_some_and(|window| window.takes(placed)) {
            return None;
        }
        let PlacedBytes { source, range, .. } = placed;
        self.0.replace(ReadWindow { source, range, parts: vec![placed] })
    }

    /// The window that is not yet given.
    pub fn last(&mut self) -> Option<ReadWindow> {
        self.0.take()
    }
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
            to: usize::try_from(number * WINDOW_BYTES).unwrap(),
            ..placed(number * WINDOW_BYTES, WINDOW_BYTES)
        };
        let mut windows = WindowJoiner::default();
        assert!((0..5).all(|number| windows.push(place(number)).is_none()));
        let window = windows.last().unwrap();
        assert_eq!((window.range.len(), window.parts.len()), (5 * WINDOW_BYTES, 1));
    }
}
