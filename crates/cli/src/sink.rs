//! Where dumped values go.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use forebay::{Array, Error, Result};
use sha2::{Digest, Sha256};

use crate::dump::packed;

/// Where dumped values go.
pub(crate) enum Sink {
    Checksum(Sha256),
    Stream(Box<dyn Write>),
    /// Written beside its place and moved there when whole.
    File { file: BufWriter<File>, temporary: PathBuf, path: PathBuf },
    Text(Box<dyn Write>),
}

impl Sink {
    pub(crate) fn checksum() -> Self {
        Self::Checksum(Sha256::new())
    }

    pub(crate) fn text() -> Self {
        Self::Text(Box::new(BufWriter::new(io::stdout())))
    }

    pub(crate) fn raw(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stream(Box::new(BufWriter::new(io::stdout()))));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create_new(&temporary).map_err(|error| Error::from_io(error).at(path.display()))?;
        Ok(Self::File { file: BufWriter::new(file), temporary, path: path.to_owned() })
    }

    pub(crate) fn put(&mut self, array: &Array) -> Result<()> {
        let written = match self {
            Self::Checksum(sum) => {
                sum.update(packed(array));
                Ok(())
            }
            Self::Stream(out) => out.write_all(&packed(array)),
            Self::File { file, .. } => file.write_all(&packed(array)),
            Self::Text(out) => out.write_all(&packed(array)),
        };
        written.map_err(Error::from_io)
    }

    /// Ends the output; gives the checksum where that was asked for.
    pub(crate) fn finish(mut self) -> Result<Option<String>> {
        let done = match &mut self {
            Self::Checksum(sum) => {
                let sum = sum.clone().finalize();
                return Ok(Some(sum.iter().map(|byte| format!("{byte:02x}")).collect()));
            }
            Self::Stream(out) | Self::Text(out) => out.flush(),
            Self::File { file, temporary, path } => {
                file.flush().and_then(|()| file.get_ref().sync_all()).and_then(|()| fs::rename(&temporary, &path))
            }
        };
        done.map_err(Error::from_io).map(|()| None)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // After a success the temporary name is gone already; after a failure nothing half-written stays.
        if let Self::File { temporary, .. } = self {
            let _ = fs::remove_file(temporary);
        }
    }
}
