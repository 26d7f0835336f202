//! Where dumped values go.

use std::{io::Write, path::Path};

use forebay::{Array, Error, Result, format::native};
use sha2::{Digest, Sha256};

use crate::{
    output,
    part::Part,
    rows::{List, Rows},
};

/// Where dumped values go.
pub(crate) enum Sink {
    Checksum(Sha256),
    Stream(Box<dyn Write>),
    File(Part),
    Text(Rows<Box<dyn Write>>),
    Json(List<Box<dyn Write>>),
}

impl Sink {
    pub(crate) fn checksum() -> Self {
        Self::Checksum(Sha256::new())
    }

    /// Lines of text for values of `shape`.
    pub(crate) fn text(shape: &[u64]) -> Self {
        Self::Text(Rows::new(Box::new(output::stdout()), shape))
    }

    /// One JSON object that starts with the members of `head`.
    pub(crate) fn json(head: &serde_json::Value) -> Result<Self> {
        let out: Box<dyn Write> = Box::new(output::stdout());
        List::new(out, head).map(Self::Json)
    }

    /// Bytes to the file at `path`; `-` is standard output.
    pub(crate) fn raw(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stream(Box::new(output::stdout())));
        }
        Part::create(path).map(Self::File)
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
