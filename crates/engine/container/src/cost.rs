//! What it costs to read one row at random. Arithmetic only.
//!
//! | file | idea |
//! |---|---|
//! | `row_alone` | whether rows can be read by themselves |
//! | `chunk_sizes` | how long stored chunks are |

pub(crate) mod chunk_sizes;
pub(crate) mod row_alone;

use crate::{
    container::variable::Variable,
    extents::{
        Extents,
        chunk_table::{ChunkTable, Extent},
        shards::Shards,
    },
};

/// What one row, that is one index of axis 0, costs when it is read alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCost {
    /// Bytes of the row itself.
    pub used: u64,
    /// Bytes that must be read from the sources to get it.
    pub read: u64,
    /// Bytes that filters give out on the way; 0 where none has to be undone.
    pub decoded: u64,
}

impl RowCost {
    /// Bytes read per byte used.
    pub fn read_factor(&self) -> f64 {
        self.read as f64 / self.used as f64
    }

    /// Bytes decoded per byte used.
    pub fn decode_factor(&self) -> f64 {
        self.decoded as f64 / self.used as f64
    }
}

/// The cost of an average row of `variable`.
///
/// A filtered chunk is read and decoded whole, whatever is wanted of it. Of a chunk that was stored as it is, only the
/// row is read: within a chunk a row is one run, so nothing lies between its bytes but what the chunk has beyond the
/// array's border, which is not counted. Where some chunks were filtered and some not, and where their lengths
/// differ, the answer is the average over the chunks that were written.
///
/// `None` where the description cannot tell or the question makes no sense: scalars, empty arrays, values of variable
/// length, values mapped from other variables, values that a library reads.
pub fn row_cost(variable: &Variable) -> Option<RowCost> {
    let (_, others) = variable.grid.shape.split_first()?;
    if variable.grid.shape.contains(&0) || variable.dtype.is_variable() {
        return None;
    }
    let used = others.iter().fold(variable.dtype.stored_len() as u64, |len, n| len.saturating_mul(*n));
    if used == 0 {
        return None;
    }
    match &variable.extents {
        Extents::Chunks(table) => Some(in_chunks(variable, table, used)),
        Extents::Shards(shards) => Some(in_shards(variable, shards, used)),
        Extents::Segments(_) => Some(RowCost { used, read: used, decoded: 0 }),
        Extents::Inline(_) | Extents::Boxes(_) | Extents::Mapped(_) | Extents::Opaque(_) => None,
    }
}

fn in_chunks(variable: &Variable, table: &ChunkTable, used: u64) -> RowCost {
    let filter_count = u32::try_from(variable.filters.len()).unwrap_or(u32::MAX);
    let is_plain = |extent: Extent| extent.skipped.trailing_ones() >= filter_count;
    let (mut plain_count, mut filtered_count, mut filtered_len) = (0u64, 0u64, 0u64);
    if table.is_regular() {
        // They are all alike, and may be a great many.
        match table.get(0).is_some_and(is_plain) {
            true => plain_count = table.len() as u64,
            false => (filtered_count, filtered_len) = (table.len() as u64, table.stored_len()),
        }
    } else {
        for (_, extent) in table.iter() {
            if is_plain(extent) {
                plain_count += 1;
            } else {
                filtered_count += 1;
                filtered_len = filtered_len.saturating_add(extent.range.len());
            }
        }
    }
    let crossed = variable.grid.chunks().iter().skip(1).fold(1, |all: u64, n| all.saturating_mul(*n));
    let written = plain_count + filtered_count;
    let decoded = crossed.saturating_mul(variable.chunk_len());
    // A row cannot cost more than everything there is.
    let read = share(crossed, filtered_len, written).min(filtered_len);
    RowCost {
        used,
        read: read.saturating_add(share(used, plain_count, written)),
        decoded: share(decoded, filtered_count, written),
    }
}

/// Chunks in shards are all filtered alike, and their shards say how long they are together.
fn in_shards(variable: &Variable, shards: &Shards, used: u64) -> RowCost {
    let (stored, count) = (shards.stored_len(&variable.grid), shards.chunk_count(&variable.grid));
    if variable.filters.is_empty() || count == 0 {
        return RowCost { used, read: if count == 0 { 0 } else { used }, decoded: 0 };
    }
    let crossed = variable.grid.chunks().iter().skip(1).fold(1, |all: u64, n| all.saturating_mul(*n));
    let read = share(crossed, stored, count).min(stored);
    RowCost { used, read, decoded: crossed.saturating_mul(variable.chunk_len()) }
}

/// `amount * part / whole`, rounded up; 0 where there is no whole.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let exact = (u128::from(amount) * u128::from(part)).div_ceil(u128::from(whole));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use forebay_source::ByteRange;

    use super::*;
    use crate::{
        Filter, Number,
        dtype::Dtype,
        extents::{Opaque, segments::Segments, source_index::SourceIndex},
        grid::Grid,
    };

    /// An array of f64 whose chunks have these stored lengths; bit 0 of `skipped` says that its filter was left out.
    fn variable(shape: &[u64], chunk: &[u64], stored: &[(u64, u32)]) -> Variable {
        let grid = Grid { shape: shape.to_vec(), chunk: chunk.to_vec() };
        let extent = |(index, (len, skipped)): (usize, &(u64, u32))| {
            let range = ByteRange::at(1000 * index as u64, *len);
            (index as u64, Extent { source: SourceIndex(0), range, skipped: *skipped })
        };
        let table =
            ChunkTable::new(stored.iter().enumerate().map(extent).collect(), grid.chunk_count()).unwrap();
        Variable {
            name: "v".into(),
            dtype: Dtype::native(Number::F64),
            max_shape: shape.iter().copied().map(Some).collect(),
            grid,
            layout: "chunked".into(),
            filters: vec![Filter::Deflate { level: Some(4) }],
            fill: vec![],
            extents: Extents::Chunks(table),
            heap: None,
            attributes: vec![],
            dimensions: vec![],
            type_name: None,
        }
    }

    fn cost(used: u64, read: u64, decoded: u64) -> Option<RowCost> {
        Some(RowCost { used, read, decoded })
    }

    #[test]
    fn a_row_of_filtered_chunks_costs_every_chunk_it_crosses() {
        // Two chunks across, two down; 100 bytes each on average.
        let variable = variable(&[8, 6], &[4, 3], &[(50, 0), (150, 0), (80, 0), (120, 0)]);
        assert_eq!(row_cost(&variable), cost(48, 200, 2 * 4 * 3 * 8));
        let factors = row_cost(&variable).map(|cost| cost.decode_factor());
        assert_eq!(factors, Some(4.0));
    }

    #[test]
    fn a_row_of_plain_chunks_costs_itself() {
        let mut variable = variable(&[8, 6], &[4, 3], &[(96, 0); 4]);
        variable.filters.clear();
        assert_eq!(row_cost(&variable), cost(48, 48, 0));
    }

    #[test]
    fn a_chunk_whose_filter_was_left_out_is_a_plain_one() {
        let variable = variable(&[8, 3], &[4, 3], &[(96, 1), (40, 0)]);
        // Half the rows: 24 bytes read. The other half: 40 read, 96 decoded.
        assert_eq!(row_cost(&variable), cost(24, 20 + 12, 48));
    }

    #[test]
    fn a_contiguous_row_and_one_laid_in_pieces_cost_themselves() {
        let mut contiguous = variable(&[8, 6], &[8, 6], &[(384, 0)]);
        contiguous.filters.clear();
        assert_eq!(row_cost(&contiguous), cost(48, 48, 0));
        contiguous.extents = Extents::Segments(Segments::default());
        assert_eq!(row_cost(&contiguous), cost(48, 48, 0));
    }

    #[test]
    fn chunks_beyond_the_border_are_decoded_too() {
        let variable = variable(&[1, 2], &[4, 8], &[(30, 0)]);
        assert_eq!(row_cost(&variable), cost(16, 30, 256));
    }

    #[test]
    fn what_was_never_written_costs_nothing_and_a_few_chunks_not_more_than_they_are() {
        assert_eq!(row_cost(&variable(&[8, 6], &[4, 3], &[])), cost(48, 0, 0));
        assert_eq!(row_cost(&variable(&[8, 6], &[4, 3], &[(70, 0)])), cost(48, 70, 192));
    }

    #[test]
    fn scalars_empty_arrays_and_what_a_library_reads_have_no_cost() {
        assert_eq!(row_cost(&variable(&[], &[], &[])), None);
        assert_eq!(row_cost(&variable(&[0, 6], &[4, 3], &[])), None);
        assert_eq!(row_cost(&variable(&[8, 0], &[4, 3], &[])), None);
        let mut opaque = variable(&[8], &[8], &[]);
        let (library, why, name) = ("libhdf5".into(), "szip".into(), "v".into());
        opaque.extents = Extents::Opaque(Opaque { library, why, name, source: SourceIndex(0) });
        assert_eq!(row_cost(&opaque), None);
        opaque.extents = Extents::Mapped(vec![].into());
        assert_eq!(row_cost(&opaque), None);
    }

    #[test]
    fn a_grid_that_claims_too_much_does_not_wrap() {
        let huge = variable(&[u64::MAX, u64::MAX, u64::MAX], &[u64::MAX, 1, 1], &[(30, 0)]);
        let cost = row_cost(&huge).unwrap();
        assert_eq!((cost.used, cost.read, cost.decoded), (u64::MAX, 30, u64::MAX));
    }
}
