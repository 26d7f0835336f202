//! The files and samples of a data set.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The format of the files of a data set.
    FileFormat as "format" {
        /// HDF5.
        Hdf5 = "hdf5" | "h5",
        /// NumPy archives.
        Npz = "npz",
        /// NumPy arrays.
        Npy = "npy",
        /// TensorFlow's records.
        TfRecord = "tfrecord",
        /// Numbers as text.
        Csv = "csv",
        /// JPEG pictures.
        Jpeg = "jpeg" | "jpg",
        /// PNG pictures.
        Png = "png",
        /// Records back to back with an index of offsets and sizes.
        IndexedBinary = "indexed_binary",
        /// The same, mapped into memory.
        MmapIndexedBinary = "mmap_indexed_binary",
        /// netCDF-4.
        NetCdf = "netcdf" | "nc",
        /// Zarr.
        Zarr = "zarr",
        /// Parquet tables.
        Parquet = "parquet",
        /// No files.
        Synthetic = "synthetic",
    }
}

words! {
    /// How files are named.
    FileNaming as "layout" {
        /// h5bench: from 1, no zeros, `img_1_of_128.h5`.
        H5bench = "h5bench",
        /// DLIO of 2024-08: from 0 with zeros, `img_000_of_128.hdf5`, data set `records`.
        Dlio2408 = "dlio2408",
        /// DLIO 2: the same names, data sets `records_0` and on.
        Dlio = "dlio",
    }
}

words! {
    /// How samples are compressed.
    Compression as "compression" {
        /// They are not.
        None = "none",
        /// Deflate.
        Gzip = "gzip" | "zlib" | "deflate",
        /// LZF.
        Lzf = "lzf",
        /// bzip2.
        Bzip2 = "bz2" | "bzip2",
        /// A zip archive.
        Zip = "zip",
        /// LZMA.
        Xz = "xz",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

words! {
    /// The type of a sample's elements.
    ElementType as "element type" {
        /// One byte, signed.
        Int8 = "int8",
        /// One byte.
        UInt8 = "uint8",
        /// Two bytes, signed.
        Int16 = "int16",
        /// Two bytes.
        UInt16 = "uint16",
        /// Four bytes, signed.
        Int32 = "int32",
        /// Four bytes.
        UInt32 = "uint32",
        /// Eight bytes, signed.
        Int64 = "int64",
        /// Eight bytes.
        UInt64 = "uint64",
        /// Two bytes, IEEE.
        Float16 = "float16" | "fp16",
        /// Two bytes, bfloat16.
        BFloat16 = "bfloat16" | "bf16",
        /// Four bytes, IEEE.
        Float32 = "float32" | "fp32",
        /// Eight bytes, IEEE.
        Float64 = "float64" | "fp64",
    }
}

impl ElementType {
    /// Bytes of an element.
    pub fn byte_len(self) -> u64 {
        match self {
            Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 | Self::BFloat16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 => 8,
        }
    }
}

/// The files and samples of a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetSpec {
    /// The folder of all files.
    pub data_folder: String,
    /// The subfolder of training files.
    pub train_folder: String,
    /// The subfolder of evaluation files.
    pub eval_folder: String,
    /// The format.
    pub format: FileFormat,
    /// How files are named.
    pub naming: FileNaming,
    /// Files for training.
    pub num_files_train: u64,
    /// Files for evaluation.
    pub num_files_eval: u64,
    /// Samples of each file.
    pub num_samples_per_file: u64,
    /// Bytes of a sample.
    pub record_length_bytes: u64,
    /// Standard deviation of these bytes, from file to file.
    pub record_length_bytes_stdev: f64,
    /// Bytes of the array that the trainer is handed; 0 for those of the sample.
    pub record_length_bytes_resize: u64,
    /// The shape of a sample; a square of bytes where there is none.
    pub record_dims: Vec<u64>,
    /// The type of a sample's elements.
    pub record_element_type: ElementType,
    /// Folders that training files are spread over, where more than one.
    pub num_subfolders_train: u64,
    /// Folders that evaluation files are spread over, where more than one.
    pub num_subfolders_eval: u64,
    /// What the name of each file begins with.
    pub file_prefix: String,
    /// Whether files stay after the run.
    pub keep_files: bool,
    /// How samples are compressed.
    pub compression: Compression,
    /// The level of compression.
    pub compression_level: u32,
    /// To which part of its size generated data can be compressed, 0 to 1; 1 is noise.
    pub compressible_to: f64,
    /// Bytes that are generated at once (2024-08 and h5bench: 2 GiB).
    pub generation_buffer_bytes: u64,
}

impl Default for DatasetSpec {
    fn default() -> Self {
        Self {
            data_folder: "./data/".into(),
            train_folder: "train".into(),
            eval_folder: "valid".into(),
            format: FileFormat::TfRecord,
            naming: FileNaming::Dlio,
            num_files_train: 8,
            num_files_eval: 0,
            num_samples_per_file: 1,
            record_length_bytes: 64 << 10,
            record_length_bytes_stdev: 0.0,
            record_length_bytes_resize: 0,
            record_dims: Vec::new(),
            record_element_type: ElementType::UInt8,
            num_subfolders_train: 0,
            num_subfolders_eval: 0,
            file_prefix: "img".into(),
            keep_files: true,
            compression: Compression::None,
            compression_level: 4,
            compressible_to: 1.0,
            generation_buffer_bytes: 2 << 30,
        }
    }
}

/// What is particular to HDF5 files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hdf5Spec {
    /// The data set of the samples; with several for each record their names are numbered.
    pub records_name: String,
    /// The data set of the labels.
    pub labels_name: String,
    /// Data sets that each record is spread over (`num_dset_per_record`).
    pub datasets_per_record: u64,
    /// Whether samples are chunked.
    pub chunking: bool,
    /// Elements of a chunk, taken as a square within a sample (`chunk_size`).
    pub chunk_size: u64,
    /// The shape of a chunk, where it is given.
    pub chunk_dims: Vec<u64>,
    /// The largest shape of a data set, where it can grow.
    pub max_shape: Vec<u64>,
    /// Whether metadata operations are collective.
    pub collective_meta: bool,
    /// Whether data transfers are collective.
    pub collective_data: bool,
    /// Whether files go through HDF5's subfiling driver.
    pub subfiling: bool,
}

impl Default for Hdf5Spec {
    fn default() -> Self {
        Self {
            records_name: "records".into(),
            labels_name: "labels".into(),
            datasets_per_record: 1,
            chunking: false,
            chunk_size: 0,
            chunk_dims: Vec::new(),
            max_shape: Vec::new(),
            collective_meta: false,
            collective_data: false,
            subfiling: false,
        }
    }
}
