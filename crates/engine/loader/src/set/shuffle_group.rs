//! Which samples a block shuffle keeps together. The spec and the files alone decide it, never where the files lie, so that
//! every rank and every run has the same order.

use forebay_container::sample_index::SampleIndex;
use forebay_plan::SetIdentity;

use crate::set::{
    SampleSet,
    column::{Column, ColumnPart},
};

/// Values that are stored as they are: one request as long as this hides the latency of a far file system.
const PLAIN_BYTES: u64 = 1 << 20;

/// Chunks that are decoded: one at least, and as many as come to this. More would take more memory, which holds a group
/// of each lane; of chunks as small as a sample, one alone would make each request that small.
const DECODED_BYTES: u64 = 256 << 10;

/// By what the samples of `set` are known to orders and states, wherever they are loaded from.
pub fn set_identity(set: &SampleSet) -> SetIdentity {
    set.identity.clone().unwrap_or_else(|| SetIdentity {
        part_lens: set.part_lens(),
        group_len: shuffle_group_len(set),
        numbering: None,
        content: set.content_fingerprint().to_owned(),
        version: set.fingerprint().to_owned(),
    })
}

/// Samples of a group: those of a stretch of the field with the most bytes.
pub(crate) fn shuffle_group_len(set: &SampleSet) -> u64 {
    let Some(column) = set.largest_column() else { return 1 };
    samples_of_stretch(column).unwrap_or_else(|| PLAIN_BYTES / column.mean_sample_len().max(1)).max(1)
}

/// The samples in the first stretch of the first file that has any; nothing where they are not neighbours.
fn samples_of_stretch(column: &Column) -> Option<u64> {
    if column.is_grouped {
        return None;
    }
    let part = column.parts.iter().find(|part| part.index.count() > 0)?;
    let grid = &part.variable().grid;
    let axis = sample_axis(&part.index);
    if grid.shape.is_empty() {
        return Some(1);
    }
    let is_decoded = part.opened.encoded_chunks(part.variable()).is_some();
    let mut size = if is_decoded { grid.chunk.clone() } else { grid.shape.clone() };
    size[axis] = stretch_len(part, axis);
    let touching = part.index.touching(&vec![0; size.len()], &size)?;
    let samples = match &part.index {
        SampleIndex::Series(part) => part.samples(touching),
        _ => touching,
    };
    Some(samples.end - samples.start)
}

/// How long a stretch of `part` is along `axis`: whole chunks, where they are decoded.
fn stretch_len(part: &ColumnPart, axis: usize) -> u64 {
    let variable = part.variable();
    let Some(len) = variable.grid.shape.get(axis).copied() else { return 1 };
    let each = (variable.logical_len() / len.max(1)).max(1);
    match part.opened.encoded_chunks(variable) {
        Some(_) => {
            let chunk = variable.grid.chunk[axis].max(1);
            (DECODED_BYTES / each / chunk).max(1).saturating_mul(chunk)
        }
        None => (PLAIN_BYTES / each).clamp(1, len.max(1)),
    }
}

/// The most bytes that a request for `part` may bring under a block shuffle: what comes along from other groups would be
/// decoded, and kept until their turn.
pub(crate) fn longest_request(part: &ColumnPart) -> u64 {
    let variable = part.variable();
    let Some(sizes) = part.opened.encoded_chunks(variable) else { return PLAIN_BYTES };
    let rows = variable.grid.chunk.first().copied().unwrap_or(1).max(1);
    (stretch_len(part, 0) / rows).saturating_mul(sizes.mean())
}

/// The axis along which samples follow each other.
fn sample_axis(index: &SampleIndex) -> usize {
    match index {
        SampleIndex::Ragged { axis, .. } | SampleIndex::Slabs { axis, .. } => *axis,
        SampleIndex::Rows { .. }
        | SampleIndex::Whole
        | SampleIndex::Windows(_)
        | SampleIndex::Corners(_)
        | SampleIndex::Series(_)
        | SampleIndex::Repeated(_) => 0,
    }
}
