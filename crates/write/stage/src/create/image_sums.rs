//! Checksums of a new file's image, by blocks.

use std::fs::File;

use forebay_process::{Error, Result};
use forebay_scratch::disk;

use crate::{
    area::drainers::SUM_BLOCK,
    create::{
        attributes::{Dress, dress, dress_as_new},
        destination::Destination,
        image_manifest::ImageSums,
    },
    on_disk::{journal::Journal, stamp::FileStamp},
    range_set::RangeSet,
};

/// How often metadata that changes while it is copied is copied again.
const DRESS_LOOKS: usize = 3;

/// Adds bytes that lie in order into the checksum of each block.
#[derive(Debug, Default)]
pub(crate) struct BlockSums {
    sums: Vec<(u64, u32)>,
}

impl BlockSums {
    /// Adds `bytes` at `offset`, which is not before what was added last.
    pub(crate) fn add(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let block = at / SUM_BLOCK;
            let left = usize::try_from((block + 1) * SUM_BLOCK - at).unwrap_or(rest.len());
            let (inside, after) = rest.split_at(left.min(rest.len()));
            match self.sums.last_mut().filter(|last| last.0 == block) {
                Some(last) => last.1 = crc32c::crc32c_append(last.1, inside),
                None => self.sums.push((block, crc32c::crc32c(inside))),
            }
            at += inside.len() as u64;
            rest = after;
        }
    }

    /// The checksums, by block.
    pub(crate) fn finish(self) -> Vec<(u64, u32)> {
        self.sums
    }
}

/// The checksums of what `file` holds of `held`.
pub(crate) fn sums_of(file: Option<&File>, len: u64, held: &RangeSet) -> Result<ImageSums> {
    let mut sums = BlockSums::default();
    let mut buffer = vec![0; usize::try_from(SUM_BLOCK).unwrap_or(1 << 20)];
    for (start, end) in held.ranges() {
        let Some(file) = file else { break };
        let mut at = start;
        while at < end {
            let step = (end - at).min(SUM_BLOCK);
            let piece = &mut buffer[..usize::try_from(step).unwrap_or(0)];
            disk::read_exact_at(file, piece, at).map_err(Error::from_io)?;
            sums.add(at, piece);
            at += step;
        }
    }
    Ok(ImageSums { len, held: held.ranges(), sums: sums.finish() })
}

/// The stretches to copy, each of whole blocks and at most `run_bytes`.
pub(crate) fn stretches(image: &ImageSums, run_bytes: u64) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (block, _) in &image.sums {
        let (start, end) = (block * SUM_BLOCK, (block + 1) * SUM_BLOCK);
        match found.last_mut().filter(|last| last.1 == start && last.1 - last.0 < run_bytes) {
            Some(last) => last.1 = end,
            None => found.push((start, end)),
        }
    }
    found
}

/// Reads what `file` holds of the stretch, compares it with its checksums, and hands each piece to `take`.
pub(crate) fn read_verified(
    file: &File,
    image: &ImageSums,
    (start, end): (u64, u64),
    buffer: &mut Vec<u8>,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let held = RangeSet::of(&image.held);
    let pieces: Vec<_> = held.pieces(start, end).into_iter().filter(|piece| piece.2).collect();
    let total: u64 = pieces.iter().map(|piece| piece.1 - piece.0).sum();
    buffer.resize(usize::try_from(total).unwrap_or(0), 0);
    let mut sums = BlockSums::default();
    let mut rest = buffer.as_mut_slice();
    for (from, until, _) in &pieces {
        let (piece, after) = rest.split_at_mut(usize::try_from(until - from).unwrap_or(0));
        disk::read_exact_at(file, piece, *from).map_err(Error::from_io)?;
        sums.add(*from, piece);
        rest = after;
    }
    let first = image.sums.partition_point(|(block, _)| *block < start / SUM_BLOCK);
    let sums = sums.finish();
    if image.sums.get(first..first + sums.len()) != Some(&sums[..]) {
        let error = Error::corrupt("bytes in the staging area are not those that were sealed");
        return Err(error.at(format!("bytes {start} to {end}")));
    }
    let mut rest = buffer.as_slice();
    for (from, until, _) in &pieces {
        let (piece, after) = rest.split_at(usize::try_from(until - from).unwrap_or(0));
        take(*from, piece)?;
        rest = after;
    }
    Ok(())
}

/// The manifest of one stretch.
pub(crate) fn of_stretch(image: &ImageSums, (start, end): (u64, u64)) -> ImageSums {
    let first = image.sums.partition_point(|(block, _)| *block < start >> 20);
    let last = image.sums.partition_point(|(block, _)| *block < end.div_ceil(1 << 20));
    let held = image.held.iter().filter(|held| held.1 > start && held.0 < end).copied().collect();
    ImageSums { len: image.len, held, sums: image.sums[first..last].to_vec() }
}

/// Gives a temporary file that is copied its length and metadata, syncs it and looks at it once more. Returns what the file that it
/// replaces looked like.
pub(crate) fn complete(
    temporary: &File,
    image: &ImageSums,
    place: &Destination,
    journal: &Journal,
) -> Result<Option<Dress>> {
    disk::set_len(temporary, image.len).map_err(Error::from_io)?;
    let replaced = if journal.is_program_image {
        dress_as_new(temporary, place, journal.new_mode())?;
        None
    } else {
        dress(temporary, place, journal.new_mode())?
    };
    disk::sync_all(temporary).map_err(Error::from_io)?;
    let found = FileStamp::of(temporary)?;
    if found.len != image.len {
        return Err(Error::corrupt(format!("expected a copy of {} bytes, got {}", image.len, found.len)));
    }
    if journal.read_back {
        let mut buffer = Vec::new();
        for stretch in stretches(image, 1 << 20) {
            read_verified(temporary, image, stretch, &mut buffer, |_, _| Ok(()))?;
        }
    }
    Ok(replaced)
}

/// Gives a temporary file that is complete the metadata of the file at `place` again, as long as that changes: it was `replaced` before.
/// To be called in the turn of the publication.
pub(crate) fn renew_dress(
    temporary: &File,
    place: &Destination,
    journal: &Journal,
    mut replaced: Option<Dress>,
) -> Result<()> {
    if journal.is_program_image {
        return Ok(());
    }
    for _ in 0..DRESS_LOOKS {
        if Dress::at(place)? == replaced {
            break;
        }
        replaced = dress(temporary, place, journal.new_mode())?;
        disk::sync_all(temporary).map_err(Error::from_io)?;
    }
    Ok(())
}
