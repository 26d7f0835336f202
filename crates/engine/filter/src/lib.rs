//! Chunk filters and codecs, undone: what HDF5, Zarr and other formats did to a chunk's bytes when they wrote it.
//!
//! ```text
//!   stored chunk ─▶ undo filter n ─▶ … ─▶ undo filter 0 ─▶ elements
//! ```
//!
//! Nothing needs to be installed: all codecs are compiled in, each heavy one behind a feature. A decoder trusts nothing the
//! stream says: it never panics, never writes past its output, and keeps its own memory within the order of the output.
//!
//! ```
//! use forebay_filter::{Filter, Scratch, undo_all};
//!
//! // What an HDF5 file says of a chunk: filter 2 with elements of 4 bytes, then filter 3.
//! let filters = [Filter::from_hdf5(2, "", vec![4]), Filter::from_hdf5(3, "", vec![])];
//! let mut elements = [0; 8];
//! let stored = [1, 5, 2, 6, 3, 7, 4, 8, 0x0c, 0x26, 0x14, 0x10];
//! # let stored = { let mut s = stored.to_vec(); s.truncate(8); s.extend(forebay_filter::fletcher32(&s).to_le_bytes()); s };
//! undo_all(&filters, 0, &stored, &mut elements, &mut Scratch::default())?;
//! assert_eq!(elements, [1, 2, 3, 4, 5, 6, 7, 8]);
//! # Ok::<(), forebay_process::Error>(())
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `filter` | [`Filter`]: one step of a chunk's encoding, as plain data |
//! | `pipeline` | the steps undone one after the other |
//! | `hdf5`, `hdf5_names` | which filter an HDF5 id stands for, and what those are called that cannot be undone |
//! | `number`, `stored_number` | the numbers that filters and arrays are made of |
//! | `deflate`, `zstd`, `lz4`, `lz4_blocks`, `lzf`, `bzip2` | general compression |
//! | `blosc/`, `blosc2/` | Blosc's chunks and frames |
//! | `shuffle`, `bitshuffle`, `weave`, `transpose` | elements taken apart by bytes, bits or axes |
//! | `szip`, `nbit`, `scaleoffset`, `zfp`, `bit_reader` | compression that knows numbers |
//! | `delta`, `astype`, `fixed_scale_offset`, `packbits` | filters of numcodecs |
//! | `fletcher32`, `checksum` | checksums |
//! | `image`, `jpeg/`, `csv_rows`, `csv_cells`, `message_list`, `npy_header`, `adios` | what other formats wrap their values in |
//! | `byte_cursor`, `protobuf`, `error` | how streams are read, and what is said of bad ones |

mod adios;
mod astype;
mod bit_reader;
mod bitshuffle;
mod blosc;
mod blosc2;
mod byte_cursor;
#[cfg(feature = "bzip2")]
mod bzip2;
mod checksum;
#[cfg(feature = "csv")]
pub mod csv_cells;
mod csv_rows;
mod deflate;
mod delta;
mod error;
mod filter;
mod fixed_scale_offset;
mod fletcher32;
mod hdf5;
mod hdf5_names;
#[cfg(feature = "image")]
pub mod image;
#[cfg(feature = "image")]
mod jpeg;
mod lz4;
mod lz4_blocks;
mod lzf;
mod message_list;
mod nbit;
mod npy_header;
mod number;
mod packbits;
mod pipeline;
pub mod protobuf;
mod scaleoffset;
mod shuffle;
mod stored_number;
mod szip;
mod transpose;
mod weave;
#[cfg(feature = "zfp")]
mod zfp;
mod zstd;

pub use byte_cursor::{ByteCursor, escaped_text, uint};
pub use csv_rows::CsvRows;
pub use error::is_too_long;
pub use filter::Filter;
pub use fletcher32::checksum as fletcher32;
pub use message_list::ListItem;
pub use number::{ByteOrder, Number};
pub use pipeline::{Scratch, scratch_len, undo, undo_all};
pub use stored_number::StoredNumber;
