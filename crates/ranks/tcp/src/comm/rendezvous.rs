//! How ranks that have no connection yet find each other: a few values by name, such as those of torch's `TCPStore`.

use std::{fs, io::ErrorKind as Io, path::PathBuf, thread, time::Duration};

use forebay_process::{Error, Result};
use forebay_store::Wait;

/// Values by name that all ranks of a job can set and get.
///
/// # Contract
///
/// - `get` waits until some rank has set the key, and gives what it set.
/// - `delete` removes the key; none is no error.
pub trait Rendezvous {
    /// Sets the value of `key`.
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// The value of `key`, as soon as it is set.
    fn get(&self, key: &str, wait: &Wait<'_>) -> Result<Vec<u8>>;

    /// Removes `key`.
    fn delete(&self, key: &str) -> Result<()>;
}

/// Values that are files in a folder that all ranks see.
#[derive(Clone, Debug)]
pub struct FolderRendezvous {
    folder: PathBuf,
}

/// How often it looks for a file.
const LOOK: Duration = Duration::from_millis(10);

impl FolderRendezvous {
    /// In `folder`, which no other job uses and only this user can look into.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key.replace('/', "_"))
    }
}

impl Rendezvous for FolderRendezvous {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let path = self.path(key);
        let fresh = path.with_extension("new");
        let written = fs::write(&fresh, value).and_then(|()| fs::rename(&fresh, &path));
        written.map_err(|error| Error::from_io(error).at(path.display()))
    }

    fn get(&self, key: &str, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let path = self.path(key);
        loop {
            match fs::read(&path) {
                Ok(value) => return Ok(value),
                Err(error) if error.kind() == Io::NotFound => {}
                Err(error) => return Err(Error::from_io(error).at(path.display())),
            }
            wait.go_on(|| format!("no rank has set '{key}' in {}", self.folder.display()))?;
            thread::sleep(wait.step().min(LOOK));
        }
    }

    fn delete(&self, key: &str) -> Result<()> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != Io::NotFound => Err(Error::from_io(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_waited_for_and_gone_once_it_is_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (FolderRendezvous::new(folder.path()), FolderRendezvous::new(folder.path()));
        let patient = || other.get("a/b", &Wait::at_most(Duration::from_secs(30)));
        thread::scope(|scope| {
            let got = scope.spawn(|| patient().expect("it is set"));
            one.set("a/b", b"value").expect("a value");
            assert_eq!(got.join().expect("a thread"), b"value");
        });
        one.delete("a/b").expect("it is there");
        one.delete("a/b").expect("none is no error");
        assert!(other.get("a/b", &Wait::at_most(Duration::from_millis(20))).is_err());
    }
}
