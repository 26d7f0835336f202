//! From stored elements to native ones, in place; and from native ones to packed ones.

mod swap;

use std::borrow::Cow;

use crate::{
    ByteOrder, Number,
    dtype::{Dtype, Member, Padding},
    values::array::{Array, Values},
};

/// Turns stored elements into native ones where they lie: byte order, odd bit widths, text padding.
///
/// Elements with a part of variable length stay as they are: they become native when that part is gathered.
pub fn make_native(dtype: &Dtype, elements: &mut [u8]) {
    if dtype.is_variable() {
        return;
    }
    match dtype {
        Dtype::Number { number, order } => swap(number.size(), *order, elements),
        Dtype::Complex { part, order } => swap(part.size(), *order, elements),
        Dtype::Bits { number, order, shift, precision } => {
            swap(number.size(), *order, elements);
            widen(*number, *shift, *precision, elements);
        }
        Dtype::Enum { base, .. } => make_native(base, elements),
        Dtype::Array { item, .. } => make_native(item, elements),
        Dtype::Text { len, padding, .. } => trim(*len, *padding, elements),
        Dtype::Compound { len, fields } => {
            let changing: Vec<_> = fields.iter().filter(|field| !is_native(&field.dtype)).collect();
            if changing.is_empty() {
                return;
            }
            for element in elements.chunks_exact_mut(*len) {
                for field in &changing {
                    let end = field.offset + field.dtype.stored_len();
                    make_native(&field.dtype, &mut element[field.offset..end]);
                }
            }
        }
        Dtype::VarText { .. }
        | Dtype::Sequence { .. }
        | Dtype::Nonstandard { .. }
        | Dtype::Opaque { .. }
        | Dtype::Reference { .. }
        | Dtype::Other { .. } => {}
    }
}

/// True when stored elements are native as they are, so that bytes can go straight to the user.
pub fn is_native(dtype: &Dtype) -> bool {
    match dtype {
        Dtype::Number { number, order } => number.size() == 1 || *order == ByteOrder::NATIVE,
        Dtype::Complex { order, .. } => *order == ByteOrder::NATIVE,
        Dtype::Enum { base, .. } => is_native(base),
        Dtype::Array { item, .. } => is_native(item),
        Dtype::Compound { fields, .. } => fields.iter().all(|field| is_native(&field.dtype)),
        Dtype::Text { padding, .. } => *padding == Padding::NulPadded,
        Dtype::Opaque { .. } => true,
        _ => false,
    }
}

/// True when two types give the same native elements.
pub fn same_native(left: &Dtype, right: &Dtype) -> bool {
    match (left, right) {
        (Dtype::Number { number: a, .. }, Dtype::Number { number: b, .. }) => a == b,
        (Dtype::Complex { part: a, .. }, Dtype::Complex { part: b, .. }) => a == b,
        (Dtype::Enum { base: a, members: x }, Dtype::Enum { base: b, members: y }) => {
            same_native(a, b) && same_members(x, y)
        }
        (Dtype::Text { len: a, .. }, Dtype::Text { len: b, .. }) => a == b,
        (Dtype::Array { shape: a, item: x }, Dtype::Array { shape: b, item: y }) => {
            a == b && same_native(x, y)
        }
        (left, right) => left == right,
    }
}

/// True when two enumerations have the same names for the same values, in whatever order.
fn same_members(left: &[Member], right: &[Member]) -> bool {
    left == right || left.len() == right.len() && sorted(left) == sorted(right)
}

fn sorted(members: &[Member]) -> Vec<(&str, i64)> {
    let mut members: Vec<_> = members.iter().map(|member| (&*member.name, member.value)).collect();
    members.sort_unstable();
    members
}

fn swap(size: usize, order: ByteOrder, elements: &mut [u8]) {
    if order != ByteOrder::NATIVE {
        swap::swap(size, elements);
    }
}

/// Takes `precision` bits from bit `shift` on and makes them the whole number.
fn widen(number: Number, shift: u16, precision: u16, elements: &mut [u8]) {
    let size = number.size();
    let unused = 64 - u32::from(precision);
    for element in elements.chunks_exact_mut(size) {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(element);
        let bits = u64::from_le_bytes(bytes) >> shift << unused;
        let value = if number.is_signed_integer() {
            (bits.cast_signed() >> unused).cast_unsigned()
        } else {
            bits >> unused
        };
        element.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Makes every text NUL-padded, as the HDF5 library does on reading.
fn trim(len: usize, padding: Padding, elements: &mut [u8]) {
    for text in elements.chunks_exact_mut(len) {
        let end = match padding {
            Padding::NulPadded => return,
            Padding::NulTerminated => text.iter().position(|byte| *byte == 0),
            Padding::SpacePadded => {
                Some(text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1))
            }
        };
        if let Some(end) = end {
            text[end..].fill(0);
        }
    }
}

/// Bytes of one packed native element; `None` when elements differ.
pub fn packed_len(dtype: &Dtype) -> Option<usize> {
    match dtype {
        Dtype::Compound { fields, .. } => fields.iter().map(|field| packed_len(&field.dtype)).sum(),
        Dtype::Array { shape, item } => {
            let count = usize::try_from(crate::grid::shape::product(shape)).ok()?;
            packed_len(item)?.checked_mul(count)
        }
        Dtype::VarText { .. } | Dtype::Sequence { .. } => None,
        _ => Some(dtype.stored_len()),
    }
}

/// Appends native elements of fixed length to `out` without the gaps a compound may have.
pub fn pack(dtype: &Dtype, elements: &[u8], out: &mut Vec<u8>) {
    if is_packed(dtype) {
        out.extend_from_slice(elements);
        return;
    }
    match dtype {
        Dtype::Compound { len, fields } => {
            for element in elements.chunks_exact(*len) {
                for field in fields {
                    let end = field.offset + field.dtype.stored_len();
                    pack(&field.dtype, &element[field.offset..end], out);
                }
            }
        }
        Dtype::Array { item, .. } => pack(item, elements, out),
        _ => out.extend_from_slice(elements),
    }
}

/// The values of `array` as they are dumped: little-endian, C order, without gaps, counts before what varies.
pub fn dump(array: &Array) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let (offsets, bytes) = match &array.values {
        Values::Fixed(bytes) if is_packed(&array.dtype) => return Cow::Borrowed(bytes),
        Values::Fixed(bytes) => {
            pack(&array.dtype, bytes, &mut out);
            return Cow::Owned(out);
        }
        Values::Variable { offsets, bytes } => (offsets, bytes),
    };
    for two in offsets.windows(2) {
        let [from, to] = [two[0], two[1]].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let element = bytes.get(from..to).unwrap_or_default();
        if let Some(count) = item_count(&array.dtype, element) {
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.extend_from_slice(element);
    }
    Cow::Owned(out)
}

/// How many items a variable-length element has, given its bytes; `None` for what is not one sequence or text.
fn item_count(dtype: &Dtype, element: &[u8]) -> Option<u64> {
    match dtype {
        Dtype::VarText { .. } => Some(element.len() as u64),
        Dtype::Sequence { item, .. } => {
            let (mut rest, mut count) = (element, 0);
            while !rest.is_empty() {
                rest = rest.get(gathered_len(item, rest)?..)?;
                count += 1;
            }
            Some(count)
        }
        _ => None,
    }
}

/// Bytes of the first of `elements`, which lie packed inside another and carry their own counts.
fn gathered_len(dtype: &Dtype, elements: &[u8]) -> Option<usize> {
    if let Some(len) = packed_len(dtype) {
        return (len > 0).then_some(len);
    }
    let parts: Vec<&Dtype> = match dtype {
        Dtype::Compound { fields, .. } => fields.iter().map(|field| &field.dtype).collect(),
        Dtype::Array { shape, item } => {
            vec![&**item; usize::try_from(crate::grid::shape::product(shape)).ok()?]
        }
        _ => {
            let count = usize::try_from(u64::from_le_bytes(*elements.first_chunk::<8>()?)).ok()?;
            let mut at = 8;
            match dtype {
                Dtype::Sequence { item, .. } => {
                    for _ in 0..count {
                        at += gathered_len(item, elements.get(at..)?)?;
                    }
                }
                _ => at = at.checked_add(count)?,
            }
            return Some(at);
        }
    };
    parts.into_iter().try_fold(0, |at, part| Some(at + gathered_part(part, elements.get(at..)?)?))
}

/// As [`gathered_len`], for a part that may be empty.
fn gathered_part(dtype: &Dtype, elements: &[u8]) -> Option<usize> {
    packed_len(dtype).or_else(|| gathered_len(dtype, elements))
}

/// True when elements have no gaps and their members lie in order.
fn is_packed(dtype: &Dtype) -> bool {
    packed_len(dtype) == Some(dtype.stored_len()) && in_order(dtype)
}

/// True when a compound's members lie in the order they are named.
fn in_order(dtype: &Dtype) -> bool {
    match dtype {
        Dtype::Compound { fields, .. } => {
            fields.is_sorted_by_key(|field| field.offset) && fields.iter().all(|field| in_order(&field.dtype))
        }
        Dtype::Array { item, .. } => in_order(item),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Field;

    #[test]
    fn twenty_bits_from_bit_five_become_a_whole_signed_number() {
        let dtype = Dtype::Bits { number: Number::I32, order: ByteOrder::Big, shift: 5, precision: 20 };
        let stored = (-3i32 as u32 & 0xf_ffff) << 5 | 0b10101;
        let mut bytes = stored.to_be_bytes();
        make_native(&dtype, &mut bytes);
        assert_eq!(i32::from_le_bytes(bytes), -3);
    }

    #[test]
    fn a_compound_is_swapped_member_by_member_and_packed_without_its_gaps() {
        let big = Dtype::Number { number: Number::U16, order: ByteOrder::Big };
        let field = |name: &str, offset, dtype| Field { name: name.into(), offset, dtype };
        let dtype = Dtype::Compound {
            len: 8,
            fields: vec![field("a", 0, Dtype::native(Number::U8)), field("b", 4, big)],
        };
        let mut bytes = vec![7, 9, 9, 9, 1, 2, 9, 9];
        make_native(&dtype, &mut bytes);
        let mut packed = Vec::new();
        pack(&dtype, &bytes, &mut packed);
        assert_eq!(packed, [7, 2, 1]);
    }

    #[test]
    fn text_ends_at_its_nul_or_its_last_letter() {
        let text = |padding| Dtype::Text { len: 4, padding, utf8: false };
        let mut bytes = *b"a\0xxb \0 ";
        make_native(&text(Padding::NulTerminated), &mut bytes);
        assert_eq!(&bytes, b"a\0\0\0b \0\0");
        let mut bytes = *b"a  b    ";
        make_native(&text(Padding::SpacePadded), &mut bytes);
        assert_eq!(&bytes, b"a  b\0\0\0\0");
    }
}
