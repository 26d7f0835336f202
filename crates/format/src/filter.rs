//! Chunk filters: what was done to a chunk's bytes when they were written, and how to undo it.
//!
//! ```text
//!   stored chunk ─▶ undo filter n ─▶ … ─▶ undo filter 0 ─▶ elements
//! ```
//!
//! Each filter is one file with a `decode` and one row of `TABLE`. A decoder trusts nothing the stream says:
//! it never panics, never writes past `out`, and keeps its own memory within the order of `out`.

use forebay_source::{Error, ErrorKind, Result, WorkMemory};
use serde::{Deserialize, Serialize};

mod adios;
mod astype;
mod bitshuffle;
mod blosc;
mod blosc2;
mod bzip2;
mod cells;
mod checksum;
mod cursor;
mod deflate;
mod delta;
pub(crate) mod element;
mod fixed_scale_offset;
mod fletcher32;
mod gzip;
mod image;
mod jpeg;
mod lz4;
mod lz4_sized;
mod lzf;
mod message_list;
mod names;
mod nbit;
mod npy_header;
mod packbits;
mod packed;
mod quantize;
mod scaleoffset;
mod shuffle;
mod szip;
mod transpose;
mod weave;
mod zfp;
mod zip_deflate;
mod zstd;

pub(crate) use cells::{CELLS_F64, CELLS_I64, float_of, integer_of, is_missing, number_of};
pub(crate) use image::{Size, is_image, size_of};
pub(crate) use message_list::{LIST_FLOAT, LIST_INT64};

/// One step of a chunk's encoding, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The id HDF5 files have for it; filters of other formats alone are numbered from 65536 on.
    pub id: u32,
    /// The name, such as `deflate`; for a filter unknown here, what the file calls it, or nothing.
    pub name: String,
    /// Whether the writer was free to leave it out of a chunk.
    pub optional: bool,
    /// The client values of the file.
    pub params: Vec<u32>,
}

/// Memory for the steps between the stored chunk and its elements, kept from chunk to chunk.
#[derive(Debug, Default)]
pub struct Scratch {
    front: WorkMemory,
    back: WorkMemory,
}

type Decode = fn(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize>;

/// Every filter that can be undone: its id, its name, its decoder.
static TABLE: &[(u32, &str, Decode)] = &[
    (1, "deflate", deflate::decode),
    (2, "shuffle", shuffle::decode),
    (3, "fletcher32", fletcher32::decode),
    (4, "szip", szip::decode),
    (5, "nbit", nbit::decode),
    (6, "scaleoffset", scaleoffset::decode),
    (307, "bzip2", bzip2::decode),
    (32000, "lzf", lzf::decode),
    (32001, "blosc", blosc::decode),
    (32004, "lz4", lz4::decode),
    (32008, "bitshuffle", bitshuffle::decode),
    (32013, "zfp", zfp::decode),
    (32015, "zstd", zstd::decode),
    (32022, "bitgroom", quantize::decode),
    (32023, "granular bitround", quantize::decode),
    (32026, "blosc2", blosc2::decode),
    (TRANSPOSE, "transpose", transpose::decode),
    (GZIP, "gzip", gzip::decode),
    (LZ4_SIZED, "lz4", lz4_sized::decode),
    (CRC32C, "crc32c", checksum::crc32c),
    (CRC32, "crc32", checksum::crc32),
    (ADLER32, "adler32", checksum::adler32),
    (DELTA, "delta", delta::decode),
    (FIXED_SCALE_OFFSET, "fixedscaleoffset", fixed_scale_offset::decode),
    (PACKBITS, "packbits", packbits::decode),
    (ASTYPE, "astype", astype::decode),
    (IMAGE, "image", image::decode),
    (NPY_HEADER, "npy header", npy_header::decode),
    (ZIP_DEFLATE, "deflate (zip)", zip_deflate::decode),
    (CELLS, "csv", cells::decode),
    (MESSAGE_LIST, "protobuf list", message_list::decode),
    (ADIOS_OPERATOR, "adios operator", adios::decode),
];

pub(crate) const DEFLATE: u32 = 1;
pub(crate) const SHUFFLE: u32 = 2;
pub(crate) const BZIP2: u32 = 307;
pub(crate) const BLOSC: u32 = 32001;
pub(crate) const ZSTD: u32 = 32015;
/// Filters that HDF5 does not have are numbered above all its ids: of those, 32768 to 65535 are any site's own.
const PRIVATE: u32 = 1 << 16;
pub(crate) const TRANSPOSE: u32 = PRIVATE;
pub(crate) const GZIP: u32 = PRIVATE + 10;
pub(crate) const LZ4_SIZED: u32 = PRIVATE + 11;
pub(crate) const CRC32C: u32 = PRIVATE + 12;
pub(crate) const CRC32: u32 = PRIVATE + 13;
pub(crate) const ADLER32: u32 = PRIVATE + 14;
pub(crate) const DELTA: u32 = PRIVATE + 15;
pub(crate) const FIXED_SCALE_OFFSET: u32 = PRIVATE + 16;
pub(crate) const PACKBITS: u32 = PRIVATE + 17;
pub(crate) const ASTYPE: u32 = PRIVATE + 18;
pub(crate) const IMAGE: u32 = PRIVATE + 30;
pub(crate) const NPY_HEADER: u32 = PRIVATE + 31;
pub(crate) const ZIP_DEFLATE: u32 = PRIVATE + 32;
pub(crate) const CELLS: u32 = PRIVATE + 33;
pub(crate) const MESSAGE_LIST: u32 = PRIVATE + 34;
pub(crate) const ADIOS_OPERATOR: u32 = PRIVATE + 40;

/// Room beyond the chunk's length for a step in between: what incompressible bytes grow by, plus headers.
const INTERMEDIATE_EXTRA_BYTES: u64 = 4096;

/// The most bytes that steps between a stored chunk and its `chunk_len` bytes of elements take.
pub(crate) fn scratch_len(filters: &[Filter], chunk_len: u64) -> u64 {
    let buffers = filters.len().saturating_sub(1).min(2) as u64;
    intermediate_len(chunk_len).saturating_mul(buffers)
}

/// The most bytes that one step may give where a chunk has `chunk_len`.
fn intermediate_len(chunk_len: u64) -> u64 {
    chunk_len.saturating_add(chunk_len / 8).saturating_add(INTERMEDIATE_EXTRA_BYTES)
}

impl Scratch {
    /// Bytes it has taken.
    pub(crate) fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }
}

impl Filter {
    /// The filter `id` with `params`, which no chunk leaves out.
    pub(crate) fn new(id: u32, params: Vec<u32>) -> Self {
        let name = find(id).map(|row| row.1.to_owned()).unwrap_or_default();
        Self { id, name, optional: false, params }
    }

    /// Whether this filter can be undone here.
    pub fn is_known(&self) -> bool {
        find(self.id).is_some()
    }

    /// The filter as people say it: `gzip-4`, `shuffle`, `lzo (filter 305)`.
    pub fn label(&self) -> String {
        if let Some((_, name, _)) = find(self.id) {
            return match self.params.first() {
                Some(level) if self.id == DEFLATE => format!("gzip-{level}"),
                _ if self.id == DEFLATE => "gzip".to_owned(),
                _ => (*name).to_owned(),
            };
        }
        match names::of(self.id).unwrap_or(&self.name) {
            "" => format!("filter {}", self.id),
            name => format!("{name} (filter {})", self.id),
        }
    }
}

/// Undoes one filter: decodes `input` into the front of `out`, at most filling it, and gives the length written.
pub fn undo(filter: &Filter, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let Some((_, name, decode)) = find(filter.id) else {
        return Err(refusal(filter));
    };
    decode(&filter.params, input, out).map_err(|error| error.at(name))
}

/// Undoes the pipeline, last filter first, into `out`, which must come out exactly full.
///
/// Bit `i` of `mask` says that filter `i` was left out when the chunk was written.
pub fn undo_all(
    filters: &[Filter],
    mask: u32,
    input: &[u8],
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let applied =
        |index: &usize| u32::try_from(*index).map_or(true, |bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 0);
    let mut steps = (0..filters.len()).rev().filter(applied).map(|index| &filters[index]).peekable();
    let Scratch { front, back } = scratch;
    let limit = usize::try_from(intermediate_len(out.len() as u64)).unwrap_or(usize::MAX);
    let mut front_len = None;

    while let Some(filter) = steps.next() {
        let from = front_len.map_or(input, |len| &front[..len]);
        if steps.peek().is_none() {
            let written = undo(filter, from, out)?;
            return expect_full(written, out.len());
        }
        back.make_room(limit)?;
        front_len = Some(undo(filter, from, &mut back[..limit])?);
        std::mem::swap(front, back);
    }

    expect_full(input.len(), out.len())?;
    out.copy_from_slice(input);
    Ok(())
}

fn find(id: u32) -> Option<&'static (u32, &'static str, Decode)> {
    TABLE.iter().find(|row| row.0 == id)
}

fn expect_full(written: usize, wanted: usize) -> Result<()> {
    if written != wanted {
        return Err(corrupt(format!("chunk decodes to {written} bytes where {wanted} belong")));
    }
    Ok(())
}

fn refusal(filter: &Filter) -> Error {
    let what = match names::of(filter.id).unwrap_or(&filter.name) {
        "" => format!("filter {} is not supported", filter.id),
        name => format!("filter {} ({name}) is not supported", filter.id),
    };
    unsupported(what)
}

fn corrupt(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, what)
}

fn unsupported(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, what)
        .hint("rewrite the variable with h5repack or h5py using gzip, zstd, lz4 or blosc")
}

/// Copies all of `input` to the front of `out`.
fn copy_whole(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let front = out.get_mut(..input.len()).ok_or_else(too_long)?;
    front.copy_from_slice(input);
    Ok(input.len())
}

fn too_long() -> Error {
    corrupt("decodes to more bytes than the chunk holds").because(TooLong)
}

/// The cause of an error that more room might mend: where nobody says how long the outcome is, it is tried again.
#[derive(Debug)]
struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no room is left")
    }
}

impl std::error::Error for TooLong {}

/// True when `error` says that `out` was too short for what a filter gives.
pub(crate) fn is_too_long(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<TooLong>())
}

fn ended_early() -> Error {
    corrupt("stream ends early")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(id: u32, params: &[u32]) -> Filter {
        Filter { id, name: String::new(), optional: false, params: params.to_vec() }
    }

    #[test]
    fn labels_are_what_people_say() {
        assert_eq!(filter(1, &[4]).label(), "gzip-4");
        assert_eq!(filter(2, &[4]).label(), "shuffle");
        assert_eq!(filter(32015, &[3]).label(), "zstd");
        assert_eq!(filter(305, &[]).label(), "lzo (filter 305)");
        assert_eq!(filter(60000, &[]).label(), "filter 60000");
        let named = Filter { name: "mine".to_owned(), ..filter(60000, &[]) };
        assert_eq!(named.label(), "mine (filter 60000)");
        assert!(filter(1, &[]).is_known() && !named.is_known());
    }

    #[test]
    fn a_refusal_names_the_filter() {
        let error = undo(&filter(305, &[]), &[], &mut []).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().starts_with("filter 305 (lzo) is not supported"), "{error}");
    }

    #[test]
    fn a_filter_the_mask_skips_is_not_undone() {
        let filters = [filter(2, &[4]), filter(305, &[])];
        let mut out = [0; 8];
        undo_all(&filters, 0b10, &[0, 1, 2, 3, 4, 5, 6, 7], &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out, [0, 2, 4, 6, 1, 3, 5, 7]);
        undo_all(&filters, 0b11, &[0, 1, 2, 3, 4, 5, 6, 7], &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_chunk_that_does_not_fill_its_place_is_corrupt() {
        for input in [&[1u8; 7][..], &[1; 9]] {
            let error = undo_all(&[], 0, input, &mut [0; 8], &mut Scratch::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let error =
                undo_all(&[filter(2, &[4])], 0, input, &mut [0; 8], &mut Scratch::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
}
