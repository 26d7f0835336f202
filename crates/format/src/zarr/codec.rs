//! Codecs as filters: what was done to a chunk, in the order it was done.

use forebay_source::Result;
use serde_json::Value;

use super::{
    element::{Element, Meaning},
    json::{Named, corrupt, unsupported},
};
use crate::{
    ByteOrder, Dtype, Filter,
    filter::{self, element::code},
};

/// What the objects of an array are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Objects {
    Texts,
    Bytes,
    /// Arrays of this type.
    Arrays(Dtype),
}

/// How the index of a shard is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardIndex {
    pub(super) order: ByteOrder,
    pub(super) has_checksum: bool,
    pub(super) is_at_start: bool,
}

/// The steps of a chunk's encoding, gathered one codec after the other.
#[derive(Debug)]
pub(super) struct Steps<'a> {
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

impl<'a> Steps<'a> {
    pub(super) fn new(element: &Element, chunk: &'a [u64], order: Option<ByteOrder>) -> Self {
        let len = element.dtype.stored_len();
        Self { chunk, order, first_len: len, element_len: len, filters: Vec::new(), objects: None }
    }

    fn push(&mut self, id: u32, params: Vec<u32>) {
        self.filters.push(Filter::new(id, params));
    }

    /// The chunk's axes were stored in `order`.
    pub(super) fn transpose(&mut self, order: &[usize]) -> Result<()> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted.len() != self.chunk.len() || sorted.iter().enumerate().any(|(axis, named)| axis != *named) {
            return Err(corrupt(format!("{order:?} is no order of {} axes", self.chunk.len())));
        }
        if self.filters.iter().any(|filter| filter.id == filter::TRANSPOSE) {
            return Err(unsupported("axes that were reordered twice"));
        }
        // Axes of length one may stand anywhere.
        if order.iter().filter(|axis| self.chunk[**axis] > 1).is_sorted() {
            return Ok(());
        }
        let lens = [self.element_len, order.len()].into_iter().map(|len| len as u64);
        let params = lens.chain(self.chunk.iter().copied()).chain(order.iter().map(|axis| *axis as u64));
        let params: Option<Vec<u32>> = params.map(|param| u32::try_from(param).ok()).collect();
        self.push(
            filter::TRANSPOSE,
            params.ok_or_else(|| unsupported("chunks of more than 2^32 along an axis"))?,
        );
        Ok(())
    }

    /// The codec that numcodecs calls `id`.
    pub(super) fn numcodec(&mut self, id: &str, settings: &Value) -> Result<()> {
        match id {
            "zlib" => self.push(filter::DEFLATE, level(settings)),
            "gzip" => self.push(filter::GZIP, Vec::new()),
            "zstd" => self.push(filter::ZSTD, Vec::new()),
            "blosc" => self.push(filter::BLOSC, Vec::new()),
            "bz2" => self.push(filter::BZIP2, Vec::new()),
            "lz4" => self.push(filter::LZ4_SIZED, Vec::new()),
            "crc32c" => self.push(filter::CRC32C, at_start(settings, false)),
            "crc32" => self.push(filter::CRC32, at_start(settings, true)),
            "adler32" => self.push(filter::ADLER32, at_start(settings, true)),
            "packbits" => self.push(filter::PACKBITS, Vec::new()),
            "shuffle" => {
                let len = settings.get("elementsize").and_then(Value::as_u64).unwrap_or(4);
                let len = u32::try_from(len).map_err(|_| corrupt("elements too long to shuffle"))?;
                self.push(filter::SHUFFLE, vec![len]);
            }
            // Bits were rounded away when it was written, with nothing to undo.
            "quantize" | "bitround" => self.keeps_type(settings)?,
            "delta" => {
                let params = self.types(settings, "dtype", "astype")?;
                self.push(filter::DELTA, params);
            }
            "astype" => {
                let params = self.types(settings, "decode_dtype", "encode_dtype")?;
                self.push(filter::ASTYPE, params);
            }
            "fixedscaleoffset" => self.scale_offset(settings)?,
            "vlen-utf8" | "vlen-bytes" | "vlen-array" => self.objects_of(id, settings)?,
            "pickle" => return Err(unsupported("codec 'pickle': nothing is unpickled here")),
            _ => {
                let what = format!("codec '{id}' is not supported");
                return Err(unsupported(what).hint("rewrite the array with zstd, gzip, lz4 or blosc"));
            }
        }
        Ok(())
    }

    /// Numbers that a codec stores as another type; none may be longer than the elements themselves.
    fn types(&mut self, settings: &Value, decoded: &str, encoded: &str) -> Result<Vec<u32>> {
        let order = self.order;
        let typed = |name: &str| -> Result<(u32, usize)> {
            let value = settings.get(name).or_else(|| settings.get(decoded));
            let value = value.ok_or_else(|| corrupt(format!("a codec without '{name}'")))?;
            let refuse = || unsupported(format!("a codec that reckons with {value}"));
            let text = value.as_str().ok_or_else(refuse)?;
            let text = if text.starts_with(['<', '>', '|']) { text.to_owned() } else { format!("<{text}") };
            let little = || Element::of_v3(value, ByteOrder::Little);
            let element = Element::of_v2(&Value::from(text.as_str())).or_else(|_| little())?;
            let Dtype::Number { number, order: own } = element.dtype else { return Err(refuse()) };
            let order = match order {
                None => own,
                // What zarr-python then writes, it does not read back itself.
                Some(_) if own == ByteOrder::Big => return Err(refuse()),
                Some(order) => order,
            };
            Ok((code(number, order).ok_or_else(refuse)?, number.size()))
        };
        let ((to, to_len), (from, from_len)) = (typed(decoded)?, typed(encoded)?);
        if to_len != self.element_len {
            return Err(corrupt("a codec for elements of another length"));
        }
        if from_len > self.first_len {
            return Err(unsupported("a codec that stores elements longer than they are"));
        }
        self.element_len = from_len;
        Ok(vec![to, from])
    }

    /// A codec that changes values but not their type.
    fn keeps_type(&mut self, settings: &Value) -> Result<()> {
        let types = ["dtype", "astype"].map(|name| settings.get(name));
        match types {
            [Some(dtype), Some(astype)] if dtype != astype => {
                let params = self.types(settings, "dtype", "astype")?;
                self.push(filter::ASTYPE, params);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn scale_offset(&mut self, settings: &Value) -> Result<()> {
        let number = |name: &str| {
            settings
                .get(name)
                .and_then(Value::as_f64)
                .ok_or_else(|| corrupt(format!("a codec without '{name}'")))
        };
        let (scale, offset) = (number("scale")?, number("offset")?);
        let mut params = self.types(settings, "dtype", "astype")?;
        for bits in [scale.to_bits(), offset.to_bits()] {
            #[expect(clippy::cast_possible_truncation, reason = "two halves")]
            params.extend([bits as u32, (bits >> 32) as u32]);
        }
        self.push(filter::FIXED_SCALE_OFFSET, params);
        Ok(())
    }

    fn objects_of(&mut self, id: &str, settings: &Value) -> Result<()> {
        if !self.filters.is_empty() || self.objects.is_some() {
            return Err(unsupported(format!("codec '{id}' behind another")));
        }
        self.objects = Some(match id {
            "vlen-utf8" => Objects::Texts,
            "vlen-bytes" => Objects::Bytes,
            _ => {
                let item =
                    settings.get("dtype").ok_or_else(|| corrupt("codec 'vlen-array' without a type"))?;
                let item = Element::of_v2(item)?;
                if item.meaning == Meaning::Object {
                    return Err(unsupported("arrays of objects inside an array"));
                }
                Objects::Arrays(item.dtype)
            }
        });
        Ok(())
    }
}

/// The level of zlib, for people to read.
fn level(settings: &Value) -> Vec<u32> {
    let level = settings.get("level").and_then(Value::as_u64).and_then(|level| u32::try_from(level).ok());
    level.into_iter().collect()
}

fn at_start(settings: &Value, by_default: bool) -> Vec<u32> {
    let is_at_start = settings.get("location").and_then(Value::as_str).map_or(by_default, |at| at == "start");
    vec![u32::from(is_at_start)]
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
        let list = value.as_array().ok_or_else(|| corrupt("codecs are no list"))?;
        let mut before = list.iter().map(|codec| Named::of(codec, "a codec")).collect::<Result<Vec<_>>>()?;
        let is_bytes = |codec: &Named<'_>| {
            MAKES_BYTES.contains(&codec.name.strip_prefix("numcodecs.").unwrap_or(codec.name))
        };
        let Some(at) = before.iter().position(is_bytes) else {
            let names: Vec<_> = before.iter().map(|codec| codec.name).collect();
            return Err(unsupported(format!("no codec this build knows makes bytes: {}", names.join(", "))));
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
            Some(other) => Err(corrupt(format!("'{other}' is no order of bytes"))),
        }
    }

    /// The filters that undo it.
    pub(super) fn steps<'c>(&self, element: &Element, chunk: &'c [u64]) -> Result<Steps<'c>> {
        let mut steps = Steps::new(element, chunk, Some(self.order()?));
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
    pub(super) fn index(&self, is_at_start: bool) -> Result<ShardIndex> {
        let is_plain = self.before.is_empty() && matches!(self.bytes.name, "bytes" | "endian");
        let has_checksum = match self.behind.as_slice() {
            [] => false,
            [codec] if codec.name == "crc32c" => true,
            _ => return Err(unsupported("a shard's index that is more than numbers and a checksum")),
        };
        if !is_plain {
            return Err(unsupported("a shard's index that is more than numbers and a checksum"));
        }
        Ok(ShardIndex { order: self.order()?, has_checksum, is_at_start })
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
    axes.ok_or_else(|| corrupt("codec 'transpose' without an order"))
}
