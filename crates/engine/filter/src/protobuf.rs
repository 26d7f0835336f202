//! What protocol buffers are made of: tags, lengths and numbers of varying length.

/// How a field's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A number of varying length.
    Varint,
    /// Eight bytes.
    Eight,
    /// A length and as many bytes.
    Long,
    /// Four bytes.
    Four,
}

/// The longest a number of varying length may be.
pub const MOST_VARINT_BYTES: usize = 10;

/// The number that `bytes` start with, and how many bytes it takes.
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0u64;
    for (index, byte) in bytes.iter().take(MOST_VARINT_BYTES).enumerate() {
        number |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(index).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

/// The number of a field and how its value is written.
pub fn tag(number: u64) -> Option<(u64, Wire)> {
    let wire = match number & 7 {
        0 => Wire::Varint,
        1 => Wire::Eight,
        2 => Wire::Long,
        5 => Wire::Four,
        _ => return None,
    };
    (number >> 3 > 0).then_some((number >> 3, wire))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_varying_length_end_or_are_none() {
        assert_eq!(varint(&[0x96, 0x01, 9]), Some((150, 2)));
        assert_eq!(varint(&[0xff; 9]), None);
        assert_eq!(varint(&[]), None);
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(varint(&minus_one), Some((u64::MAX, 10)));
    }

    #[test]
    fn groups_and_field_zero_are_no_tags() {
        assert_eq!(tag(0x0a), Some((1, Wire::Long)));
        assert_eq!(tag(0x0b), None);
        assert_eq!(tag(0x02), None);
    }
}
