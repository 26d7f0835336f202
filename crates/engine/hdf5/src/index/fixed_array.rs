//! Chunks listed in a fixed array: one element per chunk of the largest grid.

use forebay_process::{Error, Result};

use super::chunk_list::{ChunkNumbering, Elements, IndexedArray, Pairs};
use crate::cursor::MetadataCursor;

pub(crate) fn read(of: &IndexedArray<'_>, address: u64, pairs: &mut Pairs<'_>) -> Result<()> {
    read_at(of, address, pairs).map_err(|error| error.at(format!("fixed array at {address:#x}")))
}

fn read_at(of: &IndexedArray<'_>, address: u64, pairs: &mut Pairs<'_>) -> Result<()> {
    let file = of.file;
    let (offset, length) = (u64::from(file.sizes.offset), u64::from(file.sizes.length));
    let head = file.read(address, 4 + 4 + length + offset + 4)?;
    let mut cursor = MetadataCursor::new(&head, file.sizes);
    cursor.signature(b"FAHD")?;
    cursor.version(0, "a fixed array")?;
    let client = cursor.u8()?;
    let elements = Elements::new(of, client, cursor.u8()?)?;
    let page_bits = u32::from(cursor.u8()?);
    let count = cursor.length()?;
    let block = cursor.address()?;
    cursor.checksum("a fixed array")?;
    let Some(block) = block else { return Ok(()) };
    if page_bits >= 32 {
        return Err(Error::corrupt(format!("pages of 2^{page_bits} elements")));
    }
    let page_count = 1u64 << page_bits;
    let array = FixedArray { of, elements, count, page_count, block, order: ChunkNumbering::row_major(of) };
    let place = |error: Error| error.at(format!("data block at {block:#x}"));
    array.read(pairs).map_err(place)
}

struct FixedArray<'a> {
    of: &'a IndexedArray<'a>,
    elements: Elements,
    count: u64,
    page_count: u64,
    block: u64,
    order: ChunkNumbering,
}

impl FixedArray<'_> {
    fn read(&self, pairs: &mut Pairs<'_>) -> Result<()> {
        let file = self.of.file;
        let prefix = 4 + 2 + u64::from(file.sizes.offset);
        if self.count <= self.page_count {
            let len = self.count.saturating_mul(self.elements.len as u64).saturating_add(prefix + 4);
            let bytes = file.read(self.block, len)?;
            let mut cursor = MetadataCursor::new(&bytes, file.sizes);
            self.check_prefix(&mut cursor)?;
            self.take(&mut cursor, 0, self.count, pairs)?;
            return cursor.checksum("a fixed array's data");
        }
        let pages = self.count.div_ceil(self.page_count);
        let bitmap_len = pages.div_ceil(8);
        let bytes = file.read(self.block, prefix + bitmap_len + 4)?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        self.check_prefix(&mut cursor)?;
        let bitmap = cursor.take(usize::try_from(bitmap_len).unwrap_or(usize::MAX))?;
        cursor.checksum("a fixed array's data")?;
        let page_len = self.page_count * self.elements.len as u64 + 4;
        for page in 0..pages {
            let is_written = bitmap[usize::try_from(page / 8).unwrap_or(0)] & (0x80 >> (page % 8)) != 0;
            if !is_written {
                continue;
            }
            let first = page * self.page_count;
            let count = self.page_count.min(self.count - first);
            let at = page
                .checked_mul(page_len)
                .and_then(|offset| offset.checked_add(self.block)?.checked_add(prefix + bitmap_len + 4))
                .ok_or_else(|| Error::corrupt("a page beyond 64 bits"))?;
            let bytes = file.read(at, count * self.elements.len as u64 + 4)?;
            let mut cursor = MetadataCursor::new(&bytes, file.sizes);
            self.take(&mut cursor, first, count, pairs)?;
            cursor.checksum("a fixed array's page")?;
        }
        Ok(())
    }

    fn check_prefix(&self, cursor: &mut MetadataCursor<'_>) -> Result<()> {
        cursor.signature(b"FADB")?;
        cursor.version(0, "a fixed array's data")?;
        cursor.skip(1 + usize::from(self.of.file.sizes.offset))
    }

    fn take(
        &self,
        cursor: &mut MetadataCursor<'_>,
        first: u64,
        count: u64,
        pairs: &mut Pairs<'_>,
    ) -> Result<()> {
        for position in first..first + count {
            if let Some(stored) = self.elements.read(cursor)? {
                pairs.push(&self.order.place(position), stored)?;
            }
        }
        Ok(())
    }
}
