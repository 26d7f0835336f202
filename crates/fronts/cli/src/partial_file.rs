//! A file that appears under its name when it is whole, or not at all.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use forebay::{Error, Result};

use crate::exit;

/// A file written beside its place and moved there when whole.
#[derive(Debug)]
pub(crate) struct PartialFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl PartialFile {
    /// Starts the file that will stand at `path`. An interrupt from here on removes what was written.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let leftover = temporary.clone();
        let removal = ctrlc::set_handler(move || {
            let _ = fs::remove_file(&leftover);
            std::process::exit(exit::INTERRUPTED.into());
        });
        // Without the handler an interrupt leaves the temporary file, never a half-written one under its name.
        let _ = removal;
        let file = File::create_new(&temporary).map_err(|error| Error::from_io(error).at(path.display()))?;
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), temporary, path: path.to_owned() })
    }

    /// Moves the whole file to its name.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.path))
            .map_err(|error| Error::from_io(error).at(self.path.display()))
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After a success the temporary name is gone already; after a failure nothing half-written stays.
        let _ = fs::remove_file(&self.temporary);
    }
}
