//! Files that are not in the page cache: by advice for each, or by dropping all of it.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use forebay::{Error, ErrorKind, Result};
use rustix::fs::{Advice, fadvise};

/// Advises the kernel to drop what it has of `paths`, folders with all that lies in them.
pub(crate) fn forget(paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
    for path in paths {
        let place = |error| Error::from_io(error).at(path.display());
        if path.is_dir() {
            let inside = fs::read_dir(&path).map_err(place)?.flatten().map(|entry| entry.path());
            forget(inside.collect::<Vec<_>>())?;
            continue;
        }
        if !path.exists() {
            continue;
        }
        let file = File::open(&path).map_err(place)?;
        // Pages that are not written yet would stay.
        file.sync_data().map_err(place)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|errno| place(errno.into()))?;
    }
    Ok(())
}

/// Drops all of the page cache of this node.
pub(crate) fn drop_all() -> Result<()> {
    rustix::fs::sync();
    let path = "/proc/sys/vm/drop_caches";
    fs::write(path, "3").map_err(|error| {
        Error::new(ErrorKind::Denied, "the page cache cannot be dropped")
            .at(path)
            .because(error)
            .hint("run as root, or use --cache fadvise")
    })
}
