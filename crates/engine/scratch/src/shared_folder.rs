//! A folder that several processes use and the last of them removes, and folders whose processes were killed.

use std::{
    fs::File,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_process::{ErrorKind, Result};

use crate::{
    names::nonce,
    own_files::OwnFolder,
    shared_file::{SharedFile, Sharing},
};

/// A folder in an [`OwnFolder`] whose lock file every process that uses it holds, as a [`SharedFile`].
#[derive(Debug)]
pub struct SharedFolder {
    parent: Arc<OwnFolder>,
    name: String,
    folder: Arc<OwnFolder>,
    lock: SharedFile,
}

/// The file whose lock is held.
const LOCK: &str = "lock";
/// Between looks at a folder that another process removes.
const POLL: Duration = Duration::from_micros(200);

impl SharedFolder {
    /// The folder `name` in `parent`, made if need be; waits for at most `limit` while another process holds it alone. Where
    /// `parent` itself was removed, it is not found.
    pub fn open(parent: &Arc<OwnFolder>, name: &str, limit: Duration) -> Result<(Self, Sharing)> {
        let until = Instant::now() + limit;
        let may_retry = || Instant::now() < until && !parent.is_removed();
        loop {
            let opened = parent.subfolder(name).and_then(|folder| {
                let folder = Arc::new(folder);
                let (lock, sharing) = SharedFile::open(&folder, LOCK, until)?;
                Ok((Self::new(parent, name, folder, lock), sharing))
            });
            match opened {
                // The last process to use it removed it meanwhile, or is about to under another name.
                Err(error) if error.kind() == ErrorKind::NotFound && may_retry() => thread::sleep(POLL),
                Ok((folder, _)) if !folder.is_in_place() && may_retry() => thread::sleep(POLL),
                opened => return opened,
            }
        }
    }

    fn new(parent: &Arc<OwnFolder>, name: &str, folder: Arc<OwnFolder>, lock: SharedFile) -> Self {
        Self { parent: Arc::clone(parent), name: name.to_owned(), folder, lock }
    }

    /// The folders in `parent` whose names `is_candidate` takes and that no process uses: their processes were killed. What cannot be
    /// opened is left out.
    ///
    /// Each is held alone until it is dropped.
    pub fn deserted(
        parent: &Arc<OwnFolder>,
        is_candidate: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = Self> {
        let names = parent.names().unwrap_or_default().into_iter().filter(move |name| is_candidate(name));
        names.filter_map(|name| Self::take_deserted(parent, &name, false).ok().flatten())
    }

    /// The folder `name` in `parent`, held alone, if no process uses it; nothing where one does, or where it is gone.
    ///
    /// A folder without a lock file is removed where it is empty: a process was killed before it made the lock, or after it removed it.
    /// With `may_have_lost_lock`, one that is not empty has lost it by a power loss, and gets another; else somebody may have removed the
    /// name of the file whose lock a process still holds.
    pub fn take_deserted(
        parent: &Arc<OwnFolder>,
        name: &str,
        may_have_lost_lock: bool,
    ) -> Result<Option<Self>> {
        let folder = match parent.open_subfolder(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            folder => Arc::new(folder?),
        };
        match folder.facts(LOCK) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if parent.remove_folder(name).is_ok() || !may_have_lost_lock || folder.names()?.is_empty() {
                    return Ok(None);
                }
                folder.open_or_create(LOCK)?;
            }
            facts => drop(facts?),
        }
        let lock = SharedFile::deserted(&folder, LOCK)?;
        Ok(lock.map(|lock| Self::new(parent, name, folder, lock)))
    }

    fn is_in_place(&self) -> bool {
        self.parent.is_named(&self.name, self.folder.descriptor())
    }

    /// The folder that it lies in, in which other jobs have theirs.
    pub fn parent(&self) -> &Arc<OwnFolder> {
        &self.parent
    }

    /// The folder.
    pub fn folder(&self) -> &Arc<OwnFolder> {
        &self.folder
    }

    /// A file of the folder that is open for as long as the folder is used.
    pub fn lock_file(&self) -> &File {
        self.lock.file()
    }

    /// False in a forked child of the process that opened the folder.
    pub fn is_of_this_process(&self) -> bool {
        self.lock.is_of_this_process()
    }

    /// Lets other processes in, if this one was alone.
    pub fn share(&self) -> Result<()> {
        self.lock.share()
    }

    /// Ends the use of the folder by this process, and leaves the folder as it is.
    pub fn leave(&self) {
        self.lock.leave(|| {});
    }

    /// Ends the use of the folder by this process. Where no other uses it, the folder is removed: `remove_files` removes what
    /// is the user's own, and what another user put there stays where it was.
    pub fn remove_if_last(&self, remove_files: impl Fn(&OwnFolder)) {
        self.lock.leave(|| {
            // Under another name first: the next process to come need not wait until all is removed.
            let leaving = format!("{}~{:016x}", self.name, nonce());
            let is_renamed = self.is_in_place() && self.parent.rename(&self.name, &leaving).is_ok();
            remove_files(&self.folder);
            // The lock last: while it is there, no other process takes the folder for deserted.
            let _ = self.folder.remove_file(LOCK);
            let _ = self.parent.remove_folder(if is_renamed { &leaving } else { &self.name });
            if is_renamed {
                let _ = self.parent.rename(&leaving, &self.name);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn parent() -> (tempfile::TempDir, Arc<OwnFolder>) {
        let folder = tempfile::tempdir().unwrap();
        let own = Arc::new(OwnFolder::create_in(folder.path(), "own").unwrap());
        (folder, own)
    }

    fn remove_ours(folder: &OwnFolder) {
        let _ = folder.remove_file("ours");
    }

    #[test]
    fn the_last_process_removes_the_folder_and_what_is_not_ours_stays_where_it_was() {
        let (_temporary, parent) = parent();
        let (one, sharing) = SharedFolder::open(&parent, "job", LIMIT).unwrap();
        assert_eq!(sharing, Sharing::Alone);
        one.share().unwrap();
        let (other, sharing) = SharedFolder::open(&parent, "job", LIMIT).unwrap();
        assert_eq!(sharing, Sharing::WithOthers);
        drop(other.folder().create_new("ours").unwrap());
        one.remove_if_last(remove_ours);
        assert!(parent.facts("job/ours").is_ok(), "the other process uses it");
        other.remove_if_last(remove_ours);
        assert!(parent.names().unwrap().is_empty());

        let (alone, _) = SharedFolder::open(&parent, "job", LIMIT).unwrap();
        fs::write(parent.path().join("job/letter"), "x").unwrap();
        alone.remove_if_last(remove_ours);
        assert_eq!(parent.names_in("job").unwrap(), ["letter"]);
    }

    #[test]
    fn a_removed_parent_is_not_waited_for() {
        let (_temporary, parent) = parent();
        fs::remove_dir(parent.path()).unwrap();
        let forever = Duration::from_secs(1 << 20);
        let error = SharedFolder::open(&parent, "job", forever).unwrap_err();
        assert_eq!((error.kind(), parent.is_removed()), (ErrorKind::NotFound, true));
    }

    #[test]
    fn a_folder_that_is_left_stays_and_can_be_used_again() {
        let (_temporary, parent) = parent();
        let (folder, _) = SharedFolder::open(&parent, "kept", LIMIT).unwrap();
        folder.leave();
        let (_again, sharing) = SharedFolder::open(&parent, "kept", LIMIT).unwrap();
        assert_eq!(sharing, Sharing::Alone);
    }

    #[test]
    fn folders_of_killed_processes_are_found_and_held_and_those_in_use_are_not() {
        let (_temporary, parent) = parent();
        // A killed process closes its files and removes none.
        drop(SharedFolder::open(&parent, "job-1", LIMIT).unwrap());
        let (_used, _) = SharedFolder::open(&parent, "job-2", LIMIT).unwrap();
        drop(SharedFolder::open(&parent, "kept", LIMIT).unwrap());
        // Killed before it made the lock, or after it removed it.
        fs::create_dir(parent.path().join("job-3")).unwrap();
        let deserted = || SharedFolder::deserted(&parent, |name| name.starts_with("job-"));
        fs::set_permissions(parent.path().join("job-3"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let found: Vec<_> = deserted().collect();
        assert_eq!(found.iter().map(|folder| folder.name.as_str()).collect::<Vec<_>>(), ["job-1"]);
        assert_eq!(deserted().count(), 0, "it is held");
        found[0].remove_if_last(remove_ours);
        let mut names = parent.names().unwrap();
        names.sort();
        assert_eq!(names, ["job-2", "kept"]);
    }

    #[test]
    fn opening_a_folder_that_another_process_holds_alone_ends_at_the_limit() {
        let (_temporary, parent) = parent();
        let (_alone, _) = SharedFolder::open(&parent, "job", LIMIT).unwrap();
        let error = SharedFolder::open(&parent, "job", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("another process holds it"), "{error}");
    }
}
