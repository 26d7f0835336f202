//! The formats, how they are recognised, and how values are read from what they describe.
//!
//! A format reader ends at [`Container`](forebay_container::Container), plain data. Nothing to the right of it knows which format it was.
//!
//! ```text
//! Origin ─► Format::describe ─► Container ─► Opened::read(variable, selection) ─► Array
//!           zarr/, netcdf/ …     extents        fetch ─► filters ─► native
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `format`, `registry` | how kinds of files are recognised, and which of them this process knows |
//! | `hdf5` | HDF5 and NetCDF-4 among the formats; the crate `forebay-hdf5` reads them |
//! | `zarr/` | the Zarr format |
//! | `netcdf/` | the classic NetCDF formats |
//! | `adios/` | the formats of ADIOS: BP5, BP4, BP3 |
//! | `silo/` | the Silo format, in HDF5 and in PDB files |
//! | `tfrecord/` | records of TensorFlow |
//! | `npy/`, `npz/` | arrays of NumPy, in files, folders and zip files |
//! | `csv/` | tables of numbers as text |
//! | `indexed` | records of bytes with an index beside them |
//! | `images` | pictures, in files and in folders of them |
//! | `opened`, `chunk_extents`, `shard_indexes`, `plain_rows` | a description with its sources; where its chunks and rows lie |
//! | `decode`, `fill`, `threads`, `read/` | chunks to native elements, hyperslabs to arrays |
//! | `reader`, `readers`, `fallback` | what only a library can read, or a user's own reader |
//! | `libhdf5/` | libhdf5 where one is found |

#[cfg(not(target_endian = "little"))]
compile_error!("forebay reads files of either byte order, on little-endian machines");

mod adios;
mod chunk_extents;
mod csv;
mod decode;
mod fallback;
mod fill;
mod format;
mod hdf5;
mod images;
mod indexed;
mod libhdf5;
mod netcdf;
mod npy;
mod npz;
mod opened;
mod plain_rows;
mod read;
mod reader;
mod readers;
mod registry;
mod shard_indexes;
mod silo;
mod tfrecord;
mod threads;
mod zarr;

pub use crate::csv::{CSV_HEADER, Csv};
pub use crate::hdf5::Hdf5;
pub use adios::{Bp3, Bp4, Bp5};
pub use chunk_extents::UnreadShard;
pub use decode::workspace_len;
pub use fill::fill_all;
pub use forebay_hdf5::{HeapFill, HeapReference, fill_from_heap};
pub use format::{Format, Found};
pub use images::Images;
pub use indexed::Indexed;
pub use libhdf5::{find_libhdf5, libhdf5_version};
pub use netcdf::Netcdf3;
pub use npy::{Npy, folder::NpyFolder};
pub use npz::Npz;
pub use opened::Opened;
pub use plain_rows::{PlainRows, RowPlace};
pub use read::StoredChunk;
pub use reader::{ReadRequest, Reader};
pub use readers::register_reader;
pub use registry::{describe, format_of, formats, is_registered, register_format};
pub use silo::{Silo, libsilo_version};
pub use tfrecord::TfRecord;
pub use zarr::Zarr;
