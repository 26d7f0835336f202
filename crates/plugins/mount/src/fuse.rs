//! Mounts of FUSE: requests of the kernel, answered by what is mounted, and the parts that file systems share.

pub(crate) mod attributes;
pub(crate) mod folder_entries;
pub(crate) mod handles;
pub(crate) mod mounted_files;
pub(crate) mod mountpoint;
pub(crate) mod nodes;
pub(crate) mod origin_folder;
pub(crate) mod pinned_entry;
pub(crate) mod read_full;
pub(crate) mod refused;
mod requests;
pub(crate) mod session;
pub(crate) mod tally;
