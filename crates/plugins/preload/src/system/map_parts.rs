//! Parts of this process's memory that show files, as `/proc/self/maps` lists them, and another file in the place of one.

#![expect(unsafe_code, reason = "moves a map over one that the program has made")]

use std::{
    collections::HashSet,
    fs::{self, File},
    hash::Hash,
    os::{
        fd::BorrowedFd,
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::Path,
    ptr::{null_mut, without_provenance_mut},
};

use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

/// A file by device and inode, as maps show them: file systems with several volumes (btrfs, overlayfs) have another device for `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MappedInode {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// A part of this process's memory that shows a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MapPart {
    pub(crate) start: usize,
    len: usize,
    offset: u64,
    protection: ProtFlags,
    is_shared: bool,
    pub(crate) file: MappedInode,
    /// True where the file is one of a disk tier: numbers of inodes are used again.
    pub(crate) is_of_tier: bool,
}

/// What the kernel tells of this process's memory, and room for it: once this is made, nothing is allocated. While maps are replaced, a thread of the program that
/// unmaps memory waits, and may hold the lock of its allocator.
#[derive(Debug)]
pub(crate) struct MapsReader {
    maps: File,
    pages: File,
    text: Vec<u8>,
    entries: Vec<u8>,
}

/// What was read of `/proc/self/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapsRead {
    Whole,
    /// There was no room for it: [`MapsReader::grow`], and once more.
    Partly,
    /// The kernel does not tell.
    Failed,
}

/// Room for the list of maps at first: that of a program with a hundred libraries.
const TEXT_BYTES: usize = 256 << 10;
/// Pages whose entries of `/proc/self/pagemap` are looked at together.
const PAGES_AT_ONCE: usize = 8192;
/// Of such an entry: the page is in memory, in the swap space, one of a file.
const IS_PRESENT: u64 = 1 << 63;
const IS_SWAPPED: u64 = 1 << 62;
const IS_OF_FILE: u64 = 1 << 61;

impl MapsReader {
    /// `open` opens a file for reading.
    pub(crate) fn new(open: impl Fn(&Path) -> Option<File>) -> Option<Self> {
        let [maps, pages] = ["/proc/self/maps", "/proc/self/pagemap"].map(|path| open(Path::new(path)));
        Some(Self {
            maps: maps?,
            pages: pages?,
            text: vec![0; TEXT_BYTES],
            entries: vec![0; PAGES_AT_ONCE * 8],
        })
    }

    /// Makes room for twice as much.
    pub(crate) fn grow(&mut self) {
        self.text.resize(2 * self.text.len(), 0);
    }

    /// Has `origin` be shown by each part that `is_replaced`.
    pub(crate) fn show(
        &mut self,
        origin: BorrowedFd<'_>,
        is_replaced: impl Fn(&MapPart) -> bool,
    ) -> MapsRead {
        let mut filled = 0;
        loop {
            match rustix::io::pread(&self.maps, &mut self.text[filled..], filled as u64) {
                Ok(0) => break,
                Ok(len) => filled += len,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return MapsRead::Failed,
            }
            if filled == self.text.len() {
                return MapsRead::Partly;
            }
        }
        for part in parts_of(&self.text[..filled]).filter(is_replaced) {
            part.show(origin, &self.pages, &mut self.entries);
        }
        MapsRead::Whole
    }
}

/// All parts that show files; none where the kernel does not tell.
pub(crate) fn all() -> Vec<MapPart> {
    of_text(&fs::read("/proc/self/maps").unwrap_or_default())
}

/// The files that are mapped at all.
pub(crate) fn mapped_files() -> HashSet<MappedInode> {
    all().into_iter().map(|part| part.file).collect()
}

fn of_text(maps: &[u8]) -> Vec<MapPart> {
    parts_of(maps).collect()
}

fn parts_of(maps: &[u8]) -> impl Iterator<Item = MapPart> {
    maps.split(|byte| *byte == b'\n').filter_map(of_line)
}

fn of_line(line: &[u8]) -> Option<MapPart> {
    let at = line.iter().position(|byte| *byte == b'/')?;
    let mut words = std::str::from_utf8(&line[..at]).ok()?.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let rights = words.next()?.as_bytes();
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let (major, minor) = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = words.next()?.parse().ok()?;
    let flags = [(b'r', ProtFlags::READ), (b'w', ProtFlags::WRITE), (b'x', ProtFlags::EXEC)];
    Some(MapPart {
        start,
        len: end.checked_sub(start)?,
        offset,
        protection: flags
            .iter()
            .filter(|(letter, _)| rights.contains(letter))
            .map(|(_, flag)| *flag)
            .collect(),
        is_shared: rights.get(3) == Some(&b's'),
        file: MappedInode { device: rustix::fs::makedev(major, minor), inode },
        is_of_tier: is_of_tier(Path::new(std::ffi::OsStr::from_bytes(&line[at..]))),
    })
}

/// True for a path that files of a disk tier have.
pub(crate) fn is_of_tier(path: &Path) -> bool {
    let is_folder = |part: std::path::Component<'_>| {
        part.as_os_str().to_str().is_some_and(|name| name.starts_with("forebay-tier-"))
    };
    path.components().any(is_folder)
}

impl MapPart {
    /// Replaces this part by the same bytes of `origin`. It stays where that fails, and where it is private and the program has
    /// stored something there, or may do so now: such pages are no file's.
    ///
    /// The caller sees to it that no call of the program unmaps or protects memory meanwhile.
    fn show(&self, origin: BorrowedFd<'_>, pages: &File, entries: &mut [u8]) {
        if !self.is_shared
            && (self.protection.contains(ProtFlags::WRITE)
                || self.has_private_pages(pages, entries) != Some(false))
        {
            return;
        }
        let way = if self.is_shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        // SAFETY: the kernel chooses the address, so no other memory is touched.
        let made =
            unsafe { rustix::mm::mmap(null_mut(), self.len, self.protection, way, origin, self.offset) };
        let Ok(made) = made else { return };
        // SAFETY: the map was just made and is in nobody's use. The range that it is moved to is a map of a copy, which has the same
        // bytes, and is replaced at once: a thread that reads it sees one of both.
        let moved = unsafe {
            let at = without_provenance_mut(self.start);
            rustix::mm::mremap_fixed(made, self.len, self.len, MremapFlags::MAYMOVE, at)
        };
        if moved.is_err() {
            // SAFETY: it stands where it was made, in nobody's use.
            let _unmapped = unsafe { rustix::mm::munmap(made, self.len) };
        }
    }

    /// True where a page is not the file's any more; nothing where the kernel does not tell.
    fn has_private_pages(&self, pages: &File, entries: &mut [u8]) -> Option<bool> {
        let page = rustix::param::page_size();
        let (first, end) = (self.start / page, (self.start + self.len) / page);
        for at in (first..end).step_by(PAGES_AT_ONCE) {
            let part = &mut entries[..PAGES_AT_ONCE.min(end - at) * 8];
            pages.read_exact_at(part, at as u64 * 8).ok()?;
            if part
                .chunks_exact(8)
                .any(|entry| is_private(u64::from_ne_bytes(entry.try_into().unwrap_or_default())))
            {
                return Some(true);
            }
        }
        Some(false)
    }
}

fn is_private(entry: u64) -> bool {
    entry & (IS_PRESENT | IS_SWAPPED) != 0 && entry & IS_OF_FILE == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_with_device_and_inode_and_files_of_tiers_are_told_from_others() {
        let text = b"7f00-8f00 r--p 00001000 00:1f 77 /dev/shm/forebay-tier-1/a b\n\
            9000-a000 r-xs 00000000 103:02 78 /dev/shm/forebay-tier-1/a b (deleted)\n\
            b000-c000 rw-p 00000000 00:1f 77 /dev/shm/other/a\n\
            d000-e000 rw-p 00000000 00:00 0 \n\
            e000-f000 rw-p 00000000 00:00 0 [heap]\n";
        let (read, run) = (ProtFlags::READ, ProtFlags::EXEC);
        let part = |start, offset, protection, is_shared, (major, minor, inode), is_of_tier| {
            let file = MappedInode { device: rustix::fs::makedev(major, minor), inode };
            MapPart { start, len: 0x1000, offset, protection, is_shared, file, is_of_tier }
        };
        let wanted = [
            part(0x7f00, 0x1000, read, false, (0, 0x1f, 77), true),
            part(0x9000, 0, read | run, true, (0x103, 2, 78), true),
            part(0xb000, 0, read | ProtFlags::WRITE, false, (0, 0x1f, 77), false),
        ];
        assert_eq!(of_text(text), wanted);
    }

    #[test]
    fn pages_that_were_stored_to_are_told_from_those_of_the_file() {
        assert!(is_private(IS_PRESENT) && is_private(IS_SWAPPED));
        assert!(!is_private(0) && !is_private(IS_PRESENT | IS_OF_FILE));
    }
}
