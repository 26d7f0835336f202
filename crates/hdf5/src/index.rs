//! The six ways an HDF5 file says where its chunks are, each ending in the same chunk table.

mod extensible_array;
mod fixed_array;
mod trees;

use forebay_source::{Error, Result};

use super::{
    cursor::Cursor,
    file::File,
    message::layout::{Chunked, Index},
};
use forebay_container::{ChunkTable, Extent, Filter, Grid};

/// What an index needs to know of the array it indexes.
#[derive(Debug)]
pub(crate) struct Indexed<'a> {
    pub(crate) file: &'a File,
    pub(crate) grid: &'a Grid,
    pub(crate) max_shape: &'a [Option<u64>],
    pub(crate) filters: &'a [Filter],
    /// Bytes of one whole chunk before filtering.
    pub(crate) chunk_len: u64,
    pub(crate) edges_unfiltered: bool,
}

impl Indexed<'_> {
    /// The chunk table of the array.
    pub(crate) fn table(&self, layout: &Chunked) -> Result<ChunkTable> {
        let mut pairs = Pairs { of: self, found: Vec::new() };
        let Some(address) = layout.address else {
            return ChunkTable::new(Vec::new(), self.grid.chunk_count());
        };
        match &layout.index {
            Index::TreeV1 => trees::tree_v1(self, address, &mut pairs)?,
            Index::TreeV2 => trees::tree_v2(self, address, &mut pairs)?,
            Index::Single { filtered } => {
                let (len, mask) = filtered.unwrap_or((self.chunk_len, 0));
                pairs.push(&vec![0; self.grid.shape.len()], Stored { address, len, mask })?;
            }
            Index::Implicit => self.implicit(address, &mut pairs)?,
            Index::FixedArray => fixed_array::read(self, address, &mut pairs)?,
            Index::ExtensibleArray => extensible_array::read(self, address, &mut pairs)?,
        }
        ChunkTable::new(pairs.found, self.grid.chunk_count())
    }

    /// Chunks end to end, in the order of the largest grid the array may have.
    fn implicit(&self, address: u64, pairs: &mut Pairs<'_>) -> Result<()> {
        let order = Order::row_major(self);
        for number in 0..self.grid.chunk_count() {
            let at = self.grid.chunk_at(number);
            let place = order.position(&at).and_then(|position| position.checked_mul(self.chunk_len));
            let address = place.and_then(|offset| address.checked_add(offset));
            let address = address.ok_or_else(|| Error::corrupt("a chunk beyond 64 bits"))?;
            // No index has to be read, and any number of arrays may lie over the same bytes.
            self.file.spend(IMPLICIT_BYTES)?;
            pairs.push(&at, Stored { address, len: self.chunk_len, mask: 0 })?;
        }
        Ok(())
    }
}

/// What a chunk that stands in no index counts as: half of what a file of chunks of one byte may spend.
const IMPLICIT_BYTES: u64 = 16;

/// A chunk as an index gives it.
#[derive(Clone, Copy, Debug)]
struct Stored {
    address: u64,
    len: u64,
    mask: u32,
}

/// The chunks found so far.
#[derive(Debug)]
struct Pairs<'a> {
    of: &'a Indexed<'a>,
    found: Vec<(u64, Extent)>,
}

impl Pairs<'_> {
    /// Adds the chunk at `at` (in chunks per dimension); one outside the array's present shape is left out.
    fn push(&mut self, at: &[u64], stored: Stored) -> Result<()> {
        let Some(number) = self.of.grid.chunk_number(at) else { return Ok(()) };
        let Stored { address, len, mut mask } = stored;
        if self.of.edges_unfiltered && self.of.grid.is_edge(at) {
            mask = u32::MAX;
        }
        let place = |error: forebay_source::Error| error.at(format!("chunk {number} at {address:#x}"));
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
struct Order {
    /// Axis that is counted slowest, then the others.
    axes: Vec<usize>,
    /// Chunks along each of those axes; the first is never used.
    counts: Vec<u64>,
}

impl Order {
    fn row_major(of: &Indexed<'_>) -> Self {
        Self::with_first(of, 0)
    }

    /// The order in which `first` is counted slowest.
    fn with_first(of: &Indexed<'_>, first: usize) -> Self {
        let ndim = of.grid.shape.len();
        let axes: Vec<usize> =
            (first..(first + 1).min(ndim)).chain((0..ndim).filter(|axis| *axis != first)).collect();
        let counts = axes
            .iter()
            .map(|axis| of.max_shape[*axis].unwrap_or(of.grid.shape[*axis]).div_ceil(of.grid.chunk[*axis]))
            .collect();
        Self { axes, counts }
    }

    fn position(&self, at: &[u64]) -> Option<u64> {
        self.axes
            .iter()
            .zip(&self.counts)
            .try_fold(0u64, |position, (axis, count)| position.checked_mul(*count)?.checked_add(at[*axis]))
    }

    /// The chunk at `position`, in chunks per dimension.
    fn place(&self, position: u64) -> Vec<u64> {
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
struct Elements {
    /// Bytes of one element.
    len: usize,
    is_filtered: bool,
    chunk_len: u64,
}

impl Elements {
    /// Checks what the header of an array index says of its elements.
    fn new(of: &Indexed<'_>, client: u8, len: u8) -> Result<Self> {
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

    fn read(self, cursor: &mut Cursor<'_>) -> Result<Option<Stored>> {
        let address_len = usize::from(cursor.sizes.offset);
        let address = cursor.address()?;
        let (mut len, mut mask) = (self.chunk_len, 0);
        if self.is_filtered {
            len = cursor.uint(self.len - address_len - 4)?;
            mask = cursor.u32()?;
        }
        Ok(address.map(|address| Stored { address, len, mask }))
    }
}
