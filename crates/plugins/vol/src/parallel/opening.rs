//! What ranks agree on when they open a file together.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_libhdf5::hdf5_types::hid_t;
use forebay_mpi::MpiComm;
use forebay_process::{Error, ErrorKind, Result, WarnOnce};
use forebay_stage::Area;
use forebay_store::{Comm, Wait};

use super::{
    mpi_lists::MpiLists,
    parallel_file::{AgreedUse, OpenedFile, OwnParts, ParallelFile},
    process_area::process_area,
    shared_cache,
};
use crate::{
    file::file_driver::{self, SettleStep},
    settings,
    slots::LoadedLibrary,
};

static NOT_SHARED: WarnOnce = WarnOnce::new();
static NOT_FORGOTTEN: WarnOnce = WarnOnce::new();

/// How long an open waits for other processes to drain the file.
const SETTLE_PATIENCE: Duration = Duration::from_secs(300);
/// How long others may take to forget what is staged for it.
const DISCARD_PATIENCE: Duration = Duration::from_secs(5);
/// How often that is looked at.
const DISCARD_AGAIN: Duration = Duration::from_millis(5);

/// Ranks that are opening a file by MPI-IO.
#[derive(Debug)]
pub(crate) struct OpeningRanks {
    comm: Arc<MpiComm>,
    has_collective_metadata: bool,
    path: Option<PathBuf>,
}

const IS_MANAGED: u8 = 1;
const CAN_STAGE: u8 = 2;
const CAN_CACHE: u8 = 4;
const CAN_SHARE: u8 = 8;

impl OpeningRanks {
    /// The ranks that open the file `path` with `access` by MPI-IO; `None` for another driver. Collective over them.
    pub(crate) fn of(library: &LoadedLibrary, access: hid_t, path: &Path) -> Option<Self> {
        let lists = MpiLists::of(library)?;
        let comm = match lists.ranks_of(library, access)? {
            Ok(comm) => Arc::new(comm),
            Err(error) => {
                NOT_SHARED
                    .say(format_args!("{error}; files of several ranks are read and written as they are"));
                return None;
            }
        };
        let has_collective_metadata = lists.has_collective_metadata(library, access);
        let path = settings::current().managed.find(path);
        Some(Self { comm, has_collective_metadata, path })
    }

    /// Waits until what any process of this node has staged for the file is in it: a driver below that stages would do so itself.
    /// An error where it cannot come there, unless the file is replaced. Collective: an error is one on all ranks.
    pub(crate) fn settle_staged(&self, opening: RanksOpening) -> Result<()> {
        let settled = self.path.as_deref().map_or(Ok(()), |path| opening.settle(path));
        let all = self.comm.all_gather(vec![u8::from(settled.is_ok())], &Wait::while_ranks_live());
        settled?;
        match all {
            Ok(all) if all.iter().any(|one| one.first() != Some(&1)) => {
                let what = "writes to it are staged on the node of another rank, and do not come here";
                Err(Error::new(ErrorKind::Unavailable, what))
            }
            // Ranks that have lost each other are told so when they agree on what to do.
            _ => Ok(()),
        }
    }

    /// Forgets what killed processes have staged for the file, which the ranks have replaced: until then it is all that is left of
    /// what was flushed.
    pub(crate) fn forget_replaced(&self) {
        let Some(path) = &self.path else { return };
        let forgotten = match file_driver::settle(path, SettleStep::Replaced) {
            Some(true) => Ok(()),
            Some(false) => Err(not_coming(path)),
            None => process_area().map_or(Ok(()), |area| discard(area, path)),
        };
        if let Err(error) = forgotten {
            NOT_FORGOTTEN
                .say(format_args!("{error}; the file was replaced, and `forebay recover` would ask"));
        }
    }

    /// Where the file lies, if this rank manages it.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// What the ranks do with the file, if all of them manage it. Collective, also where the file could not be opened.
    pub(crate) fn agree(self, opened: &OpenedFile) -> Option<ParallelFile> {
        let own = OwnParts::prepare(opened);
        let mine = self.say(opened, &own);
        let all = match self.comm.all_gather(vec![mine], &Wait::while_ranks_live()) {
            Ok(all) => all,
            Err(error) => {
                NOT_SHARED
                    .say(format_args!("{error}; files of several ranks are read and written as they are"));
                return None;
            }
        };
        let common = all.iter().fold(u8::MAX, |common, one| common & one.first().copied().unwrap_or(0));
        let agreed = AgreedUse {
            stages: common & CAN_STAGE != 0,
            caches: common & CAN_CACHE != 0,
            shares: common & CAN_SHARE != 0,
            is_writable: opened.is_writable,
        };
        if common & IS_MANAGED == 0 || !(agreed.stages || agreed.caches) {
            return None;
        }
        let path = opened.path.as_deref()?;
        ParallelFile::new(path, self.comm, agreed, own)
            .inspect_err(|error| {
                NOT_SHARED.say(format_args!("{error}; the file is read and written as it is"))
            })
            .ok()
    }

    fn say(&self, opened: &OpenedFile, own: &OwnParts) -> u8 {
        // Ranks whose metadata is read together must not ask HDF5 anything on their own.
        let is_managed = opened.path.is_some() && !self.has_collective_metadata;
        if !is_managed || opened.is_writable && own.words.is_none() {
            return 0;
        }
        let mut said = IS_MANAGED;
        if own.log.is_some() {
            said |= CAN_STAGE;
        }
        if opened.caches {
            said |= CAN_CACHE;
            // What a writer sees of the file is no version that others could read as well.
            if !opened.is_writable && shared_cache::is_wanted(&self.comm) {
                said |= CAN_SHARE;
            }
        }
        said
    }
}

/// Forgets what is left for the file at `path`: ranks that do so at once are in each other's way for a moment.
fn discard(area: &Area, path: &Path) -> Result<()> {
    let until = Instant::now() + DISCARD_PATIENCE;
    loop {
        let discarded = area.discard(path);
        if discarded.is_ok() || Instant::now() >= until {
            return discarded;
        }
        thread::sleep(DISCARD_AGAIN);
    }
}

/// How ranks are about to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RanksOpening {
    /// With its bytes. What a killed process has staged for it is an error.
    Existing,
    /// Whatever it holds goes.
    Replacing,
}

impl RanksOpening {
    fn settle(self, path: &Path) -> Result<()> {
        let step = match self {
            Self::Existing => SettleStep::Opening,
            Self::Replacing => SettleStep::Replacing,
        };
        // An area in memory is seen by nobody but the driver that has it.
        match file_driver::settle(path, step) {
            Some(true) => return Ok(()),
            Some(false) => return Err(not_coming(path)),
            None => {}
        }
        let Some(area) = process_area() else { return Ok(()) };
        match area.wait_for(path, Some(SETTLE_PATIENCE), &|| true) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let what = format!("still being drained after {} s", SETTLE_PATIENCE.as_secs());
                Err(Error::new(ErrorKind::Unavailable, what)
                    .at(path.display())
                    .hint("see `forebay stage ls`"))
            }
            // Trouble with the area itself is told when it is written to.
            Err(error) if error.kind() != ErrorKind::Unavailable => Ok(()),
            Err(_) if self == Self::Replacing => area.prepare_discard(path).map(drop),
            Err(error) => Err(error),
        }
    }
}

fn not_coming(path: &Path) -> Error {
    let what = "writes to it are staged, and do not come to it";
    let error = Error::new(ErrorKind::Unavailable, what).at(path.display());
    error.hint("`forebay stage ls` lists them, `forebay recover` finishes those of killed processes")
}
