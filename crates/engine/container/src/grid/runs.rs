//! How a part of one array lies in another: as runs of elements that are neighbours in both.

use crate::grid::selection::Selection;

/// A run of elements that are neighbours in both arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementRun {
    /// Index of the first element in the array that is read.
    pub from: u64,
    /// Index of the first element in the array that is written.
    pub to: u64,
    /// How many.
    pub count: u64,
}

/// A part of an array of shape `from_shape`, and where it goes in an array of shape `to_shape`.
#[derive(Clone, Copy, Debug)]
pub struct ArrayPart<'a> {
    /// Shape of the array that is read.
    pub from_shape: &'a [u64],
    /// Which elements of it.
    pub selection: &'a Selection,
    /// Shape of the array that is written.
    pub to_shape: &'a [u64],
    /// Where the first of them goes.
    pub to_start: &'a [u64],
}

impl ArrayPart<'_> {
    /// The runs, in C order: both indexes rise.
    pub fn runs(&self) -> Runs {
        let spans = self.selection.spans();
        let ndim = spans.len();
        let from_strides = strides(self.from_shape);
        let to_strides = strides(self.to_shape);
        let mut inner = ndim;
        let mut run = 1;
        while inner > 0 && spans[inner - 1].step == 1 {
            inner -= 1;
            run *= spans[inner].count;
            let fills_both =
                spans[inner].count == self.from_shape[inner] && spans[inner].count == self.to_shape[inner];
            if !fills_both {
                break;
            }
        }
        let first_from = spans.iter().zip(&from_strides).map(|(span, stride)| span.start * stride).sum();
        let first_to = self.to_start.iter().zip(&to_strides).map(|(start, stride)| start * stride).sum();
        let axes = (0..inner)
            .map(|axis| RunAxis {
                count: spans[axis].count,
                from: spans[axis].step * from_strides[axis],
                to: to_strides[axis],
                at: 0,
            })
            .collect();
        let is_empty = spans.iter().any(|span| span.count == 0);
        Runs { axes, next: (!is_empty).then_some(ElementRun { from: first_from, to: first_to, count: run }) }
    }

    /// Copies the part from `from` to `to`, whose elements are `len` bytes long.
    pub fn copy(&self, from: &[u8], to: &mut [u8], len: usize) {
        for run in self.runs() {
            let bytes = index(run.count) * len;
            let (from_at, to_at) = (index(run.from) * len, index(run.to) * len);
            to[to_at..to_at + bytes].copy_from_slice(&from[from_at..from_at + bytes]);
        }
    }

    /// Repeats `element` over the part of `to`; an empty one stands for zeros.
    pub fn fill(&self, element: &[u8], to: &mut [u8], len: usize) {
        for run in self.runs() {
            let at = index(run.to) * len;
            fill(element, &mut to[at..at + index(run.count) * len]);
        }
    }
}

/// Repeats `element` over `out`; an empty one stands for zeros.
pub fn fill(element: &[u8], out: &mut [u8]) {
    if element.iter().all(|byte| *byte == 0) {
        out.fill(0);
        return;
    }
    for slot in out.chunks_exact_mut(element.len()) {
        slot.copy_from_slice(element);
    }
}

/// An iterator over runs.
#[derive(Debug)]
pub struct Runs {
    axes: Vec<RunAxis>,
    next: Option<ElementRun>,
}

#[derive(Debug)]
struct RunAxis {
    count: u64,
    from: u64,
    to: u64,
    at: u64,
}

impl Iterator for Runs {
    type Item = ElementRun;

    fn next(&mut self) -> Option<ElementRun> {
        let run = self.next?;
        let mut following = run;
        for axis in self.axes.iter_mut().rev() {
            axis.at += 1;
            if axis.at < axis.count {
                following.from += axis.from;
                following.to += axis.to;
                self.next = Some(following);
                return Some(run);
            }
            following.from -= (axis.count - 1) * axis.from;
            following.to -= (axis.count - 1) * axis.to;
            axis.at = 0;
        }
        self.next = None;
        Some(run)
    }
}

fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    for axis in (1..shape.len()).rev() {
        // Only an array without elements has strides beyond 64 bits, and then nobody steps along them.
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::selection::Span;

    #[test]
    fn whole_trailing_axes_join_into_one_run() {
        let selection = Selection::from_ranges(&[1..3, 0..4]);
        let part =
            ArrayPart { from_shape: &[5, 4], selection: &selection, to_shape: &[2, 4], to_start: &[0, 0] };
        assert_eq!(part.runs().collect::<Vec<_>>(), [ElementRun { from: 4, to: 0, count: 8 }]);
    }

    #[test]
    fn steps_give_single_elements() {
        let selection = Selection::new(vec![Span { start: 1, count: 3, step: 2 }]);
        let part = ArrayPart { from_shape: &[7], selection: &selection, to_shape: &[3], to_start: &[0] };
        let froms: Vec<_> = part.runs().map(|run| run.from).collect();
        assert_eq!(froms, [1, 3, 5]);
    }

    #[test]
    fn a_scalar_is_one_run_and_nothing_is_none() {
        let scalar = Selection::new(vec![]);
        let part = ArrayPart { from_shape: &[], selection: &scalar, to_shape: &[], to_start: &[] };
        assert_eq!(part.runs().count(), 1);
        let nothing = Selection::from_ranges(&[0..3, 2..2]);
        let part =
            ArrayPart { from_shape: &[3, 3], selection: &nothing, to_shape: &[3, 0], to_start: &[0, 0] };
        assert_eq!(part.runs().count(), 0);
    }
}
