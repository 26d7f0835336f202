//! Where dumped values go.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use forebay::{Array, Error, Result, container::native};
use sha2::{Digest, Sha256};

use crate::{
    dump::rows::{JsonList, TextRows},
    output,
    partial_file::PartialFile,
};

/// Where dumped values go.
pub(crate) enum Sink {
    Checksum(Sha256),
    Stream(Box<dyn Write>),
    File(PartialFile),
    Text(TextRows<Box<dyn Write>>),
    Json(JsonList<Box<dyn Write>>),
}

impl Sink {
    pub(crate) fn checksum() -> Self {
        Self::Checksum(Sha256::new())
    }

    /// True when people or programs read values as text, false for their bytes.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Json(_))
    }

    /// Lines of text for values of `shape`.
    pub(crate) fn text(shape: &[u64]) -> Self {
        Self::Text(TextRows::new(Box::new(output::stdout()), shape))
    }

    /// One JSON object that starts with the members of `head`.
    pub(crate) fn json(head: &serde_json::Value) -> Result<Self> {
        let out: Box<dyn Write> = Box::new(output::stdout());
        JsonList::new(out, head).map(Self::Json)
    }

    /// Bytes to the file at `path`; `-` is standard output.
    ///
    /// What is there and is no plain file, such as a device or a pipe, is written to and not replaced; a link stays, and
    /// what it leads to is replaced.
    pub(crate) fn raw(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stream(Box::new(output::stdout())));
        }
        let place = |error: io::Error| Error::from_io(error).at(path.display());
        let (is_there, is_plain) = fs::metadata(path).map_or((false, false), |there| (true, there.is_file()));
        if is_there && !is_plain {
            let file = File::options().write(true).open(path).map_err(place)?;
            return Ok(Self::Stream(Box::new(BufWriter::new(file))));
        }
        let target = if is_there { fs::canonicalize(path).map_err(place)? } else { path.to_owned() };
        PartialFile::create(&target).map(Self::File)
    }

    pub(crate) fn put(&mut self, array: &Array) -> Result<()> {
        match self {
            Self::Checksum(sum) => {
                sum.update(native::dump(array));
                Ok(())
            }
            Self::Stream(out) => out.write_all(&native::dump(array)).map_err(Error::from_io),
            Self::File(file) => file.write_all(&native::dump(array)).map_err(Error::from_io),
            Self::Text(rows) => rows.put(array),
            Self::Json(list) => list.put(array),
        }
    }

    /// Ends output that `error` cuts short; true when the output itself now says so.
    pub(crate) fn fail(self, error: &Error) -> bool {
        match self {
            Self::Json(mut list) => list.fail(error).is_ok(),
            _ => false,
        }
    }

    /// Ends the output; gives the checksum where that was asked for.
    pub(crate) fn finish(self) -> Result<Option<String>> {
        match self {
            Self::Checksum(sum) => {
                return Ok(Some(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()));
            }
            Self::Stream(mut out) => out.flush().map_err(Error::from_io)?,
            Self::File(mut file) => file.finish()?,
            Self::Text(mut rows) => rows.finish()?,
            Self::Json(mut list) => list.finish()?,
        }
        Ok(None)
    }
}
