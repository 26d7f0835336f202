//! What ranks agree on when they open a file together.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_mpi::MpiComm;
use forebay_plugin::{WarnOnce, hdf5_types::hid_t};
use forebay_store::{Comm, Wait};

use super::{
    mpi_lists::MpiLists,
    parallel_file::{AgreedUse, ParallelFile},
    process_area::process_area,
    shared_cache,
};
use crate::{settings, slots::LoadedLibrary};

static NOT_SHARED: WarnOnce = WarnOnce::new();

/// Ranks that are opening a file by MPI-IO.
#[derive(Debug)]
pub(crate) struct OpeningRanks {
    comm: Arc<MpiComm>,
    has_collective_metadata: bool,
    path: Option<PathBuf>,
}

/// What this rank knows of the file once HDF5 has opened it.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    /// Where it lies, if this rank manages it and HDF5 could open it.
    pub(crate) path: Option<PathBuf>,
    /// It was opened for writing.
    pub(crate) is_writable: bool,
    /// Reads of it may be cached.
    pub(crate) caches: bool,
    /// HDF5's addresses are places in the file.
    pub(crate) has_plain_bytes: bool,
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

    /// Where the file lies, if this rank manages it.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// What the ranks do with the file, if all of them manage it. Collective, also where the file could not be opened.
    pub(crate) fn agree(self, opened: &OpenedFile) -> Option<ParallelFile> {
        let mine = self.say(opened);
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
        ParallelFile::new(path, self.comm, agreed)
            .inspect_err(|error| {
                NOT_SHARED.say(format_args!("{error}; the file is read and written as it is"))
            })
            .ok()
    }

    fn say(&self, opened: &OpenedFile) -> u8 {
        // Ranks whose metadata is read together must not ask HDF5 anything on their own.
        let Some(path) = opened.path.as_deref().filter(|_| !self.has_collective_metadata) else { return 0 };
        let mut said = IS_MANAGED;
        if opened.is_writable && opened.has_plain_bytes && can_stage(path) {
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

fn can_stage(path: &Path) -> bool {
    process_area().is_some() && File::options().read(true).write(true).open(path).is_ok()
}
