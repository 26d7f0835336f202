//! Who may use the folder of a tier, and who removes it.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use forebay_source::{Error, ErrorKind, ProcessIdentity, Result, current_process, private};
use rustix::fs::{FlockOperation, flock};

use super::shelf;

/// A folder of this user's, whose lock every process holds that uses it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    lock: File,
    keep: bool,
    process: ProcessIdentity,
}

/// Whether others used the folder when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody did, and nobody can until the folder is shared.
    Alone,
    /// Others do.
    Among,
}

/// A process holds the lock alone while it reads and writes a few numbers, or renames the folder.
const PATIENCE: Duration = Duration::from_secs(30);
const KEPT: &str = "kept";
const LOCK: &str = "lock";

impl Folder {
    /// The folder under `place` for copies that are kept, or for those of this job.
    pub(super) fn open(place: &Path, keep: bool) -> Result<(Self, Standing)> {
        let own = private::own_folder(place, &own_name())?;
        let name = name(keep);
        let until = Instant::now() + PATIENCE;
        loop {
            let path = private::own_folder(&own, &name)?;
            let lock = match private::own_file(&path.join(LOCK)) {
                // Its last user removed it meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound && Instant::now() < until => continue,
                lock => lock?,
            };
            let standing = if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                Standing::Alone
            } else if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
                Standing::Among
            } else if Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
                continue;
            } else {
                return Err(Error::new(ErrorKind::Unavailable, "another process holds it").at(path.display()));
            };
            let is_named = || {
                let (there, own) = (fs::symlink_metadata(path.join(LOCK)).ok()?, lock.metadata().ok()?);
                Some(there.ino() == own.ino() && there.dev() == own.dev())
            };
            if is_named() == Some(true) {
                return Ok((Self { path, lock, keep, process: current_process() }, standing));
            }
        }
    }

    /// Lets others in, if nobody was.
    pub(super) fn share(&self) -> Result<()> {
        flock(&self.lock, FlockOperation::LockShared).map_err(|errno| Error::from_io(errno.into()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the folder that is open for as long as the folder is used.
    pub(super) fn lock_file(&self) -> &File {
        &self.lock
    }

    /// Leaves the folder, by `close`. The last one out removes what is not to be kept.
    pub(super) fn leave(&self, close: impl FnOnce()) {
        // A forked child shares the lock of its parent, who is still there.
        if self.process != current_process() {
            return;
        }
        close();
        let is_last = flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_last && !self.keep {
            // Under another name first: who comes next need not wait until all is removed.
            let leaving = self.path.with_extension(format!("{:016x}", shelf::nonce()));
            match fs::rename(&self.path, &leaving) {
                Ok(()) => {
                    remove(&leaving);
                    // What somebody else put there stays where it was.
                    let _ = fs::rename(&leaving, &self.path);
                }
                Err(_) => remove(&self.path),
            }
        }
        // A forked child has the same open file, and would hold the lock for as long as it lives.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// The name of this user's folder.
fn own_name() -> String {
    format!("forebay-tier-{}", rustix::process::geteuid().as_raw())
}

/// The name of the folder for what is kept, or for what goes with the job.
fn name(keep: bool) -> String {
    if keep { KEPT.to_owned() } else { format!("job-{}-{}", private::job_name(), private::boot_id()) }
}

/// The folder under `place`, if it is there.
pub(super) fn path_at(place: &Path, keep: bool) -> Option<PathBuf> {
    let path = place.join(own_name()).join(name(keep));
    path.is_dir().then_some(path)
}

/// Removes the folders of jobs that are over, beside that at `path`: their processes were killed.
pub(super) fn remove_deserted(path: &Path) {
    let Some(Ok(entries)) = path.parent().map(fs::read_dir) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.path() == path || !name.starts_with("job-") {
            continue;
        }
        let lock = File::options().read(true).write(true).open(entry.path().join(LOCK));
        match lock {
            Ok(lock) => {
                if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    remove(&entry.path());
                }
            }
            // Killed while it removed the folder, or before it made the lock.
            Err(_) => {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// Removes what is ours in the folder at `path`, and the folder if nothing else lies there.
fn remove(path: &Path) {
    shelf::remove_all(path);
    // The lock last: while it is there, nobody else takes the folder for deserted.
    let _ = fs::remove_file(path.join(super::usage::NAME));
    let _ = fs::remove_file(path.join(LOCK));
    let _ = fs::remove_dir(path);
}
