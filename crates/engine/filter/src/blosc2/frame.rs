//! The contiguous frame around a Blosc 2 chunk.
//!
//! ```text
//!   header (msgpack, with metalayers) │ chunk │ chunk offsets (a Blosc chunk of i64 LE) │ trailer
//! ```

use crate::error::{ended_early, unsupported};
use forebay_process::{Error, Result};

use super::{Tiles, msgpack::expect};
use crate::blosc::{Chunk, decode_chunk};
use crate::byte_cursor::ByteCursor;

const MAGIC: &[u8] = b"\x9e\xa8b2frame\0\xd2";
/// Where the metalayers begin: all before has a fixed place.
const METALAYERS: usize = 87;

const MAP16: u8 = 0xde;
const INT32: u8 = 0xd2;
const BIN32: u8 = 0xc6;
/// A msgpack string of up to 31 bytes has its length in the low bits of its marker.
const SHORT_STRING: u8 = 0xa0;

static NAN_F32: [u8; 4] = f32::NAN.to_le_bytes();
static NAN_F64: [u8; 8] = f64::NAN.to_le_bytes();

/// What a frame's header says.
pub(crate) struct Blosc2Frame<'a> {
    bytes: &'a [u8],
    header: &'a [u8],
    /// Length of the decoded chunk, with its padding.
    pub(crate) len: usize,
    stored_len: usize,
    element_len: usize,
}

/// What a frame holds.
pub(crate) enum Content<'a> {
    Chunk(&'a [u8]),
    /// No chunk, but an element that stands for all.
    Fill(&'static [u8]),
}

impl<'a> Blosc2Frame<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = ByteCursor::new(bytes, crate::ByteOrder::Big);
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(Error::corrupt("not a Blosc 2 frame"));
        }
        let header_len = cursor.u32()? as usize;
        cursor.take(1 + 8 + 1)?;
        let [_flags, kind, _codec, _more] = cursor.array()?;
        if kind != 0 {
            return Err(unsupported(format!("frame type {kind} is not supported")));
        }
        cursor.take(1)?;
        let len = cursor.u64()?;
        cursor.take(1)?;
        let stored_len = cursor.u64()?;
        cursor.take(1)?;
        let element_len = cursor.u32()?;
        cursor.take(1 + 4 + 1)?;
        let chunk_len = cursor.u32()?;
        if len > u64::from(chunk_len) {
            return Err(unsupported("frame of several chunks is not supported"));
        }
        Ok(Self {
            bytes,
            header: bytes.get(..header_len).ok_or_else(ended_early)?,
            len: usize::try_from(len).map_err(|_| ended_early())?,
            stored_len: usize::try_from(stored_len).map_err(|_| ended_early())?,
            element_len: element_len as usize,
        })
    }

    pub(crate) fn content(&self) -> Result<Content<'a>> {
        if self.len == 0 {
            return Ok(Content::Fill(&[0]));
        }
        let body = &self.bytes[self.header.len()..];
        let offsets = body.get(self.stored_len..).ok_or_else(ended_early)?;
        let mut offset = [0; 8];
        if decode_chunk(&Chunk::parse(offsets)?, &mut offset)? != offset.len() {
            return Err(Error::corrupt("frame has no chunk offset"));
        }
        let offset = i64::from_le_bytes(offset);
        if let Ok(offset) = usize::try_from(offset) {
            return Ok(Content::Chunk(body.get(offset..).ok_or_else(ended_early)?));
        }
        // A negative offset stands for a chunk that was never stored: its kind is in the highest byte.
        match (offset.to_be_bytes()[0] & 0x7f, self.element_len) {
            (1 | 4, _) => Ok(Content::Fill(&[0])),
            (2, 4) => Ok(Content::Fill(&NAN_F32)),
            (2, 8) => Ok(Content::Fill(&NAN_F64)),
            (kind, _) => Err(Error::corrupt(format!("special chunk {kind} is not known"))),
        }
    }

    /// How blocks tile the chunk, where it is more than a run of elements.
    pub(crate) fn tiles(&self) -> Result<Option<Tiles>> {
        let mut cursor =
            ByteCursor::new(self.header.get(METALAYERS..).ok_or_else(ended_early)?, crate::ByteOrder::Big);
        cursor.take(1 + 1 + 2)?;
        expect(&mut cursor, MAP16)?;
        for _ in 0..cursor.u16()? {
            let name_len = cursor.u8()?.checked_sub(SHORT_STRING).filter(|&len| len < 32);
            let name =
                cursor.take(usize::from(name_len.ok_or_else(|| Error::corrupt("metalayer has no name"))?))?;
            expect(&mut cursor, INT32)?;
            let offset = cursor.u32()? as usize;
            if name == b"b2nd" || name == b"caterva" {
                let mut layer = ByteCursor::new(
                    self.header.get(offset..).ok_or_else(ended_early)?,
                    crate::ByteOrder::Big,
                );
                expect(&mut layer, BIN32)?;
                let layer_len = layer.u32()? as usize;
                return Tiles::parse(layer.take(layer_len)?, self.element_len).map(Some);
            }
        }
        Ok(None)
    }
}
