//! A file that several processes use, and the last of them removes.

use std::{
    fs::File,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, ProcessIdentity, Result, current_process};

use crate::{
    lock::{LockMode, held_by_another, lock_within, try_lock, unlock},
    own_files::OwnFolder,
};

/// A file of an [`OwnFolder`] whose lock every process that uses it holds.
///
/// # Contract
///
/// - A process that opens it holds its lock, and the name leads to the file: it was not removed in between.
/// - The first process holds the lock alone until it calls [`share`](Self::share): others wait for that, so it may set
///   things right that a killed process left.
/// - A forked child shares the lock of its parent, and neither gives it back nor removes the file.
#[derive(Debug)]
pub struct SharedFile {
    folder: Arc<OwnFolder>,
    name: String,
    file: File,
    process: ProcessIdentity,
}

/// Whether other processes used a file or folder when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// None did, and none can until it is shared.
    Alone,
    /// Others do.
    WithOthers,
}

/// A process that has the lock alone reads and writes a few numbers: another looks again after this time.
const PAUSE: Duration = Duration::from_millis(5);

impl SharedFile {
    /// The file `name` of `folder`, made if need be; waits for the lock until `until`.
    pub fn open(folder: &Arc<OwnFolder>, name: &str, until: Instant) -> Result<(Self, Sharing)> {
        loop {
            let file = folder.open_or_create(name)?;
            let sharing = if try_lock(&file, LockMode::Exclusive)? {
                Some(Sharing::Alone)
            } else {
                try_lock(&file, LockMode::Shared)?.then_some(Sharing::WithOthers)
            };
            // The last process to use it may have removed it between our opening and our locking it.
            let is_named = folder.is_named(name, &file);
            match sharing {
                Some(sharing) if is_named => return Ok((Self::new(folder, name, file), sharing)),
                _ if Instant::now() >= until => {
                    return Err(held_by_another().at(folder.path().join(name).display()));
                }
                Some(_) => {}
                None => thread::sleep(PAUSE),
            }
        }
    }

    /// The file `name` of `folder`, held alone, if it is there and no process uses it.
    pub fn deserted(folder: &Arc<OwnFolder>, name: &str) -> Result<Option<Self>> {
        let file = match folder.open_existing(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let is_deserted = try_lock(&file, LockMode::Exclusive)? && folder.is_named(name, &file);
        Ok(is_deserted.then(|| Self::new(folder, name, file)))
    }

    fn new(folder: &Arc<OwnFolder>, name: &str, file: File) -> Self {
        Self { folder: Arc::clone(folder), name: name.to_owned(), file, process: current_process() }
    }

    /// Lets other processes in, if this one was alone.
    pub fn share(&self) -> Result<()> {
        lock_within(&self.file, LockMode::Shared, Duration::ZERO)?;
        // Some kernels give the lock up for a moment to change it, in which another process may remove the file.
        if self.folder.is_named(&self.name, &self.file) {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Unavailable, "was removed by another process");
        Err(error.at(self.folder.path().join(&self.name).display()))
    }

    /// The file, which is open for as long as this is.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// False in a forked child of the process that opened the file.
    pub fn is_of_this_process(&self) -> bool {
        self.process == current_process()
    }

    /// Ends the use of the file by this process; where no other uses it, `remove` is called while nobody can.
    pub fn leave(&self, remove: impl FnOnce()) {
        // A forked child shares the lock of its parent, which still uses the file.
        if !self.is_of_this_process() {
            return;
        }
        if try_lock(&self.file, LockMode::Exclusive).is_ok_and(|is_last| is_last) {
            remove();
        }
        // A forked child has the same open file, and would hold the lock for as long as it lives.
        unlock(&self.file);
    }

    /// Ends the use of the file by this process, and removes it where no other uses it.
    pub fn remove_if_last(&self) {
        self.leave(|| {
            let _ = self.folder.remove_file(&self.name);
        });
    }
}

impl Drop for SharedFile {
    /// Gives the lock up: a child that was forked meanwhile has the same open file, and would hold it for as long as it lives.
    fn drop(&mut self) {
        if self.is_of_this_process() {
            unlock(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn the_first_process_is_alone_until_it_shares_and_the_last_one_removes_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let own = Arc::new(OwnFolder::create_in(folder.path(), "own").unwrap());
        let (first, sharing) = SharedFile::open(&own, "a", soon()).unwrap();
        assert_eq!(sharing, Sharing::Alone);
        let error = SharedFile::open(&own, "a", Instant::now()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        first.share().unwrap();
        let (second, sharing) = SharedFile::open(&own, "a", soon()).unwrap();
        assert_eq!(sharing, Sharing::WithOthers);
        assert!(SharedFile::deserted(&own, "a").unwrap().is_none());
        first.remove_if_last();
        assert!(own.facts("a").is_ok());
        second.remove_if_last();
        assert!(own.facts("a").is_err());
    }

    #[test]
    fn a_file_whose_process_was_killed_is_deserted() {
        let folder = tempfile::tempdir().unwrap();
        let own = Arc::new(OwnFolder::create_in(folder.path(), "own").unwrap());
        assert!(SharedFile::deserted(&own, "a").unwrap().is_none(), "there is none");
        // A killed process closes its files and removes none.
        drop(SharedFile::open(&own, "a", soon()).unwrap());
        let deserted = SharedFile::deserted(&own, "a").unwrap().unwrap();
        assert!(SharedFile::deserted(&own, "a").unwrap().is_none(), "one process has it");
        deserted.remove_if_last();
        assert!(own.names().unwrap().is_empty());
    }

    #[test]
    fn a_child_that_is_forked_while_a_file_is_looked_at_does_not_keep_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let own = Arc::new(OwnFolder::create_in(folder.path(), "own").unwrap());
        drop(SharedFile::open(&own, "a", soon()).unwrap());
        let looked_at = SharedFile::deserted(&own, "a").unwrap().unwrap();
        // What a forked child has: the same open file.
        let _inherited = looked_at.file().try_clone().unwrap();
        drop(looked_at);
        assert!(SharedFile::deserted(&own, "a").unwrap().is_some());
    }
}
