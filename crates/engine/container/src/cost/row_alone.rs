//! Whether one row is worth reading by itself. Arithmetic only.

use crate::{
    container::{Container, variable::Variable},
    extents::{Extents, boxes::ArrayBox, mapping::Mapping},
    grid::selection::{Selection, Span},
};

/// What has to be read and decoded to get one row, that is one index of axis 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowAlone {
    /// Its own bytes: they are stored as they are.
    Stored,
    /// Chunks that hold nothing else.
    Decoded,
    /// More: chunks that hold other rows too, a great many sources, or what a library reads.
    WithOthers,
}

/// A row that is put together from more mappings than this is read with its neighbours, which have the same sources. Of 64
/// sources side by side, each took 1.3 us for 64 bytes of a row and 2.3 us for 1 KiB: 84 and 149 us a row, where stretches of
/// 1 MiB, all of which are used in the end, took 4.5 and 109 us. Rows of 8 KiB that have a source each took
/// 30 us alone, to open the source included.
const MOST_MAPPINGS: usize = 16;

/// What a row of `variable`, which belongs to `container`, takes when it is read alone.
pub fn row_alone(container: &Container, variable: &Variable) -> RowAlone {
    let shape = &variable.grid.shape;
    let mappings = match &variable.extents {
        Extents::Mapped(mappings) => mappings,
        Extents::Boxes(boxes) if touched_by_a_row(|row| boxes.touching(row).len(), shape) > MOST_MAPPINGS => {
            return RowAlone::WithOthers;
        }
        Extents::Boxes(boxes) if !is_stored(variable) => {
            let has_one_row = |one: ArrayBox<'_>| one.count.first().is_none_or(|rows| *rows == 1);
            return if boxes.iter().all(has_one_row) { RowAlone::Decoded } else { RowAlone::WithOthers };
        }
        _ => return if is_stored(variable) { RowAlone::Stored } else { RowAlone::WithOthers },
    };
    if touched_by_a_row(|row| mappings.touching(row).len(), shape) > MOST_MAPPINGS {
        return RowAlone::WithOthers;
    }
    // Parts are described before what is mapped from them: one pass over those tells all.
    let mut stored: Vec<bool> = Vec::new();
    for part in &container.parts {
        let is_stored = match &part.extents {
            Extents::Mapped(inner) => inner.iter().all(|mapping| stored.get(mapping.part) == Some(&true)),
            _ => is_stored(part),
        };
        stored.push(is_stored);
    }
    let of_mapping = |mapping: &Mapping| match (stored.get(mapping.part), container.parts.get(mapping.part)) {
        (Some(true), _) => RowAlone::Stored,
        (_, Some(part)) if has_rows_in_own_chunks(part, mapping) => RowAlone::Decoded,
        _ => RowAlone::WithOthers,
    };
    mappings.iter().map(of_mapping).max().unwrap_or(RowAlone::Stored)
}

fn is_stored(variable: &Variable) -> bool {
    variable.filters.is_empty() && variable.stored_len().is_some()
}

/// The most boxes or mappings that some rows have to be put together from, of which `touching` counts those of a selection.
fn touched_by_a_row(touching: impl Fn(&Selection) -> usize, shape: &[u64]) -> usize {
    let Some((row_count, inner)) = shape.split_first().filter(|(count, _)| **count > 0) else { return 0 };
    let touched = |row: u64| {
        let spans = std::iter::once(row..row + 1).chain(inner.iter().map(|len| 0..*len));
        touching(&Selection::new(spans.map(Span::range).collect()))
    };
    [0, row_count / 3, row_count / 2, row_count - 1].into_iter().map(touched).max().unwrap_or(0)
}

/// True when each chunk of `part` that `mapping` takes values from is part of one row.
fn has_rows_in_own_chunks(part: &Variable, mapping: &Mapping) -> bool {
    if !matches!(part.extents, Extents::Chunks(_) | Extents::Shards(_)) {
        return false;
    }
    let within_row: Vec<usize> = mapping.pairs.iter().skip(1).flatten().copied().collect();
    let (chunk, shape) = (&part.grid.chunk, &part.grid.shape);
    (0..shape.len()).all(|axis| within_row.contains(&axis) || chunk[axis] == 1 || shape[axis] <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Filter, Number,
        dtype::Dtype,
        extents::{chunk_table::ChunkTable, mapping::HyperslabAxis},
        grid::Grid,
    };

    fn variable(shape: &[u64], chunk: &[u64], is_filtered: bool) -> Variable {
        let mut variable = Variable::new("x", Dtype::native(Number::U16), shape.to_vec());
        variable.grid = Grid { shape: shape.to_vec(), chunk: chunk.to_vec() };
        let deflate = || Filter::Deflate { level: Some(1) };
        variable.filters = is_filtered.then(deflate).into_iter().collect();
        variable.extents = Extents::Chunks(ChunkTable::default());
        variable
    }

    fn run(start: u64, len: u64) -> HyperslabAxis {
        HyperslabAxis { start, stride: len, count: 1, block: len }
    }

    /// A virtual data set of `parts` one after the other, ten rows each.
    fn stacked(parts: Vec<Variable>) -> RowAlone {
        let mapping = |(number, _): (usize, &Variable)| {
            let rows = run(10 * number as u64, 10);
            Mapping::new(number, vec![run(0, 10), run(0, 8)], vec![rows, run(0, 8)]).expect("equal sides")
        };
        let mappings: Vec<Mapping> = parts.iter().enumerate().map(mapping).collect();
        let mut whole = variable(&[10 * parts.len() as u64, 8], &[10, 8], false);
        whole.extents = Extents::Mapped(mappings.into());
        row_alone(&Container { parts, ..Container::default() }, &whole)
    }

    #[test]
    fn a_row_is_as_costly_as_the_costliest_part() {
        let plain = || variable(&[10, 8], &[10, 8], false);
        let row_by_row = || variable(&[10, 8], &[1, 4], true);
        let two_rows = || variable(&[10, 8], &[2, 8], true);
        assert_eq!(stacked(vec![plain(), plain()]), RowAlone::Stored);
        assert_eq!(stacked(vec![plain(), row_by_row()]), RowAlone::Decoded);
        assert_eq!(stacked(vec![plain(), two_rows(), row_by_row()]), RowAlone::WithOthers);
    }

    #[test]
    fn a_frame_taken_out_of_a_chunk_of_many_comes_with_them() {
        let of_chunk = |rows: u64| {
            let part = variable(&[10, 8], &[rows, 8], true);
            let mapping = Mapping::new(0, vec![run(3, 1), run(0, 8)], vec![run(0, 1), run(0, 8)]);
            let mut whole = variable(&[1, 8], &[1, 8], false);
            whole.extents = Extents::Mapped(vec![mapping.expect("equal sides")].into());
            row_alone(&Container { parts: vec![part], ..Container::default() }, &whole)
        };
        assert_eq!(of_chunk(1), RowAlone::Decoded);
        assert_eq!(of_chunk(5), RowAlone::WithOthers);
    }

    #[test]
    fn a_row_of_a_great_many_sources_comes_with_its_neighbours() {
        let beside = |count: u64| {
            let parts: Vec<_> = (0..count).map(|_| variable(&[10, 1], &[10, 1], false)).collect();
            let column = |number: u64| {
                let at = usize::try_from(number).expect("few");
                Mapping::new(at, vec![run(0, 10), run(0, 1)], vec![run(0, 10), run(number, 1)])
            };
            let mappings: Vec<_> = (0..count).map(|number| column(number).expect("equal sides")).collect();
            let mut whole = variable(&[10, count], &[10, count], false);
            whole.extents = Extents::Mapped(mappings.into());
            row_alone(&Container { parts, ..Container::default() }, &whole)
        };
        assert_eq!(beside(MOST_MAPPINGS as u64), RowAlone::Stored);
        assert_eq!(beside(MOST_MAPPINGS as u64 + 1), RowAlone::WithOthers);
    }
}
