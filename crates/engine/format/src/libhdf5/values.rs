//! From what the library laid in memory to values, and what to call their type.

use forebay_process::{Error, ErrorKind, Result};

use super::memory::{MemoryType, SEQUENCE_LEN, TEXT_LEN};
use forebay_container::{Dtype, Field, Values, native};
use forebay_libhdf5::arena::LibraryArena;

impl MemoryType<'_> {
    /// The elements that were read into `bytes` and `arena`.
    pub(super) fn values(&self, mut bytes: Vec<u8>, arena: &LibraryArena) -> Result<Values> {
        if !self.dtype.is_variable() {
            native::make_native(&self.dtype, &mut bytes);
            return Ok(Values::Fixed(bytes));
        }
        let mut offsets = vec![0];
        let mut out = Vec::new();
        for element in bytes.chunks_exact(self.len) {
            match &self.dtype {
                Dtype::VarText { .. } => out.extend_from_slice(text(element, arena)?),
                Dtype::Sequence { item, .. } => append_items(item, element, arena, &mut out).map(drop)?,
                dtype => append(dtype, element, arena, &mut out)?,
            }
            offsets.push(out.len() as u64);
        }
        Ok(Values::Variable { offsets, bytes: out })
    }

    /// The type of the values: the variable's own, which says more, where its elements lie in memory the same.
    pub(super) fn described(&self, variable: &Dtype) -> Dtype {
        if lies_alike(&self.dtype, variable) { variable.clone() } else { self.dtype.clone() }
    }
}

/// True when elements that were read as `read` are native elements of `stored`.
fn lies_alike(read: &Dtype, stored: &Dtype) -> bool {
    match (read, stored) {
        (read, Dtype::Enum { base, .. }) => lies_alike(read, base),
        (
            Dtype::Number { number: a, .. },
            Dtype::Number { number: b, .. } | Dtype::Bits { number: b, .. },
        ) => a == b,
        (Dtype::Complex { part: a, .. }, Dtype::Complex { part: b, .. }) => a == b,
        (Dtype::Compound { len, fields }, Dtype::Complex { part, .. }) => {
            let is_part =
                |field: &Field| matches!(&field.dtype, Dtype::Number { number, .. } if number == part);
            let is_pair = fields.len() == 2 && fields[0].offset == 0 && fields[1].offset == part.size();
            *len == 2 * part.size() && is_pair && fields.iter().all(is_part)
        }
        (Dtype::Text { len: a, .. }, Dtype::Text { len: b, .. }) => a == b,
        (Dtype::Opaque { len: a, .. }, Dtype::Opaque { len: b, .. }) => a == b,
        (Dtype::VarText { .. }, Dtype::VarText { .. }) => true,
        (Dtype::Sequence { item: a, .. }, Dtype::Sequence { item: b, .. }) => lies_alike(a, b),
        (Dtype::Array { shape: a, item: x }, Dtype::Array { shape: b, item: y }) => {
            a == b && lies_alike(x, y)
        }
        (Dtype::Compound { len: a, fields: x }, Dtype::Compound { len: b, fields: y }) => {
            // Elements of variable length are given out packed: where their members lay does not matter.
            let is_packed = stored.is_variable();
            let members = x.iter().zip(y);
            x.len() == y.len()
                && (is_packed || a == b)
                && members.into_iter().all(|(x, y)| {
                    x.name == y.name && (is_packed || x.offset == y.offset) && lies_alike(&x.dtype, &y.dtype)
                })
        }
        _ => false,
    }
}

/// No elements at all, of `dtype`.
pub(super) fn no_values(dtype: &Dtype) -> Values {
    if dtype.is_variable() {
        return Values::Variable { offsets: vec![0], bytes: Vec::new() };
    }
    Values::Fixed(Vec::new())
}

fn word(bytes: &[u8], index: usize) -> usize {
    let (words, _) = bytes.as_chunks::<{ size_of::<usize>() }>();
    words.get(index).map_or(0, |word| usize::from_ne_bytes(*word))
}

fn astray<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Io, "libhdf5 gave a value outside the memory it was lent"))
}

fn text<'a>(element: &[u8], arena: &'a LibraryArena) -> Result<&'a [u8]> {
    let address = word(element, 0);
    if address == 0 {
        return Ok(&[]);
    }
    let Some(bytes) = arena.at_address(address) else { return astray() };
    Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// Appends the items of a sequence and says how many there are.
fn append_items(item: &Dtype, element: &[u8], arena: &LibraryArena, out: &mut Vec<u8>) -> Result<u64> {
    let (count, address) = (word(element, 0), word(element, 1));
    if count == 0 || address == 0 {
        return Ok(0);
    }
    let item_len = memory_len(item);
    let len = count.checked_mul(item_len);
    let Some(items) = len.and_then(|len| arena.at_address(address)?.get(..len)) else { return astray() };
    if item.is_variable() {
        items.chunks_exact(item_len).try_for_each(|bytes| append(item, bytes, arena, out))?;
    } else {
        append_fixed(item, items, out);
    }
    Ok(count as u64)
}

fn append_fixed(dtype: &Dtype, elements: &[u8], out: &mut Vec<u8>) {
    let mut bytes = elements.to_vec();
    native::make_native(dtype, &mut bytes);
    native::pack(dtype, &bytes, out);
}

/// Appends an element inside another: what has no fixed length is led by its count.
fn append(dtype: &Dtype, element: &[u8], arena: &LibraryArena, out: &mut Vec<u8>) -> Result<()> {
    match dtype {
        Dtype::VarText { .. } => {
            let text = text(element, arena)?;
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text);
        }
        Dtype::Sequence { item, .. } => {
            let at = out.len();
            out.extend_from_slice(&[0; 8]);
            let count = append_items(item, element, arena, out)?;
            out[at..at + 8].copy_from_slice(&count.to_le_bytes());
        }
        Dtype::Compound { fields, .. } if dtype.is_variable() => {
            for field in fields {
                let end = field.offset + memory_len(&field.dtype);
                let Some(member) = element.get(field.offset..end) else { return astray() };
                append(&field.dtype, member, arena, out)?;
            }
        }
        Dtype::Array { item, .. } if dtype.is_variable() => {
            element.chunks_exact(memory_len(item)).try_for_each(|bytes| append(item, bytes, arena, out))?;
        }
        _ => append_fixed(dtype, element, out),
    }
    Ok(())
}

/// Bytes of one element as the library lays it in memory.
fn memory_len(dtype: &Dtype) -> usize {
    match dtype {
        Dtype::VarText { .. } => TEXT_LEN,
        Dtype::Sequence { .. } => SEQUENCE_LEN,
        Dtype::Array { shape, item } if dtype.is_variable() => {
            usize::try_from(forebay_container::shape::product(shape))
                .unwrap_or(usize::MAX)
                .saturating_mul(memory_len(item))
        }
        _ => dtype.stored_len(),
    }
}
