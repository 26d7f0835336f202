//! Where the files of a data set lie, and what they are called.

use std::path::PathBuf;

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::workload::{Compression, DatasetSpec, FileFormat, FileNaming, Workload};

/// The half of a data set that training reads, or that evaluation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Training.
    Train,
    /// Evaluation.
    Eval,
}

impl Split {
    /// Files of this half, as configured.
    pub fn file_count(self, dataset: &DatasetSpec) -> u64 {
        match self {
            Self::Train => dataset.num_files_train,
            Self::Eval => dataset.num_files_eval,
        }
    }

    fn folder(self, dataset: &DatasetSpec) -> &str {
        match self {
            Self::Train => &dataset.train_folder,
            Self::Eval => &dataset.eval_folder,
        }
    }

    fn subfolder_count(self, dataset: &DatasetSpec) -> u64 {
        match self {
            Self::Train => dataset.num_subfolders_train,
            Self::Eval => dataset.num_subfolders_eval,
        }
    }
}

/// The path of the file `index` (from 0), relative to the folder of the data set.
pub fn file(dataset: &DatasetSpec, split: Split, index: u64) -> PathBuf {
    let mut path = PathBuf::from(split.folder(dataset));
    let subfolder_count = split.subfolder_count(dataset);
    if subfolder_count > 1 {
        path.push(padded(index % subfolder_count, subfolder_count));
    }
    let count = split.file_count(dataset);
    let number = match dataset.naming {
        FileNaming::H5bench => (index + 1).to_string(),
        FileNaming::Dlio2408 | FileNaming::Dlio => padded(index, count),
    };
    path.push(format!("{}_{number}_of_{count}.{}", dataset.file_prefix, extension(dataset)));
    path
}

/// The paths of all files of `split`, relative to the folder of the data set, in the order in which samples are numbered.
pub fn files(dataset: &DatasetSpec, split: Split) -> Vec<PathBuf> {
    (0..split.file_count(dataset)).map(|index| file(dataset, split, index)).collect()
}

/// The rank that generates the file `index`.
pub fn generator_of(index: u64, ranks: u32) -> u32 {
    u32::try_from(index % u64::from(ranks.max(1))).expect("less than the count of ranks")
}

/// The side of the square of bytes that a record is stored as where it has no shape of its own.
pub fn square_side(record_length_bytes: u64) -> u64 {
    record_length_bytes.isqrt()
}

/// The shape of a sample of `record_length_bytes` bytes.
pub fn sample_shape(dataset: &DatasetSpec, record_length_bytes: u64) -> Vec<u64> {
    if !dataset.record_dims.is_empty() {
        return dataset.record_dims.clone();
    }
    let side = square_side(record_length_bytes / dataset.record_element_type.byte_len());
    vec![side, side]
}

/// Bytes of a stored sample of mean size.
pub fn sample_bytes(dataset: &DatasetSpec) -> u64 {
    let shape = sample_shape(dataset, dataset.record_length_bytes);
    shape.iter().product::<u64>() * dataset.record_element_type.byte_len()
}

/// The names of the data sets of an HDF5 file that hold its samples.
pub fn record_names(workload: &Workload) -> Vec<String> {
    let name = &workload.hdf5.records_name;
    match (workload.dataset.naming, workload.hdf5.datasets_per_record) {
        (FileNaming::Dlio, count) => (0..count.max(1)).map(|index| format!("{name}_{index}")).collect(),
        (FileNaming::H5bench | FileNaming::Dlio2408, _) => vec![name.clone()],
    }
}

/// The shape of a chunk of an HDF5 file's records, where they are chunked: a chunk lies within one sample unless it is given.
///
/// Compressed records are chunked in any case, by samples where nothing else is said: HDF5 compresses chunks alone.
pub fn chunk_shape(workload: &Workload) -> Option<Vec<u64>> {
    let (hdf5, dataset) = (&workload.hdf5, &workload.dataset);
    if !hdf5.chunk_dims.is_empty() {
        return Some(hdf5.chunk_dims.clone());
    }
    let sample = sample_shape(dataset, dataset.record_length_bytes);
    let within = match (hdf5.chunking, hdf5.chunk_size) {
        (true, size) if size > 0 => sample.iter().map(|len| square_side(size).clamp(1, *len)).collect(),
        (true, _) => sample,
        (false, _) if dataset.compression != Compression::None => sample,
        (false, _) => return None,
    };
    Some([vec![1], within].concat())
}

/// Checks that samples have at least one byte and that all can be counted.
pub(crate) fn check(dataset: &DatasetSpec) -> Result<()> {
    let invalid = |what: &str| Err(Error::new(ErrorKind::Invalid, format!("dataset: {what}")));
    if dataset.num_samples_per_file == 0 {
        return invalid("num_samples_per_file is 0");
    }
    let element = dataset.record_element_type.byte_len();
    let of_dims = dataset.record_dims.iter().try_fold(element, |bytes, len| bytes.checked_mul(*len));
    let Some(of_dims) = of_dims else { return invalid("there are more bytes than can be counted") };
    if dataset.format != FileFormat::Synthetic && sample_bytes(dataset) == 0 {
        return invalid("samples have no bytes");
    }
    let files = dataset.num_files_train.max(dataset.num_files_eval);
    let bytes = files
        .checked_mul(dataset.num_samples_per_file)
        .and_then(|samples| samples.checked_mul(dataset.record_length_bytes.max(of_dims)));
    match bytes {
        Some(_) => Ok(()),
        None => invalid("there are more bytes than can be counted"),
    }
}

/// `number` with the digits that `count` has.
fn padded(number: u64, count: u64) -> String {
    format!("{number:0width$}", width = count.to_string().len())
}

fn extension(dataset: &DatasetSpec) -> &'static str {
    match (dataset.naming, dataset.format) {
        (FileNaming::H5bench, FileFormat::Hdf5) => "h5",
        (_, FileFormat::NetCdf) => "nc",
        (_, format) => format.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(naming: FileNaming) -> DatasetSpec {
        DatasetSpec { naming, num_files_train: 128, format: FileFormat::Hdf5, ..Default::default() }
    }

    fn name(dataset: &DatasetSpec, index: u64) -> String {
        file(dataset, Split::Train, index).display().to_string()
    }

    #[test]
    fn h5bench_counts_from_one_without_zeros_and_dlio_from_zero_with_them() {
        assert_eq!(name(&dataset(FileNaming::H5bench), 0), "train/img_1_of_128.h5");
        assert_eq!(name(&dataset(FileNaming::Dlio), 7), "train/img_007_of_128.hdf5");
        assert_eq!(name(&dataset(FileNaming::Dlio2408), 127), "train/img_127_of_128.hdf5");
        // Ten files have numbers of two digits, as DLIO pads to the digits of the count.
        let ten = DatasetSpec { num_files_train: 10, ..dataset(FileNaming::Dlio) };
        assert_eq!(name(&ten, 3), "train/img_03_of_10.hdf5");
    }

    #[test]
    fn files_are_dealt_to_subfolders_in_turn() {
        let spread = DatasetSpec { num_subfolders_train: 12, ..dataset(FileNaming::Dlio) };
        assert_eq!(name(&spread, 13), "train/01/img_013_of_128.hdf5");
        let one = DatasetSpec { num_subfolders_train: 1, ..dataset(FileNaming::Dlio) };
        assert_eq!(name(&one, 13), "train/img_013_of_128.hdf5");
    }

    #[test]
    fn a_record_is_the_largest_square_that_fits() {
        assert_eq!(
            (square_side(67_108_864), square_side(65_535), square_side(146_600_628)),
            (8192, 255, 12107)
        );
        let mut workload = Workload::default();
        workload.dataset.record_length_bytes = 67_108_864;
        assert_eq!(chunk_shape(&workload), None);
        workload.dataset.compression = Compression::Gzip;
        assert_eq!(chunk_shape(&workload), Some(vec![1, 8192, 8192]));
        (workload.hdf5.chunking, workload.hdf5.chunk_size) = (true, 1024);
        assert_eq!(chunk_shape(&workload), Some(vec![1, 32, 32]));
        assert_eq!(record_names(&workload), ["records_0"]);
    }
}
