//! One write of a rank, turned into offsets and bytes for its log.

#![expect(
    unsafe_code,
    reason = "reads a program's memory by address, and calls into a libhdf5 found at run time"
)]

use std::ffi::c_int;

use forebay_libhdf5::hdf5_types::hid_t;
use forebay_process::{Error, Result, WarnOnce};

use super::{
    board_words::MOST_SPANS,
    byte_spans::ByteSpans,
    gather::{GatherSource, Gathering, WriteAt},
    parallel_dataset::{ParallelDataset, PlacedDataset},
    parallel_stats::STATS,
};
use crate::{
    dataset::{
        element_type,
        selection::{self, ByteRun, SelectedRuns},
        transfer_list,
        under_dataset::UnderDataset,
    },
    functions::RawPointer,
    slots::LoadedLibrary,
};

/// What a program writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteRequest {
    pub(crate) memory_type: hid_t,
    pub(crate) memory_space: hid_t,
    pub(crate) file_space: hid_t,
    pub(crate) transfer: hid_t,
    pub(crate) from: RawPointer,
}

/// What becomes of a write.
#[derive(Debug)]
pub(crate) enum WriteOutcome {
    /// It was accepted.
    Staged,
    /// HDF5 writes it for this rank alone, with nothing of this rank's before it left in the log.
    Alone,
    /// HDF5 writes it as the program asked: so do all ranks.
    Together,
}

/// `H5T_INTEGER`, `H5T_FLOAT`, `H5T_STRING`, `H5T_BITFIELD`, `H5T_ENUM`: converted value by value, whatever the file had before.
const CONVERTED: [c_int; 5] = [0, 1, 3, 4, 8];
/// Elements of another type in memory are converted in portions of this size.
const WINDOW_BYTES: u64 = 1 << 20;

static NOT_STAGED: WarnOnce = WarnOnce::new();

/// Takes what `wanted` says into the log of this rank.
pub(crate) fn stage_write(
    library: &LoadedLibrary,
    dataset: &ParallelDataset,
    under: UnderDataset,
    wanted: &WriteRequest,
) -> WriteOutcome {
    if !dataset.file.stages() {
        return WriteOutcome::Together;
    }
    let Some(placed) = dataset.placed(library, under) else { return WriteOutcome::Together };
    let Some(kind) = dataset.kind else { return WriteOutcome::Together };
    // From here on ranks decide for themselves: their selections and types need not be alike.
    if selection::is_empty(library, wanted.file_space, wanted.memory_space) {
        return WriteOutcome::Staged;
    }
    let planned = library.quietly(|| PlannedWrite::new(library, &placed, kind, wanted));
    let Some(planned) = planned else { return WriteOutcome::Alone };
    match dataset.file.accept(&planned.spans(), |write| planned.run(write)) {
        Some(Ok(())) => {
            STATS.staged(planned.file.count * placed.element_len);
            WriteOutcome::Staged
        }
        Some(Err(error)) => {
            // What the log has of it is drained first, and then written once more by HDF5.
            if error.kind() != forebay_process::ErrorKind::Unsupported {
                NOT_STAGED.say(format_args!("{error}; writes of this rank go straight to the file"));
            }
            WriteOutcome::Alone
        }
        None => WriteOutcome::Together,
    }
}

/// A write whose selections are known.
struct PlannedWrite<'a> {
    library: &'a LoadedLibrary,
    placed: &'a PlacedDataset,
    wanted: &'a WriteRequest,
    file: SelectedRuns,
    memory: SelectedRuns,
    /// From the type in memory to that in the file, and the length of an element in memory.
    conversion: Option<(hid_t, hid_t, u64)>,
}

impl<'a> PlannedWrite<'a> {
    fn new(
        library: &'a LoadedLibrary,
        placed: &'a PlacedDataset,
        kind: hid_t,
        wanted: &'a WriteRequest,
    ) -> Option<Self> {
        if wanted.from.is_null() || !transfer_list::is_plain(library, wanted.transfer) {
            return None;
        }
        let conversion = conversion(library, wanted.memory_type, kind)?;
        let memory_len = conversion.map_or(placed.element_len, |(_, _, len)| len);
        let file = SelectedRuns::in_file(library, wanted.file_space, &placed.shape, placed.element_len)?;
        let (space, file_space) = (wanted.memory_space, wanted.file_space);
        let memory = SelectedRuns::in_memory(library, space, file_space, file.count, memory_len)?;
        Some(Self { library, placed, wanted, file, memory, conversion })
    }

    /// Where its bytes go.
    fn spans(&self) -> ByteSpans {
        let mut spans: Vec<std::ops::Range<u64>> = Vec::with_capacity(self.file.runs.len());
        for run in &self.file.runs {
            self.placed.places.split(run.at, run.len, |at, len| match spans.last_mut() {
                Some(last) if last.end == at => last.end += len,
                _ => spans.push(at..at + len),
            });
        }
        ByteSpans::new(spans, MOST_SPANS)
    }

    fn run(&self, write: WriteAt<'_>) -> Result<()> {
        let base = self.wanted.from.cast_const().cast::<u8>();
        let mut memory = GatherSource::new(base, &self.memory.runs);
        match self.conversion {
            None => self.write_from(&mut memory, write),
            Some(conversion) => self.write_converted(&mut memory, conversion, write),
        }
    }

    fn write_from(&self, memory: &mut GatherSource<'_>, write: WriteAt<'_>) -> Result<()> {
        let mut gathering = Gathering::new(write);
        for run in &self.file.runs {
            let mut outcome = Ok(());
            self.placed.places.split(run.at, run.len, |at, len| {
                if outcome.is_ok() {
                    // SAFETY: the program lends the memory of its selection, which has as many elements as that of the file.
                    outcome = unsafe { gathering.take(at, len, memory) };
                }
            });
            outcome?;
        }
        gathering.flush()
    }

    fn write_converted(
        &self,
        memory: &mut GatherSource<'_>,
        (from, to, memory_len): (hid_t, hid_t, u64),
        write: WriteAt<'_>,
    ) -> Result<()> {
        let file_len = self.placed.element_len;
        let portion = (WINDOW_BYTES / file_len.max(memory_len)).max(1);
        let (mut packed, mut gathering) = (Vec::new(), Gathering::new(write));
        let mut target = FileCursor { runs: &self.file.runs, within: 0 };
        let mut left = self.file.count;
        while left > 0 {
            let count = left.min(portion);
            let bytes = self.convert((from, to), (memory_len, count), memory, &mut packed)?;
            let whole = [ByteRun { at: 0, len: bytes }];
            let mut converted = GatherSource::new(packed.as_ptr(), &whole);
            let mut outcome = Ok(());
            target.advance(bytes, |at, len| {
                self.placed.places.split(at, len, |at, len| {
                    if outcome.is_ok() {
                        // SAFETY: `packed` holds all bytes of the portion.
                        outcome = unsafe { gathering.take(at, len, &mut converted) };
                    }
                });
            });
            outcome?;
            left -= count;
        }
        gathering.flush()
    }

    /// Converts the next `count` elements of memory, of `memory_len` bytes each, into `packed`; gives their bytes.
    fn convert(
        &self,
        types: (hid_t, hid_t),
        (memory_len, count): (u64, u64),
        memory: &mut GatherSource<'_>,
        packed: &mut Vec<u8>,
    ) -> Result<u64> {
        let refused =
            || Error::new(forebay_process::ErrorKind::Unsupported, "HDF5 does not convert these values");
        let file_len = self.placed.element_len;
        let room = usize::try_from(count * memory_len.max(file_len)).map_err(|_| refused())?;
        packed.resize(room, 0);
        let mut background = vec![0; room];
        let filled = usize::try_from(count * memory_len).map_err(|_| refused())?;
        let count_of = usize::try_from(count).map_err(|_| refused())?;
        // SAFETY: the program lends the memory of its selection; both buffers hold the larger of the two types.
        let is_done = unsafe {
            memory.fill(&mut packed[..filled]).is_some()
                && self.library.quietly(|| {
                    let transfer = self.wanted.transfer;
                    element_type::convert(self.library, types, count_of, packed, &mut background, transfer)
                })
        };
        if is_done { Ok(count * file_len) } else { Err(refused()) }
    }
}

/// How far the selection of a file is written.
struct FileCursor<'a> {
    runs: &'a [ByteRun],
    within: u64,
}

impl FileCursor<'_> {
    /// Calls `each` with the places of the next `len` bytes.
    fn advance(&mut self, mut len: u64, mut each: impl FnMut(u64, u64)) {
        while let Some(run) = self.runs.first().filter(|_| len > 0) {
            let part = len.min(run.len - self.within);
            each(run.at + self.within, part);
            len -= part;
            self.within += part;
            if self.within == run.len {
                (self.runs, self.within) = (&self.runs[1..], 0);
            }
        }
    }
}

/// How values in memory become those of the file: not at all, by HDF5, or (`None`) not without what the file had.
fn conversion(
    library: &LoadedLibrary,
    memory_type: hid_t,
    kind: hid_t,
) -> Option<Option<(hid_t, hid_t, u64)>> {
    let functions = &library.functions;
    // SAFETY: an open type of ours, and a handle that a program passed as one.
    unsafe {
        match (functions.H5Tequal)(kind, memory_type) {
            1.. => Some(None),
            0 => {
                let classes = [(functions.H5Tget_class)(kind), (functions.H5Tget_class)(memory_type)];
                let len = (functions.H5Tget_size)(memory_type) as u64;
                let is_plain = classes.iter().all(|class| CONVERTED.contains(class))
                    && element_type::is_fixed(library, memory_type);
                (is_plain && len > 0).then_some(Some((memory_type, kind, len)))
            }
            _ => None,
        }
    }
}
