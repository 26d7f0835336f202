//! Bytes in text: base64, as version 2 writes fill values.

/// The bytes that `text` stands for, if it is base64.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let bits = group.iter().try_fold(0u32, |bits, letter| Some(bits << 6 | value(*letter)?))?;
        let [_, first, second, third] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        // So many letters hold so many whole bytes.
        bytes
            .extend_from_slice(&[first, second, third][..group.len().checked_sub(1).filter(|len| *len > 0)?]);
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length_is_read_and_other_text_is_not() {
        for (text, bytes) in [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJj", "abc"), ("YWJjZA", "abcd")] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        for text in ["Y", "YWJjZ", "a b", "é"] {
            assert_eq!(from_base64(text), None, "{text}");
        }
    }
}
