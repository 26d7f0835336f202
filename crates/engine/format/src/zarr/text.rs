//! Bytes in text: base64, as version 2 writes fill values.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Writers pad, or do not.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The bytes that `text` stands for, if it is base64, in either of its alphabets.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text.replace('-', "+").replace('_', "/")).ok()
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
