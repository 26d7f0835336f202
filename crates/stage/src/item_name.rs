//! Names of items.

use std::{os::unix::ffi::OsStrExt, path::Path};

use forebay_scratch::nonce;

/// The name of a new item: the checksum of its destination, by which other processes find it, and a number.
pub(crate) fn item_id(destination: &Path) -> String {
    format!("{}{:016x}", id_prefix(destination), nonce())
}

/// What the names of all items for `destination` begin with.
pub(crate) fn id_prefix(destination: &Path) -> String {
    format!("{:08x}-", crc32c::crc32c(destination.as_os_str().as_bytes()))
}
