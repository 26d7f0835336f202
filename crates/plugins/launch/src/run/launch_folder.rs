//! The folder in which the processes of one run meet: counters, and a lock that every launcher of the run holds.
//!
//! ```text
//! /dev/shm/forebay-run-UID-NAME/     0700; FOREBAY_RUN names it
//!     lock                           held by every `forebay run` of the run; the last one removes the folder
//!     counters                       what all processes of the run have counted
//!     libforebay_preload.so          a link to it, where its path cannot stand in LD_PRELOAD
//! ```
//!
//! A job of a scheduler starts one launcher for each rank: those of a node that read the same origin meet in one folder, and the
//! last of them to end gives the summary of all. Where another user, or a version of forebay that counts differently, has a folder of
//! that name, they meet under a second one; where that cannot be used either, each launcher has a folder of its own.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{
    OwnFolder, RUN_VARIABLE, RunCounters, SharedFile, Sharing, nonce, run_folder_name, scheduler_job,
};

const LOCK: &str = "lock";
const COUNTERS: &str = "counters";
/// A link to the library, where its own path cannot stand in `LD_PRELOAD`.
const LIBRARY: &str = "libforebay_preload.so";
/// A launcher holds the lock alone while it makes one small file.
const LIMIT: Duration = Duration::from_secs(30);
/// Where memory can be shared under a name.
const MEMORY: &str = "/dev/shm";

/// The folder of a run, and this launcher's hold on it.
#[derive(Debug)]
pub(crate) struct LaunchFolder {
    folder: Arc<OwnFolder>,
    lock: SharedFile,
    counters: RunCounters,
    /// Why it is not the folder that launchers of the run meet in first.
    warning: Option<String>,
}

impl LaunchFolder {
    /// The folder of a new run over `origin`, or of the one that other launchers of the same job and origin have begun.
    pub(crate) fn open(origin: &str) -> Result<Self> {
        let parent = parent();
        remove_deserted(&parent);
        Self::open_among(&parent, &env::temp_dir(), &run_folder_name(&run_name(origin)))
    }

    /// The folder `name` of `parent`, or one of another name where that cannot be used, at last one in `elsewhere`.
    fn open_among(parent: &Path, elsewhere: &Path, name: &str) -> Result<Self> {
        let own = format!("{name}-{:016x}", nonce());
        let second = format!("{name}-2");
        let mut first_error = None;
        for (parent, name) in [(parent, name), (parent, &second), (parent, &own), (elsewhere, &own)] {
            if parent == elsewhere {
                remove_deserted(elsewhere);
            }
            match Self::open_named(parent, name) {
                Ok(folder) => {
                    let warning = first_error.map(|error| {
                        format!("{error}: processes of this run meet in {} instead", folder.path().display())
                    });
                    return Ok(Self { warning, ..folder });
                }
                Err(error) => first_error = Some(first_error.unwrap_or(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| Error::new(ErrorKind::Bug, "no folder was tried")))
    }

    fn open_named(parent: &Path, name: &str) -> Result<Self> {
        let until = Instant::now() + LIMIT;
        loop {
            match Self::open_in(parent, name, until) {
                // The last launcher of the run removed it meanwhile.
                Err(error)
                    if error.kind() == ErrorKind::NotFound && parent.is_dir() && Instant::now() < until => {}
                opened => return opened,
            }
        }
    }

    fn open_in(parent: &Path, name: &str, until: Instant) -> Result<Self> {
        let folder = Arc::new(OwnFolder::create_in(parent, name)?);
        let (lock, sharing) = SharedFile::open(&folder, LOCK, until)?;
        if sharing == Sharing::Alone {
            // Left by a launcher that was killed, in whatever state.
            let _ = folder.remove_file(COUNTERS);
        }
        let counters = match RunCounters::open(folder.path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => RunCounters::create(folder.path())?,
            opened => opened?,
        };
        lock.share()?;
        Ok(Self { folder, lock, counters, warning: None })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What the user should know of it.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    pub(crate) fn counters(&self) -> &RunCounters {
        &self.counters
    }

    /// The path of `library` as it can stand in `LD_PRELOAD`, which is cut at colons and spaces.
    pub(crate) fn library(&self, library: &Path) -> Result<PathBuf> {
        let is_cut = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
        if !library.as_os_str().as_encoded_bytes().iter().any(is_cut) {
            return Ok(library.to_owned());
        }
        let link = self.path().join(LIBRARY);
        match std::os::unix::fs::symlink(library, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Error::from_io(error).at(link.display()))
            }
            _ => Ok(link),
        }
    }

    /// Ends this launcher's part in the run. Where it is the last one, the folder is removed and `last` is called.
    pub(crate) fn leave(&self, last: impl FnOnce(&RunCounters)) {
        self.lock.leave(|| {
            last(&self.counters);
            remove(&self.folder);
        });
    }
}

/// The counters of the run over `origin` that this process was started in, if there is one.
pub(crate) fn joined(
    origin: &str,
    variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
) -> Option<RunCounters> {
    let folder = PathBuf::from(variable(RUN_VARIABLE)?);
    let is_same = variable("FOREBAY_ORIGIN").is_some_and(|outer| Path::new(&outer) == Path::new(origin));
    if is_same { RunCounters::open(&folder).ok() } else { None }
}

/// In memory where that can be, as all processes of the run count there.
fn parent() -> PathBuf {
    let memory = Path::new(MEMORY);
    let can_write =
        rustix::fs::access(memory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
    if can_write { memory.to_owned() } else { env::temp_dir() }
}

/// A name that the launchers of one job share for one origin; without a job one that is used once.
fn run_name(origin: &str) -> String {
    let ranks_of_node = || {
        // Launchers of MPICH set no name for a job; they start all ranks of a node by one process.
        env::var_os("PMI_RANK")?;
        rustix::process::getppid().map(|parent| format!("pmi{}", parent.as_raw_nonzero()))
    };
    match scheduler_job().or_else(ranks_of_node) {
        None => format!("{}-{:016x}", std::process::id(), nonce()),
        Some(job) => {
            let mut hasher = DefaultHasher::new();
            origin.hash(&mut hasher);
            format!("{job}-{:08x}", hasher.finish() >> 32)
        }
    }
}

fn remove(folder: &OwnFolder) {
    for name in [COUNTERS, LIBRARY, LOCK] {
        let _ = folder.remove_file(name);
    }
    let _ = fs::remove_dir(folder.path());
}

/// Removes the folders of runs whose launchers were killed.
fn remove_deserted(parent: &Path) {
    let prefix = run_folder_name("");
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_run = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
        let Some(folder) = is_run.then(|| OwnFolder::open(&entry.path()).ok()).flatten() else { continue };
        let folder = Arc::new(folder);
        match SharedFile::deserted(&folder, LOCK).ok().flatten() {
            Some(lock) => lock.leave(|| remove(&folder)),
            // Killed before it made the lock. One that is about to make it finds the folder gone, and makes another.
            None if folder.facts(LOCK).is_err() => drop(fs::remove_dir(folder.path())),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_scratch::RunCounter;

    #[test]
    fn launchers_of_one_run_count_together_and_the_last_one_removes_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let open =
            || LaunchFolder::open_in(parent.path(), "forebay-run-test", Instant::now() + LIMIT).unwrap();
        let (one, other) = (open(), open());
        one.counters().add(RunCounter::Reads, 1);
        other.counters().add(RunCounter::Reads, 2);
        let mut told = None;
        one.leave(|_| panic!("another launcher is there"));
        other.leave(|counters| told = Some(counters.get(RunCounter::Reads)));
        assert_eq!(told, Some(3));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_left_alone_and_the_launchers_of_the_run_meet_elsewhere() {
        use std::os::unix::fs::PermissionsExt;
        let (parent, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |name: &str| LaunchFolder::open_among(parent.path(), elsewhere.path(), name).unwrap();
        // As a folder of another user is.
        let foreign = parent.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o777)).unwrap();
        let (one, other) = (open("foreign"), open("foreign"));
        assert_eq!((one.path(), other.path()), (&*parent.path().join("foreign-2"), one.path()));
        assert!(one.warning().unwrap().contains("foreign-2"), "{:?}", one.warning());
        // A file of that name, and counters of another version.
        fs::write(parent.path().join("file"), "").unwrap();
        assert!(open("file").path().starts_with(parent.path()));
        let older = open("older");
        fs::write(older.path().join(COUNTERS), [7; 4096]).unwrap();
        assert_eq!(open("older").path(), parent.path().join("older-2"));
        drop(older);
        assert_eq!(open("older").path(), parent.path().join("older"), "nobody uses it any more");
        assert!(open("used").warning().is_none());
        // Nothing can be made there at all.
        let none = parent.path().join("none");
        let folder = LaunchFolder::open_among(&none, elsewhere.path(), "run").unwrap();
        assert_eq!(folder.path().parent(), Some(elsewhere.path()));
    }

    #[test]
    fn folders_of_killed_launchers_go_and_those_in_use_stay() {
        let parent = tempfile::tempdir().unwrap();
        let name = |run: &str| run_folder_name(run);
        let open =
            |run: &str| LaunchFolder::open_in(parent.path(), &name(run), Instant::now() + LIMIT).unwrap();
        drop(open("killed"));
        let used = open("used");
        fs::create_dir(parent.path().join("other")).unwrap();
        remove_deserted(parent.path());
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [std::ffi::OsString::from(name("used")), "other".into()]);
        used.leave(|_| {});
    }

    #[test]
    fn a_run_within_a_run_of_the_same_origin_joins_it() {
        let parent = tempfile::tempdir().unwrap();
        let outer = LaunchFolder::open_in(parent.path(), "forebay-run-test", Instant::now() + LIMIT).unwrap();
        let folder = outer.path().as_os_str().to_owned();
        let variable = |name: &str| match name {
            RUN_VARIABLE => Some(folder.clone()),
            "FOREBAY_ORIGIN" => Some("/pfs/set".into()),
            _ => None,
        };
        assert!(joined("/pfs/set", &variable).is_some());
        assert!(joined("/pfs/other", &variable).is_none());
        outer.leave(|_| {});
        assert!(joined("/pfs/set", &variable).is_none(), "it is over");
    }
}
