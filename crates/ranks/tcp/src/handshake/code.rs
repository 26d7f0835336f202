//! Message authentication codes by which ranks of a job know each other (HMAC-SHA256), compared in constant time.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Bytes of a code.
pub(crate) const CODE_LEN: usize = 32;

/// Code of `parts`, one after the other, under `key`. Parts of varying length have to say it themselves.
pub(crate) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; CODE_LEN] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().fold(mac, |mac, part| mac.chain_update(part)).finalize().into_bytes().into()
}

/// Returns true if two codes are the same, in a time that does not depend on where they differ.
pub(crate) fn is_same_code(one: &[u8; CODE_LEN], other: &[u8; CODE_LEN]) -> bool {
    one.ct_eq(other).into()
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
