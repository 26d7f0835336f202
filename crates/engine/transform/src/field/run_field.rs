//! One field of a batch, made from the fields that were read.

use forebay_batch::{BatchMemory, Buffer, FieldArray};
use forebay_container::{Number, cf::ValueKind};
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    field::piece::{PieceSource, SourcePiece},
    field_form::FieldForm,
    picture::{PictureScratch, PictureStep},
    program::FieldProgram,
};

/// The samples of a batch, slot by slot; nothing where padding stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSlots<'a> {
    /// What their random numbers are drawn from.
    pub(crate) seeds: &'a [Option<u64>],
    /// Their numbers in the set.
    pub(crate) samples: &'a [Option<u64>],
}

impl FieldProgram {
    /// The field that comes out of `made`, whose samples are those of `slots`.
    pub(crate) fn run(
        &self,
        made: &[FieldArray],
        slots: BatchSlots<'_>,
        memory: &BatchMemory<'_>,
    ) -> Result<FieldArray> {
        let seeds = slots.seeds;
        let sources =
            self.sources.iter().map(|at| made.get(*at).ok_or_else(missing)).collect::<Result<Vec<_>>>()?;
        let first = sources.first().ok_or_else(missing)?;
        let is_ragged = first.offsets.is_some() && self.picture.is_none();
        let out_shape = self.out_shape(first, seeds.len(), is_ragged)?;
        let count: usize = out_shape.iter().product();
        let mut bytes = memory.take(count * self.element_len())?;
        if let Some(picture) = &self.picture {
            self.run_pictures(picture, first, &out_shape, slots, &mut bytes)?;
        } else if self.is_in_place() {
            self.run_whole(first, &out_shape, usize::from(!is_ragged), &mut bytes)?;
            if !is_ragged {
                clear_padding(seeds, &mut bytes);
            }
        } else {
            self.run_samples(&sources, &out_shape, seeds, &mut bytes)?;
        }
        let mut shape: Vec<u64> = out_shape.iter().map(|len| *len as u64).collect();
        if let (true, Some(Some(classes))) = (self.is_one_hot(), self.form.sample_shape.last()) {
            shape.push(*classes);
        }
        let FieldForm { name, dtype, kind, .. } = self.form.clone();
        let offsets = first.offsets.clone().filter(|_| is_ragged);
        Ok(FieldArray { name, dtype, kind, shape, bytes, offsets })
    }

    /// The shape of the batch that comes out, without the axis of classes.
    fn out_shape(&self, first: &FieldArray, count: usize, is_ragged: bool) -> Result<Vec<usize>> {
        if is_ragged || self.is_in_place() {
            return first.shape.iter().map(|len| usize::try_from(*len).map_err(|_| missing())).collect();
        }
        let axes = self.form.sample_shape.len() - usize::from(self.is_one_hot());
        let lens = self.form.sample_shape[..axes].iter().flatten();
        let lens = lens.map(|len| usize::try_from(*len).map_err(|_| missing()));
        std::iter::once(Ok(count)).chain(lens).collect()
    }

    /// The array as a whole: nothing in it changes its place.
    fn run_whole(
        &self,
        source: &FieldArray,
        out_shape: &[usize],
        axes_before: usize,
        to: &mut Buffer,
    ) -> Result<()> {
        let source_form = PieceSource { axes_before, ..piece_source(0, source) };
        let piece = SourcePiece::new(self, source_form, out_shape.to_vec(), out_shape);
        piece.run(&source.bytes, to, 0)
    }

    /// Sample by sample, each with its own seed.
    fn run_samples(
        &self,
        sources: &[&FieldArray],
        out_shape: &[usize],
        seeds: &[Option<u64>],
        to: &mut Buffer,
    ) -> Result<()> {
        let out_sample = &out_shape[1..];
        let mut pieces = Vec::with_capacity(sources.len());
        for (number, source) in sources.iter().enumerate() {
            let shape = source.shape.get(1..).unwrap_or_default().iter();
            let shape = shape.map(|len| usize::try_from(*len).map_err(|_| missing()));
            pieces.push(SourcePiece::new(
                self,
                piece_source(number, source),
                shape.collect::<Result<_>>()?,
                out_sample,
            ));
        }
        let out_len = to.len().checked_div(seeds.len()).unwrap_or(0);
        if out_len == 0 {
            return Ok(());
        }
        for ((slot, seed), to) in seeds.iter().enumerate().zip(to.chunks_exact_mut(out_len)) {
            let Some(seed) = seed else {
                to.fill(0);
                continue;
            };
            for (piece, source) in pieces.iter().zip(sources) {
                let len = source.bytes.len() / seeds.len();
                piece.run(&source.bytes[slot * len..(slot + 1) * len], to, *seed)?;
            }
        }
        Ok(())
    }

    /// Picture by picture: each is decoded and given its size, then what else is done is done to it.
    fn run_pictures(
        &self,
        picture: &PictureStep,
        source: &FieldArray,
        out_shape: &[usize],
        BatchSlots { seeds, samples }: BatchSlots<'_>,
        to: &mut Buffer,
    ) -> Result<()> {
        let from = PieceSource { number: 0, from: Some(Number::U8), element_len: 1, axes_before: 0 };
        let piece = SourcePiece::new(self, from, picture.shape().to_vec(), &out_shape[1..]);
        let offsets = source.offsets.as_deref().filter(|offsets| offsets.len() == seeds.len() + 1);
        let offsets = offsets.ok_or_else(missing)?;
        let out_len = to.len().checked_div(seeds.len()).unwrap_or(0);
        if out_len == 0 {
            return Ok(());
        }
        let mut scratch = PictureScratch::default();
        for ((slot, seed), to) in seeds.iter().enumerate().zip(to.chunks_exact_mut(out_len)) {
            let Some(seed) = seed else {
                to.fill(0);
                continue;
            };
            let place = |at: usize| usize::try_from(offsets[at]).ok();
            let encoded =
                place(slot).zip(place(slot + 1)).and_then(|(start, end)| source.bytes.get(start..end));
            let pixels =
                picture.decode(encoded.ok_or_else(missing)?, *seed, &mut scratch).map_err(|error| {
                    let sample = samples.get(slot).copied().flatten().unwrap_or(slot as u64);
                    error.at(format!("picture '{}' of sample {sample}", source.name))
                })?;
            piece.run(pixels, to, *seed)?;
        }
        Ok(())
    }
}

fn piece_source(number: usize, source: &FieldArray) -> PieceSource {
    let form = FieldForm {
        name: String::new(),
        dtype: source.dtype.clone(),
        kind: source.kind,
        sample_shape: Vec::new(),
    };
    let element_len = if source.kind == ValueKind::Bool { 1 } else { source.dtype.native_len() };
    PieceSource { number, from: form.number(), element_len, axes_before: 0 }
}

/// Padding is zero, whatever zeros become.
fn clear_padding(seeds: &[Option<u64>], bytes: &mut Buffer) {
    let len = bytes.len().checked_div(seeds.len()).unwrap_or(0);
    if len == 0 || seeds.iter().all(Option::is_some) {
        return;
    }
    for (seed, slot) in seeds.iter().zip(bytes.chunks_exact_mut(len)) {
        if seed.is_none() {
            slot.fill(0);
        }
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::Bug, "a batch lacks a field that is transformed, or is too long for this machine")
}
