//! Where rows lie that are stored as they are, so that they can be read without being decoded.

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::ByteRange;

use forebay_container::{Extent, Extents, SourceIndex, Variable, shape::product};

use crate::Opened;

/// The rows of axis 0 of a variable that is stored unfiltered, each row in one piece.
#[derive(Clone, Copy, Debug)]
pub struct PlainRows<'a> {
    opened: &'a Opened,
    variable: &'a Variable,
    row_count: u64,
    chunk_rows: u64,
    row_len: u64,
}

/// Where some rows lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPlace {
    /// In a source, end to end.
    Stored {
        /// Which source.
        source: SourceIndex,
        /// Which bytes of it.
        range: ByteRange,
    },
    /// Nowhere: they were never written.
    Unwritten,
}

impl<'a> PlainRows<'a> {
    /// The rows of `variable`, which belongs to `opened`, if each of them lies in one piece.
    pub fn of(opened: &'a Opened, variable: &'a Variable) -> Option<Self> {
        if !matches!(variable.extents, Extents::Chunks(_) | Extents::Shards(_)) {
            return None;
        }
        let (grid, dtype) = (&variable.grid, &variable.dtype);
        let (row_count, inner) = grid.shape.split_first()?;
        let is_fixed = dtype.native_len() == dtype.stored_len();
        if !is_fixed || !variable.filters.is_empty() || grid.chunk[1..] != *inner {
            return None;
        }
        let row_len = product(inner).saturating_mul(dtype.stored_len() as u64);
        Some(Self { opened, variable, row_count: *row_count, chunk_rows: grid.chunk[0], row_len })
    }

    /// Bytes of one row.
    pub fn row_len(&self) -> u64 {
        self.row_len
    }

    /// Where all rows lie, if the description says that they lie together.
    pub fn whole(&self) -> Option<(SourceIndex, ByteRange)> {
        let Extents::Chunks(table) = &self.variable.extents else { return None };
        if self.row_count == 0 || self.row_count > self.chunk_rows {
            return None;
        }
        match self.place(0, table.get(0), 0, self.row_count) {
            Ok(RowPlace::Stored { source, range }) => Some((source, range)),
            _ => None,
        }
    }

    /// Reads the indexes that say where `rows` lie, all at once.
    pub fn read_indexes(&self, rows: impl Iterator<Item = u64>) -> Result<()> {
        if !matches!(self.variable.extents, Extents::Shards(_)) {
            return Ok(());
        }
        let numbers: Vec<u64> = rows.map(|row| row / self.chunk_rows.max(1)).collect();
        self.opened.read_indexes_of_chunks(self.variable, &numbers)
    }

    /// Where the first of `count` rows from `row` on lie, and how many lie there together.
    pub fn locate(&self, row: u64, count: u64) -> Result<(RowPlace, u64)> {
        if row.saturating_add(count) > self.row_count {
            let what = format!("rows {row} to {} of {}", row.saturating_add(count), self.row_count);
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let (number, within) = (row / self.chunk_rows, row % self.chunk_rows);
        let together = count.min(self.chunk_rows - within);
        let extent = self.opened.chunk_extent(self.variable, number)?;
        Ok((self.place(number, extent, within, together)?, together))
    }

    /// Where `count` rows lie, the first of which has `within` others before it in chunk `number`.
    fn place(&self, number: u64, extent: Option<Extent>, within: u64, count: u64) -> Result<RowPlace> {
        let Some(extent) = extent else { return Ok(RowPlace::Unwritten) };
        let (start, len) = (within.saturating_mul(self.row_len), count.saturating_mul(self.row_len));
        if start.saturating_add(len) > extent.range.len() {
            let error = Error::new(ErrorKind::Corrupt, "rows lie past the end of their chunk");
            return Err(error.at(format!("chunk {number} at {:#x}", extent.range.start)));
        }
        let range = ByteRange::at(extent.range.start + start, len);
        Ok(RowPlace::Stored { source: extent.source, range })
    }
}
