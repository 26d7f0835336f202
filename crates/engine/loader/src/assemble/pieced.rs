//! Samples that lie in several files, piece by piece.

use forebay_process::Result;

use super::fields::{FieldMaker, FieldParts, MadeField, targets};
use crate::{
    assemble::convert_sample::{ConvertSample, samples_per_read},
    layout::walk::FieldRead,
    set::column::{Column, ColumnPart, SampleAt},
    to_usize::to_usize,
};
use forebay_container::series::SeriesWindows;

/// The pieces of some slots, in the order of memory; a slot without a sample has one that is nowhere.
struct SlotPieces {
    located: Vec<Option<SampleAt>>,
    /// Elements of each.
    counts: Vec<usize>,
    /// One past the last piece of each slot.
    ends: Vec<usize>,
}

impl SlotPieces {
    fn of(column: &Column, windows: &SeriesWindows, slots: &[Option<u64>], sample_count: usize) -> Self {
        let mut pieces = Self { located: Vec::new(), counts: Vec::new(), ends: Vec::new() };
        for slot in slots {
            match slot {
                Some(sample) => column.each_piece(windows, *sample, |at, count| {
                    pieces.located.push(Some(at));
                    pieces.counts.push(to_usize(count));
                }),
                None => {
                    pieces.located.push(None);
                    pieces.counts.push(sample_count);
                }
            }
            pieces.ends.push(pieces.located.len());
        }
        pieces
    }

    /// Bytes of piece `number`, as it is read.
    fn len(&self, column: &Column, number: usize) -> usize {
        self.located[number].map_or(0, |at| self.counts[number] * column.part(at).element_len())
    }
}

impl<'a> FieldMaker<'a> {
    /// The field of samples whose boxes, `windows`, go on from file to file.
    pub(super) fn pieced(
        &mut self,
        field: FieldRead<'a>,
        windows: &SeriesWindows,
        slots: &[Option<u64>],
    ) -> Result<MadeField> {
        let column = field.column;
        let convert = ConvertSample::of(column);
        let sample_shape = windows.sample_shape();
        let count = to_usize(sample_shape.iter().product::<u64>());
        let final_len = count.saturating_mul(column.final_len());
        let mut bytes = self.take(column, final_len.saturating_mul(slots.len()))?;
        let mut mask = self.take_mask(column, count.saturating_mul(slots.len()))?;
        if convert.is_needed() {
            let group = samples_per_read(column).min(slots.len().max(1));
            let mut scratch = self.take(column, count * column.element_len * group)?;
            let mut masks = mask.as_mut().map(|mask| mask.chunks_exact_mut(count.max(1)));
            for (slots, out) in slots.chunks(group).zip(bytes.chunks_mut((group * final_len).max(1))) {
                let pieces = SlotPieces::of(column, windows, slots, count);
                let len_of = |number| pieces.len(column, number);
                self.produce(field, targets(&pieces.located, len_of, &mut [&mut scratch[..]], 1))?;
                let (mut from, mut first) = (&scratch[..], 0);
                for (end, out) in pieces.ends.iter().zip(out.chunks_exact_mut(final_len.max(1))) {
                    let (sample, after) = from.split_at((first..*end).map(len_of).sum());
                    let own: Vec<(&ColumnPart, usize)> = (first..*end)
                        .filter_map(|at| Some((column.part(pieces.located[at]?), pieces.counts[at])))
                        .collect();
                    let mask = masks.as_mut().and_then(Iterator::next);
                    if own.is_empty() {
                        out.fill(0)
                    } else {
                        convert.pieces(&own, sample, out, mask)?
                    }
                    (from, first) = (after, *end);
                }
            }
        } else {
            let pieces = SlotPieces::of(column, windows, slots, count);
            let len_of = |number: usize| pieces.counts[number] * column.final_len();
            self.produce(field, targets(&pieces.located, len_of, &mut [&mut bytes[..]], 1))?;
        }
        let mut shape = vec![slots.len() as u64];
        match &column.convert.axes {
            Some(axes) => shape.extend(axes.iter().map(|axis| sample_shape[*axis])),
            None => shape.extend(&sample_shape),
        }
        Ok(MadeField::new(column, FieldParts { shape, bytes, mask, offsets: None }))
    }
}
