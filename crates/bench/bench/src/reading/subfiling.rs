//! Files that HDF5's subfiling driver spreads over several: a stub of the file's own name, subfiles and their settings beside it.
//!
//! ```text
//! img_1_of_8.h5                       the stub
//! img_1_of_8.h5.subfile_77_1_of_2     data, striped over as many as there are nodes, unless the environment says otherwise
//! img_1_of_8.h5.subfile_77.config     settings; 77 is the stub's inode
//! .img_1_of_8.h5.part                 stands there while ranks write: the driver knows its files by name, so they cannot be moved
//! ```

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use forebay::{Error, ErrorKind, Result};
use forebay_workload::{Compression, Workload};

use crate::generate::{GeneratedState, part_path};

/// Leaves out what cannot be had together with subfiling, as h5bench's extension does; what that is.
pub(crate) fn suit(workload: &mut Workload) -> Vec<String> {
    let mut left_out = Vec::new();
    if !workload.hdf5.subfiling {
        return left_out;
    }
    if std::mem::take(&mut workload.hdf5.collective_data) {
        left_out.push("collective reads: there are none with subfiling".to_owned());
    }
    let is_compressed = workload.dataset.compression != Compression::None;
    if std::mem::take(&mut workload.hdf5.chunking) || !workload.hdf5.chunk_dims.is_empty() || is_compressed {
        workload.hdf5.chunk_dims.clear();
        workload.dataset.compression = Compression::None;
        left_out.push("chunks and filters: there are none with subfiling".to_owned());
    }
    if std::mem::take(&mut workload.reader.read_threads) > 0 {
        left_out.push("read threads: there are none with subfiling".to_owned());
    }
    left_out
}

/// Whether the file at `path` is there and whole.
pub(crate) fn state(path: &Path) -> Result<GeneratedState> {
    let from_io = |error| Error::from_io(error).at(path.display());
    if !path.try_exists().map_err(from_io)? || part_path(path).try_exists().map_err(from_io)? {
        return Ok(GeneratedState::Missing);
    }
    if subfiles(path).map_err(from_io)?.is_empty() {
        let error = Error::new(ErrorKind::Invalid, "has no subfiles").at(path.display());
        return Err(error.hint("it belongs to another data set: remove it, or use another data folder"));
    }
    Ok(GeneratedState::Present)
}

/// Says that `path` is being written; what is left of it from another time goes.
pub(crate) fn begin(path: &Path) -> Result<()> {
    let from_io = |error| Error::from_io(error).at(path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(from_io)?;
    }
    remove(path).map_err(from_io)?;
    File::create(part_path(path)).map(drop).map_err(from_io)
}

/// Says that `path` is whole.
pub(crate) fn end(path: &Path) -> Result<()> {
    fs::remove_file(part_path(path)).map_err(|error| Error::from_io(error).at(path.display()))
}

/// Removes the file at `path` with its subfiles.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let own = [path.to_owned(), part_path(path)];
    for file in subfiles(path)?.into_iter().chain(own) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The subfiles of `path` and their settings.
fn subfiles(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut start = path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
    start.extend(b".subfile_");
    let mut found = Vec::new();
    for entry in fs::read_dir(path.parent().unwrap_or(Path::new(".")))? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(&start) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_not_finished_is_missing_and_goes_with_its_subfiles() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("img_1_of_8.h5");
        assert_eq!(state(&path).unwrap(), GeneratedState::Missing);
        begin(&path).unwrap();
        for name in ["", ".subfile_77_1_of_1", ".subfile_77.config"] {
            fs::write(folder.path().join(format!("img_1_of_8.h5{name}")), "x").unwrap();
        }
        fs::write(folder.path().join("img_1_of_80.h5"), "x").unwrap();
        assert_eq!(state(&path).unwrap(), GeneratedState::Missing);
        end(&path).unwrap();
        assert_eq!(state(&path).unwrap(), GeneratedState::Present);
        remove(&path).unwrap();
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["img_1_of_80.h5"]);
        let error = state(&folder.path().join("img_1_of_80.h5")).unwrap_err();
        assert!(error.to_string().contains("no subfiles"), "{error}");
    }
}
