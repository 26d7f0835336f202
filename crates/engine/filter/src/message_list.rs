//! The numbers of a protocol buffer's list, as `tf.train.FloatList` and `Int64List` are written.

use crate::{
    error::{ended_early, too_long},
    protobuf::{Wire, tag, varint},
};
use forebay_process::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a list in a protocol buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListItem {
    /// 4-byte floats.
    Float,
    /// Integers of varying length, read as 8 bytes each.
    Int64,
}

pub(crate) fn decode(item: ListItem, count: u32, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut numbers = Numbers { out, written: 0 };
    let mut rest = input;
    while !rest.is_empty() {
        let (field, wire) = next_varint(&mut rest).and_then(tag).ok_or_else(ended_early)?;
        if field != 1 {
            return Err(Error::corrupt(format!("field {field} in a list of numbers")));
        }
        match (item, wire) {
            (ListItem::Float, Wire::Four) => numbers.put(take(&mut rest, 4)?)?,
            (ListItem::Int64, Wire::Varint) => numbers.put_varint(&mut rest)?,
            (ListItem::Float, Wire::Long) => {
                let len = next_varint(&mut rest).ok_or_else(ended_early)?;
                numbers.put(take(&mut rest, len)?)?;
            }
            (ListItem::Int64, Wire::Long) => {
                let len = next_varint(&mut rest).ok_or_else(ended_early)?;
                let mut packed = take(&mut rest, len)?;
                while !packed.is_empty() {
                    numbers.put_varint(&mut packed)?;
                }
            }
            _ => return Err(Error::corrupt("a value of another kind in a list of numbers")),
        }
    }
    let element_len = if item == ListItem::Float { 4 } else { 8 };
    if numbers.written != (count as usize).saturating_mul(element_len) {
        return Err(Error::corrupt(format!(
            "{} numbers where {count} belong",
            numbers.written / element_len
        )));
    }
    Ok(numbers.written)
}

struct Numbers<'a> {
    out: &'a mut [u8],
    written: usize,
}

impl Numbers<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.written.saturating_add(bytes.len());
        self.out.get_mut(self.written..end).ok_or_else(too_long)?.copy_from_slice(bytes);
        self.written = end;
        Ok(())
    }

    fn put_varint(&mut self, rest: &mut &[u8]) -> Result<()> {
        let number = next_varint(rest).ok_or_else(ended_early)?;
        self.put(&number.to_le_bytes())
    }
}

fn next_varint(rest: &mut &[u8]) -> Option<u64> {
    let (number, len) = varint(rest)?;
    *rest = rest.get(len..)?;
    Some(number)
}

fn take<'a>(rest: &mut &'a [u8], len: u64) -> Result<&'a [u8]> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let (front, after) = rest.split_at_checked(len).ok_or_else(ended_early)?;
    *rest = after;
    Ok(front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_single_numbers_are_read_alike() {
        let mut out = [0; 16];
        let wanted = [[150u64.to_le_bytes(), 1u64.to_le_bytes()].concat()].concat();
        for list in [&[0x0a, 3, 0x96, 1, 1][..], &[0x08, 0x96, 1, 0x08, 1], &[0x0a, 2, 0x96, 1, 0x08, 1]] {
            assert_eq!(decode(ListItem::Int64, 2, list, &mut out).unwrap(), 16);
            assert_eq!(out[..], wanted[..], "{list:?}");
        }
        let one = [0, 0, 0x80, 0x3f];
        for list in [&[&[0x0a, 4][..], &one].concat(), &[&[0x0d][..], &one].concat()] {
            assert_eq!(decode(ListItem::Float, 1, list, &mut out).unwrap(), 4);
            assert_eq!(out[..4], one);
        }
    }

    #[test]
    fn lists_that_lie_are_refused() {
        let mut out = [0; 16];
        for list in
            [&[0x0a][..], &[0x0a, 9, 1], &[0x10, 1], &[0x0d, 1, 2, 3, 4], &[0x0a, 3, 1, 2, 3], &[0x08, 0x80]]
        {
            assert!(decode(ListItem::Int64, 2, list, &mut out).is_err(), "{list:?}");
        }
    }
}
