//! How forebay reads the samples of a split: from which files, and where in each of them samples lie.

use std::path::PathBuf;

use forebay::{
    Error, Result, SampleSpec,
    loader::{AxisName, Boundary, FieldSpec},
};
use forebay_workload::FileFormat;

/// How the samples of a split are read by forebay.
#[derive(Clone, Debug)]
pub(crate) struct ForebayPlan {
    /// All files, in order.
    pub(crate) files: Vec<PathBuf>,
    /// Their format.
    pub(crate) format: FileFormat,
    /// The data sets of records of HDF5 files.
    pub(crate) records: Vec<String>,
    /// Samples of each file.
    pub(crate) samples_per_file: u64,
    /// The axes of a sample.
    pub(crate) sample_ndim: usize,
    /// Samples of a batch.
    pub(crate) batch_size: u64,
    /// Threads that read; 0 to read on the rank's own.
    pub(crate) threads: u32,
    /// Bytes of a request.
    pub(crate) transfer_size: Option<u64>,
    /// True where samples differ in size from file to file.
    pub(crate) sizes_differ: bool,
    /// Bytes that the trainer is handed of each sample, where sizes differ.
    pub(crate) sample_len: u64,
    /// Bytes of batches that may wait, where sizes differ.
    pub(crate) memory: u64,
}

/// Which axis of a variable counts samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleAxis {
    First,
    Last,
}

impl ForebayPlan {
    /// The variables that samples are in, and which of their axes counts them.
    pub(super) fn variables(&self) -> Result<(Vec<String>, SampleAxis)> {
        let first = |name: &str| (vec![name.to_owned()], SampleAxis::First);
        Ok(match self.format {
            FileFormat::Hdf5 => (self.records.clone(), SampleAxis::First),
            FileFormat::NetCdf | FileFormat::Zarr => first("records"),
            FileFormat::Npz => (vec!["x".to_owned()], SampleAxis::Last),
            FileFormat::Npy => (vec!["data".to_owned()], SampleAxis::Last),
            FileFormat::TfRecord => first("image"),
            FileFormat::Csv => first("data"),
            FileFormat::IndexedBinary | FileFormat::MmapIndexedBinary => first("record"),
            FileFormat::Jpeg | FileFormat::Png if self.samples_per_file > 1 => {
                let what = format!("a file of format {} is one sample", self.format);
                return Err(Error::invalid(what).hint("set num_samples_per_file to 1"));
            }
            FileFormat::Jpeg | FileFormat::Png => first("image"),
            format => {
                let what = format!("engine forebay does not read files of format {format}");
                return Err(Error::unsupported(what).hint("use a format that is stored in files"));
            }
        })
    }

    /// What a sample is in files of this format.
    pub(super) fn fields(&self) -> Result<SampleSpec> {
        let (names, axis) = self.variables()?;
        let samples = match axis {
            SampleAxis::First => Boundary::default(),
            SampleAxis::Last => Boundary::Along { axis: AxisName::Index(self.sample_ndim), rows: 1 },
        };
        let field = |name: &String| FieldSpec { samples: samples.clone(), ..FieldSpec::new(name) };
        Ok(SampleSpec { fields: names.iter().map(field).collect() })
    }
}

/// Bytes that a sample counts as, of which `read` were read: the numbers of a table, of which the first is the row's, are 8 bytes each in
/// memory, and one of the sample.
pub(super) fn counted_bytes(format: FileFormat, read: u64) -> u64 {
    match format {
        FileFormat::Csv => (read / 8).saturating_sub(1),
        _ => read,
    }
}
