//! Memory for long, short-lived bytes, which goes back to the system when it is let go.
//!
//! The C library keeps what is freed: once a block of 16 MiB was, it gives blocks of that length from heaps of its threads and
//! leaves up to twice as much at the end of each. Four workers and two loaders over chunks of 16 MiB took 100 to 290 MiB more
//! than their budget so.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "what a forked child finds in pages is set by madvise alone")
)]

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use bytes::Bytes;
use memmap2::MmapMut;

use crate::{Error, ErrorKind, Result};

/// Longer bytes have pages of their own: a request of 1 MiB to FUSE, and to disks past the page cache, is otherwise cut in
/// two.
const PAGED_BYTES: usize = 256 << 10;

/// Memory with one owner, zero when it is new.
pub struct WorkMemory(MemoryKind);

enum MemoryKind {
    Heap(Vec<u8>),
    Pages(MmapMut),
}

impl WorkMemory {
    /// `len` bytes.
    pub fn new(len: u64) -> Result<Self> {
        let full = || Error::new(ErrorKind::Full, format!("no memory for {len} bytes"));
        let len = usize::try_from(len).map_err(|_| full())?;
        if is_paged(len) {
            let pages = MmapMut::map_anon(len).map_err(|error| full().because(error))?;
            return Ok(Self(MemoryKind::Pages(pages)));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|error| full().because(error))?;
        bytes.resize(len, 0);
        Ok(Self(MemoryKind::Heap(bytes)))
    }

    /// Makes it at least `len` bytes long, as memory to work in: what was in it is lost where it has to grow, and in a forked
    /// child.
    pub fn make_room(&mut self, len: usize) -> Result<()> {
        if self.len() < len {
            // Before there is more, so that both are never there at once.
            *self = Self::default();
            *self = Self::new(len as u64)?;
            self.wipe_on_fork();
        }
        Ok(())
    }

    /// Has a forked child find zeros in it: what a thread decodes into meanwhile is of no use there, and would take memory for
    /// as long as the child lives.
    fn wipe_on_fork(&mut self) {
        #[cfg(target_os = "linux")]
        if let MemoryKind::Pages(pages) = &mut self.0 {
            let (start, len) = (pages.as_mut_ptr().cast(), pages.len());
            // SAFETY: the pages are this mapping's own, from its start to its end; nothing changes here, and a child finds
            // zeros, which are as valid as any bytes.
            // A kernel that does not know it gives a child the bytes.
            let _ = unsafe { rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxWipeOnFork) };
        }
    }

    /// Shares it for as long as any slice of it lives.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            MemoryKind::Heap(bytes) => bytes.into(),
            MemoryKind::Pages(pages) => Bytes::from_owner(pages),
        }
    }
}

/// True when bytes so long have pages of their own.
pub fn is_paged(len: usize) -> bool {
    len >= PAGED_BYTES
}

impl Default for WorkMemory {
    fn default() -> Self {
        Self(MemoryKind::Heap(Vec::new()))
    }
}

impl Deref for WorkMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            MemoryKind::Heap(bytes) => bytes,
            MemoryKind::Pages(pages) => pages,
        }
    }
}

impl DerefMut for WorkMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            MemoryKind::Heap(bytes) => bytes,
            MemoryKind::Pages(pages) => pages,
        }
    }
}

impl fmt::Debug for WorkMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_and_is_zero_when_new_and_is_lent_whole() {
        let mut memory = WorkMemory::default();
        for len in [10, 1000, PAGED_BYTES - 1, PAGED_BYTES, 3 * PAGED_BYTES] {
            memory.make_room(len).unwrap();
            assert!(memory.len() >= len && memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
        }
        memory.make_room(5).unwrap();
        assert_eq!(memory.len(), 3 * PAGED_BYTES, "what is long enough stays");
        assert_eq!(memory.into_bytes(), vec![7; 3 * PAGED_BYTES]);
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        assert_eq!(WorkMemory::new(1 << 60).unwrap_err().kind(), ErrorKind::Full);
    }
}
