//! How a folder that is shown through tiers is mounted, and how it ends.

use std::{path::Path, sync::Arc};

use forebay_config::{Config, TierConfig, tiered};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::Origin;
use forebay_tier::Tiered;
use fuser::SessionACL;
use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};

use crate::{
    fuse::{
        mountpoint::{self, TIERED_NAME},
        refused::BY_RUN,
        session::{MountPlaces, MountSession, SessionOptions},
        tally::MountTally,
    },
    tiered::{report::TieredMountReport, shown_files::ShownFiles, view::TieredView},
};

const SESSION: SessionOptions = SessionOptions {
    name: TIERED_NAME,
    is_writable: false,
    // For the user who mounted alone: files are opened with his rights.
    users: SessionACL::Owner,
    // Reads that miss wait for the origin.
    threads: 16,
    clones_descriptor: true,
    remedy: BY_RUN,
};

/// A folder mounted read-only elsewhere, whose files are read through tiers, until this is dropped.
#[derive(Debug)]
pub struct TieredMount {
    session: MountSession,
    tally: Arc<MountTally>,
    tiered: Option<Arc<Tiered>>,
}

impl TieredMount {
    /// Shows the folder `origin` at `mountpoint`, an empty folder elsewhere, through the tiers of `config`.
    ///
    /// A mount of ours at that place whose program was killed is taken away first. The error is `Unsupported` or
    /// `Denied` where FUSE cannot be used.
    pub fn new(origin: impl AsRef<Path>, mountpoint: impl AsRef<Path>, config: &Config) -> Result<Self> {
        let (origin, mountpoint) = (origin.as_ref(), mountpoint.as_ref());
        let places = MountPlaces::find(origin, mountpoint, "origin")?;
        let here = |error: Error| error.at(mountpoint.display());
        check_tiers_apart(&places.above, config).map_err(here)?;
        mountpoint::check_empty(&places.above).map_err(here)?;
        let unread = |error| Error::from_io(error).at(origin.display());
        let files = Arc::new(ShownFiles::new(places.below.clone()).map_err(unread)?);
        let tiered = tiered(Arc::clone(&files) as Arc<dyn Origin>, config, None, None)?;
        let tally = Arc::new(MountTally::new());
        let view = TieredView::new(files, tiered.clone(), Arc::clone(&tally)).map_err(unread)?;
        let session = MountSession::new(view, places, SESSION)?;
        Ok(Self { session, tally, tiered })
    }

    /// Where the folder is shown.
    pub fn mountpoint(&self) -> &Path {
        self.session.mountpoint()
    }

    /// What went through so far; may be asked while others read.
    pub fn report(&self) -> TieredMountReport {
        TieredMountReport::new(&self.tally.total(), self.tiered.as_ref().map(|tiered| tiered.stats()))
    }

    /// The tiers, if there are any.
    pub fn tiers(&self) -> Option<&Arc<Tiered>> {
        self.tiered.as_ref()
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

impl Drop for TieredMount {
    fn drop(&mut self) {
        self.session.end();
        if let Some(tiered) = &self.tiered {
            tiered.close();
        }
    }
}

/// Unmounts what `forebay mount` has mounted at `mountpoint`: its program then ends. A mount whose program was killed goes as well.
pub fn unmount_tiered(mountpoint: &Path) -> Result<()> {
    let here = |error: Error| error.at(mountpoint.display());
    if mountpoint::name_at(mountpoint) != Some(TIERED_NAME) {
        let error = Error::new(ErrorKind::NotFound, "no mount of `forebay mount` stands here");
        return Err(here(error));
    }
    if mountpoint::is_dead(mountpoint) {
        return mountpoint::detach(mountpoint).map_err(here);
    }
    match unmount(mountpoint, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => {
            let error = Error::new(
                ErrorKind::Unavailable,
                "a program has files open below it, or its working directory there",
            );
            Err(here(error.hint(format!("`fuser -vm {}` lists them", mountpoint.display()))))
        }
        Err(Errno::PERM) => mountpoint::detach(mountpoint).map_err(here),
        Err(errno) => Err(here(Error::from_io(errno.into()))),
    }
}

/// Refuses a tier that lies below the mount point: it would wait for itself.
fn check_tiers_apart(above: &Path, config: &Config) -> Result<()> {
    let disks = config.tiers.iter().filter_map(|tier| match tier {
        TierConfig::Disk(disk) => Some(&disk.path),
        _ => None,
    });
    for path in disks {
        let real = path.ancestors().find_map(|path| path.canonicalize().ok());
        if real.is_some_and(|real| real.starts_with(above)) {
            let error =
                Error::invalid(format!("the disk tier '{}' lies below the mount point", path.display()));
            return Err(error.hint("take a folder elsewhere for one of them"));
        }
    }
    Ok(())
}
