//! How a variable is cut into chunks of the result, and which of them are made of one read. Arithmetic only.

use forebay::{Selection, Variable, container::Dtype};

/// A chunk that nobody asked for: large enough that a request or a file is worth it, small enough to be decoded for a
/// few rows.
const CHUNK_BYTES: u64 = 4 << 20;
/// Chunks of the source above this are cut: they could not be read in part.
const MOST_CHUNK_BYTES: u64 = 64 << 20;
/// What one read brings, where chunks allow: memory stays within a few times of it.
const SLAB_BYTES: u64 = 64 << 20;

/// The shape of an array and of its chunks in the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayLayout {
    /// Of the variable; what an array type has within an element is not counted.
    pub(super) shape: Vec<u64>,
    pub(super) chunk: Vec<u64>,
    /// Bytes of an element; of one that differs in length, a guess.
    element_len: u64,
    /// Rows that the source decodes together.
    source_rows: u64,
}

/// A box of whole chunks: `first..end` along each axis, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slab {
    pub(super) first: Vec<u64>,
    pub(super) end: Vec<u64>,
}

impl ArrayLayout {
    /// The layout of `variable`, in chunks of the shape `wanted` where that has as many axes.
    pub(super) fn new(variable: &Variable, wanted: &[u64]) -> Self {
        let shape = variable.grid.shape.clone();
        let element_len = match &variable.dtype {
            Dtype::VarText { .. } => 64,
            dtype => dtype.native_len().max(1) as u64,
        };
        let is_chunked = variable.layout == "chunked"
            && product(&variable.grid.chunk).saturating_mul(element_len) <= MOST_CHUNK_BYTES;
        let chunk = match () {
            () if !wanted.is_empty() && wanted.len() == shape.len() => wanted.to_vec(),
            () if is_chunked => variable.grid.chunk.clone(),
            () => some_chunk(&shape, element_len),
        };
        let chunk = chunk.iter().zip(&shape).map(|(chunk, len)| *chunk.min(len).max(&1)).collect();
        let source_rows = variable.grid.chunk.first().copied().filter(|_| is_chunked).unwrap_or(1);
        Self { shape, chunk, element_len, source_rows }
    }

    /// Chunks along each axis.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.chunk).map(|(len, chunk)| len.div_ceil(*chunk)).collect()
    }

    /// Boxes of whole chunks that together are the array, each read at once: rows over all other axes, where a row of
    /// chunks is not too large, else chunk by chunk.
    pub(super) fn slabs(&self) -> Box<dyn Iterator<Item = Slab> + '_> {
        let (Some(rows), Some(inner)) = (self.chunk.first().copied(), self.shape.get(1..)) else {
            return Box::new(std::iter::once(Slab { first: Vec::new(), end: Vec::new() }));
        };
        let row_bytes = product(inner).saturating_mul(self.element_len).saturating_mul(rows).max(1);
        if row_bytes > SLAB_BYTES {
            return Box::new((0..product(&self.counts())).map(|number| self.chunk_box(number)));
        }
        let together = self.source_rows.div_ceil(rows).clamp(1, (SLAB_BYTES / row_bytes).max(1));
        let step = rows.saturating_mul(together);
        Box::new((0..self.shape[0].div_ceil(step)).map(move |number| {
            let mut slab = Slab { first: vec![0; self.shape.len()], end: self.shape.clone() };
            slab.first[0] = number * step;
            slab.end[0] = slab.first[0].saturating_add(step).min(self.shape[0]);
            slab
        }))
    }

    /// The chunk at position `number` of the grid, without what lies past the border.
    fn chunk_box(&self, number: u64) -> Slab {
        let mut rest = number;
        let mut first = vec![0; self.shape.len()];
        for (axis, count) in self.counts().into_iter().enumerate().rev() {
            first[axis] = rest % count * self.chunk[axis];
            rest /= count;
        }
        let ends = first.iter().zip(&self.chunk).zip(&self.shape);
        let end = ends.map(|((first, chunk), len)| first.saturating_add(*chunk).min(*len)).collect();
        Slab { first, end }
    }
}

impl Slab {
    /// What is read of the variable.
    pub(super) fn selection(&self) -> Selection {
        let ranges: Vec<_> = self.first.iter().zip(&self.end).map(|(first, end)| *first..*end).collect();
        Selection::from_ranges(&ranges)
    }

    /// Elements along each axis.
    pub(super) fn shape(&self) -> Vec<u64> {
        self.first.iter().zip(&self.end).map(|(first, end)| end - first).collect()
    }

    /// The chunks of the slab, in grid order: how far each lies along each axis of the grid.
    pub(super) fn chunks(&self, chunk: &[u64]) -> Vec<Vec<u64>> {
        let mut found = vec![Vec::new()];
        for ((first, end), chunk) in self.first.iter().zip(&self.end).zip(chunk) {
            let along = first / chunk..end.div_ceil(*chunk);
            found = found
                .into_iter()
                .flat_map(|place: Vec<u64>| along.clone().map(move |at| [&place[..], &[at]].concat()))
                .collect();
        }
        found
    }
}

/// The elements of a chunk within a slab, run by run of the last axis: `(from, to, count)` counted in elements.
pub(super) fn runs(slab: &Slab, place: &[u64], chunk: &[u64]) -> impl Iterator<Item = (usize, usize, usize)> {
    let slab_shape = slab.shape();
    let starts = place.iter().zip(chunk).zip(&slab.first).map(|((at, chunk), first)| at * chunk - first);
    let starts: Vec<u64> = starts.collect();
    let counts =
        starts.iter().zip(chunk).zip(&slab_shape).map(|((start, chunk), len)| *chunk.min(&(len - start)));
    let counts: Vec<u64> = counts.collect();
    let chunk = chunk.to_vec();
    let line_len = counts.last().copied().unwrap_or(1);
    // Worked out one by one: of narrow chunks there are as many as elements.
    (0..product(&counts) / line_len.max(1)).map(move |line| {
        let (mut rest, mut from, mut to) = (line, 0, 0);
        let (mut from_step, mut to_step) = (1, 1);
        for axis in (0..chunk.len()).rev() {
            let at = if axis + 1 == chunk.len() { 0 } else { rest % counts[axis] };
            if axis + 1 < chunk.len() {
                rest /= counts[axis];
            }
            from += (starts[axis] + at) * from_step;
            to += at * to_step;
            from_step *= slab_shape[axis];
            to_step *= chunk[axis];
        }
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        (index(from), index(to), index(line_len))
    })
}

/// Rows of about 4 MiB; where one row is more, parts of one.
fn some_chunk(shape: &[u64], element_len: u64) -> Vec<u64> {
    let mut chunk: Vec<u64> = shape.iter().map(|len| (*len).max(1)).collect();
    for axis in 0..chunk.len() {
        let bytes = product(&chunk).saturating_mul(element_len);
        if bytes <= CHUNK_BYTES {
            break;
        }
        let parts = bytes.div_ceil(CHUNK_BYTES);
        chunk[axis] = (chunk[axis] / parts).max(1);
    }
    chunk
}

pub(super) fn product(lens: &[u64]) -> u64 {
    lens.iter().fold(1, |all, len| all.saturating_mul(*len))
}

#[cfg(test)]
mod tests {
    use forebay::container::Number;

    use super::*;

    fn layout(shape: &[u64], wanted: &[u64]) -> ArrayLayout {
        ArrayLayout::new(&Variable::new("v", Dtype::native(Number::F64), shape.to_vec()), wanted)
    }

    #[test]
    fn slabs_are_the_array_and_chunks_are_the_slab() {
        for (shape, chunk) in [(vec![10, 7], vec![3, 2]), (vec![5], vec![5]), (vec![0, 3], vec![1, 1])] {
            let layout = layout(&shape, &chunk);
            let mut seen = 0;
            for slab in layout.slabs() {
                for place in slab.chunks(&layout.chunk) {
                    seen += runs(&slab, &place, &layout.chunk).map(|run| run.2).sum::<usize>();
                }
            }
            assert_eq!(seen as u64, product(&shape), "{shape:?}");
        }
    }

    #[test]
    fn a_scalar_is_one_chunk() {
        let layout = layout(&[], &[]);
        let slabs: Vec<_> = layout.slabs().collect();
        assert_eq!(slabs[0].chunks(&layout.chunk), [Vec::<u64>::new()]);
        assert_eq!(runs(&slabs[0], &[], &[]).collect::<Vec<_>>(), [(0, 0, 1)]);
    }

    #[test]
    fn a_row_of_chunks_that_is_too_large_is_read_chunk_by_chunk() {
        let layout = layout(&[4, 1 << 30], &[4, 1 << 20]);
        let slabs: Vec<_> = layout.slabs().take(2).collect();
        assert_eq!(slabs[1], Slab { first: vec![0, 1 << 20], end: vec![4, 2 << 20] });
    }

    #[test]
    fn chunks_that_nobody_asked_for_are_a_few_mebibytes() {
        assert_eq!(layout(&[1000, 1 << 10, 1 << 10], &[]).chunk, [1, 512, 1 << 10]);
        assert_eq!(layout(&[10], &[]).chunk, [10]);
    }
}
