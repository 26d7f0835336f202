//! Cuts a selection into pieces that lie apart in the output.

use crate::{Selection, Span, Variable};

/// Selections that together make up `selection`, in C order, each of at most `most_bytes` where chunks allow.
///
/// Cuts fall on chunk borders, so that no chunk is decoded twice; only a contiguous variable is cut anywhere.
pub(super) fn cut(variable: &Variable, selection: &Selection, most_bytes: u64) -> Vec<Selection> {
    let spans = selection.spans();
    let element_len = variable.dtype.stored_len() as u64;
    if selection.element_count() == 0 {
        return vec![selection.clone()];
    }
    let Some(axis) = spans.iter().position(|span| span.count > 1) else { return vec![selection.clone()] };
    let row_bytes = spans[axis + 1..].iter().fold(element_len, |len, span| len.saturating_mul(span.count));
    let span = spans[axis];
    let rows = (most_bytes / row_bytes.max(1)).max(1);
    if rows >= span.count {
        return vec![selection.clone()];
    }
    // One chunk over the whole axis and no filter: rows can be read apart.
    let is_free = variable.filters.is_empty() && variable.grid.chunk[axis] >= variable.grid.shape[axis];
    let chunk = if is_free { 1 } else { variable.grid.chunk[axis] };
    let mut slabs = Vec::new();
    let mut taken = 0;
    while taken < span.count {
        let first = span.start + taken * span.step;
        let wanted_end = first.saturating_add(rows.saturating_mul(span.step));
        // Down to a chunk border, but over at least the chunk that holds `first`.
        let border = (wanted_end / chunk).max(first / chunk + 1) * chunk;
        let count = (border - first).div_ceil(span.step).clamp(1, span.count - taken);
        let mut slab = spans.to_vec();
        slab[axis] = Span { start: first, count, step: span.step };
        slabs.push(Selection::new(slab));
        taken += count;
    }
    slabs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkTable, Dtype, Extents, Grid, Number};

    fn variable(shape: &[u64], chunk: &[u64]) -> Variable {
        Variable {
            name: "v".into(),
            dtype: Dtype::native(Number::F64),
            grid: Grid { shape: shape.to_vec(), chunk: chunk.to_vec() },
            max_shape: shape.iter().copied().map(Some).collect(),
            layout: "chunked".into(),
            filters: vec![],
            fill: vec![],
            extents: Extents::Chunks(ChunkTable::default()),
            attributes: vec![],
        }
    }

    #[test]
    fn slabs_end_on_chunk_borders_and_cover_everything_once() {
        let variable = variable(&[100, 8], &[7, 8]);
        let slabs = cut(&variable, &Selection::all(&[100, 8]), 10 * 64);
        let mut next = 0;
        for slab in &slabs {
            let span = slab.spans()[0];
            assert_eq!(span.start, next);
            assert_eq!(span.start % 7, 0);
            next = span.start + span.count;
        }
        assert_eq!(next, 100);
    }

    #[test]
    fn a_selection_that_fits_is_left_whole() {
        let variable = variable(&[100, 8], &[7, 8]);
        assert_eq!(cut(&variable, &Selection::all(&[100, 8]), 6400).len(), 1);
    }
}
