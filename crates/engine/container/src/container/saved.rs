//! A described container as bytes, to be saved and loaded again.
//!
//! ```text
//! magic 8 │ version 4 │ CRC32C of the rest 4 │ container, in postcard's encoding
//! ```

use forebay_process::{Error, ErrorKind, Result};

use crate::container::Container;

const MAGIC: &[u8; 8] = b"forebayC";
/// Raised whenever [`Container`] changes: an old index is then made anew.
const VERSION: u32 = 12;
const HEAD_LEN: usize = 16;

/// The bytes of `container`.
pub fn save(container: &Container) -> Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    let mut bytes = postcard::to_extend(container, bytes)
        .map_err(|error| Error::new(ErrorKind::Bug, "a container that cannot be saved").because(error))?;
    let sum = crc32c::crc32c(&bytes[HEAD_LEN..]);
    bytes[12..HEAD_LEN].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes)
}

/// The container that was saved as `bytes`; what was damaged, changed or saved by another version is refused.
pub fn load(bytes: &[u8]) -> Result<Container> {
    let bad = |what: &str| Error::new(ErrorKind::Corrupt, format!("saved index: {what}"));
    if bytes.len() < HEAD_LEN || bytes[..8] != MAGIC[..] {
        return Err(bad("not one of ours"));
    }
    if bytes[8..12] != VERSION.to_le_bytes() {
        return Err(bad("of another version"));
    }
    if bytes[12..HEAD_LEN] != crc32c::crc32c(&bytes[HEAD_LEN..]).to_le_bytes() {
        return Err(bad("bad checksum"));
    }
    let container: Container =
        postcard::from_bytes(&bytes[HEAD_LEN..]).map_err(|error| bad("not readable").because(error))?;
    if container.is_sound() { Ok(container) } else { Err(bad("points to what is not there")) }
}
