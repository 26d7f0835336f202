//! How a folder that is shown through tiers is mounted, and how it ends.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_config::{Config, TierConfig, tiered};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::Origin;
use forebay_tier::Tiered;
use fuser::{BackgroundSession, Config as FuseConfig, MountOption};
use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};

use crate::{
    TieredMountReport,
    mountpoint::{self, TIERED_NAME},
    refused::{BY_RUN, refused},
    shown_files::ShownFiles,
    tiered_view::TieredView,
    view_counters::ViewTally,
};

/// How many requests are answered at the same time: reads that miss wait for the origin.
const IN_FLIGHT: usize = 16;

/// A folder mounted read-only elsewhere, whose files are read through tiers, until this is dropped.
#[derive(Debug)]
pub struct TieredMount {
    session: Option<BackgroundSession>,
    mountpoint: PathBuf,
    tally: Arc<ViewTally>,
    tiered: Option<Arc<Tiered>>,
    replaced_dead: bool,
}

impl TieredMount {
    /// Shows the folder `origin` at `mountpoint`, an empty folder elsewhere, through the tiers of `config`.
    ///
    /// A mount of ours at that place whose program was killed is taken away first. The error is `Unsupported` or
    /// `Denied` where FUSE cannot be used.
    pub fn new(origin: impl AsRef<Path>, mountpoint: impl AsRef<Path>, config: &Config) -> Result<Self> {
        let (origin, mountpoint) = (origin.as_ref(), mountpoint.as_ref());
        let here = |error: Error| error.at(mountpoint.display());
        let replaced_dead = mountpoint::clear(mountpoint).map_err(here)?;
        let place =
            |path: &Path| path.canonicalize().map_err(|error| Error::from_io(error).at(path.display()));
        let (below, above) = (place(origin)?, place(mountpoint)?);
        if !below.is_dir() {
            return Err(Error::invalid("only a folder can be shown").at(origin.display()));
        }
        check_apart(&below, &above, config).map_err(here)?;
        mountpoint::check_empty(&above).map_err(here)?;
        let unread = |error| Error::from_io(error).at(origin.display());
        let files = Arc::new(ShownFiles::new(below).map_err(unread)?);
        let tiered = tiered(Arc::clone(&files) as Arc<dyn Origin>, config, None, None)?;
        let tally = Arc::new(ViewTally::new());
        let view = TieredView::new(files, tiered.clone(), Arc::clone(&tally)).map_err(unread)?;
        let session = fuser::spawn_mount(view, &above, &fuse_config())
            .map_err(|error| refused(error, BY_RUN).at(above.display()))?;
        Ok(Self { session: Some(session), mountpoint: above, tally, tiered, replaced_dead })
    }

    /// Where the folder is shown.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// What went through so far; may be asked while others read.
    pub fn report(&self) -> TieredMountReport {
        self.tally.report(self.tiered.as_ref().map(|tiered| tiered.stats()))
    }

    /// The tiers, if there are any.
    pub fn tiers(&self) -> Option<&Arc<Tiered>> {
        self.tiered.as_ref()
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

impl Drop for TieredMount {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let was_unmounted = session.guard.is_finished();
            if session.umount_and_join().is_err() && !was_unmounted {
                // A program still has files open here: the name goes now, the rest when they are closed.
                let _ = mountpoint::detach(&self.mountpoint);
            }
        }
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

/// Refuses places that lie in each other: what is shown would show itself, and a tier in it would wait for itself.
fn check_apart(below: &Path, above: &Path, config: &Config) -> Result<()> {
    if mountpoint::overlap(below, above) {
        let error = Error::invalid("origin and mount point lie in each other");
        return Err(error.hint("mount it elsewhere"));
    }
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

fn fuse_config() -> FuseConfig {
    let mut config = FuseConfig::default();
    config.mount_options = vec![
        MountOption::FSName(TIERED_NAME.into()),
        MountOption::RO,
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::DefaultPermissions,
    ];
    // For the user who mounted alone: files are opened with his rights.
    config.n_threads = Some(IN_FLIGHT);
    config.clone_fd = true;
    config
}
