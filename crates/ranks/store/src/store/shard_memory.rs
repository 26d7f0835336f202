//! The bytes of one rank that others read: an anonymous memory file (memfd), or a file on a local disk, mapped.
//!
//! Both are files without a name by the time anybody else sees them: they are handed on as descriptors, and the system frees
//! them when the last process that maps them ends, however it ends.

#![expect(unsafe_code, reason = "memory that other processes map is read and written by address")]

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    ptr,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, nonce, user_folder_name};
use memmap2::{MmapOptions, MmapRaw};

/// Where the bytes of a shard live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ShardPlace {
    /// In memory.
    #[default]
    Memory,
    /// In a file in this folder of a disk of the node's own: the system keeps of it in memory what there is room for.
    Disk(PathBuf),
}

/// The bytes of one rank, mapped.
///
/// Its owner writes them before they are published, and all ranks of the host read them afterwards. Copies are made by address:
/// no reference to the bytes is ever made, since another process may write them.
#[derive(Debug)]
pub struct ShardMemory {
    /// `None` for no bytes, which cannot be mapped.
    map: Option<MmapRaw>,
    /// That of a rank's own shard. Those of others are closed once they are mapped: a job has many ranks and many windows.
    file: Option<OwnedFd>,
    len: usize,
}

impl ShardMemory {
    /// `len` bytes of zeros in `place`; the error where there is no room is `Full`.
    pub fn new(len: u64, place: &ShardPlace) -> Result<Self> {
        let file = match place {
            ShardPlace::Memory => memory_file(len)?,
            ShardPlace::Disk(folder) => {
                file_without_name(folder, len).map_err(|error| error.at(folder.display()))?
            }
        };
        let mapped = Self::map(file.as_fd(), len)?;
        Ok(Self { file: Some(file), ..mapped })
    }

    /// The shard of another rank, by the descriptor it handed on; `len` bytes, which the file has.
    pub fn map(file: BorrowedFd<'_>, len: u64) -> Result<Self> {
        let is_shorter =
            rustix::fs::fstat(file).is_ok_and(|stat| u64::try_from(stat.st_size).unwrap_or(0) < len);
        if is_shorter {
            // Reading what is not there would be a SIGBUS.
            return Err(Error::corrupt("the memory of a rank is shorter than it says"));
        }
        let too_long =
            |_| Error::new(ErrorKind::Full, format!("{len} bytes are more than this machine can address"));
        let len = usize::try_from(len).map_err(too_long)?;
        let map = match len {
            0 => None,
            _ => Some(MmapOptions::new().len(len).map_raw(&file).map_err(Error::from_io)?),
        };
        if let Some(map) = &map {
            advise(map);
        }
        Ok(Self { map, file: None, len })
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// True for a rank that holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What other processes map; none where the shard is another rank's.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// The first byte, for what reads by address; null for no bytes.
    pub fn address(&self) -> *mut u8 {
        self.map.as_ref().map_or(ptr::null_mut(), MmapRaw::as_mut_ptr)
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = self.checked(offset, bytes.len())?;
        if !bytes.is_empty() {
            // SAFETY: `checked` says that the range lies within the mapping, which is writable and lives as long as `self`;
            // `bytes` is a slice of this process and no part of it.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address().add(start), bytes.len()) };
        }
        Ok(())
    }

    /// Copies what is at `offset` to `into`.
    pub fn copy_to(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let start = self.checked(offset, into.len())?;
        if !into.is_empty() {
            // SAFETY: as in `write`, the other way round.
            unsafe { ptr::copy_nonoverlapping(self.address().add(start), into.as_mut_ptr(), into.len()) };
        }
        Ok(())
    }

    fn checked(&self, offset: u64, len: usize) -> Result<usize> {
        let start = usize::try_from(offset)
            .ok()
            .filter(|start| start.checked_add(len).is_some_and(|end| end <= self.len));
        start.ok_or_else(|| {
            Error::invalid(format!("{len} bytes at {offset} of a shard of {} bytes", self.len))
        })
    }
}

/// An anonymous memory file that no process can make shorter any more: reading what is gone would be a SIGBUS.
#[cfg(target_os = "linux")]
fn memory_file(len: u64) -> Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let make = || -> Result<OwnedFd, rustix::io::Errno> {
        let file = rustix::fs::memfd_create("forebay-shard", flags)?;
        // Pages are taken as they are written: `fallocate` would clear them first, for nothing.
        rustix::fs::ftruncate(&file, len)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(file)
    };
    make().map_err(|errno| Error::from_io(errno.into()))
}

#[cfg(not(target_os = "linux"))]
fn memory_file(len: u64) -> Result<OwnedFd> {
    file_without_name(&std::env::temp_dir(), len)
}

/// A file in our own folder in `folder`, all its room taken, that no name leads to any more.
fn file_without_name(folder: &Path, len: u64) -> Result<OwnedFd> {
    let own = OwnFolder::create_in(folder, &user_folder_name("store"))?;
    let name = format!("shard-{:016x}", nonce());
    let file: File = own.create_new(&name)?;
    own.remove_file(&name)?;
    if len > 0 {
        // A write through the mapping that finds no room would be a SIGBUS.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len)
            .map_err(|errno| Error::from_io(errno.into()))?;
    }
    Ok(file.into())
}

/// Large pages where the system has them: random samples would otherwise miss the TLB each.
#[cfg(target_os = "linux")]
fn advise(map: &MmapRaw) {
    // Where it is refused, small pages do.
    let _ = map.advise(memmap2::Advice::HugePage);
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &MmapRaw) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &tempfile::TempDir) -> [ShardPlace; 2] {
        [ShardPlace::Memory, ShardPlace::Disk(folder.path().to_owned())]
    }

    #[test]
    fn what_is_written_is_read_also_through_a_second_mapping() {
        let folder = tempfile::tempdir().expect("a folder");
        for place in places(&folder) {
            let shard = ShardMemory::new(10_000, &place).expect("a shard");
            shard.write(9_990, b"0123456789").expect("within the shard");
            let other = ShardMemory::map(shard.descriptor().expect("a file"), 10_000).expect("the same file");
            assert!(other.descriptor().is_none(), "it is mapped, and needs no descriptor any more");
            let mut read = [1u8; 12];
            other.copy_to(9_988, &mut read).expect("within the shard");
            assert_eq!(&read, b"\0\x000123456789", "{place:?}");
        }
    }

    #[test]
    fn beyond_the_end_is_invalid_and_nothing_is_a_shard_too() {
        let shard = ShardMemory::new(8, &ShardPlace::Memory).expect("a shard");
        for (offset, len) in [(1, 8), (9, 0), (u64::MAX, 1)] {
            let error = shard.copy_to(offset, &mut vec![0; len]).expect_err("beyond the end");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(shard.write(offset, &vec![0; len]).is_err());
        }
        let empty = ShardMemory::new(0, &ShardPlace::Memory).expect("a shard of nothing");
        assert!(empty.is_empty() && empty.copy_to(0, &mut []).is_ok() && empty.write(0, &[]).is_ok());
    }

    #[test]
    fn a_shard_on_disk_has_no_name_and_too_long_a_one_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = ShardPlace::Disk(folder.path().to_owned());
        let _shard = ShardMemory::new(5000, &place).expect("a shard");
        let own = folder.path().join(user_folder_name("store"));
        assert_eq!(std::fs::read_dir(own).expect("our folder").count(), 0);
        let error = ShardMemory::new(1 << 50, &place).expect_err("no disk is that large");
        assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
    }

    #[test]
    fn memory_that_is_shorter_than_it_says_is_refused() {
        let file = memory_file(100).expect("a file");
        assert_eq!(
            ShardMemory::map(file.as_fd(), 101).expect_err("one byte too few").kind(),
            ErrorKind::Corrupt
        );
    }
}
