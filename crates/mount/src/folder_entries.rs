//! What is in a folder, as the kernel wants it listed.

use std::{
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::Path,
};

use fuser::{Errno, FileType, INodeNo, ReplyDirectory};

use crate::{handles::FolderEntry, nodes::Nodes};

/// The entries of the folder at `path`, which has the number `node`.
pub(crate) fn folder_entries(path: &Path, node: INodeNo, nodes: &Nodes) -> Result<Vec<FolderEntry>, Errno> {
    let device = fs::metadata(path)?.dev();
    let dot = |name: &str| FolderEntry { node, kind: FileType::Directory, name: name.into() };
    let mut entries = vec![dot("."), dot("..")];
    for found in fs::read_dir(path)? {
        let found = found?;
        let Some(kind) = FileType::from_std(found.file_type()?) else { continue };
        let node = nodes.number_of(device, found.ino());
        entries.push(FolderEntry { node, kind, name: found.file_name() });
    }
    Ok(entries)
}

/// Answers with the entries from `offset` on, as many as the kernel takes at a time.
pub(crate) fn reply_entries(entries: &[FolderEntry], offset: u64, mut reply: ReplyDirectory) {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    for (index, entry) in entries.iter().enumerate().skip(start) {
        if reply.add(entry.node, index as u64 + 1, entry.kind, &entry.name) {
            break;
        }
    }
    reply.ok();
}
