//! How a chunk is compressed.

use std::{io, str::FromStr};

use forebay::{Error, ErrorKind, Result};
use libdeflater::{CompressionLvl, Compressor};
use serde_json::{Value, json};

/// How a chunk is compressed, and how hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkCodec {
    /// As it is.
    None,
    /// Gzip, of levels 0 to 9.
    Gzip(u8),
    /// Zstandard, of levels 1 to 22.
    Zstd(u8),
}

impl Default for ChunkCodec {
    /// The level Zstandard has by itself.
    fn default() -> Self {
        Self::Zstd(3)
    }
}

impl FromStr for ChunkCodec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
        let level = |default: u8, least: u8, most: u8| match level.map(str::parse) {
            None => Ok(default),
            Some(Ok(level)) if (least..=most).contains(&level) => Ok(level),
            Some(_) => Err(format!("levels of {name} are {least} to {most}")),
        };
        match name {
            "none" if text == "none" => Ok(Self::None),
            "gzip" => level(4, 0, 9).map(Self::Gzip),
            "zstd" => level(3, 1, 22).map(Self::Zstd),
            _ => Err("there are zstd:LEVEL, gzip:LEVEL and none".into()),
        }
    }
}

impl ChunkCodec {
    /// As Zarr writes it; nothing where nothing is done.
    pub(super) fn for_zarr(self) -> Option<Value> {
        match self {
            Self::None => None,
            Self::Gzip(level) => Some(json!({ "name": "gzip", "configuration": { "level": level } })),
            Self::Zstd(level) => {
                Some(json!({ "name": "zstd", "configuration": { "level": level, "checksum": false } }))
            }
        }
    }

    /// The bytes of `chunk`, compressed.
    pub(super) fn compress(self, chunk: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Self::None => Ok(chunk),
            Self::Zstd(level) => zstd::bulk::compress(&chunk, level.into()).map_err(Error::from_io),
            Self::Gzip(level) => gzip(&chunk, level),
        }
    }
}

fn gzip(chunk: &[u8], level: u8) -> Result<Vec<u8>> {
    let level = CompressionLvl::new(level.into())
        .map_err(|_| Error::new(ErrorKind::Invalid, format!("no level {level} of gzip")))?;
    let mut compressor = Compressor::new(level);
    let mut out = vec![0; compressor.gzip_compress_bound(chunk.len())];
    let len = compressor
        .gzip_compress(chunk, &mut out)
        .map_err(|error| Error::from_io(io::Error::other(error.to_string())))?;
    out.truncate(len);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_name_and_perhaps_a_level() {
        let parse = |text: &str| text.parse::<ChunkCodec>();
        assert_eq!(parse("none"), Ok(ChunkCodec::None));
        assert_eq!(parse("zstd"), Ok(ChunkCodec::Zstd(3)));
        assert_eq!(parse("gzip:9"), Ok(ChunkCodec::Gzip(9)));
        for wrong in ["gzip:10", "zstd:0", "none:1", "lz4", "zstd:", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
