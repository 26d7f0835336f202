//! The table that benches/loader/tables.py writes: a line of JSON, then entries of 16 bytes, then the order of chunks.

use std::{fs, path::Path, path::PathBuf};

use serde_json::Value;

use crate::Outcome;

const ENTRY_LEN: usize = 16;

/// Where some bytes lie.
pub(crate) struct Piece {
    pub(crate) path: usize,
    pub(crate) len: usize,
    pub(crate) offset: u64,
}

impl Piece {
    fn from_bytes(entry: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        let offset = u64::from(word(8)) | u64::from(word(12)) << 32;
        Self { path: word(0) as usize, len: word(4) as usize, offset }
    }

    pub(crate) fn of<'a>(&self, files: &'a [impl AsRef<[u8]>]) -> Outcome<&'a [u8]> {
        let start = usize::try_from(self.offset)?;
        let bytes = files.get(self.path).and_then(|file| file.as_ref().get(start..start + self.len));
        Ok(bytes.ok_or("the table points past the end of a file")?)
    }
}

/// Samples stored as they are: `fields` pieces for each, in the order of the epoch.
pub(crate) struct Pieces {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) fields: usize,
    /// Fields of a few bytes per sample: read whole at the start, as any loader would do.
    pub(crate) small: Vec<bool>,
    pub(crate) pieces: Vec<Piece>,
}

/// Samples stored `samples_per_chunk` to a chunk, shuffled and deflated.
pub(crate) struct Chunks {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) samples_per_chunk: usize,
    pub(crate) sample_len: usize,
    pub(crate) chunks: Vec<Piece>,
    /// Sample numbers, in the order of the epoch.
    pub(crate) order: Vec<usize>,
}

pub(crate) enum Table {
    Pieces(Pieces),
    Chunks(Chunks),
}

impl Table {
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let bytes = fs::read(path)?;
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("the table has no header")?;
        let header: Value = serde_json::from_slice(&bytes[..end])?;
        let body = &bytes[end + 1..];
        let number = |name: &str| -> Outcome<usize> {
            let value = header[name].as_u64().ok_or(format!("the table's header has no '{name}'"))?;
            Ok(usize::try_from(value)?)
        };
        let paths = header["paths"].as_array().ok_or("the table's header has no 'paths'")?;
        let paths = paths.iter().filter_map(Value::as_str).map(PathBuf::from).collect();
        let entries = |bytes: &[u8]| bytes.chunks_exact(ENTRY_LEN).map(Piece::from_bytes).collect();
        if header["kind"] == "pieces" {
            let small = header["small"].as_array().ok_or("the table's header has no 'small'")?;
            let small: Vec<_> = small.iter().map(|value| value == true).collect();
            return Ok(Self::Pieces(Pieces { paths, fields: small.len(), small, pieces: entries(body) }));
        }
        let (chunks, order) = body.split_at(number("chunks")? * ENTRY_LEN);
        let order =
            order.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        Ok(Self::Chunks(Chunks {
            paths,
            samples_per_chunk: number("samples_per_chunk")?,
            sample_len: number("sample_len")?,
            chunks: entries(chunks),
            order: order.map(|word| word as usize).collect(),
        }))
    }

    pub(crate) fn sample_count(&self) -> usize {
        match self {
            Self::Pieces(table) => table.pieces.len() / table.fields,
            Self::Chunks(table) => table.order.len(),
        }
    }
}
