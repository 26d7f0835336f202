//! A data set whose values are cached: how it is cut, which units are here, which were asked for before.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    dataset::under_dataset::{BoxedArray, DatasetShape, UnderDataset},
    file::file_state::{ObjectToken, VolFile},
    read::read_cache::ReadCache,
    settings,
    slots::LoadedLibrary,
    units::{
        dataset_units::DatasetUnits,
        unit_grid::{UnitGrid, UnitPiece},
        unit_target::{BlockClaim, UnitTarget},
        unit_writer::{QueuePatience, UnitOrigin, WaitingUnit},
    },
};
use bytes::Bytes;
use forebay_libhdf5::hdf5_types::hid_t;
use forebay_peer::PeerBlocks;
use forebay_process::PerProcess;
use forebay_source::{Locator, SourceId, text_of_path};
use forebay_tier::{BlockPiece, Claim, Copies, Room};

/// How long a unit that another process is reading is waited for: longer than any request, shorter than a hang.
const OTHERS_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked for.
const OTHERS_POLL: Duration = Duration::from_micros(500);

/// A program that reads waits for the writer for one in this many parts of the time that the read took: where the cache is slower
/// than the file, units are dropped, and kept another time.
const WAIT_SHARE: u32 = 16;

/// How long a unit may wait for room after a read that took `took`.
pub(crate) fn patience_after(took: Duration) -> QueuePatience {
    QueuePatience::Until(Instant::now() + took / WAIT_SHARE)
}

/// How a unit is filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitFill {
    /// The list that it is read with.
    pub(crate) transfer: hid_t,
    /// How long it may wait to be kept; by default by the time that reading it takes.
    pub(crate) patience: Option<QueuePatience>,
}

/// A data set of a managed file that was opened.
#[derive(Debug)]
pub(crate) struct CachedDataset {
    file: Arc<VolFile>,
    token: ObjectToken,
    pub(crate) grid: UnitGrid,
    /// The type in the file: a copy of our own.
    pub(crate) kind: hid_t,
    has_chunks: bool,
    id: SourceId,
    kept: PerProcess<Option<KeptUnits>>,
    pub(crate) units: Arc<DatasetUnits>,
    /// The changes of the file that were looked at.
    seen_changes: Cell<u64>,
    is_out_of_use: Cell<bool>,
}

/// What this process keeps of the data set.
#[derive(Debug)]
pub(crate) struct KeptUnits {
    pub(crate) cache: Arc<ReadCache>,
    target: UnitTarget,
    /// What ranks have in common, where they read each other's.
    of_ranks: Option<Arc<PeerBlocks>>,
}

/// How prestaging a unit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prestaged {
    /// It is in the cache or on its way there.
    Here,
    /// There is no room for it.
    Full,
    /// It could not be read.
    Failed,
}

/// What a process that wants a unit has to do.
enum UnitTurn {
    /// Read it; the claim says that there is room for it.
    Read(Option<BlockClaim>),
    /// It is in the tier.
    Here,
}

impl CachedDataset {
    /// The data set `under`, with `token` in `file`, where it can be cached.
    pub(crate) fn open(
        library: &LoadedLibrary,
        under: UnderDataset,
        file: Arc<VolFile>,
        token: ObjectToken,
    ) -> Option<Self> {
        let settings = settings::current();
        let version = file.id().filter(|_| settings.place.is_some() && !file.has_changed(&token))?.clone();
        let seen_changes = Cell::new(file.change_count());
        let DatasetShape { shape, chunk, kind, element_len, .. } = under.describe(library)?;
        let grid = UnitGrid::new(&shape, chunk.as_deref(), element_len, settings.unit);
        let len: u64 = shape.iter().product::<u64>().saturating_mul(element_len);
        let Some(grid) = grid.filter(|_| len >= settings.least) else {
            // SAFETY: the copy that was just made.
            unsafe { (library.functions.H5Tclose)(kind) };
            return None;
        };
        let id = SourceId {
            locator: locator(&file, &token, &grid),
            len: grid.cache_len(),
            version: version.version,
        };
        let units = file.units_of(token);
        Some(Self {
            file,
            token,
            grid,
            kind,
            has_chunks: chunk.is_some(),
            id,
            kept: PerProcess::empty(),
            units,
            seen_changes,
            is_out_of_use: Cell::new(false),
        })
    }

    /// Gives back the type.
    pub(crate) fn close(self, library: &LoadedLibrary) {
        // SAFETY: a copy of our own.
        unsafe { (library.functions.H5Tclose)(self.kind) };
    }

    /// The file it lies in.
    pub(crate) fn file(&self) -> &Arc<VolFile> {
        &self.file
    }

    /// Reads pass through from now on.
    pub(crate) fn give_up(&self) {
        self.is_out_of_use.set(true);
    }

    /// What this process keeps of it; `None` while reads pass through, and for ever once it has changed.
    pub(crate) fn usable(&self) -> Option<Arc<forebay_process::Owned<Option<KeptUnits>>>> {
        if self.is_out_of_use.get() || !self.file.is_on() {
            return None;
        }
        let changes = self.file.change_count();
        if self.seen_changes.get() != changes {
            if self.file.has_changed(&self.token) {
                self.give_up();
                return None;
            }
            self.seen_changes.set(changes);
        }
        let kept = self.kept.get(|| {
            let cache = ReadCache::of_process()?;
            let of_ranks = self.file.parallel().and_then(|parallel| parallel.blocks(&self.id));
            let target = UnitTarget {
                copies: match &of_ranks {
                    Some(blocks) => Arc::clone(blocks) as Arc<dyn Copies>,
                    None => cache.copies(&self.id)?,
                },
                number: self.units.number,
                blocks_per_unit: self.grid.blocks_per_unit(),
                block_len: self.grid.block_len(),
                may_replace: of_ranks.is_none() && cache.may_replace(),
            };
            Some(KeptUnits { cache, target, of_ranks })
        });
        let is_in_use = (**kept).as_ref().is_some_and(|kept| !kept.cache.is_paused());
        is_in_use.then_some(kept)
    }

    /// True when all of `unit` is here, as far as is known without reading it.
    pub(crate) fn has(&self, kept: &KeptUnits, unit: u64) -> bool {
        if self.units.present().contains(unit) {
            return true;
        }
        if kept.cache.writer.find((kept.target.number, unit)).is_some() {
            return true;
        }
        let is_here = self.grid.blocks(unit).all(|block| kept.target.copies.has(block));
        if is_here {
            self.units.present().insert(unit);
        }
        is_here
    }

    /// Looks for `units` at ranks of other hosts, where ranks read each other's.
    pub(crate) fn find_elsewhere(&self, kept: &KeptUnits, units: impl Iterator<Item = u64>) {
        if let Some(blocks) = &kept.of_ranks {
            blocks.find_elsewhere(units.flat_map(|unit| self.grid.blocks(unit)));
        }
    }

    /// Fills `into` with pieces of units from the tier; false when any was not there.
    pub(crate) fn read_pieces(&self, kept: &KeptUnits, pieces: &mut [(UnitPiece, &mut [u8])]) -> bool {
        let block_len = self.grid.block_len();
        let mut blocks = Vec::with_capacity(pieces.len());
        for (piece, into) in pieces.iter_mut() {
            let (mut at, mut rest) = (piece.from, &mut **into);
            let first = self.grid.blocks(piece.unit).start;
            while !rest.is_empty() {
                let left = usize::try_from(block_len - at % block_len).unwrap_or(rest.len());
                let (now, after) = rest.split_at_mut(left.min(rest.len()));
                at += now.len() as u64;
                let (block, from) = (first + (at - 1) / block_len, (at - now.len() as u64) % block_len);
                blocks.push(BlockPiece { block, from, into: now, is_filled: false });
                rest = after;
            }
        }
        kept.target.copies.read_many(&mut blocks, None);
        let is_filled = blocks.iter().all(|block| block.is_filled);
        drop(blocks);
        if !is_filled {
            // Some left the tier: which ones is looked up again.
            let mut present = self.units.present();
            pieces.iter().for_each(|(piece, _)| present.remove(piece.unit));
        }
        is_filled
    }

    /// The bytes of `unit` that is on its way into the tier.
    pub(crate) fn waiting(&self, kept: &KeptUnits, unit: u64) -> Option<Bytes> {
        kept.cache.writer.find((kept.target.number, unit))
    }

    /// All bytes of `unit`: from the tier, or read from the file and then kept.
    pub(crate) fn fill(
        &self,
        library: &LoadedLibrary,
        under: UnderDataset,
        kept: &KeptUnits,
        unit: u64,
        fill: UnitFill,
    ) -> Option<Bytes> {
        let UnitFill { transfer, patience } = fill;
        let claim = match self.turn(kept, unit) {
            UnitTurn::Read(claim) => claim,
            UnitTurn::Here => {
                let mut bytes = vec![0; usize::try_from(self.grid.unit_len()).ok()?];
                let piece = UnitPiece { unit, from: 0, len: self.grid.unit_len() };
                if self.read_pieces(kept, &mut [(piece, &mut bytes)]) {
                    return Some(bytes.into());
                }
                None
            }
        };
        let array = BoxedArray {
            shape: self.grid.shape(),
            unit: self.grid.unit_shape(),
            padded_len: usize::try_from(self.grid.padded_len()).ok()?,
            kind: self.kind,
        };
        let part = self.grid.unit_box(unit);
        let began = Instant::now();
        let bytes = library.quietly(|| under.read_box(library, &array, &part, transfer))?;
        kept.cache.writer.stats().filled(self.grid.filled_len(unit));
        if claim.is_some() {
            let patience = patience.unwrap_or_else(|| patience_after(began.elapsed()));
            self.keep(kept, unit, bytes.clone(), claim, patience);
        }
        Some(bytes)
    }

    /// Hands `bytes`, all those of `unit`, which were just read, to the writer.
    pub(crate) fn keep(
        &self,
        kept: &KeptUnits,
        unit: u64,
        bytes: Bytes,
        claim: Option<BlockClaim>,
        patience: QueuePatience,
    ) {
        let (target, read_at) = (kept.target.clone(), Instant::now());
        let origin = Arc::clone(&self.file) as Arc<dyn UnitOrigin>;
        kept.cache.writer.push(WaitingUnit { target, unit, origin, read_at, bytes, claim }, patience);
    }

    /// Where units of it go.
    pub(crate) fn target(&self, kept: &KeptUnits) -> UnitTarget {
        kept.target.clone()
    }

    /// Where its bytes begin in the file, where all of them lie there as they are cached.
    pub(crate) fn byte_place(&self, library: &LoadedLibrary, under: UnderDataset) -> Option<u64> {
        if self.has_chunks || !self.file.has_plain_bytes() {
            return None;
        }
        library.quietly(|| under.offset(library))
    }

    /// Brings `unit` into the cache, if there is room.
    pub(crate) fn prestage_unit(
        &self,
        library: &LoadedLibrary,
        under: UnderDataset,
        kept: &KeptUnits,
        unit: u64,
    ) -> Prestaged {
        if self.has(kept, unit) {
            return Prestaged::Here;
        }
        let len = self.grid.padded_len();
        if !kept.target.may_replace
            && kept.target.copies.room(self.grid.blocks(unit).start, len) != Room::Free
        {
            return Prestaged::Full;
        }
        let fill = UnitFill { transfer: library.default_transfer(), patience: Some(QueuePatience::Forever) };
        match self.fill(library, under, kept, unit, fill) {
            Some(_) => Prestaged::Here,
            None => Prestaged::Failed,
        }
    }

    /// Claims on `units`, which this process is about to read, where other processes read what it keeps; `None` where another
    /// one is reading some of them.
    pub(crate) fn claim_all(&self, kept: &KeptUnits, units: &[u64]) -> Option<BTreeMap<u64, BlockClaim>> {
        let mut claims = BTreeMap::new();
        if kept.of_ranks.is_none() {
            return Some(claims);
        }
        for unit in units {
            let (block, copies) = (self.grid.blocks(*unit).start, Arc::clone(&kept.target.copies));
            match copies.claim(block, self.grid.block_len(), kept.target.may_replace) {
                Claim::Held(claim) => drop(claims.insert(*unit, BlockClaim { block, claim })),
                Claim::Full => {}
                Claim::Here | Claim::Busy => return None,
            }
        }
        Some(claims)
    }

    /// Whether this process reads `unit`: of several that want it at once one does, and the others wait for it.
    fn turn(&self, kept: &KeptUnits, unit: u64) -> UnitTurn {
        let until = Instant::now() + OTHERS_PATIENCE;
        loop {
            // A unit of which a part was lost, or found no room, is read again for the rest.
            let absent = self.grid.blocks(unit).find(|block| !kept.target.copies.has(*block));
            let Some(block) = absent else { return UnitTurn::Here };
            let copies = Arc::clone(&kept.target.copies);
            match copies.claim(block, self.grid.block_len(), kept.target.may_replace) {
                Claim::Held(claim) => return UnitTurn::Read(Some(BlockClaim { block, claim })),
                Claim::Full => return UnitTurn::Read(None),
                Claim::Here | Claim::Busy if Instant::now() < until => thread::sleep(OTHERS_POLL),
                Claim::Here | Claim::Busy => return UnitTurn::Read(None),
            }
        }
    }
}

/// The name under which a tier knows the data set: its file, its token, and how it is cut.
fn locator(file: &VolFile, token: &ObjectToken, grid: &UnitGrid) -> Locator {
    let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    let unit: Vec<String> = grid.unit_shape().iter().map(u64::to_string).collect();
    let path = text_of_path(file.path());
    Locator::new(format!("hdf5://values{path}#{token}/{}x{}", unit.join("x"), grid.element_len()))
}
