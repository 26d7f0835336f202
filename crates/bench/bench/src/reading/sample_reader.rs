//! One sample at a time from HDF5 files: open, select, read, close, as `read_sample()` of h5bench's extension does.

mod together;

use std::{
    ffi::CString,
    path::PathBuf,
    time::{Duration, Instant},
};

use forebay::{Error, ErrorKind, Result};
use forebay_libhdf5::{
    Hdf5Calls, HyperslabTransfer, OpenId,
    calls::NO_SHAPE,
    hdf5_types::{H5P_DEFAULT, hid_t},
};
use serde::{Deserialize, Serialize};

use crate::{
    reading::parallel_access::MpiIo,
    runtime_hdf5::{RuntimeHdf5, c_name, c_path},
};

/// Which files samples are read from, and how; plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReaderSetup {
    /// All files, in order.
    pub(crate) files: Vec<PathBuf>,
    /// The data sets of records: each holds a part of every sample, one after another.
    pub(crate) records: Vec<String>,
    /// The type that HDF5 keeps in the variable of this name, in which elements are read.
    pub(crate) memory_type: String,
    /// Bytes that the trainer is handed of each sample; what is shorter is followed by zeros, what is longer is cut.
    pub(crate) sample_len: u64,
    /// Files are read by MPI-IO, by their rank alone or by all together.
    pub(crate) mpi_io: Option<MpiIo>,
    /// A file stays open until another is read, as generators of TensorFlow have it.
    pub(crate) keeps_open: bool,
}

/// Which sample is read: a file and a record in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordPlace {
    pub(crate) file: u32,
    pub(crate) record: u32,
}

/// How long one sample took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SampleTimes {
    /// Opening, selecting, closing.
    pub(crate) metadata_ns: u64,
    /// Reading alone.
    pub(crate) read_ns: u64,
    /// Bytes that were read.
    pub(crate) bytes: u64,
}

/// Reads samples; one thread of a process at a time.
#[derive(Debug)]
pub(crate) struct HyperslabReader {
    library: RuntimeHdf5,
    setup: ReaderSetup,
    files: Vec<CString>,
    records: Vec<CString>,
    memory_type: hid_t,
    element_len: usize,
    /// Property lists of files and of reads; the default where nothing is asked for.
    access: hid_t,
    transfer: hid_t,
    /// The file that was read last, where it stays open.
    open: Option<(u32, hid_t)>,
    /// For samples that are longer than what the trainer is handed.
    spare: Vec<u8>,
}

impl HyperslabReader {
    /// A reader of the files of `setup`, none of which is opened yet.
    pub(crate) fn new(library: RuntimeHdf5, setup: ReaderSetup) -> Result<Self> {
        let files = setup.files.iter().map(|path| c_path(path)).collect::<Result<_>>()?;
        let records = setup.records.iter().map(|name| c_name(name)).collect::<Result<_>>()?;
        let memory_type = library.calls.constant(&setup.memory_type)?;
        let element_len = library.calls.type_len(memory_type);
        let (access, transfer) =
            setup.mpi_io.map_or(Ok((H5P_DEFAULT, H5P_DEFAULT)), |mpi_io| library.parallel_lists(mpi_io))?;
        Ok(Self {
            access,
            transfer,
            library,
            setup,
            files,
            records,
            memory_type,
            element_len,
            open: None,
            spare: Vec::new(),
        })
    }

    /// Bytes that the trainer is handed of each sample.
    pub(crate) fn sample_len(&self) -> usize {
        usize::try_from(self.setup.sample_len).unwrap_or(usize::MAX)
    }

    /// Version and path of the library, the driver and the connector that files go through.
    pub(crate) fn describe(&self) -> String {
        let driver = self.setup.mpi_io.map(|mpi_io| format!(", {}", mpi_io.describe()));
        let connector = self.library.connector.as_ref().map(|name| format!(", VOL connector {name}"));
        format!("{}{}{}", self.library.describe(), driver.unwrap_or_default(), connector.unwrap_or_default())
    }

    /// Reads the sample at `place` into `into`, which has room for what the trainer is handed.
    pub(crate) fn read(&mut self, place: RecordPlace, into: &mut [u8]) -> Result<SampleTimes> {
        if place.file as usize >= self.files.len() {
            return Err(Error::new(ErrorKind::Bug, "a sample of a file that is not there"));
        }
        let read = self.read_at(place, into);
        read.map_err(|error| error.at(self.setup.files[place.file as usize].display()))
    }

    fn read_at(&mut self, place: RecordPlace, into: &mut [u8]) -> Result<SampleTimes> {
        let began = Instant::now();
        let mut spare = std::mem::take(&mut self.spare);
        let file = self.file(place.file)?;
        let read = self.read_parts(file, place.record, into, &mut spare);
        let closed = self.done_with(place.file, file);
        self.spare = spare;
        let mut times = read?;
        closed?;
        times.metadata_ns = nanoseconds(began.elapsed()).saturating_sub(times.read_ns);
        Ok(times)
    }

    /// Reads what each data set has of a record.
    fn read_parts(
        &self,
        file: hid_t,
        record: u32,
        into: &mut [u8],
        spare: &mut Vec<u8>,
    ) -> Result<SampleTimes> {
        let (mut times, mut filled) = (SampleTimes::default(), 0);
        for name in &self.records {
            let part = self.read_part(file, name, Some(record), &mut into[filled..], spare)?;
            filled = (filled + part.len).min(into.len());
            times.bytes += part.len as u64;
            times.read_ns += nanoseconds(part.read);
        }
        into[filled..].fill(0);
        Ok(times)
    }

    /// The open file number `file`.
    fn file(&mut self, file: u32) -> Result<hid_t> {
        match self.open {
            Some((number, id)) if number == file => return Ok(id),
            Some(_) => self.close_kept()?,
            None => {}
        }
        let id = self.library.calls.file_open(&self.files[file as usize], self.access);
        Ok(self.library.own(id, Hdf5Calls::file_close, "cannot be opened")?.leave())
    }

    /// Closes the file, or keeps it for the next sample.
    fn done_with(&mut self, file: u32, id: hid_t) -> Result<()> {
        if self.setup.keeps_open {
            self.open = Some((file, id));
            return Ok(());
        }
        self.library.check(self.library.calls.file_close(id), "cannot be closed")
    }

    fn close_kept(&mut self) -> Result<()> {
        match self.open.take() {
            Some((_, id)) => self.library.check(self.library.calls.file_close(id), "cannot be closed"),
            None => Ok(()),
        }
    }

    /// Reads a record of one data set; without one it selects nothing, for other ranks' sake.
    fn read_part(
        &self,
        file: hid_t,
        name: &CString,
        record: Option<u32>,
        into: &mut [u8],
        spare: &mut Vec<u8>,
    ) -> Result<PartRead> {
        let (library, calls) = (&self.library, &self.library.calls);
        let data = self.data(file, name)?;
        let space = library.own(calls.data_space(data.id()), Hdf5Calls::space_close, "no data space")?;
        let (mut count, mut start) = (NO_SHAPE, NO_SHAPE);
        let ndim = calls.space_shape(space.id(), &mut count).len();
        if let Some(record) = record
            && (ndim == 0 || u64::from(record) >= count[0])
        {
            let what = format!("{name:?} has {} records, and record {record} is asked for", count[0]);
            return Err(Error::new(ErrorKind::NotFound, what)
                .hint("generate the files anew, or ask for fewer samples per file"));
        }
        (start[0], count[0]) = (u64::from(record.unwrap_or(0)), 1);
        let memory =
            library.own(calls.space_create(&count[..ndim]), Hdf5Calls::space_close, "no data space")?;
        let selected = match record {
            Some(_) => calls.space_select(space.id(), &start[..ndim], None, &count[..ndim]),
            None => calls.space_select_none(space.id()).min(calls.space_select_none(memory.id())),
        };
        library.check(selected, "no such record")?;
        if record.is_none() {
            count[0] = 0;
        }
        let elements: u64 = count[..ndim].iter().product();
        let len = usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(self.element_len);
        let transfer = HyperslabTransfer {
            memory_type: self.memory_type,
            memory_space: memory.id(),
            file_space: space.id(),
            list: self.transfer,
        };
        let is_longer = len > into.len();
        if is_longer {
            spare.resize(len.max(spare.len()), 0);
        }
        let target = if is_longer { &mut spare[..len] } else { &mut into[..len] };
        let began = Instant::now();
        let answer = calls.data_read(data.id(), &transfer, target);
        let read = began.elapsed();
        library.check(answer, "a record cannot be read")?;
        if is_longer {
            let room = into.len();
            into.copy_from_slice(&spare[..room]);
        }
        Ok(PartRead { len, read })
    }

    fn data(&self, file: hid_t, name: &CString) -> Result<OpenId<'_>> {
        let id = self.library.calls.data_open(file, name, H5P_DEFAULT);
        if id < 0 {
            return Err(Error::new(ErrorKind::NotFound, format!("has no data set {name:?}")));
        }
        self.library.own(id, Hdf5Calls::data_close, "")
    }
}

impl Drop for HyperslabReader {
    fn drop(&mut self) {
        // Read only: nothing is lost.
        let _ = self.close_kept();
        // They hold communicators, which cannot be given back any more once MPI is finalised.
        for list in [self.access, self.transfer].into_iter().filter(|list| *list != H5P_DEFAULT) {
            self.library.calls.list_close(list);
        }
    }
}

/// What one data set gave.
struct PartRead {
    len: usize,
    read: Duration,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
