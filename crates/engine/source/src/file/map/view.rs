//! One file in memory, and copies out of it.
#![expect(unsafe_code, reason = "files are mapped and copied from by address")]

use std::{
    fs::File,
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU8,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
    process::{Resource, getrlimit},
};

use super::guard::{self, Slot};
use crate::{
    prefetch::{LINE, MOST_LINES, prefetch_line},
    range::{ByteRange, Fill},
};

/// The first lines of the ranges that come next are asked for while one is copied, at least as many in all: the
/// processor's own prefetching begins anew on every page. 64 random copies of 8 KiB per call gain a tenth.
const LINES_AHEAD: usize = 16;

/// A file that is mapped read-only and shared, so that its bytes are those of the page cache, or that may be.
///
/// It is mapped at most once and unmapped when the view is dropped, so that a copy needs no counting: the copier
/// borrows the view. All that a copy looks at lies in one line of memory; with hundreds of files none is in cache.
///
/// First touches are left to the kernel, which maps 16 pages or a large folio per fault: of 1 GiB in random pieces
/// of 8 KiB the first pass took 110 ms and later ones 103 ms; `MADV_POPULATE_READ` of all took 14 ms before a pass
/// of 105 ms, in slices of 2 MiB or 32 MiB as they were touched 122 ms in all.
#[derive(Debug)]
pub(super) struct View {
    len: usize,
    /// Null while nothing may be copied.
    start: AtomicPtr<u8>,
    /// Null until the file is mapped, and from then on the same.
    slot: AtomicPtr<Slot>,
    /// Of the mapping, whether or not it may be copied from.
    mapped: AtomicPtr<u8>,
    progress: AtomicU8,
}

/// How far the one attempt to map the file is.
const UNTRIED: u8 = 0;
const MAPPING: u8 = 1;
const TRIED: u8 = 2;

/// Whether there is something to copy from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// There is.
    Open,
    /// Another thread is mapping the file: there may be soon.
    Later,
    /// The file cannot be mapped and guarded.
    Never,
}

/// Why nothing was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no mapping to copy from.
    Unmapped,
    /// A page had vanished: what was copied is worth nothing.
    Torn,
}

impl View {
    /// The first `len` bytes of a file, not mapped yet.
    pub(super) fn new(len: u64) -> Self {
        Self {
            // What does not fit into memory is never mapped.
            len: usize::try_from(len).unwrap_or(0),
            start: AtomicPtr::default(),
            slot: AtomicPtr::default(),
            mapped: AtomicPtr::default(),
            progress: AtomicU8::new(UNTRIED),
        }
    }

    /// True when there is something to copy from.
    pub(super) fn is_open(&self) -> bool {
        !self.start.load(Relaxed).is_null()
    }

    /// Lets others copy, mapping `file` if that was never tried.
    pub(super) fn open(&self, file: &File) -> Opening {
        match self.progress.compare_exchange(UNTRIED, MAPPING, AcqRel, Acquire) {
            Ok(_) => {
                self.map(file);
                self.progress.store(TRIED, Release);
            }
            Err(MAPPING) => return Opening::Later,
            Err(_) => {}
        }
        let mapped = self.mapped.load(Acquire);
        self.start.store(mapped, Release);
        if mapped.is_null() { Opening::Never } else { Opening::Open }
    }

    /// Lets nobody copy from now on. The mapping stays, and costs addresses only.
    pub(super) fn close(&self) {
        self.start.store(ptr::null_mut(), Relaxed);
    }

    fn map(&self, file: &File) -> Option<()> {
        // A limited address space is left to the program: files can be read without mappings.
        if self.len == 0 || !guard::is_installed() {
            return None;
        }
        if getrlimit(Resource::As).current.is_some() {
            guard::tell("the address space is limited (ulimit -v)");
            return None;
        }
        // SAFETY: the kernel chooses the address, so no other memory is touched.
        let start = unsafe { mmap(ptr::null_mut(), self.len, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let start = start.ok()?.cast::<u8>();
        start.expose_provenance();
        // SAFETY: the only reads of this memory are in `copy`, which looks at the mark afterwards; `drop` frees the
        // slot first.
        let Some(slot) = (unsafe { Slot::take(start, self.len) }) else {
            // SAFETY: mapped above, and nobody has seen it.
            let _unmapped = unsafe { munmap(start.cast(), self.len) };
            return None;
        };
        self.slot.store(ptr::from_ref(slot).cast_mut(), Relaxed);
        self.mapped.store(start, Release);
        Some(())
    }

    /// Prefetches the first cache lines of `range`, if the file is mapped.
    #[inline]
    pub(super) fn will_read(&self, range: ByteRange) {
        let start = self.start.load(Relaxed);
        if !start.is_null() {
            prefetch(start, range);
        }
    }

    /// Copies what `fills` ask for. The bytes may change meanwhile: whether they did is for the caller to find out.
    #[inline]
    pub(super) fn copy(&self, fills: &mut [Fill<'_>]) -> Result<(), Refusal> {
        let start = self.start.load(Acquire);
        // SAFETY: null or a slot of the static table.
        let slot = unsafe { self.slot.load(Relaxed).as_ref() };
        let (Some(slot), false) = (slot, start.is_null()) else { return Err(Refusal::Unmapped) };
        // Wanted after the copy: on its way meanwhile.
        prefetch_line(ptr::from_ref(slot).cast());
        let (mut asked, mut waiting_lines) = (1, 0);
        for at in 0..fills.len() {
            while waiting_lines < LINES_AHEAD
                && let Some(ahead) = fills.get(asked)
            {
                prefetch(start, ahead.range);
                waiting_lines += lines_asked(ahead.range);
                asked += 1;
            }
            if let Some(next) = fills.get(at + 1) {
                waiting_lines = waiting_lines.saturating_sub(lines_asked(next.range));
            }
            let fill = &mut fills[at];
            let offset = usize::try_from(fill.range.start).unwrap_or(usize::MAX);
            if offset.checked_add(fill.into.len()).is_none_or(|end| end > self.len) {
                return Err(Refusal::Unmapped);
            }
            // SAFETY: the source lies within the mapping, as was just checked, which lasts as long as `self`; the
            // target is the caller's own. The file's writers may change the source meanwhile: it is copied as plain
            // bytes by a call to `memcpy`, and believed only if the file's stamp is unchanged afterwards.
            unsafe { ptr::copy_nonoverlapping(start.add(offset), fill.into.as_mut_ptr(), fill.into.len()) };
        }
        if slot.is_torn() { Err(Refusal::Torn) } else { Ok(()) }
    }
}

/// How many lines of `range` are asked for ahead.
#[inline]
fn lines_asked(range: ByteRange) -> usize {
    usize::try_from(range.len().div_ceil(LINE as u64)).map_or(MOST_LINES, |lines| lines.min(MOST_LINES))
}

#[inline]
fn prefetch(start: *const u8, range: ByteRange) {
    let Ok(offset) = usize::try_from(range.start) else { return };
    for line in 0..lines_asked(range) {
        // Any address will do: nothing is read that the program could see.
        prefetch_line(start.wrapping_add(offset).wrapping_add(LINE * line));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let mapped = self.mapped.load(Acquire);
        // A child forked while a thread of its parent was mapping has no address, and leaks what it has.
        if mapped.is_null() {
            return;
        }
        // SAFETY: null or a slot of the static table.
        if let Some(slot) = unsafe { self.slot.load(Relaxed).as_ref() } {
            slot.free();
        }
        // SAFETY: the range was mapped by `map` and is the view's own; nobody copies from a view that is dropped,
        // and the handler no longer knows it.
        let _unmapped = unsafe { munmap(mapped.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_thread_that_comes_while_another_maps_the_file_is_put_off_and_the_file_is_mapped_all_the_same() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let view = View::new(4096);
        view.progress.store(MAPPING, Relaxed);
        assert_eq!(view.open(&file), Opening::Later);
        assert!(!view.is_open());
        view.progress.store(UNTRIED, Relaxed);
        assert_eq!(view.open(&file), Opening::Open);
        let mut memory = [0; 9];
        assert_eq!(view.copy(&mut [Fill { range: ByteRange::at(5, 9), into: &mut memory }]), Ok(()));
        assert_eq!(memory, [7; 9]);
    }
}
