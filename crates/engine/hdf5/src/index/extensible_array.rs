//! Chunks listed in an extensible array: for arrays that grow along one axis.
//!
//! Elements stand in the index block first, then in data blocks it points to, then in data blocks of
//! super blocks; block sizes double as the array grows.

use forebay_process::{Error, Result};

use super::chunk_list::{ChunkNumbering, Elements, IndexedArray, Pairs};
use crate::cursor::MetadataCursor;

pub(crate) fn read(of: &IndexedArray<'_>, address: u64, pairs: &mut Pairs<'_>) -> Result<()> {
    let place = |error: Error| error.at(format!("extensible array at {address:#x}"));
    ExtensibleArray::open(of, address).and_then(|array| array.read(pairs)).map_err(place)
}

struct ExtensibleArray<'a> {
    of: &'a IndexedArray<'a>,
    elements: Elements,
    order: ChunkNumbering,
    /// Elements in use: one past the last that was ever set.
    count: u64,
    index_count: u64,
    /// Elements of the smallest data block.
    block_count: u64,
    /// Data blocks the index block points to itself.
    direct_blocks: u64,
    /// Super blocks whose data blocks the index block points to itself.
    direct_supers: u64,
    super_count: u64,
    page_count: u64,
    offset_len: usize,
    index_block: Option<u64>,
}

/// A run of data blocks of one size.
struct SuperBlock {
    first: u64,
    blocks: u64,
    block_count: u64,
}

impl SuperBlock {
    /// The first element of data block `index`; one that cannot be counted lies behind all that are in use.
    fn first_of(&self, index: u64) -> u64 {
        index.saturating_mul(self.block_count).saturating_add(self.first)
    }
}

impl<'a> ExtensibleArray<'a> {
    fn open(of: &'a IndexedArray<'a>, address: u64) -> Result<Self> {
        let file = of.file;
        let (offset, length) = (u64::from(file.sizes.offset), u64::from(file.sizes.length));
        let head = file.read(address, 4 + 8 + 6 * length + offset + 4)?;
        let mut cursor = MetadataCursor::new(&head, file.sizes);
        cursor.signature(b"EAHD")?;
        cursor.version(0, "an extensible array")?;
        let client = cursor.u8()?;
        let elements = Elements::new(of, client, cursor.u8()?)?;
        let [most_bits, index_count, block_count, least_pointers, page_bits] =
            [cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?];
        for _ in 0..4 {
            cursor.length()?;
        }
        let count = cursor.length()?;
        let _realised = cursor.length()?;
        let index_block = cursor.address()?;
        cursor.checksum("an extensible array")?;
        let sane = block_count.is_power_of_two()
            && least_pointers.is_power_of_two()
            && most_bits <= 64
            && u32::from(most_bits) >= block_count.ilog2()
            && page_bits < 64;
        if !sane {
            return Err(Error::corrupt("block sizes that are no powers of two"));
        }
        let super_count = 1 + u64::from(most_bits) - u64::from(block_count.ilog2());
        let growing = of.max_shape.iter().position(Option::is_none).unwrap_or(0);
        Ok(Self {
            of,
            elements,
            order: ChunkNumbering::with_first(of, growing),
            count,
            index_count: index_count.into(),
            block_count: block_count.into(),
            direct_blocks: 2 * (u64::from(least_pointers) - 1),
            direct_supers: 2 * u64::from(least_pointers.ilog2()),
            super_count,
            page_count: 1 << page_bits,
            offset_len: usize::from(most_bits.div_ceil(8)),
            index_block,
        })
    }

    /// Sizes of the super block `number`, whose first element is `first`.
    fn super_block(&self, number: u64, first: u64) -> Result<SuperBlock> {
        let shifted = |one: u64, by: u64| {
            let by = u32::try_from(by).ok().filter(|by| *by < 63)?;
            one.checked_mul(1 << by)
        };
        let blocks = shifted(1, number / 2);
        let block_count = shifted(self.block_count, number.div_ceil(2));
        match (blocks, block_count) {
            (Some(blocks), Some(block_count)) => Ok(SuperBlock { first, blocks, block_count }),
            _ => Err(Error::corrupt("a super block beyond 64 bits")),
        }
    }

    fn read(&self, pairs: &mut Pairs<'_>) -> Result<()> {
        let Some(address) = self.index_block else { return Ok(()) };
        let file = self.of.file;
        let offset = u64::from(file.sizes.offset);
        let pointers = self.direct_blocks + self.super_count.saturating_sub(self.direct_supers);
        let len = 4 + 2 + offset + self.index_count * self.elements.len as u64 + pointers * offset + 4;
        let bytes = file.read(address, len)?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.signature(b"EAIB")?;
        cursor.version(0, "an extensible array's index")?;
        cursor.skip(1 + usize::from(file.sizes.offset))?;
        self.take(&mut cursor, 0, self.index_count, pairs)?;
        let mut first = self.index_count;
        for number in 0..self.super_count {
            let block = self.super_block(number, first)?;
            if number < self.direct_supers {
                for index in 0..block.blocks {
                    let at = cursor.address()?;
                    self.data_block(at, block.first_of(index), &block, None, pairs)?;
                }
            } else if let Some(at) = cursor.address()?
                && first < self.count
            {
                let place = |error: Error| error.at(format!("super block at {at:#x}"));
                self.read_super_block(at, &block, pairs).map_err(place)?;
            }
            first = first.saturating_add(block.blocks.saturating_mul(block.block_count));
        }
        cursor.checksum("an extensible array's index")
    }

    fn read_super_block(&self, address: u64, block: &SuperBlock, pairs: &mut Pairs<'_>) -> Result<()> {
        let file = self.of.file;
        let is_paged = block.block_count > self.page_count;
        let pages = if is_paged { block.block_count / self.page_count } else { 0 };
        let bitmap_len = pages.div_ceil(8);
        let offset = u64::from(file.sizes.offset);
        let per_block = bitmap_len.saturating_add(offset);
        let len =
            (4 + 2 + offset + self.offset_len as u64).saturating_add(block.blocks.saturating_mul(per_block));
        let bytes = file.read(address, len.saturating_add(4))?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.signature(b"EASB")?;
        cursor.version(0, "a super block")?;
        cursor.skip(1 + usize::from(file.sizes.offset) + self.offset_len)?;
        let bitmap_len = usize::try_from(bitmap_len).unwrap_or(usize::MAX);
        let bitmaps = (0..block.blocks).map(|_| cursor.take(bitmap_len)).collect::<Result<Vec<_>>>()?;
        for (index, bitmap) in bitmaps.into_iter().enumerate() {
            let at = cursor.address()?;
            self.data_block(at, block.first_of(index as u64), block, is_paged.then_some(bitmap), pairs)?;
        }
        cursor.checksum("a super block")
    }

    /// One data block, whose first element is `first`; in pages when `bitmap` says which were written.
    fn data_block(
        &self,
        address: Option<u64>,
        first: u64,
        block: &SuperBlock,
        bitmap: Option<&[u8]>,
        pairs: &mut Pairs<'_>,
    ) -> Result<()> {
        let Some(address) = address else { return Ok(()) };
        if first >= self.count {
            return Ok(());
        }
        let file = self.of.file;
        let place = |error: Error| error.at(format!("data block at {address:#x}"));
        let prefix = 4 + 2 + u64::from(file.sizes.offset) + self.offset_len as u64;
        let element_len = self.elements.len as u64;
        let Some(bitmap) = bitmap else {
            let len = block.block_count.saturating_mul(element_len).saturating_add(prefix + 4);
            let bytes = file.read(address, len).map_err(place)?;
            let mut cursor = MetadataCursor::new(&bytes, file.sizes);
            self.check_prefix(&mut cursor).map_err(place)?;
            self.take(&mut cursor, first, block.block_count, pairs)?;
            return cursor.checksum("a data block").map_err(place);
        };
        let page_len = self.page_count.saturating_mul(element_len).saturating_add(4);
        for page in 0..block.block_count / self.page_count {
            let byte =
                usize::try_from(page / 8).ok().and_then(|index| bitmap.get(index)).copied().unwrap_or(0);
            let page_first = first.saturating_add(page.saturating_mul(self.page_count));
            if byte & (0x80 >> (page % 8)) == 0 || page_first >= self.count {
                continue;
            }
            let at = page
                .checked_mul(page_len)
                .and_then(|offset| offset.checked_add(address)?.checked_add(prefix + 4))
                .ok_or_else(|| place(Error::corrupt("a page beyond 64 bits")))?;
            let bytes = file.read(at, page_len).map_err(place)?;
            let mut cursor = MetadataCursor::new(&bytes, file.sizes);
            self.take(&mut cursor, page_first, self.page_count, pairs)?;
            cursor.checksum("a page of a data block").map_err(place)?;
        }
        Ok(())
    }

    fn check_prefix(&self, cursor: &mut MetadataCursor<'_>) -> Result<()> {
        cursor.signature(b"EADB")?;
        cursor.version(0, "a data block")?;
        cursor.skip(1 + usize::from(self.of.file.sizes.offset) + self.offset_len)
    }

    fn take(
        &self,
        cursor: &mut MetadataCursor<'_>,
        first: u64,
        count: u64,
        pairs: &mut Pairs<'_>,
    ) -> Result<()> {
        for position in first..first.saturating_add(count) {
            if let Some(stored) = self.elements.read(cursor)? {
                pairs.push(&self.order.place(position), stored)?;
            }
        }
        Ok(())
    }
}
