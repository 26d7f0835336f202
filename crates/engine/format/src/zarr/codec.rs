//! Codecs as filters: what was done to a chunk, in the order it was done.

use forebay_process::{Error, Result};
use serde_json::Value;

use super::{
    element::{Meaning, ZarrElement},
    json::Named,
};
use forebay_container::{ByteOrder, Dtype, ShardIndexForm};
use forebay_filter::{Filter, StoredNumber};

/// What the objects of an array are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Objects {
    Texts,
    Bytes,
    /// Arrays of this type.
    Arrays(Dtype),
}

/// The steps of a chunk's encoding, gathered one codec after the other.
#[derive(Debug)]
pub(super) struct CodecSteps<'a> {
    chunk: &'a [u64],
    /// The order that numbers are stored in, in version 3; in version 2 each codec says so.
    order: Option<ByteOrder>,
    /// Bytes of an element as it goes in.
    first_len: usize,
    /// Bytes of an element as the codecs so far leave it.
    element_len: usize,
    pub(super) filters: Vec<Filter>,
    pub(super) objects: Option<Objects>,
}

impl<'a> CodecSteps<'a> {
    pub(super) fn new(element: &ZarrElement, chunk: &'a [u64], order: Option<ByteOrder>) -> Self {
        let len = element.dtype.stored_len();
        Self { chunk, order, first_len: len, element_len: len, filters: Vec::new(), objects: None }
    }

    /// The chunk's axes were stored in `order`.
    pub(super) fn transpose(&mut self, order: &[usize]) -> Result<()> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted.len() != self.chunk.len() || sorted.iter().enumerate().any(|(axis, named)| axis != *named) {
            return Err(Error::corrupt(format!("{order:?} is no order of {} axes", self.chunk.len())));
        }
        if self.filters.iter().any(|filter| matches!(filter, Filter::Transpose { .. })) {
            return Err(Error::unsupported("axes that were reordered twice"));
        }
        // Axes of length one may stand anywhere.
        if order.iter().filter(|axis| self.chunk[**axis] > 1).is_sorted() {
            return Ok(());
        }
        let small = |n: u64| {
            u32::try_from(n).map_err(|_| Error::unsupported("chunks of more than 2^32 along an axis"))
        };
        self.filters.push(Filter::Transpose {
            element_len: small(self.element_len as u64)?,
            shape: self.chunk.iter().map(|len| small(*len)).collect::<Result<_>>()?,
            order: order.iter().map(|axis| small(*axis as u64)).collect::<Result<_>>()?,
        });
        Ok(())
    }

    /// The codec that numcodecs calls `id`.
    pub(super) fn numcodec(&mut self, id: &str, settings: &Value) -> Result<()> {
        let filter = match id {
            "zlib" => Filter::Deflate { level: level(settings) },
            "gzip" => Filter::Gzip,
            "zstd" => Filter::Zstd,
            "blosc" => Filter::Blosc,
            "bz2" => Filter::Bzip2,
            "lz4" => Filter::Lz4,
            "crc32c" => Filter::Crc32c { at_start: at_start(settings, false) },
            "crc32" => Filter::Crc32 { at_start: at_start(settings, true) },
            "adler32" => Filter::Adler32 { at_start: at_start(settings, true) },
            "packbits" => Filter::PackBits,
            "shuffle" => {
                let len = settings.get("elementsize").and_then(Value::as_u64).unwrap_or(4);
                let len = u32::try_from(len).map_err(|_| Error::corrupt("elements too long to shuffle"))?;
                // numcodecs leaves the bytes as they are where elements have none.
                Filter::Shuffle { element_len: len.max(1) }
            }
            // Bits were rounded away when it was written, with nothing to undo.
            "quantize" | "bitround" => return self.keeps_type(settings),
            "delta" => {
                let (decoded, encoded) = self.types(settings, "dtype", "astype")?;
                Filter::Delta { decoded, encoded }
            }
            "astype" => {
                let (decoded, encoded) = self.types(settings, "decode_dtype", "encode_dtype")?;
                Filter::AsType { decoded, encoded }
            }
            "fixedscaleoffset" => self.scale_offset(settings)?,
            "vlen-utf8" | "vlen-bytes" | "vlen-array" => return self.objects_of(id, settings),
            "pickle" => return Err(Error::unsupported("codec 'pickle': nothing is unpickled here")),
            _ => {
                let what = format!("codec '{id}' is not supported");
                return Err(Error::unsupported(what).hint("rewrite the array with zstd, gzip, lz4 or blosc"));
            }
        };
        self.filters.push(filter);
        Ok(())
    }

    /// Numbers that a codec stores as another type; none may be longer than the elements themselves.
    fn types(
        &mut self,
        settings: &Value,
        decoded: &str,
        encoded: &str,
    ) -> Result<(StoredNumber, StoredNumber)> {
        let order = self.order;
        let typed = |name: &str| -> Result<(StoredNumber, usize)> {
            let value = settings.get(name).or_else(|| settings.get(decoded));
            let value = value.ok_or_else(|| Error::corrupt(format!("a codec without '{name}'")))?;
            let refuse = || Error::unsupported(format!("a codec that computes with {value}"));
            let text = value.as_str().ok_or_else(refuse)?;
            let text = if text.starts_with(['<', '>', '|']) { text.to_owned() } else { format!("<{text}") };
            let little = || ZarrElement::of_v3(value, ByteOrder::Little);
            let element = ZarrElement::of_v2(&Value::from(text.as_str())).or_else(|_| little())?;
            let Dtype::Number { number, order: own } = element.dtype else { return Err(refuse()) };
            let order = match order {
                None => own,
                // What zarr-python then writes, it does not read back itself.
                Some(_) if own == ByteOrder::Big => return Err(refuse()),
                Some(order) => order,
            };
            Ok((StoredNumber::new(number, order).ok_or_else(refuse)?, number.size()))
        };
        let ((to, to_len), (from, from_len)) = (typed(decoded)?, typed(encoded)?);
        if to_len != self.element_len {
            return Err(Error::corrupt("a codec for elements of another length"));
        }
        if from_len > self.first_len {
            return Err(Error::unsupported("a codec that stores elements longer than they are"));
        }
        self.element_len = from_len;
        Ok((to, from))
    }

    /// A codec that changes values but not their type.
    fn keeps_type(&mut self, settings: &Value) -> Result<()> {
        let types = ["dtype", "astype"].map(|name| settings.get(name));
        match types {
            [Some(dtype), Some(astype)] if dtype != astype => {
                let (decoded, encoded) = self.types(settings, "dtype", "astype")?;
                self.filters.push(Filter::AsType { decoded, encoded });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn scale_offset(&mut self, settings: &Value) -> Result<Filter> {
        let number = |name: &str| {
            let value = settings.get(name).and_then(Value::as_f64);
            value.ok_or_else(|| Error::corrupt(format!("a codec without '{name}'")))
        };
        let (scale, offset) = (number("scale")?, number("offset")?);
        let (decoded, encoded) = self.types(settings, "dtype", "astype")?;
        Ok(Filter::FixedScaleOffset { decoded, encoded, scale, offset })
    }

    fn objects_of(&mut self, id: &str, settings: &Value) -> Result<()> {
        if !self.filters.is_empty() || self.objects.is_some() {
            return Err(Error::unsupported(format!("codec '{id}' behind another")));
        }
        self.objects = Some(match id {
            "vlen-utf8" => Objects::Texts,
            "vlen-bytes" => Objects::Bytes,
            _ => {
                let item = settings
                    .get("dtype")
                    .ok_or_else(|| Error::corrupt("codec 'vlen-array' without a type"))?;
                let item = ZarrElement::of_v2(item)?;
                if item.meaning == Meaning::Object {
                    return Err(Error::unsupported("arrays of objects inside an array"));
                }
                Objects::Arrays(item.dtype)
            }
        });
        Ok(())
    }
}

/// The level of zlib, for people to read.
fn level(settings: &Value) -> Option<u32> {
    settings.get("level").and_then(Value::as_u64).and_then(|level| u32::try_from(level).ok())
}

/// Whether a checksum stands before the bytes.
fn at_start(settings: &Value, by_default: bool) -> bool {
    settings.get("location").and_then(Value::as_str).map_or(by_default, |at| at == "start")
}

/// What the codecs of version 3 make of a chunk.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// The codecs before the one that makes bytes.
    pub(super) before: Vec<Named<'a>>,
    /// The codec that makes bytes.
    pub(super) bytes: Named<'a>,
    /// The codecs behind it.
    pub(super) behind: Vec<Named<'a>>,
}

/// Codecs that make bytes of elements.
const MAKES_BYTES: [&str; 5] = ["bytes", "endian", "sharding_indexed", "vlen-utf8", "vlen-bytes"];

impl<'a> Chain<'a> {
    /// The chain that `value` lists.
    pub(super) fn of(value: &'a Value) -> Result<Self> {
        let list = value.as_array().ok_or_else(|| Error::corrupt("codecs are no list"))?;
        let mut before = list.iter().map(|codec| Named::of(codec, "a codec")).collect::<Result<Vec<_>>>()?;
        let is_bytes = |codec: &Named<'_>| {
            MAKES_BYTES.contains(&codec.name.strip_prefix("numcodecs.").unwrap_or(codec.name))
        };
        let Some(at) = before.iter().position(is_bytes) else {
            let names: Vec<_> = before.iter().map(|codec| codec.name).collect();
            return Err(Error::unsupported(format!(
                "no codec this build knows makes bytes: {}",
                names.join(", ")
            )));
        };
        let mut behind = before.split_off(at);
        let bytes = behind.remove(0);
        Ok(Self { before, bytes, behind })
    }

    /// In which order numbers are stored.
    pub(super) fn order(&self) -> Result<ByteOrder> {
        match self.bytes.settings.get("endian").and_then(Value::as_str) {
            Some("little") | None => Ok(ByteOrder::Little),
            Some("big") => Ok(ByteOrder::Big),
            Some(other) => Err(Error::corrupt(format!("'{other}' is no order of bytes"))),
        }
    }

    /// The filters that undo it.
    pub(super) fn steps<'c>(&self, element: &ZarrElement, chunk: &'c [u64]) -> Result<CodecSteps<'c>> {
        let mut steps = CodecSteps::new(element, chunk, Some(self.order()?));
        for codec in &self.before {
            match codec.name {
                "transpose" => steps.transpose(&axes(codec.settings, chunk.len())?)?,
                name => steps.numcodec(name.strip_prefix("numcodecs.").unwrap_or(name), codec.settings)?,
            }
        }
        match self.bytes.name {
            "bytes" | "endian" => {}
            name => steps.numcodec(name.strip_prefix("numcodecs.").unwrap_or(name), self.bytes.settings)?,
        }
        for codec in &self.behind {
            steps.numcodec(codec.name.strip_prefix("numcodecs.").unwrap_or(codec.name), codec.settings)?;
        }
        Ok(steps)
    }

    /// How an index of chunks is stored whose codecs these are.
    pub(super) fn index(&self, is_at_start: bool) -> Result<ShardIndexForm> {
        let is_plain = self.before.is_empty() && matches!(self.bytes.name, "bytes" | "endian");
        let has_checksum = match self.behind.as_slice() {
            [] => false,
            [codec] if codec.name == "crc32c" => true,
            _ => return Err(Error::unsupported("a shard's index that is more than numbers and a checksum")),
        };
        if !is_plain {
            return Err(Error::unsupported("a shard's index that is more than numbers and a checksum"));
        }
        Ok(ShardIndexForm { order: self.order()?, has_checksum, is_at_start })
    }
}

/// The order of axes that a `transpose` codec names.
fn axes(settings: &Value, ndim: usize) -> Result<Vec<usize>> {
    let axis = |value: &Value| value.as_u64().and_then(|axis| usize::try_from(axis).ok());
    let axes = match settings.get("order") {
        Some(Value::Array(list)) => list.iter().map(axis).collect(),
        Some(Value::String(order)) if order == "C" => Some((0..ndim).collect()),
        Some(Value::String(order)) if order == "F" => Some((0..ndim).rev().collect()),
        _ => None,
    };
    axes.ok_or_else(|| Error::corrupt("codec 'transpose' without an order"))
}
