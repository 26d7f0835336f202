//! How a slow file system is mounted and how it ends.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_process::{Error, ErrorKind, Result};
use fuser::{BackgroundSession, Config, MountOption, SessionACL};

use crate::{
    MountAccess, MountCounters, MountUsers, Pace, SlowMountOptions,
    counters::MountTally,
    mountpoint::{self, SLOW_NAME},
    refused::{IN_PROCESS, refused},
    slow::Slow,
};

/// How many requests wait at the same time; more of them queue.
///
/// Each takes a thread that sleeps, and 3.4 MiB of memory where the kernel gives large pages to its buffer
/// (217 MiB measured for 64).
const IN_FLIGHT: usize = 32;

/// A folder mounted as a slow file system, until this is dropped.
#[derive(Debug)]
pub struct SlowMount {
    session: Option<BackgroundSession>,
    mountpoint: PathBuf,
    tally: Arc<MountTally>,
    replaced_dead: bool,
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
        let (folder, mountpoint) = (folder.as_ref(), mountpoint.as_ref());
        let replaced_dead = mountpoint::clear(mountpoint).map_err(|error| error.at(mountpoint.display()))?;
        let place =
            |path: &Path| path.canonicalize().map_err(|error| Error::from_io(error).at(path.display()));
        let (below, above) = (place(folder)?, place(mountpoint)?);
        if !below.is_dir() {
            return Err(Error::new(ErrorKind::Invalid, "only a folder can be shown").at(folder.display()));
        }
        if mountpoint::overlap(&below, &above) {
            let error = Error::new(ErrorKind::Invalid, "folder and mount point lie in each other");
            return Err(error.hint("mount it elsewhere").at(mountpoint.display()));
        }
        let tally = Arc::new(MountTally::new());
        let slow = Slow::new(&below, options, Arc::clone(&tally))
            .map_err(|error| Error::from_io(error).at(folder.display()))?;
        let session = fuser::spawn_mount(slow, &above, &config(options))
            .map_err(|error| refused(error, IN_PROCESS).at(above.display()))?;
        Ok(Self { session: Some(session), mountpoint: above, tally, replaced_dead })
    }

    /// Where the folder is shown.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// What went through since the mount was made, also when the counters were reset meanwhile; may be asked while others read.
    pub fn counters(&self) -> MountCounters {
        self.tally.total()
    }

    /// True when a mount whose program was killed stood here and was taken away.
    pub fn replaced_dead(&self) -> bool {
        self.replaced_dead
    }

    /// True when another process unmounted it.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }
}

impl Drop for SlowMount {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if session.umount_and_join().is_err() {
            // A program still has files open here: the name goes now, the rest when they are closed.
            let _ = mountpoint::detach(&self.mountpoint);
        }
    }
}

fn config(options: SlowMountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(SLOW_NAME.into()),
        if options.access == MountAccess::ReadOnly { MountOption::RO } else { MountOption::RW },
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
        // The kernel checks permissions, and this process opens files with its own rights: `Slow::pinned` makes sure that they are the
        // files that were checked.
        MountOption::DefaultPermissions,
    ];
    config.acl = match options.users {
        MountUsers::Owner => SessionACL::Owner,
        MountUsers::Everyone => SessionACL::All,
    };
    config.n_threads = Some(IN_FLIGHT);
    config
}
