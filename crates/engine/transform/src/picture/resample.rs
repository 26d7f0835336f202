//! Pictures of another size: each pixel that comes out is the weighted mean of all it covers.
//!
//! Weights are those of a triangle as wide as a pixel that comes out, or as one that goes in where that is wider; they are rounded to
//! 22 bits, and levels are rounded between the two axes: the very ones that `resize(..., BILINEAR)` of Pillow 13 gives. Earlier ones
//! always began with the rows, and differ by a level at times.

/// Bits of a weight behind the point: with 8 of a level and 2 for sums, 32.
const WEIGHT_BITS: u32 = 22;
/// Channels of a pixel.
pub(crate) const CHANNELS: usize = 3;

/// A picture, or a box of one: rows of pixels of three bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PixelBox<'a> {
    pub(crate) pixels: &'a [u8],
    /// Bytes from one row to the next.
    pub(crate) row_len: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl PixelBox<'_> {
    fn row(&self, number: usize) -> &[u8] {
        &self.pixels[number * self.row_len..][..self.width * CHANNELS]
    }
}

/// How many pixels a picture is given along one axis, and which of them are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewLen {
    pub(crate) whole: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// The wanted part of `from` at its new size, to `to`: rows of pixels. `between` is memory that is used again.
pub(crate) fn resample(
    from: PixelBox<'_>,
    rows: NewLen,
    columns: NewLen,
    between: &mut Vec<u8>,
    to: &mut [u8],
) {
    let (across, down) = (PixelWeights::new(from.width, columns), PixelWeights::new(from.height, rows));
    let row_len = columns.len * CHANNELS;
    between.clear();
    if is_down_first(from, rows, columns) {
        let used = across.used();
        let (start, len) = (used.start * CHANNELS, used.len * CHANNELS);
        between.resize(rows.len * len, 0);
        for ((span, weights), row) in down.iter().zip(between.chunks_exact_mut(len)) {
            sum_rows(&from.pixels[span.start * from.row_len + start..], from.row_len, weights, row);
        }
        for (row, to) in between.chunks_exact(len).zip(to.chunks_exact_mut(row_len)) {
            across.pixels(row, used.start, to);
        }
        return;
    }
    let used = down.used();
    between.resize(used.len * row_len, 0);
    for (number, row) in (used.start..).zip(between.chunks_exact_mut(row_len)) {
        across.pixels(from.row(number), 0, row);
    }
    for ((span, weights), row) in down.iter().zip(to.chunks_exact_mut(row_len)) {
        sum_rows(&between[(span.start - used.start) * row_len..], row_len, weights, row);
    }
}

/// Whether columns are done before rows: where many rows go, it is less work. The rule, like the rounding, is Pillow's.
fn is_down_first(from: PixelBox<'_>, rows: NewLen, columns: NewLen) -> bool {
    let gone = |before: usize, after: usize| before as i128 - after as i128;
    let (rows_gone, columns_gone) = (gone(from.height, rows.whole), gone(from.width, columns.whole));
    rows_gone > 0 && rows_gone > 2 * columns_gone
}

/// Neighbours that one pixel is made of.
#[derive(Clone, Copy, Debug)]
struct WeightSpan {
    start: usize,
    len: usize,
}

/// For each pixel that is wanted, its neighbours and how much each of them counts.
#[derive(Debug)]
struct PixelWeights {
    spans: Vec<WeightSpan>,
    /// Those of all spans, each `most` long.
    weights: Vec<i32>,
    most: usize,
}

impl PixelWeights {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "places within a picture, rounded as the reference rounds them"
    )]
    fn new(len: usize, new: NewLen) -> Self {
        let scale = len as f64 / new.whole as f64;
        let support = scale.max(1.0);
        let most = support.ceil() as usize * 2 + 1;
        let mut made = Self { spans: Vec::with_capacity(new.len), weights: vec![0; most * new.len], most };
        let mut shares = Vec::with_capacity(most);
        for (slot, at) in made.weights.chunks_exact_mut(most).zip(new.start..) {
            let center = (at as f64 + 0.5) * scale;
            let start = (center - support + 0.5).max(0.0) as usize;
            let end = ((center + support + 0.5) as usize).min(len);
            shares.clear();
            shares.extend((start..end).map(|place| {
                let distance = ((place as f64 - center + 0.5) / support).abs();
                (1.0 - distance).max(0.0)
            }));
            let sum: f64 = shares.iter().sum();
            for (weight, share) in slot.iter_mut().zip(&shares) {
                *weight = (0.5 + share / sum * f64::from(1u32 << WEIGHT_BITS)) as i32;
            }
            made.spans.push(WeightSpan { start, len: end - start });
        }
        made
    }

    fn iter(&self) -> impl Iterator<Item = (WeightSpan, &[i32])> {
        let weights = self.spans.iter().zip(self.weights.chunks_exact(self.most));
        weights.map(|(span, weights)| (*span, &weights[..span.len]))
    }

    /// The least span that has all that something is made of.
    fn used(&self) -> WeightSpan {
        let start = self.spans.first().map_or(0, |span| span.start);
        let end = self.spans.iter().map(|span| span.start + span.len).max().unwrap_or(start);
        WeightSpan { start, len: end - start }
    }

    /// The pixels of one row that come out of `from`, a row whose first pixel is number `first`.
    fn pixels(&self, from: &[u8], first: usize, to: &mut [u8]) {
        for ((span, weights), pixel) in self.iter().zip(to.chunks_exact_mut(CHANNELS)) {
            let mut sums = [HALF; CHANNELS];
            let neighbours = from[(span.start - first) * CHANNELS..].chunks_exact(CHANNELS);
            for (weight, neighbour) in weights.iter().zip(neighbours) {
                for (sum, level) in sums.iter_mut().zip(neighbour) {
                    *sum += weight * i32::from(*level);
                }
            }
            for (level, sum) in pixel.iter_mut().zip(sums) {
                *level = rounded(sum);
            }
        }
    }
}

/// Half a level: what is cut off then was rounded.
const HALF: i32 = 1 << (WEIGHT_BITS - 1);

fn rounded(sum: i32) -> u8 {
    u8::try_from((sum >> WEIGHT_BITS).clamp(0, 255)).expect("clamped to a byte")
}

/// One row made of those in `from`, the first of which counts `weights[0]`.
fn sum_rows(from: &[u8], row_len: usize, weights: &[i32], to: &mut [u8]) {
    const TOGETHER: usize = 64;
    for (block, to) in to.chunks_mut(TOGETHER).enumerate() {
        let mut sums = [HALF; TOGETHER];
        for (weight, row) in weights.iter().zip(from.chunks(row_len)) {
            for (sum, level) in sums.iter_mut().zip(&row[block * TOGETHER..]) {
                *sum += weight * i32::from(*level);
            }
        }
        for (level, sum) in to.iter_mut().zip(sums) {
            *level = rounded(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(len: usize) -> NewLen {
        NewLen { whole: len, start: 0, len }
    }

    fn resized(pixels: &[u8], (height, width): (usize, usize), rows: NewLen, columns: NewLen) -> Vec<u8> {
        let mut to = vec![0; rows.len * columns.len * CHANNELS];
        let from = PixelBox { pixels, row_len: width * CHANNELS, height, width };
        resample(from, rows, columns, &mut Vec::new(), &mut to);
        to
    }

    #[test]
    fn the_same_size_is_the_same_picture() {
        let pixels: Vec<u8> = (0..7 * 5 * 3).map(|at| u8::try_from(at * 37 % 256).unwrap()).collect();
        assert_eq!(resized(&pixels, (7, 5), all(7), all(5)), pixels);
    }

    #[test]
    fn half_the_size_is_the_mean_of_what_each_pixel_covers() {
        // Of four columns two: weights 1, 3, 3, 1 of the neighbours, the one beyond the edge left out.
        let pixels: Vec<u8> = [0, 80, 160, 240].iter().flat_map(|level| [*level; 3]).collect();
        assert_eq!(resized(&pixels, (1, 4), all(1), all(2)), [57, 57, 57, 183, 183, 183]);
    }

    #[test]
    fn a_part_is_that_part_of_the_whole() {
        let pixels: Vec<u8> = (0..31 * 17 * 3).map(|at| u8::try_from(at * 91 % 251).unwrap()).collect();
        let whole = resized(&pixels, (31, 17), all(13), all(29));
        let (rows, columns) =
            (NewLen { whole: 13, start: 4, len: 6 }, NewLen { whole: 29, start: 11, len: 9 });
        let part = resized(&pixels, (31, 17), rows, columns);
        for row in 0..6 {
            let from = ((row + 4) * 29 + 11) * CHANNELS;
            assert_eq!(part[row * 27..(row + 1) * 27], whole[from..from + 27], "row {row}");
        }
    }
}
