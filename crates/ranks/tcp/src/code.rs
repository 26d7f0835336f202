//! HMAC-SHA256 (RFC 2104), and a comparison that takes the same time wherever two codes differ.

use std::hint::black_box;

use sha2::{Digest, Sha256};

/// Bytes of a code.
pub(crate) const CODE_LEN: usize = 32;

/// Bytes that SHA-256 takes at a time.
const BLOCK_LEN: usize = 64;

/// The code of `parts`, one after the other, under `key`. Parts of varying length have to say it themselves.
pub(crate) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; CODE_LEN] {
    let mut block = [0; BLOCK_LEN];
    match key.len() <= BLOCK_LEN {
        true => block[..key.len()].copy_from_slice(key),
        false => block[..CODE_LEN].copy_from_slice(&Sha256::digest(key)),
    }
    let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// Whether two codes are the same, in a time that does not tell where they differ.
pub(crate) fn is_same_code(one: &[u8; CODE_LEN], other: &[u8; CODE_LEN]) -> bool {
    let differing =
        one.iter().zip(other).fold(0, |differing, (one, other)| black_box(differing | (one ^ other)));
    black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(code: [u8; CODE_LEN]) -> String {
        code.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn codes_are_those_of_rfc_4231() {
        let code = hex(hmac_sha256(&[0x0b; 20], &[b"Hi ", b"There"]));
        assert_eq!(code, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        let code = hex(hmac_sha256(b"Jefe", &[b"what do ya want for nothing?"]));
        assert_eq!(code, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long: &[u8] = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let code = hex(hmac_sha256(&[0xaa; 131], &[long]));
        assert_eq!(code, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn codes_that_differ_in_one_bit_are_not_the_same() {
        let code = hmac_sha256(b"key", &[b"message"]);
        assert!(is_same_code(&code, &code));
        for bit in 0..CODE_LEN * 8 {
            let mut other = code;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_same_code(&code, &other), "bit {bit}");
        }
    }
}
