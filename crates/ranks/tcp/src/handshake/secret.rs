//! What the ranks of a job know and nobody else: from a file, or made by rank 0.

use std::{fmt, io::Read, os::fd::OwnedFd, path::Path};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::JobName;
use rustix::{
    fs::{FileType, Mode, OFlags},
    rand::{GetRandomFlags, getrandom},
};

use crate::handshake::code::{CODE_LEN, hmac_sha256};

/// The secret of a job.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A secret of fewer bytes can be guessed, one of more is something else.
const LENS: std::ops::RangeInclusive<usize> = 16..=4096;

impl Secret {
    /// A secret that nobody has had before.
    pub fn random() -> Result<Self> {
        Ok(Self(random_bytes::<32>()?.to_vec()))
    }

    /// The bytes of a file that this user alone may read.
    pub fn from_file(path: &Path) -> Result<Self> {
        Self::read(path).map_err(|error| error.at(path.display()))
    }

    fn read(path: &Path) -> Result<Self> {
        // A pipe that nobody writes to must not hold us.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let file: OwnedFd = opened.map_err(|errno| Error::from_io(errno.into()))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| Error::from_io(errno.into()))?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
        if !is_file || !is_ours {
            let error = Error::new(ErrorKind::Denied, "a secret that others could read or have made");
            return Err(error.hint("make it a file of your own that nobody else may read (chmod 600)"));
        }
        let mut bytes = Vec::new();
        let most = *LENS.end() as u64 + 1;
        std::fs::File::from(file).take(most).read_to_end(&mut bytes).map_err(Error::from_io)?;
        Self::from_bytes(bytes)
    }

    /// A secret that was handed over.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        match LENS.contains(&bytes.len()) {
            true => Ok(Self(bytes)),
            false => {
                let what = format!(
                    "a secret of {} bytes, where {} to {} are wanted",
                    bytes.len(),
                    LENS.start(),
                    LENS.end()
                );
                Err(Error::invalid(what).hint("make one by: head -c 32 /dev/urandom > FILE"))
            }
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key of one job, and of one attempt to run it: what was overheard of another helps nobody. Names of jobs may be
    /// alike; the nonce is one that rank 0 has just made.
    pub(crate) fn key_of(&self, job: &JobName, nonce: &JobNonce) -> JobKey {
        JobKey(hmac_sha256(&self.0, &[b"forebay store 2\0", nonce, job.as_str().as_bytes()]))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What tells apart jobs of one name.
pub(crate) type JobNonce = [u8; 32];

/// What ranks prove to each other that they know.
#[derive(Clone)]
pub(crate) struct JobKey(pub(crate) [u8; CODE_LEN]);

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

/// Bytes that nobody can foresee.
pub(crate) fn random_bytes<const LEN: usize>() -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    let mut filled = 0;
    while filled < LEN {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
            .map_err(|errno| Error::from_io(errno.into()))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, [7; 32]).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        assert_eq!(Secret::from_file(&path).expect("ours alone").bytes(), [7; 32]);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            let error = Secret::from_file(&path).expect_err("others can read it");
            assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("chmod 600"), "{error}");
        }
        assert_eq!(Secret::from_file(folder.path()).expect_err("a folder").kind(), ErrorKind::Denied);
        assert_eq!(
            Secret::from_file(&folder.path().join("none")).expect_err("nothing").kind(),
            ErrorKind::NotFound
        );
    }

    #[test]
    fn secrets_are_neither_short_nor_shown_and_jobs_have_keys_of_their_own() {
        assert!(Secret::from_bytes(vec![1; 15]).is_err() && Secret::from_bytes(vec![1; 4097]).is_err());
        let secret = Secret::random().expect("random bytes");
        assert_ne!(secret, Secret::random().expect("random bytes"));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        let key = |name: &str, nonce: u8| secret.key_of(&JobName::new(name), &[nonce; 32]).0;
        assert_eq!(key("a", 0), key("a", 0));
        assert_ne!(key("torch-29500-none-0", 0), key("torch-29500-none-1", 0));
        assert_ne!(key("torch-29500-none-0", 0), key("torch-29500-none-0", 1), "two jobs of one name");
    }
}
