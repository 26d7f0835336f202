//! Sessions of FUSE: how a file system is mounted and how it ends.

use std::path::{Path, PathBuf};

use forebay_process::{Error, Result};
use fuser::{BackgroundSession, Config, MountOption, SessionACL};

use crate::fuse::{mounted_files::MountedFiles, mountpoint, refused::refused, requests::FuseRequests};

/// A file system that is mounted until this is dropped.
#[derive(Debug)]
pub(crate) struct MountSession {
    session: Option<BackgroundSession>,
    mountpoint: PathBuf,
    replaced_dead: bool,
}

/// Options of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionOptions {
    /// The name in the system's table of mounts.
    pub(crate) name: &'static str,
    pub(crate) is_writable: bool,
    /// Users whose programs may use the mount.
    pub(crate) users: SessionACL,
    /// How many requests are answered at the same time; more of them queue.
    pub(crate) threads: usize,
    /// True when each thread has a descriptor of its own by which it takes requests.
    pub(crate) clones_descriptor: bool,
    /// What helps where no file system can be mounted.
    pub(crate) remedy: &'static str,
}

/// The directory that is shown and the one where it is shown, as canonical paths.
#[derive(Debug)]
pub(crate) struct MountPlaces {
    pub(crate) below: PathBuf,
    pub(crate) above: PathBuf,
    replaced_dead: bool,
}

impl MountPlaces {
    /// Looks both up. A mount of ours at `mountpoint` whose program was killed is taken away first; errors call the directory that is
    /// shown `shown_name`.
    pub(crate) fn find(shown: &Path, mountpoint: &Path, shown_name: &str) -> Result<Self> {
        let replaced_dead = mountpoint::clear(mountpoint).map_err(|error| error.at(mountpoint.display()))?;
        let place =
            |path: &Path| path.canonicalize().map_err(|error| Error::from_io(error).at(path.display()));
        let (below, above) = (place(shown)?, place(mountpoint)?);
        if !below.is_dir() {
            return Err(Error::invalid("only a folder can be shown").at(shown.display()));
        }
        if mountpoint::overlap(&below, &above) {
            let error = Error::invalid(format!("{shown_name} and mount point lie in each other"));
            return Err(error.hint("mount it elsewhere").at(mountpoint.display()));
        }
        Ok(Self { below, above, replaced_dead })
    }
}

impl MountSession {
    /// Mounts `files`.
    pub(crate) fn new(
        files: impl MountedFiles,
        places: MountPlaces,
        options: SessionOptions,
    ) -> Result<Self> {
        let MountPlaces { above, replaced_dead, .. } = places;
        let session = fuser::spawn_mount(FuseRequests(files), &above, &config(options))
            .map_err(|error| refused(error, options.remedy).at(above.display()))?;
        Ok(Self { session: Some(session), mountpoint: above, replaced_dead })
    }

    /// Where it is mounted.
    pub(crate) fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// True when a mount whose program was killed stood here and was taken away.
    pub(crate) fn replaced_dead(&self) -> bool {
        self.replaced_dead
    }

    /// True when another process unmounted it.
    pub(crate) fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts it.
    pub(crate) fn end(&mut self) {
        let Some(session) = self.session.take() else { return };
        let was_unmounted = session.guard.is_finished();
        if session.umount_and_join().is_err() && !was_unmounted {
            // A program still has files open here: the name goes now, the rest when they are closed.
            let _ = mountpoint::detach(&self.mountpoint);
        }
    }
}

impl Drop for MountSession {
    fn drop(&mut self) {
        self.end();
    }
}

fn config(options: SessionOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.name.into()),
        if options.is_writable { MountOption::RW } else { MountOption::RO },
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
        // The kernel checks permissions, and this process opens files with its own rights: views make sure that they are the files that
        // were checked.
        MountOption::DefaultPermissions,
    ];
    config.acl = options.users;
    config.n_threads = Some(options.threads);
    config.clone_fd = options.clones_descriptor;
    config
}
