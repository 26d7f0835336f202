//! The formats, how they are told apart, and how values are read from what they describe.
//!
//! A format reader ends at [`Container`], plain data. Nothing to the right of it knows which format it was.
//!
//! ```text
//! Origin ─► Format::describe ─► Container ─► Opened::read(variable, selection) ─► Array
//!           zarr/, netcdf/ …     extents        fetch ─► filters ─► native
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `format` | how kinds of files are told apart, and which of them this process knows |
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
//! | `decode`, `read/` | chunks to native elements, hyperslabs to arrays |
//! | `opaque` | what only a library can read, or a user's own reader |

#[cfg(not(target_endian = "little"))]
compile_error!("forebay reads files of either byte order, on little-endian machines");

mod adios;
mod csv;
mod decode;
mod format;
mod hdf5;
mod images;
mod indexed;
mod netcdf;
mod npy;
mod npz;
mod opaque;
mod read;
mod silo;
mod tfrecord;
mod zarr;

pub use crate::csv::{CSV_HEADER, Csv};
pub use crate::hdf5::Hdf5;
pub use adios::{Bp3, Bp4, Bp5};
pub use decode::workspace_len;
pub use format::{Format, Found, describe, format_of, formats, is_registered, register_format};
pub use images::Images;
pub use indexed::Indexed;
pub use netcdf::Netcdf3;
pub use npy::{Npy, folder::NpyFolder};
pub use npz::Npz;
pub use opaque::{Reader, Wanted, find_libhdf5, libhdf5_version, register_reader};
pub use read::{Opened, Stored, fill_all};
pub use silo::{Silo, libsilo_version};
pub use tfrecord::TfRecord;
pub use zarr::Zarr;
