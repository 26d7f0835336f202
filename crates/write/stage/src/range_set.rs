//! A set of bytes of a file, as ranges that do not touch.

use std::{collections::BTreeMap, os::fd::AsFd};

/// Bytes of a file, merged into as few ranges as possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// Start to end of each range.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RangeSet {
    /// The set of `ranges`, which may overlap; those that end before they begin are left out.
    pub(crate) fn of(ranges: &[(u64, u64)]) -> Self {
        let mut set = Self::default();
        for &(start, end) in ranges {
            set.insert(start, end);
        }
        set
    }

    /// Adds `start..end`.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        // What touches it becomes part of it.
        while let Some((&at, &until)) = self.ranges.range(..=end).next_back() {
            if until < start {
                break;
            }
            self.ranges.remove(&at);
            self.bytes -= until - at;
            start = start.min(at);
            end = end.max(until);
        }
        self.ranges.insert(start, end);
        self.bytes += end - start;
    }

    /// Removes all from `len` on.
    pub(crate) fn cut(&mut self, len: u64) {
        while let Some((&at, &until)) = self.ranges.iter().next_back() {
            if until <= len {
                break;
            }
            self.ranges.remove(&at);
            self.bytes -= until - at;
            if at < len {
                self.ranges.insert(at, len);
                self.bytes += len - at;
            }
        }
    }

    /// Has at most `most` ranges: where there are more, one that has all of them.
    pub(crate) fn coarsen(&mut self, most: usize) {
        if self.ranges.len() > most
            && let (Some((&start, _)), Some((_, &end))) =
                (self.ranges.iter().next(), self.ranges.iter().next_back())
        {
            self.insert(start, end);
        }
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether any byte of `start..end` is in it.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        start < end && self.ranges.range(..end).next_back().is_some_and(|(_, &until)| until > start)
    }

    /// `start..end` in pieces, each with whether it is in the set.
    pub(crate) fn pieces(&self, start: u64, end: u64) -> Vec<(u64, u64, bool)> {
        let mut pieces = Vec::new();
        let mut at = start;
        let first = self.ranges.range(..=start).next_back().map_or(start, |(&from, _)| from);
        for (&from, &until) in self.ranges.range(first..) {
            if from >= end || at >= end {
                break;
            }
            if until <= at {
                continue;
            }
            if from > at {
                pieces.push((at, from, false));
                at = from;
            }
            let until = until.min(end);
            pieces.push((at, until, true));
            at = until;
        }
        if at < end {
            pieces.push((at, end, false));
        }
        pieces
    }

    /// The ranges, in order.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        self.ranges.iter().map(|(&start, &end)| (start, end)).collect()
    }

    /// Bytes in the set.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of `start..end` that are not in the set.
    pub(crate) fn missing(&self, start: u64, end: u64) -> u64 {
        self.pieces(start, end).iter().filter(|piece| !piece.2).map(|piece| piece.1 - piece.0).sum()
    }
}

/// Stretches of a file with holes; of one with more, holes are copied as zeros.
const MOST_STRETCHES: usize = 1 << 12;

/// What an image of `len` bytes holds: all of it but holes.
pub(crate) fn held_of(image: impl AsFd, len: u64) -> RangeSet {
    let image = image.as_fd();
    let seek = |from| rustix::fs::seek(image, from).ok();
    let mut held = RangeSet::default();
    let mut at = 0;
    while let Some(start) = seek(rustix::fs::SeekFrom::Data(at)).filter(|start| *start < len) {
        let end = seek(rustix::fs::SeekFrom::Hole(start)).unwrap_or(len).clamp(start + 1, len);
        held.insert(start, end);
        at = end;
        if held.ranges.len() > MOST_STRETCHES {
            return RangeSet::of(&[(0, len)]);
        }
    }
    held
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_of_an_image_are_not_what_it_holds() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(held_of(&file, 0).ranges(), []);
        file.write_all_at(b"end", 16 << 20).unwrap();
        let len = file.metadata().unwrap().len();
        let held = held_of(&file, len).ranges();
        assert!(held.len() == 1 && held[0].0 > 0 && held[0].1 == len, "{held:?}");
        file.write_all_at(&[7; 5], 0).unwrap();
        assert_eq!(held_of(&file, len).ranges().first().map(|range| range.0), Some(0));
    }

    #[test]
    fn ranges_that_touch_become_one_and_the_rest_is_told_apart() {
        let mut set = RangeSet::of(&[(10, 20), (30, 40), (20, 25), (5, 3)]);
        assert_eq!(set.ranges(), [(10, 25), (30, 40)]);
        assert_eq!(set.bytes(), 25);
        assert_eq!(set.pieces(0, 35), [(0, 10, false), (10, 25, true), (25, 30, false), (30, 35, true)]);
        assert_eq!(set.missing(12, 31), 5);
        assert!(set.overlaps(24, 26) && !set.overlaps(25, 30) && !set.overlaps(12, 12));
        set.insert(0, 100);
        assert_eq!(set.ranges(), [(0, 100)]);
        set.cut(50);
        assert_eq!((set.ranges(), set.bytes()), (vec![(0, 50)], 50));
        let mut many = RangeSet::of(&[(1, 2), (4, 5), (8, 9)]);
        many.coarsen(3);
        assert_eq!(many.ranges().len(), 3);
        many.coarsen(2);
        assert_eq!((many.ranges(), many.bytes()), (vec![(1, 9)], 8));
    }

    #[test]
    fn a_set_agrees_with_one_flag_for_each_byte() {
        let mut state = 7_u64;
        let mut next = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let (mut set, mut flags) = (RangeSet::default(), [false; 64]);
        for _ in 0..2000 {
            let (start, end) = (next(64), next(65));
            match next(8) {
                0 => {
                    set.cut(end);
                    flags.iter_mut().skip(end as usize).for_each(|flag| *flag = false);
                }
                _ => {
                    set.insert(start, end);
                    (start..end).for_each(|at| flags[at as usize] = true);
                }
            }
            assert_eq!(set.bytes(), flags.iter().filter(|flag| **flag).count() as u64);
            for (from, until, inside) in set.pieces(0, 64) {
                assert!((from..until).all(|at| flags[at as usize] == inside));
            }
        }
    }
}
