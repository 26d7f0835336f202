//! The header of a Blosc chunk, of either format.

use crate::error::{ended_early, unsupported};
use forebay_process::{Error, Result};

use crate::byte_cursor::ByteCursor;

/// The chunk format of Blosc 1.
const FIRST_FORMAT: u8 = 2;
/// The latest format known.
const LAST_FORMAT: u8 = 5;

const SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BIT_SHUFFLED: u8 = 0x04;
const DELTA: u8 = 0x08;
const NOT_SPLIT: u8 = 0x10;
/// Both kinds of shuffle at once mark the longer header of Blosc 2.
const EXTENDED: u8 = SHUFFLED | BIT_SHUFFLED;

/// Where the longer header says which filters were run, and with what.
const FILTER_COUNT: usize = 6;
const BLOSC2_DICTIONARY: u8 = 0x01;
const BLOSC2_BIG_ENDIAN: u8 = 0x02;
const BLOSC2_LAZY: u8 = 0x08;
const BLOSC2_INSTRUMENTED: u8 = 0x80;

/// One rearrangement of a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Shuffle { element_len: usize },
    BitShuffle,
}

/// A chunk that is one value over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Zero,
    NotANumber,
    /// One element, behind the header.
    Value,
}

/// A Blosc chunk: what its header says, and its bytes.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    /// The chunk with its header, without what may follow it.
    pub(crate) bytes: &'a [u8],
    pub(crate) header_len: usize,
    pub(crate) format: u8,
    pub(crate) element_len: usize,
    /// Length of the decoded chunk.
    pub(crate) len: usize,
    /// Length of each decoded block but the last; never zero.
    pub(crate) block_len: usize,
    pub(crate) codec: u8,
    pub(crate) is_stored: bool,
    pub(crate) is_split: bool,
    pub(crate) special: Option<Special>,
    /// What to undo, first to last.
    pub(crate) moves: Vec<Move>,
    /// Whether each block was written as its difference from the first.
    pub(crate) has_delta: bool,
}

impl<'a> Chunk<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = ByteCursor::new(bytes, crate::ByteOrder::Little);
        let [format, _codec_format, flags, element_len] = cursor.array()?;
        let (len, block_len) = (cursor.u32()? as usize, cursor.u32()? as usize);
        let stored_len = cursor.u32()? as usize;
        if format > LAST_FORMAT {
            return Err(unsupported(format!("chunk format {format} is not supported")));
        }
        if element_len == 0 || (block_len == 0 && len > 0) {
            return Err(Error::corrupt("header has an element or block of no length"));
        }
        let mut chunk = Self {
            bytes: bytes.get(..stored_len).ok_or_else(ended_early)?,
            header_len: 16,
            format,
            element_len: usize::from(element_len),
            len,
            block_len: block_len.min(len).max(1),
            codec: flags >> 5,
            is_stored: flags & STORED != 0,
            is_split: flags & NOT_SPLIT == 0,
            special: None,
            moves: Vec::new(),
            has_delta: false,
        };
        if flags & EXTENDED == EXTENDED {
            chunk.parse_extension(&mut cursor)?;
        } else {
            chunk.read_flags(flags);
        }
        Ok(chunk)
    }

    /// Whether the header is the longer one of Blosc 2.
    pub(crate) fn is_extended(&self) -> bool {
        self.header_len > 16
    }

    /// Whether blocks are bit-shuffled only where they are whole groups of eight elements.
    pub(crate) fn is_first_format(&self) -> bool {
        self.format <= FIRST_FORMAT
    }

    fn read_flags(&mut self, flags: u8) {
        if flags & SHUFFLED != 0 {
            self.moves.push(Move::Shuffle { element_len: self.element_len });
        } else if flags & BIT_SHUFFLED != 0 {
            self.moves.push(Move::BitShuffle);
        }
        self.has_delta = flags & DELTA != 0 && !self.is_first_format();
        // Chunks from before the flag existed are split where it pays.
        self.is_split &= self.element_len <= 16 && self.block_len / self.element_len >= 128;
    }

    fn parse_extension(&mut self, cursor: &mut ByteCursor<'_>) -> Result<()> {
        let codes: [u8; FILTER_COUNT] = cursor.array()?;
        let [_codec, _codec_meta] = cursor.array()?;
        let metas: [u8; FILTER_COUNT] = cursor.array()?;
        let [more_flags, flags] = cursor.array()?;
        self.header_len = 32;
        let refused = BLOSC2_DICTIONARY | BLOSC2_BIG_ENDIAN | BLOSC2_LAZY | BLOSC2_INSTRUMENTED;
        if flags & refused != 0 || more_flags != 0 {
            return Err(unsupported(format!(
                "chunk flags {more_flags:#04x}, {flags:#04x} are not supported"
            )));
        }
        self.special = match flags >> 4 & 7 {
            0 => None,
            // What was never written may be anything, and zero is as good.
            1 | 4 => Some(Special::Zero),
            2 => Some(Special::NotANumber),
            3 => Some(Special::Value),
            other => return Err(unsupported(format!("special value {other} is not supported"))),
        };
        for (code, meta) in codes.into_iter().zip(metas).rev() {
            self.push_filter(code, meta)?;
        }
        Ok(())
    }

    fn push_filter(&mut self, code: u8, meta: u8) -> Result<()> {
        // A difference is taken from the first block as it reads in the end, so nothing may be undone after it.
        if self.has_delta && !matches!(code, 0 | 4) {
            return Err(unsupported("filters before a delta are not supported"));
        }
        match code {
            // Cutting precision loses bits when writing and leaves nothing to undo.
            0 | 4 => {}
            1 => {
                let element_len = if meta == 0 { self.element_len } else { usize::from(meta) };
                self.moves.push(Move::Shuffle { element_len });
            }
            2 => self.moves.push(Move::BitShuffle),
            3 => self.has_delta = true,
            other => return Err(unsupported(format!("inner filter {other} is not supported"))),
        }
        Ok(())
    }
}
