//! A folder mounted as a slow file system.

use std::{path::Path, sync::Arc};

use forebay_process::{Error, Result};
use fuser::SessionACL;

use crate::{
    fuse::{
        mountpoint::SLOW_NAME,
        refused::IN_PROCESS,
        session::{MountPlaces, MountSession, SessionOptions},
        tally::MountTally,
    },
    slow::{
        counters::MountCounters,
        options::{MountAccess, MountUsers, SlowMountOptions},
        pace::Pace,
        view::Slow,
    },
};

/// How many requests wait at the same time; more of them queue.
///
/// Each takes a thread that sleeps, and 3.4 MiB of memory where the kernel gives large pages to its buffer
/// (217 MiB measured for 64).
const IN_FLIGHT: usize = 32;

/// A folder mounted as a slow file system, until this is dropped.
#[derive(Debug)]
pub struct SlowMount {
    session: MountSession,
    tally: Arc<MountTally>,
}

impl SlowMount {
    /// Shows `folder`, read-only, at `mountpoint`, an existing folder elsewhere, at the given pace.
    ///
    /// A mount of ours at that place whose program was killed is taken away first. The error is `Unsupported` or
    /// `Denied` where FUSE cannot be used.
    pub fn new(folder: impl AsRef<Path>, mountpoint: impl AsRef<Path>, pace: Pace) -> Result<Self> {
        Self::with_options(folder, mountpoint, SlowMountOptions { pace, ..SlowMountOptions::default() })
    }

    /// The same for reading and writing; with a capacity, writes that would make the lengths of all files below together
    /// longer than that get ENOSPC.
    pub fn writable(
        folder: impl AsRef<Path>,
        mountpoint: impl AsRef<Path>,
        pace: Pace,
        capacity: Option<u64>,
    ) -> Result<Self> {
        let access = MountAccess::Writable { capacity };
        Self::with_options(
            folder,
            mountpoint,
            SlowMountOptions { pace, access, ..SlowMountOptions::default() },
        )
    }

    /// Shows `folder` at `mountpoint` as `options` say.
    pub fn with_options(
        folder: impl AsRef<Path>,
        mountpoint: impl AsRef<Path>,
        options: SlowMountOptions,
    ) -> Result<Self> {
        let folder = folder.as_ref();
        let places = MountPlaces::find(folder, mountpoint.as_ref(), "folder")?;
        let tally = Arc::new(MountTally::new());
        let slow = Slow::new(&places.below, options, Arc::clone(&tally))
            .map_err(|error| Error::from_io(error).at(folder.display()))?;
        let session = MountSession::new(slow, places, session_options(options))?;
        Ok(Self { session, tally })
    }

    /// Where the folder is shown.
    pub fn mountpoint(&self) -> &Path {
        self.session.mountpoint()
    }

    /// What went through since the mount was made, also when the counters were reset meanwhile; may be asked while others read.
    pub fn counters(&self) -> MountCounters {
        MountCounters::new(&self.tally.total())
    }

    /// True when a mount whose program was killed stood here and was taken away.
    pub fn replaced_dead(&self) -> bool {
        self.session.replaced_dead()
    }

    /// True when another process unmounted it.
    pub fn has_ended(&self) -> bool {
        self.session.has_ended()
    }
}

fn session_options(options: SlowMountOptions) -> SessionOptions {
    SessionOptions {
        name: SLOW_NAME,
        is_writable: options.access != MountAccess::ReadOnly,
        users: match options.users {
            MountUsers::Owner => SessionACL::Owner,
            MountUsers::Everyone => SessionACL::All,
        },
        threads: IN_FLIGHT,
        clones_descriptor: false,
        remedy: IN_PROCESS,
    }
}
