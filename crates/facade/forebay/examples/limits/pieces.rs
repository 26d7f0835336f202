//! Samples that are stored as they are, copied into batches.

use std::{fs::File, hint::black_box, ops::Range, os::unix::fs::FileExt};

use memmap2::Mmap;

use crate::{
    Limit, Options, Outcome,
    arena::{Arena, Pages},
    mapped::map,
    table::Piece,
    table::Pieces,
};

enum Files {
    Opened(Vec<File>),
    Mapped(Vec<Mmap>),
}

impl Files {
    fn open(table: &Pieces, mode: &str) -> Outcome<Self> {
        if mode == "mapped" {
            return Ok(Self::Mapped(table.paths.iter().map(|path| map(path)).collect::<Outcome<_>>()?));
        }
        Ok(Self::Opened(table.paths.iter().map(File::open).collect::<Result<_, _>>()?))
    }

    fn copy(&self, piece: &Piece, into: &mut [u8]) -> Outcome<()> {
        match self {
            Self::Opened(files) => files[piece.path].read_exact_at(into, piece.offset)?,
            Self::Mapped(files) => into.copy_from_slice(piece.of(files)?),
        }
        Ok(())
    }
}

/// All bytes between the first and the last piece of a small field, which lies in one file.
struct Kept {
    start: u64,
    bytes: Vec<u8>,
}

impl Kept {
    fn read(table: &Pieces, field: usize, files: &Files) -> Outcome<Self> {
        let all = || table.pieces.iter().skip(field).step_by(table.fields);
        let start = all().map(|piece| piece.offset).min().unwrap_or(0);
        let end = all().map(|piece| piece.offset + piece.len as u64).max().unwrap_or(0);
        let mut bytes = vec![0; usize::try_from(end - start)?];
        files.copy(&Piece { path: 0, len: bytes.len(), offset: start }, &mut bytes)?;
        Ok(Self { start, bytes })
    }

    fn copy(&self, piece: &Piece, into: &mut [u8]) -> Outcome<()> {
        let start = usize::try_from(piece.offset - self.start)?;
        into.copy_from_slice(&self.bytes[start..start + piece.len]);
        Ok(())
    }
}

pub(crate) struct Copies<'a> {
    table: &'a Pieces,
    files: Files,
    kept: Vec<Option<Kept>>,
    /// The most bytes that each field has in a batch.
    buffer_len: Vec<usize>,
    pages: Pages,
    fresh: bool,
}

impl<'a> Copies<'a> {
    pub(crate) fn open(table: &'a Pieces, options: &Options) -> Outcome<Self> {
        let files = Files::open(table, &options.mode)?;
        let kept =
            |(field, small): (usize, &bool)| small.then(|| Kept::read(table, field, &files)).transpose();
        let kept = table.small.iter().enumerate().map(kept).collect::<Outcome<_>>()?;
        let most = |field: usize| {
            let batches = table.pieces.chunks(options.batch * table.fields);
            let len_of =
                |batch: &[Piece]| batch.iter().skip(field).step_by(table.fields).map(|piece| piece.len).sum();
            batches.map(len_of).max().unwrap_or(0)
        };
        let buffer_len = (0..table.fields).map(most).collect();
        Ok(Self { table, files, kept, buffer_len, pages: options.pages, fresh: options.fresh })
    }

    fn fill_field(&self, pieces: &[Piece], field: usize, into: &mut [u8]) -> Outcome<()> {
        let mut rest = into;
        for piece in pieces.iter().skip(field).step_by(self.table.fields) {
            let (into, after) = rest.split_at_mut(piece.len);
            match &self.kept[field] {
                Some(kept) => kept.copy(piece, into)?,
                None => self.files.copy(piece, into)?,
            }
            rest = after;
        }
        Ok(())
    }
}

/// The buffers of a batch, one for each field.
pub(crate) enum Buffers {
    Reused(Vec<Arena>),
    Fresh,
}

impl Limit for Copies<'_> {
    type Worker = Buffers;

    fn worker(&self) -> Outcome<Buffers> {
        if self.fresh {
            return Ok(Buffers::Fresh);
        }
        let arenas = self.buffer_len.iter().map(|len| Arena::new(*len, self.pages));
        Ok(Buffers::Reused(arenas.collect::<Outcome<_>>()?))
    }

    fn fill(&self, positions: Range<usize>, worker: &mut Buffers) -> Outcome<()> {
        let pieces =
            &self.table.pieces[positions.start * self.table.fields..positions.end * self.table.fields];
        match worker {
            Buffers::Reused(arenas) => {
                for (field, arena) in arenas.iter_mut().enumerate() {
                    self.fill_field(pieces, field, arena.bytes())?;
                    black_box(arena.bytes());
                }
            }
            Buffers::Fresh => {
                for (field, len) in self.buffer_len.iter().enumerate() {
                    let mut buffer = vec![0; *len];
                    self.fill_field(pieces, field, &mut buffer)?;
                    black_box(&buffer);
                }
            }
        }
        Ok(())
    }
}
