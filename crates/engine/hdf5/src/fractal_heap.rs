//! Fractal heaps: dense links, dense attributes and shared messages.

use std::{cell::RefCell, collections::HashMap};

use bytes::Bytes;
use forebay_process::{Error, Result};

use super::{
    cursor::{MetadataCursor, bytes_for},
    message::pipeline,
    metadata::Metadata,
    tree_v2::TreeV2,
};
use forebay_container::Filter;
use forebay_filter::{Scratch, undo_all};

/// A heap of small objects, laid out in blocks that double in size.
#[derive(Debug)]
pub(crate) struct FractalHeap {
    address: u64,
    id_len: usize,
    blocks_are_summed: bool,
    huge_tree: Option<u64>,
    width: u64,
    first_len: u64,
    most_direct: u64,
    offset_len: usize,
    length_len: usize,
    root: Option<HeapBlock>,
    /// Rows of the root when it is an indirect block, 0 when it is a direct one.
    root_rows: u64,
    filters: Vec<Filter>,
    /// Blocks by address: the objects of a tree lie all over its heap.
    kept: RefCell<KeptBlocks>,
}

#[derive(Debug, Default)]
struct KeptBlocks {
    blocks: HashMap<u64, Bytes>,
    bytes: usize,
}

/// Where a block lies, and how it was filtered.
#[derive(Clone, Copy, Debug)]
struct HeapBlock {
    address: u64,
    filtered: Option<(u64, u32)>,
}

const MOST_DEPTH: usize = 64;
/// Blocks of a small file that are kept all the same: decoded, they may be longer than the file.
const MOST_KEPT_BYTES: u64 = 64 << 20;

impl FractalHeap {
    pub(crate) fn open(file: &Metadata, address: u64) -> Result<Self> {
        Self::open_at(file, address).map_err(|error| error.at(format!("fractal heap at {address:#x}")))
    }

    fn open_at(file: &Metadata, address: u64) -> Result<Self> {
        let (offset, length) = (u64::from(file.sizes.offset), u64::from(file.sizes.length));
        let len = 4 + 1 + 2 + 2 + 1 + 4 + 12 * length + 3 * offset + 2 + 2 + 2 + 2 + 4;
        let bytes = file.read_up_to(address, len + length + 4 + 4096)?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.signature(b"FRHP")?;
        cursor.version(0, "a fractal heap")?;
        let id_len = usize::from(cursor.u16()?);
        let filters_len = usize::from(cursor.u16()?);
        let flags = cursor.u8()?;
        let most_managed = u64::from(cursor.u32()?);
        cursor.length()?;
        let huge_tree = cursor.address()?;
        cursor.length()?;
        cursor.address()?;
        for _ in 0..8 {
            cursor.length()?;
        }
        let width = u64::from(cursor.u16()?);
        let first_len = cursor.length()?;
        let most_direct = cursor.length()?;
        let offset_bits = u64::from(cursor.u16()?);
        cursor.skip(2)?;
        let root = cursor.address()?;
        let root_rows = u64::from(cursor.u16()?);
        let mut root_filtered = None;
        let mut filters = Vec::new();
        if filters_len > 0 {
            root_filtered = Some((cursor.length()?, cursor.u32()?));
            filters = pipeline::parse(MetadataCursor::new(cursor.take(filters_len)?, file.sizes))?;
        }
        cursor.checksum("a fractal heap")?;
        let sane = width.is_power_of_two()
            && first_len.is_power_of_two()
            && most_direct.is_power_of_two()
            && first_len <= most_direct
            && most_direct / 2 < file.left_at(0).max(1 << 26)
            && width.checked_mul(most_direct).is_some()
            && (1..=64).contains(&offset_bits);
        if !sane {
            return Err(Error::corrupt(format!(
                "blocks of {first_len} to {most_direct} bytes in rows of {width}"
            )));
        }
        if id_len == 0 {
            return Err(Error::corrupt("ids of no bytes"));
        }
        Ok(Self {
            address,
            id_len,
            blocks_are_summed: flags & 2 != 0,
            huge_tree,
            width,
            first_len,
            most_direct,
            offset_len: usize::try_from(offset_bits.div_ceil(8)).unwrap_or(8),
            length_len: (most_direct.ilog2().div_ceil(8) as usize).min(bytes_for(most_managed)),
            root: root.map(|address| HeapBlock { address, filtered: root_filtered }),
            root_rows,
            filters,
            kept: RefCell::default(),
        })
    }

    /// The object called `id`.
    pub(crate) fn object(&self, file: &Metadata, id: &[u8]) -> Result<Bytes> {
        let place = |error: forebay_process::Error| error.at(format!("fractal heap at {:#x}", self.address));
        self.object_at(file, id).map_err(place)
    }

    fn object_at(&self, file: &Metadata, id: &[u8]) -> Result<Bytes> {
        let mut cursor = MetadataCursor::new(id, file.sizes);
        let first = cursor.u8()?;
        if first >> 6 != 0 {
            return Err(Error::unsupported(format!("heap ids of version {}", first >> 6)));
        }
        match first >> 4 & 3 {
            0 => {
                let offset = cursor.uint(self.offset_len)?;
                let len = cursor.uint(self.length_len)?;
                self.managed(file, offset, len)
            }
            1 => self.huge(file, cursor),
            2 => {
                // Longer ids have room for longer objects, whose length takes 12 bits.
                let extended = self.id_len > 17;
                let low = usize::from(first & 0x0f);
                let len = if extended { low << 8 | usize::from(cursor.u8()?) } else { low } + 1;
                Ok(Bytes::copy_from_slice(cursor.take(len)?))
            }
            kind => Err(Error::corrupt(format!("a heap id of kind {kind}"))),
        }
    }

    fn huge(&self, file: &Metadata, mut cursor: MetadataCursor<'_>) -> Result<Bytes> {
        let (offset, length) = (usize::from(file.sizes.offset), usize::from(file.sizes.length));
        let is_filtered = !self.filters.is_empty();
        let direct_len = offset + length + if is_filtered { 4 + length } else { 0 };
        if direct_len < self.id_len {
            let record = cursor.take(direct_len)?.to_vec();
            return self.huge_at(file, MetadataCursor::new(&record, file.sizes), is_filtered);
        }
        let key = cursor.uint(length.min(self.id_len - 1))?;
        let tree = self.huge_tree.ok_or_else(|| Error::corrupt("a huge object and no tree of them"))?;
        let mut found = None;
        TreeV2::open(file, tree)?.walk(file, &mut |record| {
            let mut id = MetadataCursor::new(record, file.sizes);
            id.skip(direct_len)?;
            if id.length()? == key {
                found = Some(record.to_vec());
            }
            Ok(())
        })?;
        let record = found.ok_or_else(|| Error::corrupt(format!("no huge object {key}")))?;
        self.huge_at(file, MetadataCursor::new(&record, file.sizes), is_filtered)
    }

    fn huge_at(&self, file: &Metadata, mut record: MetadataCursor<'_>, is_filtered: bool) -> Result<Bytes> {
        let address = record.some_address("a huge object")?;
        let len = record.length()?;
        let stored = file.read(address, len)?;
        if !is_filtered {
            return Ok(stored);
        }
        let mask = record.u32()?;
        let decoded_len = record.length()?;
        self.unfilter(file, &stored, mask, decoded_len)
    }

    /// The managed object of `len` bytes at `offset` of the heap's own space.
    fn managed(&self, file: &Metadata, offset: u64, len: u64) -> Result<Bytes> {
        let mut block = self.root.ok_or_else(|| Error::corrupt("an object in an empty heap"))?;
        let mut rows = self.root_rows;
        let mut start = 0u64;
        let mut direct_len = self.first_len;
        for _ in 0..MOST_DEPTH {
            if rows == 0 {
                return self.in_direct(file, block, direct_len, offset - start, len);
            }
            let within = offset - start;
            let (row, column, row_start, block_len) = self.find(within);
            if row >= rows {
                return Err(Error::corrupt(format!("an object at {offset} of a heap of {rows} rows")));
            }
            block = self.child(file, block, rows, row, column)?;
            start += row_start + column * block_len;
            rows = if block_len <= self.most_direct { 0 } else { self.rows_of(block_len) };
            direct_len = block_len;
        }
        Err(Error::corrupt("heap blocks nested too deep"))
    }

    /// Row, column, the row's start and its block length, for `within` bytes into an indirect block.
    fn find(&self, within: u64) -> (u64, u64, u64, u64) {
        let first_row = self.width * self.first_len;
        if within < first_row {
            return (0, within / self.first_len, 0, self.first_len);
        }
        let doublings = u64::from((within / first_row).ilog2());
        let row_start = first_row << doublings;
        let block_len = self.first_len << doublings;
        (doublings + 1, (within - row_start) / block_len, row_start, block_len)
    }

    fn rows_of(&self, block_len: u64) -> u64 {
        let bits = u64::from(block_len.ilog2());
        (bits + 1).saturating_sub(u64::from((self.first_len * self.width).ilog2()))
    }

    /// The child at `row`, `column` of the indirect block `block`, which has `rows` rows.
    fn child(
        &self,
        file: &Metadata,
        block: HeapBlock,
        rows: u64,
        row: u64,
        column: u64,
    ) -> Result<HeapBlock> {
        let direct_rows = u64::from(self.most_direct.ilog2() - self.first_len.ilog2()) + 2;
        let is_filtered = !self.filters.is_empty();
        let (offset, length) = (u64::from(file.sizes.offset), u64::from(file.sizes.length));
        let direct_entry = offset + if is_filtered { length + 4 } else { 0 };
        let direct_count = rows.min(direct_rows) * self.width;
        let indirect_count = rows.saturating_sub(direct_rows) * self.width;
        let head = 4 + 1 + offset + self.offset_len as u64;
        let len = head + direct_count * direct_entry + indirect_count * offset;
        let bytes = self.keep(file, block.address, || {
            let bytes = file.read(block.address, len + 4)?;
            let mut whole = MetadataCursor::new(&bytes, file.sizes);
            whole.signature(b"FHIB")?;
            whole.skip(usize::try_from(len).unwrap_or(usize::MAX) - 4)?;
            whole.checksum("a heap block")?;
            Ok(bytes)
        })?;
        let index = row * self.width + column;
        let at = if row < direct_rows {
            head + index * direct_entry
        } else {
            head + direct_count * direct_entry + (index - direct_count) * offset
        };
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.skip(usize::try_from(at).unwrap_or(usize::MAX))?;
        let address = cursor.some_address("a heap block")?;
        let filtered =
            if is_filtered && row < direct_rows { Some((cursor.length()?, cursor.u32()?)) } else { None };
        Ok(HeapBlock { address, filtered })
    }

    fn in_direct(
        &self,
        file: &Metadata,
        block: HeapBlock,
        block_len: u64,
        at: u64,
        len: u64,
    ) -> Result<Bytes> {
        let bytes = self.direct_block(file, block, block_len)?;
        let from = usize::try_from(at).ok();
        let to = at.checked_add(len).and_then(|end| usize::try_from(end).ok());
        match (from, to) {
            (Some(from), Some(to)) if to <= bytes.len() => Ok(bytes.slice(from..to)),
            _ => Err(Error::corrupt(format!("an object of {len} bytes at {at} of a block {block_len} long"))),
        }
    }

    fn direct_block(&self, file: &Metadata, block: HeapBlock, block_len: u64) -> Result<Bytes> {
        self.keep(file, block.address, || {
            let bytes = match block.filtered {
                None => file.read(block.address, block_len)?,
                Some((stored_len, mask)) => {
                    self.unfilter(file, &file.read(block.address, stored_len)?, mask, block_len)?
                }
            };
            MetadataCursor::new(&bytes, file.sizes).signature(b"FHDB")?;
            if self.blocks_are_summed {
                self.check_direct(file, &bytes)?;
            }
            Ok(bytes)
        })
    }

    /// The block at `address`, read and checked by `read` when it is first needed.
    fn keep(&self, file: &Metadata, address: u64, read: impl FnOnce() -> Result<Bytes>) -> Result<Bytes> {
        if let Some(bytes) = self.kept.borrow().blocks.get(&address) {
            return Ok(bytes.clone());
        }
        let bytes = read()?;
        let mut kept = self.kept.borrow_mut();
        // A true heap is no longer than its file, unless it is filtered, and only blocks that overlap come to more.
        if kept.bytes as u64 > file.left_at(0).max(MOST_KEPT_BYTES) {
            *kept = KeptBlocks::default();
        }
        kept.bytes += bytes.len();
        kept.blocks.insert(address, bytes.clone());
        Ok(bytes)
    }

    /// The checksum of a direct block stands inside it and counts as zero.
    fn check_direct(&self, file: &Metadata, bytes: &[u8]) -> Result<()> {
        let at = 4 + 1 + usize::from(file.sizes.offset) + self.offset_len;
        let mut copy = bytes.to_vec();
        let Some(sum) = copy.get_mut(at..at + 4) else {
            return Err(Error::corrupt("a heap block without a checksum"));
        };
        let stored = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
        sum.fill(0);
        if super::cursor::lookup3(&copy) == stored || cfg!(fuzzing) {
            return Ok(());
        }
        Err(Error::corrupt("bad checksum of a heap block"))
    }

    fn unfilter(&self, file: &Metadata, stored: &[u8], mask: u32, len: u64) -> Result<Bytes> {
        // Deflate shrinks at most 1032 times: a longer claim is a lie.
        let most = (stored.len() as u64).saturating_mul(2048).saturating_add(4096);
        if len > most {
            return Err(Error::corrupt(format!("{} stored bytes said to decode to {len}", stored.len())));
        }
        // A few stored bytes may be decoded again and again.
        file.spend(len)?;
        let mut out = vec![0; usize::try_from(len).unwrap_or(0)];
        undo_all(&self.filters, mask, stored, &mut out, &mut Scratch::default())?;
        Ok(out.into())
    }
}
