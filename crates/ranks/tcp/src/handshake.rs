//! How two ranks prove to each other that they know the key of the job, without saying it.
//!
//! ```text
//! caller ── Hello: purpose, ranks, nonce ─────────► listener
//!        ◄─ Challenge: nonce, code of the listener ─
//!        ── code of the caller ──────────────────►
//!        ◄─ one byte: welcome ─────────────────────
//! ```
//!
//! Both codes are over both nonces, both ranks and the purpose, and begin with the role: what is overheard is of no use in
//! another connection, nor sent back in the same.

pub(crate) mod code;
pub(crate) mod secret;

use forebay_process::{Error, ErrorKind, Result};

use crate::handshake::{
    code::{CODE_LEN, hmac_sha256, is_same_code},
    secret::{JobKey, random_bytes},
};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPurpose {
    /// Collective calls.
    Star,
    /// Reads of windows.
    Reads,
}

const NONCE_LEN: usize = 32;
const MAGIC: [u8; 8] = *b"forebay1";

/// What a caller says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) purpose: ConnectionPurpose,
    pub(crate) caller: u32,
    pub(crate) listener: u32,
    nonce: [u8; NONCE_LEN],
}

impl Hello {
    pub(crate) const LEN: usize = 8 + 4 + 4 + 4 + NONCE_LEN;

    pub(crate) fn new(purpose: ConnectionPurpose, caller: u32, listener: u32) -> Result<Self> {
        Ok(Self { purpose, caller, listener, nonce: random_bytes()? })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = u8::from(self.purpose == ConnectionPurpose::Reads);
        bytes[12..16].copy_from_slice(&self.caller.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.listener.to_le_bytes());
        bytes[20..].copy_from_slice(&self.nonce);
        bytes
    }

    /// What `bytes` say; nothing where they are not from one of us.
    pub(crate) fn parse(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let (head, nonce) = bytes.split_last_chunk::<NONCE_LEN>()?;
        let [magic @ .., purpose, 0, 0, 0, c0, c1, c2, c3, l0, l1, l2, l3] = head else { return None };
        let purpose = match *purpose {
            0 => ConnectionPurpose::Star,
            1 => ConnectionPurpose::Reads,
            _ => return None,
        };
        let (caller, listener) =
            (u32::from_le_bytes([*c0, *c1, *c2, *c3]), u32::from_le_bytes([*l0, *l1, *l2, *l3]));
        (magic == MAGIC).then_some(Self { purpose, caller, listener, nonce: *nonce })
    }

    fn code(&self, key: &JobKey, role: &[u8; 8], nonce: &[u8; NONCE_LEN]) -> [u8; CODE_LEN] {
        hmac_sha256(&key.0, &[role, &self.to_bytes(), nonce])
    }
}

/// What the listener answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Challenge {
    nonce: [u8; NONCE_LEN],
    code: [u8; CODE_LEN],
}

impl Challenge {
    pub(crate) const LEN: usize = NONCE_LEN + CODE_LEN;

    pub(crate) fn new(hello: &Hello, key: &JobKey) -> Result<Self> {
        let nonce = random_bytes()?;
        Ok(Self { nonce, code: hello.code(key, b"listener", &nonce) })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..NONCE_LEN].copy_from_slice(&self.nonce);
        bytes[NONCE_LEN..].copy_from_slice(&self.code);
        bytes
    }

    /// The code by which a caller answers the challenge that `bytes` are; an error where the listener does not know the key.
    pub(crate) fn answer(bytes: &[u8; Self::LEN], hello: &Hello, key: &JobKey) -> Result<[u8; CODE_LEN]> {
        let (mut nonce, mut code) = ([0; NONCE_LEN], [0; CODE_LEN]);
        nonce.copy_from_slice(&bytes[..NONCE_LEN]);
        code.copy_from_slice(&bytes[NONCE_LEN..]);
        if !is_same_code(&code, &hello.code(key, b"listener", &nonce)) {
            let what = format!("rank {} does not know the secret of this job", hello.listener);
            return Err(
                Error::new(ErrorKind::Denied, what).hint("give the same secret file and job to all ranks")
            );
        }
        Ok(hello.code(key, b"caller..", &nonce))
    }

    /// Whether `code` is the answer of a caller that knows the key.
    pub(crate) fn is_answered(&self, code: &[u8; CODE_LEN], hello: &Hello, key: &JobKey) -> bool {
        is_same_code(code, &hello.code(key, b"caller..", &self.nonce))
    }
}

#[cfg(test)]
mod tests {
    use forebay_store::JobName;

    use super::*;
    use crate::handshake::secret::Secret;

    fn key(secret: u8, job: &str) -> JobKey {
        Secret::from_bytes(vec![secret; 32]).expect("a secret").key_of(&JobName::new(job), &[0; 32])
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_no_hello_or_one_that_says_the_same(bytes: [u8; Hello::LEN], is_ours: bool) {
            let mut bytes = bytes;
            if is_ours {
                bytes[..12].copy_from_slice(b"forebay1\x01\0\0\0");
            }
            let parsed = Hello::parse(&bytes);
            proptest::prop_assert!(!is_ours || parsed.is_some());
            proptest::prop_assert!(parsed.is_none_or(|hello| hello.to_bytes() == bytes));
        }
    }

    #[test]
    fn those_who_know_the_key_are_let_in_and_others_are_not() {
        let ours = key(1, "job");
        let hello = Hello::new(ConnectionPurpose::Reads, 3, 5).expect("random bytes");
        assert_eq!(Hello::parse(&hello.to_bytes()), Some(hello));
        let challenge = Challenge::new(&hello, &ours).expect("random bytes");
        let code =
            Challenge::answer(&challenge.to_bytes(), &hello, &ours).expect("the listener knows the key");
        assert!(challenge.is_answered(&code, &hello, &ours));
        for other in [key(2, "job"), key(1, "job-1")] {
            assert!(Challenge::answer(&challenge.to_bytes(), &hello, &other).is_err());
            assert!(!challenge.is_answered(&code, &hello, &other));
        }
    }

    #[test]
    fn codes_are_of_no_use_in_another_connection_or_role() {
        let ours = key(1, "job");
        let hello = Hello::new(ConnectionPurpose::Reads, 3, 5).expect("random bytes");
        let challenge = Challenge::new(&hello, &ours).expect("random bytes");
        let code =
            Challenge::answer(&challenge.to_bytes(), &hello, &ours).expect("the listener knows the key");
        assert!(
            !Challenge::new(&hello, &ours).expect("random bytes").is_answered(&code, &hello, &ours),
            "a fresh nonce"
        );
        assert!(!challenge.is_answered(&challenge.code, &hello, &ours), "the listener's own code, sent back");
        for other in [
            Hello { caller: 4, ..hello },
            Hello { listener: 6, ..hello },
            Hello { purpose: ConnectionPurpose::Star, ..hello },
        ] {
            assert!(!challenge.is_answered(&code, &other, &ours), "{other:?}");
        }
    }

    #[test]
    fn what_is_no_hello_is_nothing() {
        let hello = Hello::new(ConnectionPurpose::Star, 0, 1).expect("random bytes").to_bytes();
        for at in [0, 7, 8, 9, 11] {
            let mut other = hello;
            other[at] ^= 0x82;
            assert_eq!(Hello::parse(&other), None, "byte {at}");
        }
    }
}
