//! Indexed binary files as DLIO lays them out: samples one after another, their offsets and their lengths in two files beside.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use super::{file::GeneratedFile, npy::write_random};

/// Writes the samples to `path` and their index to the two files beside `target`, which is where `path` will be moved.
pub(super) fn write_indexed(path: &Path, target: &Path, file: &GeneratedFile) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    write_random(&mut out, file)?;
    out.into_inner()?.sync_data()?;
    let len = file.record_len();
    let offsets: Vec<u8> = (0..file.samples).flat_map(|number| (number * len).to_le_bytes()).collect();
    let lens: Vec<u8> = (0..file.samples).flat_map(|_| len.to_le_bytes()).collect();
    let [offsets_path, lens_path] = index_paths(target);
    fs::write(offsets_path, offsets)?;
    fs::write(lens_path, lens)
}

/// The two files of the index of `path`.
pub(super) fn index_paths(path: &Path) -> [PathBuf; 2] {
    [".off.idx", ".sz.idx"].map(|suffix| with_suffix(path, suffix))
}

/// `path` with `suffix` after its whole name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
