//! A program's memory, into which elements go; and elements that are packed before they do.

#![expect(unsafe_code, reason = "fills a program's memory by address")]

use forebay_libhdf5::hdf5_types::hid_t;

use crate::{
    dataset::{
        element_type::{self, Conversion},
        selection::ByteRun,
    },
    functions::RawPointer,
    slots::LoadedLibrary,
};

/// Memory that a program has lent for a read, by its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryTarget {
    base: *mut u8,
}

impl MemoryTarget {
    /// The memory at `base`.
    pub(crate) fn new(base: RawPointer) -> Self {
        Self { base: base.cast() }
    }

    /// `len` bytes of it, from byte `at` on.
    ///
    /// # Safety
    /// They belong to the program's selection, and are not lent twice at a time.
    pub(crate) unsafe fn lend<'m>(self, at: u64, len: u64) -> &'m mut [u8] {
        let at = usize::try_from(at).expect("an offset in memory");
        let len = usize::try_from(len).expect("a length in memory");
        // SAFETY: as promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(at), len) }
    }

    /// The bytes of `runs`, in order.
    pub(crate) fn cursor(self, runs: &[ByteRun]) -> MemoryCursor<'_> {
        MemoryCursor { memory: self, runs, within: 0 }
    }
}

/// How far a selection of memory is filled.
#[derive(Debug)]
pub(crate) struct MemoryCursor<'a> {
    memory: MemoryTarget,
    runs: &'a [ByteRun],
    within: u64,
}

impl MemoryCursor<'_> {
    /// Calls `each` with the memory of the next `len` bytes, run by run, and where in them each part begins.
    ///
    /// # Safety
    /// The memory of the selection is there.
    unsafe fn visit(&self, len: usize, mut each: impl FnMut(usize, &mut [u8])) -> (usize, u64) {
        let (mut run, mut within, mut at) = (0, self.within, 0);
        while at < len {
            let Some(now) = self.runs.get(run) else { break };
            let part = (now.len - within).min((len - at) as u64);
            // SAFETY: as promised by the caller.
            each(at, unsafe { self.memory.lend(now.at + within, part) });
            at += usize::try_from(part).expect("a length in memory");
            within += part;
            if within == now.len {
                (run, within) = (run + 1, 0);
            }
        }
        (run, within)
    }

    fn advance(&mut self, to: (usize, u64)) {
        self.runs = &self.runs[to.0..];
        self.within = to.1;
    }
}

/// Elements side by side, as they lie in the file and then as memory wants them.
#[derive(Debug)]
pub(crate) struct PackedElements<'a> {
    library: &'a LoadedLibrary,
    types: (hid_t, hid_t),
    conversion: Conversion,
    file_len: usize,
    elements: Vec<u8>,
    background: Vec<u8>,
    count: usize,
}

impl<'a> PackedElements<'a> {
    /// None yet; each has `file_len` bytes in the file.
    pub(crate) fn new(
        library: &'a LoadedLibrary,
        types: (hid_t, hid_t),
        conversion: Conversion,
        file_len: usize,
    ) -> Self {
        let (elements, background) = (Vec::new(), Vec::new());
        Self { library, types, conversion, file_len, elements, background, count: 0 }
    }

    /// Room for elements of `len` bytes in the file.
    pub(crate) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.count = len / self.file_len;
        let widest = match self.conversion {
            Conversion::None => self.file_len,
            Conversion::By(memory_len) => self.file_len.max(memory_len),
        };
        self.elements.resize(self.count.checked_mul(widest)?, 0);
        Some(&mut self.elements[..len])
    }

    /// Converts the elements and puts them into memory; `None` where HDF5 cannot convert them.
    ///
    /// # Safety
    /// The memory of the selection is there.
    pub(crate) unsafe fn deliver(&mut self, memory: &mut MemoryCursor<'_>, transfer: hid_t) -> Option<()> {
        let memory_len = match self.conversion {
            Conversion::None => self.file_len,
            Conversion::By(memory_len) => memory_len,
        };
        let len = self.count * memory_len;
        if let Conversion::By(_) = self.conversion {
            // Members that the program does not read stay as they are in its memory.
            self.background.resize(self.elements.len(), 0);
            // SAFETY: as promised by the caller.
            unsafe {
                let background = &mut self.background;
                memory.visit(len, |at, part| background[at..at + part.len()].copy_from_slice(part));
                let (elements, background) = (&mut self.elements, &mut self.background);
                let (library, types, count) = (self.library, self.types, self.count);
                let convert = || element_type::convert(library, types, count, elements, background, transfer);
                if !library.quietly(convert) {
                    return None;
                }
            }
        }
        let elements = &self.elements;
        // SAFETY: as promised by the caller.
        let to =
            unsafe { memory.visit(len, |at, part| part.copy_from_slice(&elements[at..at + part.len()])) };
        memory.advance(to);
        Some(())
    }
}
