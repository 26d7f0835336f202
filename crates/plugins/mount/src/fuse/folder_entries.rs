//! What is in a folder, as the kernel wants it listed.

use std::{
    ffi::OsStr,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

use fuser::{Errno, FileType, INodeNo, ReplyDirectory};
use rustix::fs::{AtFlags, Dir, fstat, statat};

use crate::fuse::{handles::FolderEntry, nodes::Nodes};

/// The entries of `folder`, open for reading, which has the number `node`.
pub(crate) fn folder_entries(
    folder: OwnedFd,
    node: INodeNo,
    nodes: &Nodes,
) -> Result<Vec<FolderEntry>, Errno> {
    let device = fstat(&folder).map_err(io::Error::from)?.st_dev;
    let listed = Dir::read_from(&folder).map_err(io::Error::from)?;
    let dot = |name: &str| FolderEntry { node, kind: FileType::Directory, name: name.into() };
    let mut entries = vec![dot("."), dot("..")];
    for found in listed {
        let found = found.map_err(io::Error::from)?;
        let name = found.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match found.file_type() {
            // Not every file system says it with the name; what is gone by now is left out.
            rustix::fs::FileType::Unknown => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => rustix::fs::FileType::from_raw_mode(stat.st_mode),
                Err(_) => continue,
            },
            kind => kind,
        };
        let Some(kind) = kind_of(kind) else { continue };
        let node = nodes.number_of(device, found.ino());
        entries.push(FolderEntry { node, kind, name: OsStr::from_bytes(name.to_bytes()).to_owned() });
    }
    Ok(entries)
}

fn kind_of(kind: rustix::fs::FileType) -> Option<FileType> {
    use rustix::fs::FileType as Found;
    Some(match kind {
        Found::RegularFile => FileType::RegularFile,
        Found::Directory => FileType::Directory,
        Found::Symlink => FileType::Symlink,
        Found::Fifo => FileType::NamedPipe,
        Found::Socket => FileType::Socket,
        Found::CharacterDevice => FileType::CharDevice,
        Found::BlockDevice => FileType::BlockDevice,
        Found::Unknown => return None,
    })
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
