//! Spans of a file in ascending order, of which there are never many: neighbours are joined when there is no room.

use std::ops::Range;

/// Spans of bytes, in order, none of which touches another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteSpans {
    spans: Vec<Range<u64>>,
}

impl ByteSpans {
    /// The spans of `pieces`, at most `most` of them: where there are more, those with the smallest gaps become one.
    pub(crate) fn new(mut pieces: Vec<Range<u64>>, most: usize) -> Self {
        if !pieces.is_sorted_by_key(|piece| piece.start) {
            pieces.sort_unstable_by_key(|piece| piece.start);
        }
        let mut spans: Vec<Range<u64>> = Vec::new();
        for piece in pieces {
            match spans.last_mut() {
                Some(last) if piece.start <= last.end => last.end = last.end.max(piece.end),
                _ => spans.push(piece),
            }
        }
        if spans.len() > most {
            spans = joined(&spans, most.max(1));
        }
        Self { spans }
    }

    /// The spans.
    pub(crate) fn spans(&self) -> &[Range<u64>] {
        &self.spans
    }

    /// True when some byte lies in both; `others` are in order too.
    pub(crate) fn overlaps(&self, others: impl Iterator<Item = Range<u64>>) -> bool {
        let mut own = self.spans.iter().peekable();
        for other in others {
            while own.peek().is_some_and(|span| span.end <= other.start) {
                own.next();
            }
            if own.peek().is_some_and(|span| span.start < other.end) {
                return true;
            }
        }
        false
    }
}

/// `spans` with their smallest gaps closed until `most` are left.
fn joined(spans: &[Range<u64>], most: usize) -> Vec<Range<u64>> {
    let mut gaps: Vec<u64> = spans.windows(2).map(|pair| pair[1].start - pair[0].end).collect();
    gaps.sort_unstable();
    // Gaps up to this one are closed; some of the same length stay open only if they come first.
    let widest = gaps[spans.len() - most - 1];
    let mut left: Vec<Range<u64>> = Vec::with_capacity(most);
    for span in spans {
        match left.last_mut() {
            Some(last) if span.start - last.end <= widest => last.end = span.end,
            _ => left.push(span.clone()),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_become_one_and_no_byte_is_lost_when_there_are_too_many() {
        let spans = ByteSpans::new(vec![40..50, 0..10, 10..20, 22..30, 15..18], 8);
        assert_eq!(spans.spans(), [0..20, 22..30, 40..50]);
        let fewer = ByteSpans::new(spans.spans().to_vec(), 2);
        assert_eq!(fewer.spans(), [0..30, 40..50]);
        let one = ByteSpans::new((0..100).map(|span| span * 10..span * 10 + 5).collect(), 3);
        assert_eq!((one.spans().len(), one.spans()[0].clone()), (1, 0..995));
    }

    #[test]
    fn an_overlap_is_one_byte_at_least() {
        let spans = ByteSpans::new(vec![0..10, 20..30], 8);
        assert!(!spans.overlaps([10..20, 30..40].into_iter()));
        assert!(spans.overlaps([10..20, 29..40].into_iter()));
        assert!(spans.overlaps(std::iter::once(5..6)));
        assert!(!ByteSpans::default().overlaps(std::iter::once(0..100)));
    }
}
