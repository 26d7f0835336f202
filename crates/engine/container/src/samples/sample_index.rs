//! Which part of a variable a sample is: from its number in a file to a box of the array.

use std::{num::NonZeroU32, ops::Range, sync::Arc};

use forebay_process::{Error, ErrorKind, Result};

use crate::{
    grid::selection::Span,
    samples::{repeated::RepeatedBox, series::SeriesPart, window_axis::WindowAxis},
};

/// The samples of one variable of one file.
#[derive(Clone, Debug)]
pub enum SampleIndex {
    /// So many rows of axis 0 each.
    Rows {
        /// How many.
        rows: u64,
        /// How many samples.
        count: u64,
    },
    /// A different number of rows each.
    Ragged {
        /// Along which axis.
        axis: usize,
        /// Where they begin and end.
        bounds: Arc<Bounds>,
    },
    /// So many indexes of an axis other than 0 each.
    Slabs {
        /// Along which axis.
        axis: usize,
        /// How many.
        rows: u64,
        /// How many samples.
        count: u64,
    },
    /// The whole variable is one sample.
    Whole,
    /// Boxes at regular places.
    Windows(Windows),
    /// Boxes at listed places.
    Corners(Arc<Corners>),
    /// What this file has of boxes that go on from file to file.
    Series(SeriesPart),
    /// One box that many samples have in common.
    Repeated(Arc<RepeatedBox>),
}

/// Where samples of different lengths begin and end.
#[derive(Clone, Debug)]
pub enum Bounds {
    /// Each begins where the one before it ends: one more offset than samples, none falling.
    Offsets(Vec<u64>),
    /// Begin and end of each.
    Pairs(Vec<[u64; 2]>),
}

impl Bounds {
    /// The offsets `table`, which must not fall nor lead past `limit`.
    pub fn offsets(table: Vec<u64>, limit: u64) -> Result<Self> {
        let Some(last) = table.last() else {
            return Err(Error::new(ErrorKind::Invalid, "no offsets; n samples have n + 1"));
        };
        if let Some(index) = table.windows(2).position(|two| two[0] > two[1]) {
            let what =
                format!("offset {} is {}, the one before it {}", index + 1, table[index + 1], table[index]);
            return Err(Error::new(ErrorKind::Invalid, what).hint("offsets must not fall"));
        }
        past_end(*last, limit, table.len() - 1)?;
        Ok(Self::Offsets(table))
    }

    /// The pairs `table`, none of which may lead past `limit`.
    pub fn pairs(table: Vec<[u64; 2]>, limit: u64) -> Result<Self> {
        for (index, [begin, end]) in table.iter().enumerate() {
            if begin > end {
                let what = format!("sample {index} begins at {begin} and ends at {end}");
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            past_end(*end, limit, index)?;
        }
        Ok(Self::Pairs(table))
    }

    /// Elements of all samples along the axis.
    pub fn total(&self) -> u64 {
        match self {
            Self::Offsets(table) => table[table.len() - 1] - table[0],
            Self::Pairs(table) => {
                table.iter().fold(0, |sum: u64, [begin, end]| sum.saturating_add(end - begin))
            }
        }
    }

    /// How many samples.
    pub fn count(&self) -> u64 {
        match self {
            Self::Offsets(table) => (table.len() - 1) as u64,
            Self::Pairs(table) => table.len() as u64,
        }
    }

    /// Where each begins and ends.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        (0..self.count()).map(|sample| self.range(sample)).collect()
    }

    fn range(&self, sample: u64) -> Range<u64> {
        let at = usize::try_from(sample).unwrap_or(usize::MAX);
        match self {
            Self::Offsets(table) => table[at]..table[at + 1],
            Self::Pairs(table) => table[at][0]..table[at][1],
        }
    }

    /// The samples with rows among `rows`, where they stand in order.
    fn touching(&self, rows: &Range<u64>) -> Option<Range<u64>> {
        let Self::Offsets(table) = self else { return None };
        let first = table.partition_point(|offset| *offset <= rows.start).saturating_sub(1);
        let end = table.partition_point(|offset| *offset < rows.end).min(table.len() - 1);
        Some(first as u64..end.max(first) as u64)
    }
}

fn past_end(end: u64, limit: u64, sample: usize) -> Result<()> {
    if end <= limit {
        return Ok(());
    }
    let what = format!("sample {sample} ends at {end}, the axis is {limit} long");
    Err(Error::new(ErrorKind::Invalid, what).hint("are these the offsets of this variable and axis?"))
}

/// Boxes of one size at regular places.
#[derive(Clone, Debug)]
pub struct Windows {
    /// One for each axis of the array.
    pub axes: Vec<WindowAxis>,
}

impl Windows {
    /// The boxes that may have elements in `rows` of axis 0, whatever they have of the others.
    fn touching(&self, rows: Range<u64>) -> Range<u64> {
        let Some((first, others)) = self.axes.split_first() else { return 0..0 };
        let reach = first.size.saturating_sub(1).saturating_mul(first.step).saturating_add(1);
        let begin = (rows.start + 1).saturating_sub(reach).div_ceil(first.stride).min(first.count);
        let end = rows.end.div_ceil(first.stride).clamp(begin, first.count);
        let each = others.iter().fold(1u64, |n, axis| n.saturating_mul(axis.count));
        begin.saturating_mul(each)..end.saturating_mul(each)
    }
}

/// Boxes of one size at listed places.
#[derive(Clone, Debug)]
pub struct Corners {
    /// The first index of each box along each axis.
    pub corners: Vec<Vec<u64>>,
    /// The size of a box.
    pub size: Vec<u64>,
}

impl SampleIndex {
    /// How many samples.
    pub fn count(&self) -> u64 {
        match self {
            Self::Rows { count, .. } | Self::Slabs { count, .. } => *count,
            Self::Ragged { bounds, .. } => bounds.count(),
            Self::Whole => 1,
            Self::Windows(windows) => windows.axes.iter().fold(1, |n, axis| n.saturating_mul(axis.count)),
            Self::Corners(corners) => corners.corners.len() as u64,
            Self::Series(part) => part.count(),
            Self::Repeated(repeated) => repeated.count,
        }
    }

    /// The rows of axis 0 that are sample `number`, where a sample is just that.
    pub fn rows(&self, number: u64, shape: &[u64]) -> Option<Range<u64>> {
        match self {
            Self::Rows { rows, .. } => Some(number * rows..(number + 1) * rows),
            Self::Ragged { axis: 0, bounds } => Some(bounds.range(number)),
            Self::Whole => Some(0..shape.first().copied()?),
            Self::Repeated(repeated) if repeated.is_whole => Some(0..shape.first().copied()?),
            Self::Series(part) if part.is_rows() => Some(part.rows(number)),
            _ => None,
        }
    }

    /// The indexes that sample `number` has of the one axis it is cut along; nothing for other samples.
    pub fn along(&self, number: u64) -> Option<Range<u64>> {
        match self {
            Self::Rows { rows, .. } | Self::Slabs { rows, .. } => Some(number * rows..(number + 1) * rows),
            Self::Ragged { bounds, .. } => Some(bounds.range(number)),
            Self::Series(part) if part.is_rows() => Some(part.rows(number)),
            Self::Whole | Self::Windows(_) | Self::Corners(_) | Self::Series(_) | Self::Repeated(_) => None,
        }
    }

    /// How many rows of axis 0 each sample has, one after the other, where all have as many and not too many.
    pub fn rows_each(&self) -> Option<NonZeroU32> {
        if let Self::Rows { rows, .. } = self { NonZeroU32::new(u32::try_from(*rows).ok()?) } else { None }
    }

    /// True when every sample is some rows of axis 0.
    pub fn is_rows(&self) -> bool {
        match self {
            Self::Rows { .. } | Self::Ragged { axis: 0, .. } | Self::Whole => true,
            Self::Series(part) => part.is_rows(),
            Self::Repeated(repeated) => repeated.is_whole,
            _ => false,
        }
    }

    /// The box of sample `number` from an array of `shape`.
    pub fn spans(&self, number: u64, shape: &[u64], out: &mut Vec<Span>) {
        out.clear();
        out.extend(shape.iter().map(|len| Span::range(0..*len)));
        match self {
            Self::Rows { rows, .. } => out[0] = Span::range(number * rows..(number + 1) * rows),
            Self::Ragged { axis, bounds } => out[*axis] = Span::range(bounds.range(number)),
            Self::Slabs { axis, rows, .. } => out[*axis] = Span::range(number * rows..(number + 1) * rows),
            Self::Whole => {}
            Self::Windows(windows) => {
                let mut rest = number;
                for (span, axis) in out.iter_mut().zip(&windows.axes).rev() {
                    *span =
                        Span { start: rest % axis.count * axis.stride, count: axis.size, step: axis.step };
                    rest /= axis.count;
                }
            }
            Self::Corners(corners) => {
                let corner = &corners.corners[usize::try_from(number).unwrap_or(usize::MAX)];
                for ((span, start), size) in out.iter_mut().zip(corner).zip(&corners.size) {
                    *span = Span::range(*start..start + size);
                }
            }
            Self::Series(part) => part.spans(number, out),
            Self::Repeated(repeated) => repeated.spans(number, out),
        }
    }

    /// Elements sample `number` has along `axis`.
    pub fn len_along(&self, number: u64) -> u64 {
        match self {
            Self::Ragged { bounds, .. } => {
                let range = bounds.range(number);
                range.end - range.start
            }
            _ => 0,
        }
    }

    /// The samples that may have elements in a box, when they are neighbours.
    pub fn touching(&self, corner: &[u64], size: &[u64]) -> Option<Range<u64>> {
        match self {
            Self::Rows { rows, count } => Some(slabs(corner[0]..corner[0] + size[0], *rows, *count)),
            Self::Slabs { axis, rows, count } => {
                Some(slabs(corner[*axis]..corner[*axis] + size[*axis], *rows, *count))
            }
            Self::Ragged { axis, bounds } => bounds.touching(&(corner[*axis]..corner[*axis] + size[*axis])),
            Self::Whole => Some(0..1),
            Self::Windows(windows) => Some(windows.touching(corner[0]..corner[0] + size[0])),
            Self::Corners(_) => None,
            Self::Series(part) => Some(part.touching(corner[0]..corner[0] + size[0])),
            Self::Repeated(repeated) => Some(0..repeated.count),
        }
    }
}

/// Which of `count` samples of so many rows each have some of `wanted`.
fn slabs(wanted: Range<u64>, rows: u64, count: u64) -> Range<u64> {
    let rows = rows.max(1);
    let end = wanted.end.div_ceil(rows).min(count);
    (wanted.start / rows).min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_that_touch_some_rows_are_those_whose_range_meets_them() {
        let offsets = vec![0, 3, 3, 7, 7, 7, 12];
        let bounds = Bounds::offsets(offsets.clone(), 12).unwrap();
        for start in 0..12 {
            for end in start + 1..=12 {
                let touching = bounds.touching(&(start..end)).unwrap();
                for sample in 0..6usize {
                    let meets = offsets[sample] < end && offsets[sample + 1] > start;
                    // One without rows may be counted in: it costs nothing.
                    assert!(!meets || touching.contains(&(sample as u64)), "{start}..{end} {sample}");
                }
                assert!(touching.end <= 6);
            }
        }
    }

    #[test]
    fn the_windows_that_touch_some_rows_are_those_that_reach_into_them() {
        for (size, step, stride) in [(4, 1, 1), (3, 2, 5), (1, 1, 7), (6, 1, 6)] {
            let reach = (size - 1) * step + 1;
            let count = (40 - reach) / stride + 1;
            let axes = vec![
                WindowAxis { size, step, stride, count },
                WindowAxis { size: 2, step: 1, stride: 2, count: 3 },
            ];
            let windows = Windows { axes };
            for start in 0..40 {
                for end in start + 1..=40 {
                    let touching = windows.touching(start..end);
                    for number in 0..count * 3 {
                        let first = number / 3 * stride;
                        let meets = first < end && first + reach > start;
                        assert_eq!(
                            touching.contains(&number),
                            meets,
                            "{start}..{end}, window {number} of {size} by {stride}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn offsets_that_fall_or_lead_past_the_end_are_refused() {
        assert!(Bounds::offsets(vec![0, 5, 4], 9).unwrap_err().to_string().contains("offset 2 is 4"));
        assert!(Bounds::offsets(vec![0, 5, 14], 9).unwrap_err().to_string().contains("ends at 14"));
        assert!(Bounds::pairs(vec![[3, 2]], 9).is_err());
        assert!(Bounds::offsets(vec![], 9).is_err());
    }
}
