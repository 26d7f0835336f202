//! One read of a data set: from the cache, through it, or past it.
//!
//! ```text
//! selection ─► pieces of units ─► all here? ───────────────────────► tier ─► memory
//!                                   │ whole units missing ─► H5Dread as it is ─► memory ─► units kept
//!                                   │ parts, asked before ─► whole units read ─► memory, kept
//!                                   └ parts, never asked before ─► H5Dread as it is
//! ```

#![expect(unsafe_code, reason = "fills a program's memory by address")]

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    ptr::null_mut,
    time::{Duration, Instant},
};

use crate::{
    dataset::{
        dataset_changes,
        element_type::Conversion,
        selection::{self, SelectedRuns},
        transfer_list,
        under_dataset::UnderDataset,
    },
    functions::RawPointer,
    read::{
        cached_dataset::{CachedDataset, KeptUnits, UnitFill, patience_after},
        memory_target::{MemoryTarget, PackedElements},
        missed_units::{MissedUnits, Misses, PassedUnits, ReadOutlook},
    },
    slots::LoadedLibrary,
    units::{
        read_plan::{self, PlacedPiece, UnitDemand},
        unit_grid::UnitPiece,
        unit_target::BlockClaim,
        unit_writer::QueuePatience,
    },
    vol_object::VolObject,
};
use forebay_libhdf5::hdf5_types::{herr_t, hid_t};

/// What a program asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatasetRead {
    pub(crate) memory_type: hid_t,
    pub(crate) memory_space: hid_t,
    pub(crate) file_space: hid_t,
    pub(crate) transfer: hid_t,
    /// With which units are read as a whole.
    pub(crate) fill_transfer: hid_t,
    pub(crate) into: RawPointer,
}

/// Elements of another type in memory are converted in portions of this size.
const WINDOW_BYTES: u64 = 4 << 20;
/// A unit of which this many pieces are wanted is read as one span.
const MANY_PIECES: usize = 8;

/// Who makes a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadBy {
    /// This process, on its own.
    One,
    /// All ranks of a file at once, who have to wait for each other in the connector below.
    AllRanks,
}

/// Reads what `wanted` says of `object`; `None` where the connector below has to.
pub(crate) fn read_cached(
    library: &LoadedLibrary,
    object: &VolObject,
    wanted: &DatasetRead,
) -> Option<herr_t> {
    with_planned(library, object, wanted, |planned| planned?.run())
}

/// What `body` makes of the read that `wanted` says, planned where it can go by the cache.
pub(crate) fn with_planned<R>(
    library: &LoadedLibrary,
    object: &VolObject,
    wanted: &DatasetRead,
    body: impl FnOnce(Option<&OneRead<'_>>) -> R,
) -> R {
    let under = UnderDataset { object: object.under, connector: object.connector };
    let is_plain = !wanted.into.is_null() && transfer_list::is_plain(library, wanted.transfer);
    let Some(dataset) = dataset_of(library, object).filter(|_| is_plain) else { return body(None) };
    let Some(kept) = dataset.usable() else { return body(None) };
    let planned = (**kept).as_ref().and_then(|kept| OneRead::plan(library, under, dataset, kept, wanted));
    body(planned.as_ref())
}

/// True when `wanted` selects nothing: a rank that only takes part in a read.
pub(crate) fn is_empty(library: &LoadedLibrary, wanted: &DatasetRead) -> bool {
    selection::is_empty(library, wanted.file_space, wanted.memory_space)
}

/// What is cached of the data set `object`: looked up once.
pub(crate) fn dataset_of<'a>(library: &LoadedLibrary, object: &'a VolObject) -> Option<&'a CachedDataset> {
    let opened = object.dataset.get_or_init(|| {
        library.quietly(|| {
            let (file, token) = dataset_changes::identity(library, object)?;
            let under = UnderDataset { object: object.under, connector: object.connector };
            CachedDataset::open(library, under, file, token).map(Box::new)
        })
    });
    opened.as_deref()
}

/// A read that was planned.
pub(crate) struct OneRead<'a> {
    library: &'a LoadedLibrary,
    under: UnderDataset,
    dataset: &'a CachedDataset,
    kept: &'a KeptUnits,
    wanted: &'a DatasetRead,
    conversion: Conversion,
    pieces: Vec<PlacedPiece>,
    /// The pieces go straight into the program's memory; otherwise they are packed.
    is_direct: bool,
    file: SelectedRuns,
    memory: SelectedRuns,
    /// How long the connector below took for it.
    took: Cell<Duration>,
}

impl<'a> OneRead<'a> {
    fn plan(
        library: &'a LoadedLibrary,
        under: UnderDataset,
        dataset: &'a CachedDataset,
        kept: &'a KeptUnits,
        wanted: &'a DatasetRead,
    ) -> Option<Self> {
        let grid = &dataset.grid;
        let conversion = Conversion::between(library, dataset.kind, wanted.memory_type)?;
        let file = SelectedRuns::in_file(library, wanted.file_space, grid.shape(), grid.element_len())?;
        let memory_len = match conversion {
            Conversion::None => grid.element_len(),
            Conversion::By(len) => len as u64,
        };
        let (space, file_space) = (wanted.memory_space, wanted.file_space);
        let memory = SelectedRuns::in_memory(library, space, file_space, file.count, memory_len)?;
        // Two pieces for one place in memory cannot both be lent: the later one wins, as it does in HDF5.
        let is_direct = conversion == Conversion::None && memory.is_disjoint;
        let pieces = read_plan::pieces(grid, &file.runs, is_direct.then_some(&memory.runs[..]));
        let took = Cell::default();
        Some(Self {
            library,
            under,
            dataset,
            kept,
            wanted,
            conversion,
            pieces,
            is_direct,
            file,
            memory,
            took,
        })
    }

    fn run(&self) -> Option<herr_t> {
        let outlook = self.look(ReadBy::One);
        if !outlook.needs_below() {
            return self.serve_from_cache(&outlook);
        }
        let answer = self.read_below(self.wanted.transfer);
        if answer >= 0 {
            self.keep_whole(&outlook);
        }
        Some(answer)
    }

    /// What is not here, and what becomes of the read.
    pub(crate) fn look(&self, by: ReadBy) -> ReadOutlook {
        let units = read_plan::units(&self.pieces);
        let is_missing = |one: &UnitDemand| !self.dataset.has(self.kept, one.unit);
        let mut missing: Vec<UnitDemand> = units.into_iter().filter(is_missing).collect();
        if !missing.is_empty() {
            self.dataset.find_elsewhere(self.kept, missing.iter().map(|one| one.unit));
            missing.retain(is_missing);
        }
        let len = self.file.count * self.dataset.grid.element_len();
        let misses = if missing.is_empty() { Misses::Fill } else { self.judge(&missing, len, by) };
        ReadOutlook { len, missed: missing.iter().map(|one| one.wanted).sum(), misses }
    }

    /// Keeps the units that the connector below has just read as a whole.
    pub(crate) fn keep_whole(&self, outlook: &ReadOutlook) {
        self.kept.cache.writer.stats().passed(outlook.len);
        let Misses::Pass(PassedUnits { whole, claims }) = &outlook.misses else { return };
        if whole.is_empty() {
            return;
        }
        let patience = patience_after(self.took.get());
        for group in by_unit(&self.pieces).chunk_by(|one, other| one.piece.unit == other.piece.unit) {
            let unit = group[0].piece.unit;
            if whole.binary_search(&unit).is_ok() {
                let claim = claims.borrow_mut().remove(&unit);
                self.harvest(group, claim, patience);
            }
        }
    }

    /// Fills the program's memory by the cache; what is missing is read unit by unit. `None` where that does not go.
    pub(crate) fn serve_from_cache(&self, outlook: &ReadOutlook) -> Option<herr_t> {
        let is_done = if self.is_direct {
            let memory = MemoryTarget::new(self.wanted.into);
            // SAFETY: the program lends memory for what it selects, and no byte of that comes twice.
            self.serve(&self.pieces, |placed| unsafe { memory.lend(placed.to, placed.piece.len) })?;
            true
        } else {
            self.converted()?
        };
        self.kept.cache.writer.stats().hit(outlook.len.saturating_sub(outlook.missed));
        is_done.then_some(0)
    }

    /// Whether the units of `missing` are worth reading as a whole for a read of `len` bytes.
    fn judge(&self, missing: &[UnitDemand], len: u64, by: ReadBy) -> Misses {
        let MissedUnits { whole, is_worth, is_bounded } = MissedUnits::judge(
            &self.dataset.grid,
            &mut self.dataset.units.touched(),
            missing,
            len,
            self.file.is_disjoint,
        );
        // Ranks that read whole units need nobody's help for it.
        let is_simple = by == ReadBy::AllRanks && whole.len() == missing.len();
        let needs_fill = is_worth || is_simple || (!self.is_direct && !whole.is_empty());
        if needs_fill && is_bounded {
            return Misses::Fill;
        }
        let whole = if self.is_direct { whole } else { Vec::new() };
        match self.dataset.claim_all(self.kept, &whole) {
            Some(claims) => Misses::Pass(PassedUnits { whole, claims: RefCell::new(claims) }),
            // Another process is reading some of them: they come by it.
            None if is_bounded => Misses::Fill,
            None => Misses::Pass(PassedUnits { whole, ..PassedUnits::default() }),
        }
    }

    /// The read as the program asked for it, with the list `transfer`.
    pub(crate) fn read_below(&self, transfer: hid_t) -> herr_t {
        let DatasetRead { mut memory_type, mut memory_space, mut file_space, mut into, .. } = *self.wanted;
        let mut object = self.under.object;
        let began = Instant::now();
        // SAFETY: the arguments that HDF5 handed to the callback, for the data set below.
        let answer = unsafe {
            (self.library.functions.H5VLdataset_read)(
                1,
                &raw mut object,
                self.under.connector,
                &raw mut memory_type,
                &raw mut memory_space,
                &raw mut file_space,
                transfer,
                &raw mut into,
                null_mut(),
            )
        };
        self.took.set(began.elapsed());
        answer
    }

    /// Keeps the unit of `group`, all of which has just been read into the program's memory.
    fn harvest(&self, group: &[PlacedPiece], claim: Option<BlockClaim>, patience: QueuePatience) {
        let (unit, memory) = (group[0].piece.unit, MemoryTarget::new(self.wanted.into));
        // SAFETY: memory that the read has just filled.
        let read = |placed: &PlacedPiece| unsafe { memory.lend(placed.to, placed.piece.len) };
        let Ok(len) = usize::try_from(self.dataset.grid.unit_len()) else { return };
        let mut bytes = self.kept.cache.writer.buffer(len);
        for placed in group {
            let (Ok(from), part) = (usize::try_from(placed.piece.from), read(placed)) else { return };
            if from == bytes.len() {
                bytes.extend_from_slice(part);
                continue;
            }
            if bytes.len() < from + part.len() {
                bytes.resize(from + part.len(), 0);
            }
            bytes[from..from + part.len()].copy_from_slice(part);
        }
        self.dataset.keep(self.kept, unit, bytes.freeze(), claim, patience);
    }

    /// Fills the places of `pieces`, unit by unit.
    fn serve<'m>(
        &self,
        pieces: &[PlacedPiece],
        mut place: impl FnMut(&PlacedPiece) -> &'m mut [u8],
    ) -> Option<()> {
        let mut from_tier: Vec<(UnitPiece, &mut [u8])> = Vec::new();
        for group in by_unit(pieces).chunk_by(|one, other| one.piece.unit == other.piece.unit) {
            let unit = group[0].piece.unit;
            if let Some(bytes) = self.dataset.waiting(self.kept, unit) {
                copy_group(group, 0, &bytes, &mut place);
            } else if !self.dataset.has(self.kept, unit) {
                copy_group(group, 0, &self.fill(unit)?, &mut place);
            } else if group.len() >= MANY_PIECES {
                self.serve_span(group, &mut place)?;
            } else {
                from_tier.extend(group.iter().map(|placed| (placed.piece, place(placed))));
            }
        }
        if from_tier.is_empty() || self.dataset.read_pieces(self.kept, &mut from_tier) {
            return Some(());
        }
        self.serve_again(from_tier)
    }

    /// Fills pieces whose units were said to be here and were not.
    fn serve_again(&self, pieces: Vec<(UnitPiece, &mut [u8])>) -> Option<()> {
        let mut known: Option<(u64, bytes::Bytes)> = None;
        for (piece, into) in pieces {
            let bytes = match known.take() {
                Some((unit, bytes)) if unit == piece.unit => bytes,
                _ => self.fill(piece.unit)?,
            };
            let from = usize::try_from(piece.from).ok()?;
            into.copy_from_slice(&bytes[from..from + into.len()]);
            known = Some((piece.unit, bytes));
        }
        Some(())
    }

    /// Many pieces of one unit, read as the span that holds them.
    fn serve_span<'m>(
        &self,
        group: &[PlacedPiece],
        place: &mut impl FnMut(&PlacedPiece) -> &'m mut [u8],
    ) -> Option<()> {
        let unit = group[0].piece.unit;
        let start = group.iter().map(|placed| placed.piece.from).min()?;
        let end = group.iter().map(|placed| placed.piece.from + placed.piece.len).max()?;
        let mut span = vec![0; usize::try_from(end - start).ok()?];
        let piece = UnitPiece { unit, from: start, len: end - start };
        if self.dataset.read_pieces(self.kept, &mut [(piece, &mut span)]) {
            copy_group(group, start, &span, place);
        } else {
            copy_group(group, 0, &self.fill(unit)?, place);
        }
        Some(())
    }

    fn fill(&self, unit: u64) -> Option<bytes::Bytes> {
        let fill = UnitFill { transfer: self.wanted.fill_transfer, patience: None };
        let filled = self.dataset.fill(self.library, self.under, self.kept, unit, fill);
        if filled.is_none() {
            // A part that the program may not even want cannot be read: it is left to the connector below.
            self.dataset.give_up();
        }
        filled
    }

    /// Elements that are packed first: those of another type in memory, and those of which some go to the same place.
    fn converted(&self) -> Option<bool> {
        let element_len = self.dataset.grid.element_len();
        let window = (WINDOW_BYTES / element_len).max(1) * element_len;
        let mut packed = PackedElements::new(
            self.library,
            (self.dataset.kind, self.wanted.memory_type),
            self.conversion,
            usize::try_from(element_len).ok()?,
        );
        let mut memory = MemoryTarget::new(self.wanted.into).cursor(&self.memory.runs);
        for portion in read_plan::windows(&self.pieces, window) {
            let len: u64 = portion.iter().map(|placed| placed.piece.len).sum();
            let into = MemoryTarget::new(packed.room(usize::try_from(len).ok()?)?.as_mut_ptr().cast());
            // SAFETY: room for all of the window, whose pieces are packed side by side.
            self.serve(&portion, |placed| unsafe { into.lend(placed.to, placed.piece.len) })?;
            // SAFETY: the program lends memory for all elements it selects.
            unsafe { packed.deliver(&mut memory, self.wanted.transfer)? };
        }
        Some(true)
    }
}

/// `pieces` in the order of their units, and those of each as they were.
fn by_unit(pieces: &[PlacedPiece]) -> Cow<'_, [PlacedPiece]> {
    if pieces.is_sorted_by_key(|placed| placed.piece.unit) {
        return Cow::Borrowed(pieces);
    }
    let mut sorted = pieces.to_vec();
    sorted.sort_by_key(|placed| placed.piece.unit);
    Cow::Owned(sorted)
}

/// Copies the pieces of one unit out of `bytes`, which begin at byte `start` of it.
fn copy_group<'m>(
    group: &[PlacedPiece],
    start: u64,
    bytes: &[u8],
    place: &mut impl FnMut(&PlacedPiece) -> &'m mut [u8],
) {
    for placed in group {
        let from = usize::try_from(placed.piece.from - start).expect("a place in memory");
        let into = place(placed);
        into.copy_from_slice(&bytes[from..from + into.len()]);
    }
}
