//! One file in memory, and copies out of it.
#![expect(unsafe_code, reason = "files are mapped and copied from by address")]

use std::{
    fs::File,
    ptr::{self, NonNull},
};

use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
    process::{Resource, getrlimit},
};

use super::guard::{self, Guarded};
use crate::Fill;

/// The first lines of the next range are asked for while one is copied: the processor's own prefetching begins
/// anew on every page. 64 random copies of 8 KiB per call gain a tenth.
#[cfg(target_arch = "x86_64")]
const LINES_AHEAD: usize = 8;

/// A file mapped read-only and shared, so that its bytes are those of the page cache. Undone when dropped.
///
/// First touches are left to the kernel, which maps 16 pages or a large folio per fault: of 1 GiB in random pieces
/// of 8 KiB the first pass took 110 ms and later ones 103 ms; `MADV_POPULATE_READ` of all took 14 ms before a pass
/// of 105 ms, in slices of 2 MiB or 32 MiB as they were touched 122 ms in all.
#[derive(Debug)]
pub(super) struct View {
    start: NonNull<u8>,
    len: usize,
    /// Leaves the table before the mapping is undone.
    guarded: Option<Guarded>,
}

// SAFETY: the memory is only read, and belongs to the view until it is dropped.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// A page had vanished: what was copied is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Torn;

impl View {
    /// The first `len` bytes of `file`; nothing where they cannot be mapped and guarded.
    pub(super) fn of(file: &File, len: u64) -> Option<Self> {
        // Whoever limits the address space does not want it spent on what can be read without.
        if !guard::is_installed() || len == 0 || getrlimit(Resource::As).current.is_some() {
            return None;
        }
        let len = usize::try_from(len).ok()?;
        // SAFETY: the kernel chooses the address, so no other memory is touched.
        let start = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }.ok()?;
        let start = NonNull::new(start.cast::<u8>())?;
        start.as_ptr().expose_provenance();
        let mut view = Self { start, len, guarded: None };
        // SAFETY: the only reads of this memory are in `copy`, which looks at the mark afterwards.
        view.guarded = unsafe { Guarded::new(start.as_ptr(), len) };
        view.guarded.is_some().then_some(view)
    }

    /// Copies what `fills` ask for. The bytes may change meanwhile: whether they did is for the caller to find out.
    pub(super) fn copy(&self, fills: &mut [Fill<'_>]) -> Result<(), Torn> {
        let guarded = self.guarded.as_ref().ok_or(Torn)?;
        for index in 0..fills.len() {
            if let Some(next) = fills.get(index + 1) {
                self.prefetch(next);
            }
            let Some(fill) = fills.get_mut(index) else { break };
            let start = usize::try_from(fill.range.start).map_err(|_| Torn)?;
            if start.checked_add(fill.into.len()).is_none_or(|end| end > self.len) {
                return Err(Torn);
            }
            // SAFETY: the source lies within the mapping, as was just checked; the target is the caller's own. The
            // file's writers may change the source meanwhile: it is copied as plain bytes by a call to `memcpy`,
            // and the caller believes them only if the file's stamp is unchanged afterwards.
            unsafe {
                ptr::copy_nonoverlapping(
                    self.start.as_ptr().add(start),
                    fill.into.as_mut_ptr(),
                    fill.into.len(),
                );
            }
        }
        if guarded.is_torn() { Err(Torn) } else { Ok(()) }
    }

    #[cfg(target_arch = "x86_64")]
    fn prefetch(&self, fill: &Fill<'_>) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let Ok(start) = usize::try_from(fill.range.start) else { return };
        let first = self.start.as_ptr().wrapping_add(start);
        for line in 0..LINES_AHEAD {
            // SAFETY: a prefetch reads nothing that the program can see and never faults, at any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(64 * line).cast()) };
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn prefetch(&self, _: &Fill<'_>) {}
}

impl Drop for View {
    fn drop(&mut self) {
        drop(self.guarded.take());
        // SAFETY: the range was mapped by `of` and is the view's own; nobody copies from a view that is dropped,
        // and the handler no longer knows it.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
