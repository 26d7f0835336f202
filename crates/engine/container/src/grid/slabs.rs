//! Cuts a selection into pieces that lie apart in the output.

use std::iter;

use crate::{
    container::variable::Variable,
    extents::Extents,
    grid::selection::{Selection, Span},
};

/// How large a slab should be, and how large it may be.
#[derive(Clone, Copy, Debug)]
pub struct SlabSizes {
    /// Bytes of a slab, where chunks allow.
    pub wanted: u64,
    /// Bytes of a slab in any case, even if chunks must be decoded more than once.
    pub most: u64,
}

/// Selections that together make up `selection`, in C order, made one at a time: a file can claim any shape.
///
/// Cuts fall on chunk borders, so that no chunk is decoded twice; only a contiguous variable is cut anywhere, and one
/// whose row of chunks does not fit into memory.
pub fn slabs<'a>(
    variable: &'a Variable,
    selection: &Selection,
    sizes: SlabSizes,
) -> Box<dyn Iterator<Item = Selection> + 'a> {
    let spans = selection.spans().to_vec();
    let axis = spans.iter().position(|span| span.count > 1);
    let (Some(axis), true) = (axis, selection.element_count() > 0) else {
        return Box::new(iter::once(selection.clone()));
    };
    let element_len = variable.dtype.stored_len() as u64;
    let row_bytes = spans[axis + 1..].iter().fold(element_len, |len, span| len.saturating_mul(span.count));
    let (span, rows) = (spans[axis], (sizes.wanted / row_bytes.max(1)).max(1));
    if rows >= span.count && row_bytes.saturating_mul(span.count) <= sizes.most {
        return Box::new(iter::once(selection.clone()));
    }
    // One chunk over the whole axis and no filter, or boxes of any shape: rows can be read apart.
    let is_plain = variable.filters.is_empty() || matches!(variable.extents, Extents::Boxes(_));
    let is_free = is_plain && variable.grid.chunk[axis] >= variable.grid.shape[axis];
    let chunk = variable.grid.chunk[axis];
    let must_split = row_bytes.saturating_mul(chunk.min(span.count)) > sizes.most;
    let border = if is_free || must_split { 1 } else { chunk };
    let all = spans_of(span, rows, border).map(move |part| {
        let mut slab = spans.clone();
        slab[axis] = part;
        Selection::new(slab)
    });
    if row_bytes <= sizes.most {
        return Box::new(all);
    }
    Box::new(all.flat_map(move |row| slabs(variable, &row, sizes)))
}

/// Cuts `span` into parts of about `rows` indexes that end on multiples of `border`.
fn spans_of(span: Span, rows: u64, border: u64) -> impl Iterator<Item = Span> {
    let mut taken = 0;
    iter::from_fn(move || {
        if taken >= span.count {
            return None;
        }
        let first = span.start + taken * span.step;
        let wanted_end = first.saturating_add(rows.saturating_mul(span.step));
        // Down to a border, but over at least the chunk that holds `first`.
        let end = (wanted_end / border).max(first / border + 1).saturating_mul(border);
        let count = (end - first).div_ceil(span.step).clamp(1, span.count - taken);
        taken += count;
        Some(Span { start: first, count, step: span.step })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Number, dtype::Dtype, extents::chunk_table::ChunkTable, grid::Grid};

    const SIZES: SlabSizes = SlabSizes { wanted: 10 * 64, most: 1 << 20 };

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
            heap: None,
            attributes: vec![],
            dimensions: vec![],
            type_name: None,
        }
    }

    #[test]
    fn slabs_end_on_chunk_borders_and_cover_everything_once() {
        let variable = variable(&[100, 8], &[7, 8]);
        let found: Vec<_> = slabs(&variable, &Selection::all(&[100, 8]), SIZES).collect();
        let mut next = 0;
        for slab in &found {
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
        let sizes = SlabSizes { wanted: 6400, ..SIZES };
        assert_eq!(slabs(&variable, &Selection::all(&[100, 8]), sizes).count(), 1);
    }
    #[test]
    fn a_row_too_long_for_memory_is_cut_along_the_next_axis() {
        let variable = variable(&[3, 1000], &[3, 10]);
        let sizes = SlabSizes { wanted: 800, most: 1600 };
        let found: Vec<_> = slabs(&variable, &Selection::all(&[3, 1000]), sizes).collect();
        assert!(found.iter().all(|slab| slab.element_count() * 8 <= 1600));
        assert_eq!(found.iter().map(Selection::element_count).sum::<u64>(), 3000);
        let starts: Vec<_> =
            found.iter().map(|slab| (slab.spans()[0].start, slab.spans()[1].start)).collect();
        assert!(starts.is_sorted(), "in C order");
    }

    #[test]
    fn a_vast_array_is_cut_one_slab_at_a_time() {
        let shape = [1 << 40, 1000];
        let variable = variable(&shape, &[1, 1000]);
        let first = slabs(&variable, &Selection::all(&shape), SIZES).next().unwrap();
        assert_eq!(first.spans()[0], Span::range(0..1));
    }
}
