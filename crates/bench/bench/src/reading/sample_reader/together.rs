//! Reads of all ranks together: each file is opened and closed by all of them, whoever has a sample in it.
//!
//! ```text
//! round k:  rank 0 has a sample of file 3, rank 1 one of file 8, rank 2 none
//!           file 3: all open, rank 0 reads, the others read nothing, all close
//!           file 8: all open, rank 1 reads, the others read nothing, all close
//! ```

use std::time::Instant;

use forebay::{Error, ErrorKind, Result};

use super::{HyperslabReader, RecordPlace, SampleTimes, nanoseconds};
use forebay_libhdf5::hdf5_types::hid_t;

impl HyperslabReader {
    /// Takes part in the reads of `files`, of which one may be that of `mine`. All ranks are given the same files.
    ///
    /// An error is reported when all files are done with: other ranks would wait for this one otherwise.
    pub(crate) fn read_round(
        &mut self,
        files: &[u32],
        mine: Option<RecordPlace>,
        into: &mut [u8],
    ) -> Result<SampleTimes> {
        let (began, mut times, mut outcome) = (Instant::now(), SampleTimes::default(), Ok(()));
        for file in files {
            let record = mine.filter(|place| place.file == *file).map(|place| place.record);
            let target = if record.is_some() { &mut *into } else { &mut [] };
            match self.take_part(*file, record, target) {
                Ok(part) => {
                    times.bytes += part.bytes;
                    times.read_ns += part.read_ns;
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        times.metadata_ns = nanoseconds(began.elapsed()).saturating_sub(times.read_ns);
        outcome.map(|()| times)
    }

    fn take_part(&mut self, file: u32, record: Option<u32>, into: &mut [u8]) -> Result<SampleTimes> {
        let path = self.setup.files.get(file as usize).cloned();
        let path = path.ok_or_else(|| Error::new(ErrorKind::Bug, "a sample of a file that is not there"))?;
        let done = self.file(file).and_then(|id| {
            let read = match record {
                Some(record) => {
                    let mut spare = std::mem::take(&mut self.spare);
                    let read = self.read_parts(id, record, into, &mut spare);
                    self.spare = spare;
                    // What is not there was not read: the others wait for this rank all the same.
                    read.inspect_err(|error| {
                        if error.kind() == ErrorKind::NotFound {
                            let _ = self.read_nothing(id);
                        }
                    })
                }
                None => self.read_nothing(id),
            };
            let closed = self.library.check(self.library.calls.file_close(id), "cannot be closed");
            read.and_then(|times| closed.map(|()| times))
        });
        done.map_err(|error| error.at(path.display()))
    }

    /// What other ranks need of this one for their reads: data sets are opened where metadata is collective, and read, nothing of
    /// them, where data is.
    fn read_nothing(&self, file: hid_t) -> Result<SampleTimes> {
        let mut times = SampleTimes::default();
        let mpi_io = self.setup.mpi_io.unwrap_or_default();
        if !mpi_io.collective_meta && !mpi_io.collective_data {
            return Ok(times);
        }
        for name in &self.records {
            match mpi_io.collective_data {
                true => {
                    let part = self.read_part(file, name, None, &mut [], &mut Vec::new())?;
                    times.read_ns += nanoseconds(part.read);
                }
                false => drop(self.data(file, name)?),
            }
        }
        Ok(times)
    }
}
