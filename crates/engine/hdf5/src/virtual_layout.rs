//! Virtual data sets: a list of parts of other variables, kept in a heap object.

use std::rc::Rc;

use forebay_process::{Error, Result};

use super::{
    cursor::{MetadataCursor, text},
    metadata::Metadata,
};
use forebay_container::HyperslabAxis;

/// One entry of a virtual data set.
#[derive(Clone, Debug)]
pub(crate) struct VirtualEntry {
    pub(crate) file: Rc<str>,
    pub(crate) variable: Rc<str>,
    /// Blocks per axis; `None` selects everything.
    pub(crate) from: Option<Vec<Hyperslab>>,
    pub(crate) to: Option<Vec<Hyperslab>>,
}

/// Blocks along one axis, whose number or length may follow the size of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hyperslab {
    pub(crate) blocks: HyperslabAxis,
    pub(crate) is_unlimited: bool,
}

/// What the names of all entries may come to, as those of axes.
const NAME_BYTES_PER_BYTE: u64 = 64;
const LEAST_NAME_BYTES: u64 = 16 << 20;

/// The entries of the virtual data set listed in object `index` of the heap at `address`.
pub(crate) fn entries(file: &Metadata, address: u64, index: u32) -> Result<Vec<VirtualEntry>> {
    let bytes = file.heap_object(address, index)?;
    let mut cursor = MetadataCursor::new(&bytes, file.sizes);
    let version = cursor.u8()?;
    if version > 1 {
        return Err(Error::unsupported(format!("a virtual layout of version {version}")));
    }
    let count = cursor.length()?;
    let mut entries: Vec<VirtualEntry> = Vec::new();
    let mut name_bytes_left =
        file.left_at(0).saturating_mul(NAME_BYTES_PER_BYTE).saturating_add(LEAST_NAME_BYTES);
    for _ in 0..count {
        let flags = if version == 1 { cursor.u8()? } else { 0 };
        let source = name(&mut cursor, flags, FILE_FLAGS, &entries, |entry| &entry.file)?;
        let variable = name(&mut cursor, flags, VARIABLE_FLAGS, &entries, |entry| &entry.variable)?;
        let from = selection(&mut cursor)?;
        let to = selection(&mut cursor)?;
        // An entry that shares the name of another is short, and its source is looked up by the whole name.
        let Some(left) = name_bytes_left.checked_sub((source.len() + variable.len()) as u64) else {
            return Err(Error::corrupt("names of sources far longer than the file that says them"));
        };
        name_bytes_left = left;
        entries.push(VirtualEntry { file: source, variable, from, to });
    }
    cursor.checksum("a virtual layout")?;
    Ok(entries)
}

/// Version 1 saves names that came before: bits that say "as in entry n", and "this very file".
struct NameFlags {
    shared: u8,
    this_file: u8,
}

const FILE_FLAGS: NameFlags = NameFlags { shared: 0x01, this_file: 0x04 };
const VARIABLE_FLAGS: NameFlags = NameFlags { shared: 0x02, this_file: 0 };

fn name(
    cursor: &mut MetadataCursor<'_>,
    flags: u8,
    bits: NameFlags,
    earlier: &[VirtualEntry],
    of: impl Fn(&VirtualEntry) -> &Rc<str>,
) -> Result<Rc<str>> {
    if flags & bits.this_file != 0 {
        return Ok(".".into());
    }
    if flags & bits.shared == 0 {
        return Ok(text(cursor.until_nul()?).into());
    }
    let index = usize::try_from(cursor.length()?).ok();
    match index.and_then(|index| earlier.get(index)) {
        Some(entry) => Ok(Rc::clone(of(entry))),
        None => Err(Error::corrupt("a name shared with an entry that is not there")),
    }
}

const HYPERSLAB: u32 = 2;
const ALL: u32 = 3;

fn selection(cursor: &mut MetadataCursor<'_>) -> Result<Option<Vec<Hyperslab>>> {
    let kind = cursor.u32()?;
    let version = cursor.u32()?;
    match (kind, version) {
        (ALL, _) => {
            cursor.skip(8)?;
            Ok(None)
        }
        (HYPERSLAB, 1) => {
            cursor.skip(8)?;
            listed(cursor, 4)
        }
        (HYPERSLAB, 2) => {
            let is_regular = cursor.u8()? & 1 != 0;
            cursor.skip(4)?;
            if is_regular { regular(cursor, 8) } else { listed(cursor, 4) }
        }
        (HYPERSLAB, 3) => {
            let is_regular = cursor.u8()? & 1 != 0;
            let len = usize::from(cursor.u8()?);
            if !matches!(len, 2 | 4 | 8) {
                return Err(Error::corrupt(format!("selection numbers of {len} bytes")));
            }
            if is_regular { regular(cursor, len) } else { listed(cursor, len) }
        }
        _ => Err(Error::unsupported(format!("a mapping by selection of kind {kind}, version {version}"))),
    }
}

fn ndim(cursor: &mut MetadataCursor<'_>) -> Result<usize> {
    match cursor.u32()? {
        ndim @ 0..=32 => Ok(ndim as usize),
        ndim => Err(Error::corrupt(format!("a selection of {ndim} dimensions"))),
    }
}

fn regular(cursor: &mut MetadataCursor<'_>, len: usize) -> Result<Option<Vec<Hyperslab>>> {
    let unlimited = u64::MAX >> (64 - 8 * len);
    let axes = (0..ndim(cursor)?).map(|_| {
        let [start, stride, count, block] =
            [cursor.uint(len)?, cursor.uint(len)?, cursor.uint(len)?, cursor.uint(len)?];
        let is_unlimited = count == unlimited || block == unlimited;
        let blocks = HyperslabAxis { start, stride: stride.max(1), count, block };
        let endless_one = block == unlimited && count == 1;
        let endless_many = count == unlimited && block > 0 && block <= blocks.stride;
        let is_sound =
            if is_unlimited { endless_one || endless_many } else { count < 2 || blocks.is_sound() };
        if !is_sound && !blocks.is_empty() {
            return Err(Error::corrupt("overlapping blocks in a selection"));
        }
        // A single block may carry any stride.
        let stride = if count == 1 { block.max(1) } else { blocks.stride };
        Ok(Hyperslab { blocks: HyperslabAxis { stride, ..blocks }, is_unlimited })
    });
    axes.collect::<Result<Vec<_>>>().map(Some)
}

/// A list of boxes; one box is a regular selection, more are left to the library.
fn listed(cursor: &mut MetadataCursor<'_>, len: usize) -> Result<Option<Vec<Hyperslab>>> {
    let ndim = ndim(cursor)?;
    let count = cursor.uint(len)?;
    if count != 1 {
        return Err(Error::unsupported(format!("a mapping by {count} separate boxes")));
    }
    let starts = (0..ndim).map(|_| cursor.uint(len)).collect::<Result<Vec<_>>>()?;
    let lasts = (0..ndim).map(|_| cursor.uint(len)).collect::<Result<Vec<_>>>()?;
    let axes = starts.into_iter().zip(lasts).map(|(start, last)| {
        let block = last.checked_sub(start).and_then(|len| len.checked_add(1));
        let block = block.ok_or_else(|| Error::corrupt("a box that ends before it starts"))?;
        Ok(Hyperslab { blocks: HyperslabAxis { start, stride: block, count: 1, block }, is_unlimited: false })
    });
    axes.collect::<Result<Vec<_>>>().map(Some)
}
