//! How rows of CSV text become numbers, as plain data.

use serde::{Deserialize, Serialize};

/// How rows of CSV text become numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvRows {
    /// True for 8-byte integers, false for 8-byte floats.
    pub integers: bool,
    /// What stands between cells.
    pub delimiter: u8,
    /// Rows of a chunk.
    pub chunk_rows: u32,
    /// Rows of the last chunk.
    pub last_rows: u32,
    /// Cells of a row.
    pub cell_count: u32,
    /// The columns that are wanted, in their order.
    pub columns: Vec<u32>,
}
