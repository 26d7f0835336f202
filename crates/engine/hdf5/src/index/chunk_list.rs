//! What all indexes share: the chunks they give, and how array indexes number and store them.

use forebay_container::{Extent, Filter, Grid};
use forebay_process::{Error, Result};

use crate::{cursor::MetadataCursor, metadata::Metadata};

/// What an index needs to know of the array it indexes.
#[derive(Debug)]
pub(crate) struct IndexedArray<'a> {
    pub(crate) file: &'a Metadata,
    pub(crate) grid: &'a Grid,
    pub(crate) max_shape: &'a [Option<u64>],
    pub(crate) filters: &'a [Filter],
    /// Bytes of one whole chunk before filtering.
    pub(crate) chunk_len: u64,
    pub(crate) edges_unfiltered: bool,
}

/// A chunk as an index gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedChunk {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) mask: u32,
}

/// The chunks found so far.
#[derive(Debug)]
pub(crate) struct Pairs<'a> {
    pub(crate) of: &'a IndexedArray<'a>,
    pub(crate) found: Vec<(u64, Extent)>,
}

impl Pairs<'_> {
    /// Adds the chunk at `at` (in chunks per dimension); one outside the array's present shape is left out.
    pub(crate) fn push(&mut self, at: &[u64], stored: IndexedChunk) -> Result<()> {
        let Some(number) = self.of.grid.chunk_number(at) else { return Ok(()) };
        let IndexedChunk { address, len, mut mask } = stored;
        if self.of.edges_unfiltered && self.of.grid.is_edge(at) {
            mask = u32::MAX;
        }
        let place = |error: forebay_process::Error| error.at(format!("chunk {number} at {address:#x}"));
        if self.of.filters.is_empty() && len != self.of.chunk_len {
            return Err(place(Error::corrupt(format!("{len} bytes stored, {} needed", self.of.chunk_len))));
        }
        let range = self.of.file.range(address, len).map_err(place)?;
        self.found.push((number, Extent { source: self.of.file.index, range, skipped: mask }));
        Ok(())
    }
}

/// How an array index numbers chunks: by the largest grid the array may have, the growing axis first.
#[derive(Debug)]
pub(crate) struct ChunkNumbering {
    /// Axis that is counted slowest, then the others.
    pub(crate) axes: Vec<usize>,
    /// Chunks along each of those axes; the first is never used.
    pub(crate) counts: Vec<u64>,
}

impl ChunkNumbering {
    pub(crate) fn row_major(of: &IndexedArray<'_>) -> Self {
        Self::with_first(of, 0)
    }

    /// The order in which `first` is counted slowest.
    pub(crate) fn with_first(of: &IndexedArray<'_>, first: usize) -> Self {
        let ndim = of.grid.shape.len();
        let axes: Vec<usize> =
            (first..(first + 1).min(ndim)).chain((0..ndim).filter(|axis| *axis != first)).collect();
        let counts = axes
            .iter()
            .map(|axis| of.max_shape[*axis].unwrap_or(of.grid.shape[*axis]).div_ceil(of.grid.chunk[*axis]))
            .collect();
        Self { axes, counts }
    }

    pub(crate) fn position(&self, at: &[u64]) -> Option<u64> {
        self.axes
            .iter()
            .zip(&self.counts)
            .try_fold(0u64, |position, (axis, count)| position.checked_mul(*count)?.checked_add(at[*axis]))
    }

    /// The chunk at `position`, in chunks per dimension.
    pub(crate) fn place(&self, position: u64) -> Vec<u64> {
        let mut at = vec![0; self.axes.len()];
        let mut rest = position;
        for (axis, count) in self.axes.iter().zip(&self.counts).skip(1).rev() {
            at[*axis] = rest % (*count).max(1);
            rest /= (*count).max(1);
        }
        if let Some(first) = self.axes.first() {
            at[*first] = rest;
        }
        at
    }
}

/// The elements of an array index: an address, and beside it a length and a mask when chunks are filtered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    /// Bytes of one element.
    pub(crate) len: usize,
    pub(crate) is_filtered: bool,
    pub(crate) chunk_len: u64,
}

impl Elements {
    /// Checks what the header of an array index says of its elements.
    pub(crate) fn new(of: &IndexedArray<'_>, client: u8, len: u8) -> Result<Self> {
        let is_filtered = match client {
            0 => false,
            1 => true,
            _ => return Err(Error::corrupt(format!("chunks indexed for client {client}"))),
        };
        let address_len = usize::from(of.file.sizes.offset);
        let len = usize::from(len);
        let sane = if is_filtered {
            (address_len + 5..=address_len + 12).contains(&len)
        } else {
            len == address_len
        };
        if !sane {
            return Err(Error::corrupt(format!("index elements of {len} bytes")));
        }
        Ok(Self { len, is_filtered, chunk_len: of.chunk_len })
    }

    pub(crate) fn read(self, cursor: &mut MetadataCursor<'_>) -> Result<Option<IndexedChunk>> {
        let address_len = usize::from(cursor.sizes.offset);
        let address = cursor.address()?;
        let (mut len, mut mask) = (self.chunk_len, 0);
        if self.is_filtered {
            len = cursor.uint(self.len - address_len - 4)?;
            mask = cursor.u32()?;
        }
        Ok(address.map(|address| IndexedChunk { address, len, mask }))
    }
}
