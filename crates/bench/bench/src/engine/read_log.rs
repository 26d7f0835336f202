//! Reads of engine forebay as HDF5's Log VFD writes them down.
//!
//! ```text
//!       2048-     67583 (     65536 bytes) (H5FD_MEM_DRAW) Read
//! ```

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use forebay::{
    Error, Result,
    source::{ByteRange, Operation, TraceSink, TracedRequest},
};

/// A file of records.
#[derive(Debug)]
pub(super) struct ReadLog {
    file: Arc<Mutex<BufWriter<File>>>,
    has_metadata: Arc<AtomicBool>,
}

impl ReadLog {
    /// Records are added to the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| Error::from_io(error).at(path.display()))?;
        Ok(Self {
            file: Arc::new(Mutex::new(BufWriter::new(file))),
            has_metadata: Arc::new(AtomicBool::new(true)),
        })
    }

    /// Takes reads by which files are described, and, after [`end_metadata`](Self::end_metadata), of values.
    pub(super) fn metadata(&self) -> Arc<dyn TraceSink> {
        Arc::new(LogSink { file: Arc::clone(&self.file), has_metadata: Arc::clone(&self.has_metadata) })
    }

    /// Takes reads of values.
    pub(super) fn values(&self) -> Arc<dyn TraceSink> {
        Arc::new(LogSink { file: Arc::clone(&self.file), has_metadata: Arc::new(AtomicBool::new(false)) })
    }

    /// All files are described: what is read from now on are values.
    pub(super) fn end_metadata(&self) {
        self.has_metadata.store(false, Relaxed);
    }
}

struct LogSink {
    file: Arc<Mutex<BufWriter<File>>>,
    has_metadata: Arc<AtomicBool>,
}

impl TraceSink for LogSink {
    fn record(&self, request: &TracedRequest<'_>) {
        if request.operation == Operation::Open || request.error.is_some() {
            return;
        }
        let has_metadata = self.has_metadata.load(Relaxed);
        // Lines are written as wholes.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        for range in request.ranges.iter().filter(|range| !range.is_empty()) {
            // A full disk costs records, and no sample.
            let _ = file.write_all(line(*range, has_metadata).as_bytes());
        }
    }
}

/// The record of a read. Metadata comes by pages here: the first has the superblock, others have headers, heaps and B-trees, and
/// pass for headers.
fn line(range: ByteRange, is_metadata: bool) -> String {
    let kind = match range.start {
        _ if !is_metadata => "DRAW",
        0 => "SUPER",
        _ => "OHDR",
    };
    let (start, last, len) = (range.start, range.end - 1, range.len());
    format!("{start:10}-{last:10} ({len:10} bytes) (H5FD_MEM_{kind}) Read\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_written_down_as_the_driver_of_hdf5_does() {
        let range = ByteRange::at(2048, 65536);
        assert_eq!(line(range, false), "      2048-     67583 (     65536 bytes) (H5FD_MEM_DRAW) Read\n");
        assert_eq!(
            line(ByteRange::at(0, 8), true),
            "         0-         7 (         8 bytes) (H5FD_MEM_SUPER) Read\n"
        );
        assert!(line(range, true).contains("H5FD_MEM_OHDR"));
    }
}
