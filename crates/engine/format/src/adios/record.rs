//! One record of FFS: a structure, and behind it what its pointers lead to.

use std::cell::Cell;

use forebay_filter::{ByteCursor, uint};
use forebay_process::{Error, Result};

use super::ffs::{self, FfsField, FfsFormat, ID_LEN, Structure};

/// Bytes that pointers may lead to, in all: what is written once is led to once.
///
/// Without it, many pointers to one long array would make much of a small file.
#[derive(Debug)]
struct Allowance(Cell<u64>);

/// A record and its format.
#[derive(Debug)]
pub(super) struct FfsRecord<'a> {
    format: &'a FfsFormat,
    /// From the first byte of the outermost structure on.
    bytes: &'a [u8],
    left: Allowance,
}

/// A structure inside a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordStructure<'a> {
    record: &'a FfsRecord<'a>,
    structure: &'a Structure,
    /// Where it begins.
    at: u64,
}

impl<'a> FfsRecord<'a> {
    /// The record in `block`, which is of `format`.
    pub(super) fn new(format: &'a FfsFormat, block: &'a [u8]) -> Result<Self> {
        let head_len = head_len(format, block)?;
        let bytes = block.get(head_len..).ok_or_else(|| Error::corrupt("a record shorter than its head"))?;
        let left = Allowance(Cell::new(2 * bytes.len() as u64));
        Ok(Self { format, bytes, left })
    }

    /// The outermost structure.
    pub(super) fn outermost(&'a self) -> Result<RecordStructure<'a>> {
        let structure =
            self.format.structures.first().ok_or_else(|| Error::corrupt("a format without structures"))?;
        self.inside(structure, 0)
    }

    fn inside(&'a self, structure: &'a Structure, at: u64) -> Result<RecordStructure<'a>> {
        self.take(at, structure.len)?;
        Ok(RecordStructure { record: self, structure, at })
    }

    fn take(&self, at: u64, len: u64) -> Result<&'a [u8]> {
        let mut cursor = ByteCursor::new(self.bytes, self.format.order);
        cursor.take(at)?;
        cursor.take(len)
    }

    /// As [`take`](Self::take), for what a pointer leads to.
    fn follow(&self, at: u64, len: u64) -> Result<&'a [u8]> {
        let left = self.left.0.get().checked_sub(len);
        self.left.0.set(left.ok_or_else(|| Error::corrupt("a record that says the same many times over"))?);
        self.take(at, len)
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        uint(bytes, self.format.order)
    }
}

/// Bytes before the outermost structure: the id, then the length where it is not fixed, then up to a multiple of 8.
///
/// The length takes 4 bytes in older versions and 8 in newer ones, with no mark but what it says itself.
fn head_len(format: &FfsFormat, block: &[u8]) -> Result<usize> {
    let (short, long) = (16, 24);
    if !format.is_variant() {
        return Ok(short);
    }
    let len = ByteCursor::part(block, ID_LEN as u64, 4, format.order)?.uint(4)?;
    let long_len = match format.order {
        forebay_container::ByteOrder::Little => len,
        forebay_container::ByteOrder::Big => {
            ByteCursor::part(block, ID_LEN as u64, 8, format.order)?.u64()?
        }
    };
    let fits = |head: u64, len: u64| {
        let rest = (block.len() as u64).checked_sub(head).and_then(|rest| rest.checked_sub(len));
        // Blocks end at a multiple of 8.
        rest.is_some_and(|rest| rest < 8)
    };
    match () {
        () if fits(24, long_len) => Ok(long),
        () if fits(16, len) => Ok(short),
        () => Err(Error::corrupt(format!("a record of {len} bytes in a block of {}", block.len()))),
    }
}

impl<'a> RecordStructure<'a> {
    /// The name of the structure.
    pub(super) fn name(&self) -> &'a str {
        &self.structure.name
    }

    /// The fields, in order.
    pub(super) fn fields(&self) -> &'a [FfsField] {
        &self.structure.fields
    }

    /// The field called `name`.
    pub(super) fn field(&self, name: &str) -> Result<&'a FfsField> {
        let found = self.structure.fields.iter().find(|field| field.name == name);
        found.ok_or_else(|| Error::corrupt(format!("{} has no field '{name}'", self.structure.name)))
    }

    /// True where there is a field called `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.structure.fields.iter().any(|field| field.name == name)
    }

    /// The bytes of the value of `field`, which is no pointer.
    pub(super) fn value(&self, field: &FfsField) -> Result<&'a [u8]> {
        self.record.take(self.at.saturating_add(field.offset), field.size)
    }

    /// The number in the field called `name`.
    pub(super) fn number(&self, name: &str) -> Result<u64> {
        let field = self.field(name)?;
        match field.size {
            1..=8 => Ok(self.record.number(self.value(field)?)),
            size => Err(Error::corrupt(format!("a number '{name}' of {size} bytes"))),
        }
    }

    /// Where the pointer in `field` leads; `None` for one that leads nowhere.
    fn pointer(&self, field: &FfsField) -> Result<Option<u64>> {
        let len = self.record.format.pointer_len;
        let at = self.record.number(self.record.take(self.at.saturating_add(field.offset), len)?);
        Ok((at != 0).then_some(at))
    }

    /// The `count` numbers that the field called `name` leads to, if it leads anywhere.
    pub(super) fn numbers(&self, name: &str, count: u64) -> Result<Option<Vec<u64>>> {
        let field = self.field(name)?;
        let Some(at) = self.pointer(field)? else { return Ok(None) };
        let size = field.size;
        if !matches!(size, 1..=8) {
            return Err(Error::corrupt(format!("numbers '{name}' of {size} bytes")));
        }
        let len =
            count.checked_mul(size).ok_or_else(|| Error::corrupt(format!("{count} numbers '{name}'")))?;
        let bytes = self.record.follow(at, len)?;
        let size = usize::try_from(size).unwrap_or(1);
        Ok(Some(bytes.chunks_exact(size).map(|number| self.record.number(number)).collect()))
    }

    /// The `len` bytes that the field called `name` leads to.
    pub(super) fn bytes(&self, name: &str, len: u64) -> Result<&'a [u8]> {
        match self.pointer(self.field(name)?)? {
            Some(at) => self.record.follow(at, len),
            None if len == 0 => Ok(&[]),
            None => Err(Error::corrupt(format!("'{name}' leads nowhere"))),
        }
    }

    /// The text that `field` leads to; an empty one where it leads nowhere.
    pub(super) fn text(&self, field: &FfsField) -> Result<&'a [u8]> {
        self.pointer(field)?.map_or(Ok(&[][..]), |at| self.text_at(at))
    }

    fn text_at(&self, at: u64) -> Result<&'a [u8]> {
        let text = ffs::text(self.record.bytes, at)?;
        self.record.follow(at, text.len() as u64 + 1)?;
        Ok(text)
    }

    /// The `count` texts that the field called `name` leads to.
    pub(super) fn texts(&self, name: &str, count: u64) -> Result<Vec<&'a [u8]>> {
        let len = self.record.format.pointer_len;
        let bytes = self
            .bytes(name, count.checked_mul(len).ok_or_else(|| Error::corrupt(format!("{count} texts")))?)?;
        let pointers = bytes.chunks_exact(usize::try_from(len).unwrap_or(8));
        pointers
            .map(|pointer| match self.record.number(pointer) {
                0 => Ok(&[][..]),
                at => self.text_at(at),
            })
            .collect()
    }

    /// The structure that is the value of `field`.
    pub(super) fn inner(&self, field: &FfsField) -> Result<RecordStructure<'a>> {
        self.record.inside(self.structure_of(field)?, self.at.saturating_add(field.offset))
    }

    /// The `count` structures that the field called `name` leads to.
    pub(super) fn inners(&self, name: &str, count: u64) -> Result<Vec<RecordStructure<'a>>> {
        let field = self.field(name)?;
        let Some(at) = self.pointer(field)? else { return Ok(Vec::new()) };
        let structure = self.structure_of(field)?;
        let len = count
            .checked_mul(structure.len.max(1))
            .ok_or_else(|| Error::corrupt(format!("{count} of '{name}'")))?;
        self.record.follow(at, len)?;
        (0..count).map(|index| self.record.inside(structure, at + index * structure.len)).collect()
    }

    fn structure_of(&self, field: &FfsField) -> Result<&'a Structure> {
        let found = self.record.format.structure(&field.type_name);
        found.ok_or_else(|| Error::corrupt(format!("no structure '{}'", field.type_name)))
    }
}
