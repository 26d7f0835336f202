//! SWMR (single writer, multiple readers): a file that grows while it is read.
//!
//! Such a file is read as it was when it was described. Its source notices every change; here the error says why the
//! file changed and what helps.

use std::sync::Arc;

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Fill, Source, SourceId, Trust};

/// A source that a SWMR writer adds to.
#[derive(Debug)]
pub struct SwmrSource(pub Arc<dyn Source>);

/// The error with SWMR named as its reason, if it says that the file changed.
pub fn explained(error: Error) -> Error {
    if error.kind() != ErrorKind::Unavailable {
        return error;
    }
    error.hint(
        "a SWMR writer has the file open: it is read as of its opening, so open it again, or load it with refresh=True",
    )
}

impl Source for SwmrSource {
    fn id(&self) -> &SourceId {
        self.0.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.0.fetch(ranges).map_err(explained)
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        self.0.copy_into(fills).map_err(explained)
    }

    fn verify(&self) -> Result<()> {
        self.0.verify().map_err(explained)
    }

    fn request_bytes(&self) -> u64 {
        self.0.request_bytes()
    }

    fn will_read(&self, range: ByteRange) {
        self.0.will_read(range);
    }
}
