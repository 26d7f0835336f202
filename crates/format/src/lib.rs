//! From a file's bytes to a description of its arrays, and to their values.
//!
//! A format reader ends at [`Container`], plain data. Nothing to the right of it knows which format it was.
//!
//! ```text
//! Origin ─► Format::describe ─► Container ─► Opened::read(variable, selection) ─► Array
//!              hdf5/             extents        fetch ─► filters ─► native
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `format` | how kinds of files are told apart, and which of them this process knows |
//! | `cf/` | what attributes say of values by the CF conventions: packed numbers, times |
//! | `container`, `variable`, `extent`, `joined`, `dtype`, `mapping`, `mappings` | the description: what is there and where it lies |
//! | `saved` | the description as bytes |
//! | `grid`, `selection`, `runs` | arithmetic of chunks and hyperslabs |
//! | `cost` | what one row read at random costs |
//! | `plain` | where rows lie that are stored as they are |
//! | `filter/` | undoing what was done to a chunk, one file per filter |
//! | `native`, `odd`, `convert`, `heap`, `array` | elements in the machine's order, of fixed and of variable length |
//! | `swmr` | files that grow while they are read |
//! | `decode`, `read/`, `row_alone` | chunks to native elements, hyperslabs to arrays, one row at a time |
//! | `opaque` | what only a library can read, or a user's own reader |
//! | `zarr/` | the Zarr format |
//! | `hdf5/` | the HDF5 format, and NetCDF-4 with it |
//! | `netcdf/` | the classic NetCDF formats |
//! | `adios/` | the formats of ADIOS: BP5, BP4, BP3 |
//! | `silo/` | the Silo format, in HDF5 and in PDB files |
//! | `names` | what formats write into a description themselves |
//! | `tfrecord/` | records of TensorFlow |
//! | `npz/` | zip files of NumPy's arrays |
//! | `csv/` | tables of numbers as text |
//! | `indexed` | records of bytes with an index beside them |
//! | `images` | pictures, in files and in folders of them |
//! | `npy/` | arrays of NumPy, in files and in folders of them |

#[cfg(not(target_endian = "little"))]
compile_error!("forebay reads files of either byte order, on little-endian machines");

mod adios;
mod array;
pub mod cf;
mod container;
mod convert;
mod cost;
mod csv;
mod decode;
mod dtype;
mod extent;
pub mod filter;
mod format;
mod grid;
mod hdf5;
mod heap;
mod images;
mod indexed;
mod joined;
mod mapping;
mod mappings;
mod names;
pub mod native;
mod netcdf;
mod npy;
mod npz;
mod odd;
mod opaque;
mod plain;
mod read;
mod row_alone;
mod runs;
mod saved;
mod selection;
mod silo;
mod swmr;
mod tfrecord;
mod variable;
mod zarr;

pub use crate::csv::{CSV_HEADER, Csv};
pub use adios::{Bp3, Bp4, Bp5};
pub use array::{Array, Values};
pub use container::{Alias, Container, Group, Refused};
pub use convert::Scalar;
pub use cost::{RowCost, row_cost};
pub use decode::workspace_len;
pub use dtype::{ByteOrder, Dtype, Field, Heap, Member, Number, OddBits, Padding};
pub use extent::{ChunkTable, Extent, Extents, Opaque, Piece, SourceIndex};
pub use filter::Filter;
pub use format::{Format, Found, describe, format_of, formats, is_registered, register_format};
pub use grid::{Grid, Overlap, Overlaps};
pub use hdf5::Hdf5;
pub use images::Images;
pub use indexed::Indexed;
pub use joined::Joined;
pub use mapping::{Blocks, Mapping};
pub use mappings::Mappings;
pub use netcdf::Netcdf3;
pub use npy::{Npy, folder::NpyFolder};
pub use npz::Npz;
pub use opaque::{Reader, Wanted, find_libhdf5, libhdf5_version, register_reader};
pub use plain::{PlainRows, RowPlace};
pub use read::{Opened, Stored, fill_all};
pub use row_alone::{RowAlone, row_alone};
pub use runs::{Part, Run, Runs};
pub use saved::{load, save};
pub use selection::{Selection, Span};
pub use silo::{Silo, libsilo_version};
pub use tfrecord::TfRecord;
pub use variable::{Attribute, Variable};
pub use zarr::Zarr;
