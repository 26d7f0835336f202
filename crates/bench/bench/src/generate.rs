//! Files of a data set, written under a temporary name and moved into place: what has its name is whole.
//!
//! ```text
//! GeneratedFile ─► .NAME.part ─► NAME      a run that was ended goes on with what is missing
//! ```

mod content;
pub(crate) mod dtypes;
mod file;
mod hdf5;
mod indexed;
mod netcdf;
mod npy;
mod pictures;
#[cfg(test)]
mod tests;
mod text;
mod tfrecord;
mod zarr;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use forebay::{Error, ErrorKind, Result};
use forebay_workload::{Compression, FileFormat};
use serde::{Deserialize, Serialize};

pub(crate) use self::{
    content::RandomBytes,
    file::GeneratedFile,
    hdf5::{Hdf5Compression, Hdf5Storage, SampleShare},
};
use crate::runtime_hdf5::RuntimeHdf5;

/// How files of a set are written; plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GenerateSetup {
    /// The format of all files.
    pub(crate) format: FileFormat,
    /// How HDF5 files are stored.
    pub(crate) storage: Hdf5Storage,
    /// How other files are compressed.
    pub(crate) compression: Compression,
    /// The level of compression.
    pub(crate) level: u32,
    /// Where indexes of TFRecord files go: beside the folders of the files themselves, by their names.
    pub(crate) index_folder: PathBuf,
}

/// Writes files one after another; where they are HDF5, one thread of a process at a time.
#[derive(Debug)]
pub(crate) struct FileWriter {
    setup: GenerateSetup,
    /// Loaded when the first HDF5 file is written.
    library: Option<RuntimeHdf5>,
}

/// Whether a file of the set is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeneratedState {
    /// It is missing.
    Missing,
    /// It is there, and long enough.
    Present,
}

impl FileWriter {
    /// A writer of files of `setup`.
    pub(crate) fn new(setup: GenerateSetup) -> Result<Self> {
        let library = (setup.format == FileFormat::Hdf5).then(RuntimeHdf5::find).transpose()?;
        Ok(Self { setup, library })
    }

    /// Writes `file` under a temporary name and moves it into place.
    pub(crate) fn write(&self, file: &GeneratedFile) -> Result<()> {
        let part = part_path(&file.path);
        let place = |error: Error| error.at(file.path.display());
        let from_io = |error: io::Error| place(Error::from_io(error));
        if let Some(folder) = file.path.parent() {
            fs::create_dir_all(folder).map_err(from_io)?;
        }
        self.write_to(&part, file).map_err(place).inspect_err(|_| {
            // Half of a file is worth nothing, and may take the room that is missing.
            let _ = fs::remove_file(&part).or_else(|_| fs::remove_dir_all(&part));
        })?;
        fs::rename(&part, &file.path).map_err(from_io)
    }

    fn write_to(&self, part: &Path, file: &GeneratedFile) -> Result<()> {
        let setup = &self.setup;
        let is_compressed = setup.compression != Compression::None;
        match (setup.format, &self.library) {
            (FileFormat::Hdf5, Some(library)) => return library.write_file(part, file, &setup.storage),
            (FileFormat::Npy, _) => npy::write_npy(part, file),
            (FileFormat::Npz, _) => npy::write_npz(part, file, is_compressed),
            (FileFormat::TfRecord, _) => self.write_tfrecord(part, file),
            (FileFormat::Csv, _) => text::write_csv(part, file),
            (FileFormat::Jpeg, _) => pictures::write_jpeg(part, file),
            (FileFormat::Png, _) => pictures::write_png(part, file),
            (FileFormat::IndexedBinary | FileFormat::MmapIndexedBinary, _) => {
                indexed::write_indexed(part, &file.path, file)
            }
            (FileFormat::NetCdf, _) => netcdf::write_netcdf(part, file),
            (FileFormat::Zarr, _) => zarr::write_zarr(part, file, is_compressed.then_some(setup.level)),
            (format, _) => {
                let what = format!("files of format {format} are not generated");
                return Err(Error::unsupported(what)
                    .hint("use hdf5, npz, npy, tfrecord, csv, jpeg, png, indexed_binary, netcdf or zarr"));
            }
        }
        .map_err(Error::from_io)
    }

    fn write_tfrecord(&self, part: &Path, file: &GeneratedFile) -> io::Result<()> {
        let lines = tfrecord::write_records(part, file)?;
        let index = self.setup.tfrecord_index(&file.path);
        if let Some(folder) = index.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(index, lines)
    }
}

impl GenerateSetup {
    /// The index of the TFRecord file at `path`.
    fn tfrecord_index(&self, path: &Path) -> PathBuf {
        let split = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = path.file_name().unwrap_or_default();
        indexed::with_suffix(&self.index_folder.join(split).join(name), ".idx")
    }

    /// What is written beside the file at `path`.
    pub(crate) fn indexes_of(&self, path: &Path) -> Vec<PathBuf> {
        match self.format {
            FileFormat::TfRecord => vec![self.tfrecord_index(path)],
            FileFormat::IndexedBinary | FileFormat::MmapIndexedBinary => indexed::index_paths(path).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether `file` is there; one that is too short for its samples is an error, as another set left it.
    pub(crate) fn state(&self, file: &GeneratedFile) -> Result<GeneratedState> {
        let facts = match fs::metadata(&file.path) {
            Ok(facts) => facts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(GeneratedState::Missing),
            Err(error) => return Err(Error::from_io(error).at(file.path.display())),
        };
        let is_stored_plainly = self.compression == Compression::None
            && self.storage.compression == Hdf5Compression::None
            && facts.is_file()
            && !matches!(self.format, FileFormat::Jpeg | FileFormat::Png);
        let least = file.data_len();
        if is_stored_plainly && facts.len() < least {
            let what = format!("has {} bytes, and its samples alone would have {least}", facts.len());
            let error = Error::new(ErrorKind::Invalid, what).at(file.path.display());
            return Err(error.hint("it belongs to another data set: remove it, or use another data folder"));
        }
        Ok(GeneratedState::Present)
    }
}

/// The name of a file in the making.
pub(crate) fn part_path(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    path.with_file_name(name)
}
