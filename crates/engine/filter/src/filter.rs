//! One step of a chunk's encoding, as plain data that can be saved and sent.

use forebay_process::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::{
    CsvRows, ListItem, StoredNumber, adios, astype, bitshuffle, blosc, blosc2, checksum, deflate, delta,
    error::{copy_whole, unsupported},
    fixed_scale_offset, fletcher32, lz4, lz4_blocks, lzf, message_list, nbit, npy_header, packbits,
    scaleoffset, shuffle, szip, transpose, zstd,
};

/// One step of a chunk's encoding, as it was written.
///
/// `client_values` are the numbers that an HDF5 file has for a filter, as HDF5 itself calls them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Filter {
    /// A zlib stream, HDF5's gzip filter; the level is for people to read.
    Deflate {
        /// The level it was compressed at, where the file says so.
        level: Option<u32>,
    },
    /// Bytes of equal weight side by side.
    Shuffle {
        /// Bytes of an element.
        element_len: u32,
    },
    /// HDF5's checksum behind the bytes.
    Fletcher32,
    /// AEC/szip, with HDF5's client values.
    Szip {
        /// What the file says of the coding.
        client_values: Vec<u32>,
    },
    /// HDF5's n-bit packing.
    Nbit {
        /// The type, as the file describes it.
        client_values: Vec<u32>,
    },
    /// HDF5's scale-offset packing.
    ScaleOffset {
        /// The packing, as the file describes it.
        client_values: Vec<u32>,
    },
    /// A bzip2 stream.
    Bzip2,
    /// LZF, as h5py writes it.
    Lzf,
    /// A Blosc chunk.
    Blosc,
    /// A Blosc 2 frame.
    Blosc2,
    /// LZ4 blocks in the framing of HDF5's plug-in.
    Lz4Blocks,
    /// One LZ4 block behind its length, as numcodecs writes it.
    Lz4,
    /// Bits of equal weight side by side, perhaps compressed.
    Bitshuffle {
        /// What the file says of blocks and compression.
        client_values: Vec<u32>,
    },
    /// A ZFP stream whose header the file keeps.
    Zfp {
        /// The version and the header.
        client_values: Vec<u32>,
    },
    /// Zstandard frames.
    Zstd,
    /// Floats whose last bits were rounded away by BitGroom: there is nothing to undo.
    BitGroom,
    /// Floats whose last bits were rounded away by Granular BitRound: there is nothing to undo.
    GranularBitRound,
    /// A gzip member.
    Gzip,
    /// A bare deflate stream, as members of zip files are.
    RawDeflate {
        /// The CRC-32 of what it decodes to.
        crc32: u32,
    },
    /// A CRC-32C beside the bytes.
    Crc32c {
        /// True where it stands before them.
        at_start: bool,
    },
    /// A CRC-32 beside the bytes.
    Crc32 {
        /// True where it stands before them.
        at_start: bool,
    },
    /// An Adler-32 checksum beside the bytes.
    Adler32 {
        /// True where it stands before them.
        at_start: bool,
    },
    /// The axes of a chunk in another order.
    Transpose {
        /// Bytes of an element.
        element_len: u32,
        /// The chunk's shape as it is read.
        shape: Vec<u32>,
        /// Stored axis `i` is axis `order[i]` of the chunk.
        order: Vec<u32>,
    },
    /// Numbers stored as their distance from the one before.
    Delta {
        /// What they are read as.
        decoded: StoredNumber,
        /// What they are stored as.
        encoded: StoredNumber,
    },
    /// Numbers stored as another type.
    AsType {
        /// What they are read as.
        decoded: StoredNumber,
        /// What they are stored as.
        encoded: StoredNumber,
    },
    /// Numbers stored as `(number - offset) * scale`.
    FixedScaleOffset {
        /// What they are read as.
        decoded: StoredNumber,
        /// What they are stored as.
        encoded: StoredNumber,
        /// The factor.
        scale: f64,
        /// What was subtracted first.
        offset: f64,
    },
    /// Booleans as bits.
    PackBits,
    /// A PNG or JPEG file, decoded to rows of pixels.
    Image {
        /// Rows of pixels.
        height: u32,
        /// Pixels of a row.
        width: u32,
        /// 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha.
        channels: u32,
        /// Bits of a channel, 8 or 16.
        bits: u32,
    },
    /// An NPY header before the values, which must be the one that was described.
    NpyHeader {
        /// Bytes of the header.
        len: u32,
        /// Their CRC-32C.
        crc32c: u32,
    },
    /// Rows of CSV text.
    CsvRows(CsvRows),
    /// A list of numbers in a protocol buffer, as `tf.train.FloatList` and `Int64List` are.
    MessageList {
        /// Which list.
        item: ListItem,
        /// How many numbers it has.
        count: u32,
    },
    /// A block behind an operator of ADIOS2, which says in its own head what was done.
    AdiosOperator,
    /// A filter that cannot be undone here.
    Unknown {
        /// Its id in HDF5 files.
        id: u32,
        /// Its registered name, what the file calls it, or nothing.
        name: String,
        /// What the file says of it.
        client_values: Vec<u32>,
    },
}

impl Filter {
    /// What it is called in messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Deflate { .. } => "deflate",
            Self::Shuffle { .. } => "shuffle",
            Self::Fletcher32 => "fletcher32",
            Self::Szip { .. } => "szip",
            Self::Nbit { .. } => "nbit",
            Self::ScaleOffset { .. } => "scaleoffset",
            Self::Bzip2 => "bzip2",
            Self::Lzf => "lzf",
            Self::Blosc => "blosc",
            Self::Blosc2 => "blosc2",
            Self::Lz4Blocks | Self::Lz4 => "lz4",
            Self::Bitshuffle { .. } => "bitshuffle",
            Self::Zfp { .. } => "zfp",
            Self::Zstd => "zstd",
            Self::BitGroom => "bitgroom",
            Self::GranularBitRound => "granular bitround",
            Self::Gzip => "gzip",
            Self::RawDeflate { .. } => "deflate (zip)",
            Self::Crc32c { .. } => "crc32c",
            Self::Crc32 { .. } => "crc32",
            Self::Adler32 { .. } => "adler32",
            Self::Transpose { .. } => "transpose",
            Self::Delta { .. } => "delta",
            Self::AsType { .. } => "astype",
            Self::FixedScaleOffset { .. } => "fixedscaleoffset",
            Self::PackBits => "packbits",
            Self::Image { .. } => "image",
            Self::NpyHeader { .. } => "npy header",
            Self::CsvRows(_) => "csv",
            Self::MessageList { .. } => "protobuf list",
            Self::AdiosOperator => "adios operator",
            Self::Unknown { name, .. } => name,
        }
    }

    /// Whether this filter can be undone by this build.
    pub fn is_known(&self) -> bool {
        match self {
            Self::Unknown { .. } => false,
            Self::Bzip2 => cfg!(feature = "bzip2"),
            Self::CsvRows(_) => cfg!(feature = "csv"),
            Self::Image { .. } => cfg!(feature = "image"),
            Self::Zfp { .. } => cfg!(feature = "zfp"),
            Self::Zstd => cfg!(feature = "zstd"),
            _ => true,
        }
    }

    /// The filter as people say it: `gzip-4`, `shuffle`, `lzo (filter 305)`.
    pub fn label(&self) -> String {
        match self {
            Self::Deflate { level: Some(level) } => format!("gzip-{level}"),
            Self::Deflate { level: None } => "gzip".to_owned(),
            Self::Unknown { id, name, .. } if name.is_empty() => format!("filter {id}"),
            Self::Unknown { id, name, .. } => format!("{name} (filter {id})"),
            known => known.name().to_owned(),
        }
    }

    /// Decodes `input` into the front of `out` and gives the length written.
    pub(crate) fn decode(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        match self {
            Self::Deflate { .. } => deflate::zlib(input, out),
            Self::Gzip => deflate::gzip(input, out),
            Self::RawDeflate { crc32 } => deflate::raw(*crc32, input, out),
            Self::Shuffle { element_len } => shuffle::decode(*element_len, input, out),
            Self::Fletcher32 => fletcher32::decode(input, out),
            Self::Szip { client_values } => szip::decode(client_values, input, out),
            Self::Nbit { client_values } => nbit::decode(client_values, input, out),
            Self::ScaleOffset { client_values } => scaleoffset::decode(client_values, input, out),
            Self::Lzf => lzf::decode(input, out),
            Self::Blosc => blosc::decode(input, out),
            Self::Blosc2 => blosc2::decode(input, out),
            Self::Lz4Blocks => lz4_blocks::decode(input, out),
            Self::Zstd => zstd::decode(input, out),
            Self::Lz4 => lz4::decode(input, out),
            Self::Bitshuffle { client_values } => bitshuffle::decode(client_values, input, out),
            Self::BitGroom | Self::GranularBitRound => copy_whole(input, out),
            Self::Crc32c { at_start } => checksum::crc32c(*at_start, input, out),
            Self::Crc32 { at_start } => checksum::crc32(*at_start, input, out),
            Self::Adler32 { at_start } => checksum::adler32(*at_start, input, out),
            Self::Transpose { element_len, shape, order } => {
                transpose::TransposedAxes::new(*element_len, shape, order)?.decode(input, out)
            }
            Self::Delta { decoded, encoded } => delta::decode(*decoded, *encoded, input, out),
            Self::AsType { decoded, encoded } => astype::decode(*decoded, *encoded, input, out),
            Self::FixedScaleOffset { decoded, encoded, scale, offset } => {
                let coding = fixed_scale_offset::FixedScaleCoding { scale: *scale, offset: *offset };
                coding.decode(*decoded, *encoded, input, out)
            }
            Self::PackBits => packbits::decode(input, out),
            Self::NpyHeader { len, crc32c } => npy_header::decode(*len, *crc32c, input, out),
            Self::MessageList { item, count } => message_list::decode(*item, *count, input, out),
            Self::AdiosOperator => adios::decode(input, out),
            optional => optional.decode_by_feature(input, out),
        }
    }

    /// The error for a filter that this build cannot undo.
    fn refusal(&self) -> Error {
        match self {
            Self::Unknown { id, name, .. } if name.is_empty() => {
                unsupported(format!("filter {id} is not supported"))
            }
            Self::Unknown { id, name, .. } => unsupported(format!("filter {id} ({name}) is not supported")),
            known => unsupported(format!("this build has no decoder for {}", known.name())),
        }
    }

    /// The same for decoders that a build may lack.
    #[cfg_attr(
        not(any(feature = "bzip2", feature = "csv", feature = "image", feature = "zfp")),
        expect(unused_variables, reason = "a build without features decodes nothing here")
    )]
    fn decode_by_feature(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        match self {
            #[cfg(feature = "bzip2")]
            Self::Bzip2 => crate::bzip2::decode(input, out),
            #[cfg(feature = "csv")]
            Self::CsvRows(rows) => crate::csv_cells::decode(rows, input, out),
            #[cfg(feature = "image")]
            Self::Image { height, width, channels, bits } => {
                let size =
                    crate::image::Size { height: *height, width: *width, channels: *channels, bits: *bits };
                crate::image::decode(size, input, out)
            }
            #[cfg(feature = "zfp")]
            Self::Zfp { client_values } => crate::zfp::decode(client_values, input, out),
            _ => Err(self.refusal()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_people_say() {
        let of = |id, params: &[u32]| Filter::from_hdf5(id, "", params.to_vec());
        assert_eq!(of(1, &[4]).label(), "gzip-4");
        assert_eq!(of(2, &[4]).label(), "shuffle");
        assert_eq!(of(32015, &[3]).label(), "zstd");
        assert_eq!(of(305, &[]).label(), "lzo (filter 305)");
        assert_eq!(of(60000, &[]).label(), "filter 60000");
        let named = Filter::from_hdf5(60000, "mine", vec![]);
        assert_eq!(named.label(), "mine (filter 60000)");
        assert!(of(1, &[]).is_known() && !named.is_known());
    }
}
