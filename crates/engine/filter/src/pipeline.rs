//! A chunk's filters undone one after the other, the last first.

use forebay_process::{Error, Result, WorkMemory};

use crate::Filter;

/// Memory for the steps between the stored chunk and its elements, kept from chunk to chunk.
#[derive(Debug, Default)]
pub struct Scratch {
    front: WorkMemory,
    back: WorkMemory,
}

/// Room beyond the chunk's length for a step in between: what incompressible bytes grow by, plus headers.
const INTERMEDIATE_EXTRA_BYTES: u64 = 4096;

/// The most bytes that steps between a stored chunk and its `chunk_len` bytes of elements take.
pub fn scratch_len(filters: &[Filter], chunk_len: u64) -> u64 {
    let buffers = filters.len().saturating_sub(1).min(2) as u64;
    intermediate_len(chunk_len).saturating_mul(buffers)
}

/// The most bytes that one step may give where a chunk has `chunk_len`.
fn intermediate_len(chunk_len: u64) -> u64 {
    chunk_len.saturating_add(chunk_len / 8).saturating_add(INTERMEDIATE_EXTRA_BYTES)
}

impl Scratch {
    /// Bytes it has taken.
    pub fn byte_len(&self) -> usize {
        self.front.len() + self.back.len()
    }
}

/// Undoes one filter: decodes `input` into the front of `out`, at most filling it, and gives the length written.
pub fn undo(filter: &Filter, input: &[u8], out: &mut [u8]) -> Result<usize> {
    filter.decode(input, out).map_err(|error| match filter {
        Filter::Unknown { .. } => error,
        known => error.at(known.name()),
    })
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
    if back.len() < front.len() {
        // Where the last chunk had one step in between, its memory is in front: used again, not taken a second time.
        std::mem::swap(front, back);
    }
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

fn expect_full(written: usize, wanted: usize) -> Result<()> {
    if written != wanted {
        return Err(Error::corrupt(format!("chunk decodes to {written} bytes where {wanted} belong")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forebay_process::ErrorKind;

    use super::*;

    fn shuffle() -> Filter {
        Filter::Shuffle { element_len: 4 }
    }

    fn lzo() -> Filter {
        Filter::from_hdf5(305, "", vec![])
    }

    #[test]
    fn a_refusal_names_the_filter() {
        let error = undo(&lzo(), &[], &mut []).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().starts_with("filter 305 (lzo) is not supported"), "{error}");
    }

    #[test]
    fn a_filter_the_mask_skips_is_not_undone() {
        let filters = [shuffle(), lzo()];
        let mut out = [0; 8];
        undo_all(&filters, 0b10, &[0, 1, 2, 3, 4, 5, 6, 7], &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out, [0, 2, 4, 6, 1, 3, 5, 7]);
        undo_all(&filters, 0b11, &[0, 1, 2, 3, 4, 5, 6, 7], &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn steps_take_no_more_than_is_counted_for_however_many_chunks_come() {
        for count in 1..=4 {
            let (filters, mut scratch) = (vec![shuffle(); count], Scratch::default());
            for _ in 0..5 {
                undo_all(&filters, 0, &[1; 4096], &mut [0; 4096], &mut scratch).unwrap();
            }
            assert_eq!(scratch.byte_len() as u64, scratch_len(&filters, 4096), "{count} filters");
        }
    }

    #[test]
    fn a_chunk_that_does_not_fill_its_place_is_corrupt() {
        for input in [&[1u8; 7][..], &[1; 9]] {
            for filters in [&[][..], &[shuffle()]] {
                let error = undo_all(filters, 0, input, &mut [0; 8], &mut Scratch::default()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
        }
    }
}
