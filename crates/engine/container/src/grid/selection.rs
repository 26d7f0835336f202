//! A regular part of an array: along each axis a start, a count and a step.

use std::ops::Range;

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// A regular part of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// First index.
    pub start: u64,
    /// How many.
    pub count: u64,
    /// From one to the next, at least 1.
    pub step: u64,
}

impl Span {
    /// The indexes of `range`.
    pub fn range(range: Range<u64>) -> Self {
        Self { start: range.start, count: range.end.saturating_sub(range.start), step: 1 }
    }

    /// True when the whole span lies within an axis `len` long.
    pub fn fits(self, len: u64) -> bool {
        if self.count == 0 {
            return true;
        }
        let last = (self.count - 1).checked_mul(self.step).and_then(|reach| reach.checked_add(self.start));
        last.is_some_and(|last| last < len)
    }
}

/// A regular part of an array, a span per axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection(Vec<Span>);

impl Selection {
    /// The selection of `spans`.
    pub fn new(spans: Vec<Span>) -> Self {
        Self(spans)
    }

    /// The box of `ranges`.
    pub fn from_ranges(ranges: &[Range<u64>]) -> Self {
        Self(ranges.iter().cloned().map(Span::range).collect())
    }

    /// All of an array of `shape`.
    pub fn all(shape: &[u64]) -> Self {
        Self(shape.iter().map(|n| Span::range(0..*n)).collect())
    }

    /// The spans.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// The shape of what is selected.
    pub fn shape(&self) -> Vec<u64> {
        self.0.iter().map(|span| span.count).collect()
    }

    /// Elements selected.
    pub fn element_count(&self) -> u64 {
        crate::grid::shape::product(&self.shape())
    }

    /// Refuses a selection that does not lie within an array of `shape`.
    pub fn check(&self, shape: &[u64]) -> Result<()> {
        if self.0.len() != shape.len() {
            let what = format!("a selection of {} axes from an array of {}", self.0.len(), shape.len());
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        for (axis, (span, len)) in self.0.iter().zip(shape).enumerate() {
            if span.step == 0 || !span.fits(*len) {
                let Span { start, count, step } = span;
                if *count == 1 && *step > 0 {
                    let what = format!("index {start} is outside axis {axis}, which is {len} long");
                    return Err(Error::new(ErrorKind::Invalid, what));
                }
                let what = format!(
                    "axis {axis}: {count} indexes from {start} in steps of {step} from an axis {len} long"
                );
                return Err(Error::new(ErrorKind::Invalid, what));
            }
        }
        Ok(())
    }

    /// Reads the notation of NumPy's basic slices, `0:10, 5, ::2`, for an array of `shape`.
    ///
    /// A plain index keeps its axis, with one element. Negative numbers count from the end.
    pub fn parse(text: &str, shape: &[u64]) -> Result<Self> {
        let bad = |what: String| Error::new(ErrorKind::Invalid, what).at(format!("slice '{text}'"));
        let items: Vec<&str> = match text.trim() {
            "" => Vec::new(),
            text => text.split(',').map(str::trim).collect(),
        };
        if items.len() > shape.len() {
            return Err(bad(format!("{} axes for an array of {}", items.len(), shape.len())));
        }
        let mut spans: Vec<Span> = Vec::with_capacity(shape.len());
        for (axis, len) in shape.iter().enumerate() {
            let item = items.get(axis).copied().unwrap_or(":");
            spans.push(parse_span(item, *len).map_err(bad)?);
        }
        let selection = Self(spans);
        selection.check(shape)?;
        Ok(selection)
    }
}

fn parse_span(item: &str, len: u64) -> Result<Span, String> {
    let number = |text: &str| -> Result<Option<i128>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        text.trim().parse().map(Some).map_err(|_| format!("'{text}' is not a number"))
    };
    let from_end = |n: i128| if n < 0 { n + i128::from(len) } else { n };
    let clamp = |n: i128| u64::try_from(from_end(n).clamp(0, i128::from(len))).expect("clamped to the axis");
    let pieces: Vec<&str> = item.split(':').collect();
    if let [index] = pieces[..] {
        let index = number(index)?.ok_or("an index is missing")?;
        let start = u64::try_from(from_end(index))
            .map_err(|_| format!("index {index} is outside an axis {len} long"))?;
        return Ok(Span { start, count: 1, step: 1 });
    }
    if pieces.len() > 3 {
        return Err(format!("'{item}' has more than start:stop:step"));
    }
    let start = number(pieces[0])?.map_or(0, clamp);
    let stop = number(pieces[1])?.map_or(len, clamp);
    let step = match pieces.get(2) {
        Some(text) => number(text)?.unwrap_or(1),
        None => 1,
    };
    let step = u64::try_from(step).ok().filter(|step| *step > 0).ok_or("the step must be at least 1")?;
    Ok(Span { start, count: stop.saturating_sub(start).div_ceil(step), step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_read_as_numpy_reads_them() {
        let parse = |text: &str| Selection::parse(text, &[10, 4]).unwrap();
        assert_eq!(parse(""), Selection::all(&[10, 4]));
        assert_eq!(parse("-3:"), Selection::from_ranges(&[7..10, 0..4]));
        assert_eq!(parse("1:8:3, 2").spans()[0], Span { start: 1, count: 3, step: 3 });
        assert_eq!(parse("1:8:3, 2").spans()[1], Span { start: 2, count: 1, step: 1 });
        assert_eq!(parse("8:99").spans()[0], Span { start: 8, count: 2, step: 1 });
        assert_eq!(parse("5:2").spans()[0].count, 0);
    }

    #[test]
    fn an_index_outside_a_zero_step_and_too_many_axes_are_refused() {
        for text in ["10", "-11", "::0", "0,0,0", "x", "1:2:3:4", "0,,1"] {
            let error = Selection::parse(text, &[10, 4]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        }
    }
}
