//! Pictures of any size, as files have them, to pictures of one size.

mod resample;

use forebay_filter::image::{Size, decode_colour};
use forebay_process::Result;

use crate::{
    draw::{Draw, DrawKind},
    picture::resample::{CHANNELS, NewLen, PixelBox, resample},
    spec::{ChannelPlace, PictureCrop},
};

/// What is made of each picture, once it was checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PictureStep {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) crop: PictureCrop,
    pub(crate) channels: ChannelPlace,
    pub(crate) key: u32,
}

/// Memory that is used again for one picture after the other.
#[derive(Debug, Default)]
pub(crate) struct PictureScratch {
    decoded: Vec<u8>,
    between: Vec<u8>,
    sized: Vec<u8>,
}

/// A box of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CropBox {
    top: usize,
    left: usize,
    height: usize,
    width: usize,
}

impl PictureStep {
    /// Bytes of a picture that comes out.
    pub(crate) fn len(&self) -> usize {
        self.height * self.width * CHANNELS
    }

    /// The lengths of the axes that come out.
    pub(crate) fn shape(&self) -> [usize; 3] {
        match self.channels {
            ChannelPlace::Last => [self.height, self.width, CHANNELS],
            ChannelPlace::First => [CHANNELS, self.height, self.width],
        }
    }

    /// The picture that the file `encoded` has, with what `seed` draws.
    pub(crate) fn decode<'a>(
        &self,
        encoded: &[u8],
        seed: u64,
        scratch: &'a mut PictureScratch,
    ) -> Result<&'a [u8]> {
        let PictureScratch { decoded, between, sized } = scratch;
        let Size { height, width, .. } = decode_colour(encoded, decoded)?;
        let (height, width) = (height as usize, width as usize);
        let (cut, rows, columns) = self.plan(height, width, seed);
        let pixels = &decoded[(cut.top * width + cut.left) * CHANNELS..];
        let from = PixelBox { pixels, row_len: width * CHANNELS, height: cut.height, width: cut.width };
        sized.resize(self.len(), 0);
        resample(from, rows, columns, between, sized);
        if self.channels == ChannelPlace::First {
            between.clear();
            between.extend((0..CHANNELS).flat_map(|channel| sized[channel..].iter().step_by(CHANNELS)));
            std::mem::swap(between, sized);
        }
        Ok(sized)
    }

    /// The box of a picture of `height` and `width` that is taken, and the part that is wanted of it at its new size.
    fn plan(&self, height: usize, width: usize, seed: u64) -> (CropBox, NewLen, NewLen) {
        let all = CropBox { top: 0, left: 0, height, width };
        let whole = |len: usize| NewLen { whole: len, start: 0, len };
        match &self.crop {
            PictureCrop::None => (all, whole(self.height), whole(self.width)),
            PictureCrop::Random { scale, ratio } => {
                let cut = random_box(all, *scale, *ratio, |number| {
                    Draw::new(seed, DrawKind::Picture, number, self.key)
                });
                (cut, whole(self.height), whole(self.width))
            }
            PictureCrop::Center { shorter } => {
                let (rows, columns) = match shorter {
                    Some(shorter) if height <= width => (*shorter, scaled(*shorter, width, height)),
                    Some(shorter) => (scaled(*shorter, height, width), *shorter),
                    // As small as still covers the box.
                    None if height * self.width <= width * self.height => {
                        (self.height, scaled(self.height, width, height).max(self.width))
                    }
                    None => (scaled(self.width, height, width).max(self.height), self.width),
                };
                let middle = |whole: usize, len: usize| NewLen { whole, start: middle_of(whole, len), len };
                (all, middle(rows, self.height), middle(columns, self.width))
            }
        }
    }
}

/// `len * long / short`, cut off.
fn scaled(len: usize, long: usize, short: usize) -> usize {
    len * long / short.max(1)
}

/// Where the middle `len` of `whole` begin; of two such places the even one, as Python rounds.
fn middle_of(whole: usize, len: usize) -> usize {
    let rest = whole.saturating_sub(len);
    if rest % 4 == 3 { rest / 2 + 1 } else { rest / 2 }
}

/// A box of a random part `scale` of the area and of a random `ratio` of width to height: ten tries, then the middle.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "sides of a picture, rounded as the formula says"
)]
fn random_box(all: CropBox, scale: [f64; 2], ratio: [f64; 2], draw: impl Fn(usize) -> Draw) -> CropBox {
    let (height, width) = (all.height as f64, all.width as f64);
    let between = |[low, high]: [f64; 2], draw: Draw| low + (high - low) * draw.fraction();
    let logs = ratio.map(f64::ln);
    for attempt in 0..10 {
        let area = height * width * between(scale, draw(4 * attempt));
        let ratio = between(logs, draw(4 * attempt + 1)).exp();
        let sides =
            [(area / ratio).sqrt(), (area * ratio).sqrt()].map(|side| side.round_ties_even() as usize);
        let [rows, columns] = sides;
        if (1..=all.height).contains(&rows) && (1..=all.width).contains(&columns) {
            let start = |draw: Draw, rest: usize| usize::try_from(draw.below(rest as u64 + 1)).unwrap_or(0);
            let top = start(draw(4 * attempt + 2), all.height - rows);
            let left = start(draw(4 * attempt + 3), all.width - columns);
            return CropBox { top, left, height: rows, width: columns };
        }
    }
    let is = width / height;
    let (rows, columns) = if is < ratio[0] {
        ((width / ratio[0]).round_ties_even() as usize, all.width)
    } else if is > ratio[1] {
        (all.height, (height * ratio[1]).round_ties_even() as usize)
    } else {
        (all.height, all.width)
    };
    let (rows, columns) = (rows.clamp(1, all.height), columns.clamp(1, all.width));
    CropBox { top: (all.height - rows) / 2, left: (all.width - columns) / 2, height: rows, width: columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(crop: PictureCrop) -> PictureStep {
        PictureStep { height: 8, width: 8, crop, channels: ChannelPlace::Last, key: 0 }
    }

    #[test]
    fn the_middle_is_where_python_rounds_it_to() {
        // round((whole - len) / 2) of Python: 0.5 to 0, 1.5 to 2, 2.5 to 2, 3.5 to 4.
        let starts: Vec<usize> = (8..17).map(|whole| middle_of(whole, 8)).collect();
        assert_eq!(starts, [0, 0, 1, 2, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn random_boxes_lie_inside_and_are_of_the_size_that_was_asked_for() {
        let step = step(PictureCrop::Random { scale: [0.08, 1.0], ratio: [0.75, 4.0 / 3.0] });
        let mut tops = Vec::new();
        for seed in 0..500 {
            let (cut, ..) = step.plan(40, 60, seed);
            assert!(cut.top + cut.height <= 40 && cut.left + cut.width <= 60, "{cut:?}");
            let (area, ratio) = (cut.height * cut.width, cut.width as f64 / cut.height as f64);
            assert!(area >= 150 && (0.65..1.55).contains(&ratio), "{cut:?}");
            tops.push(cut.top);
        }
        tops.sort_unstable();
        tops.dedup();
        assert!(tops.len() > 15, "{tops:?}");
    }

    #[test]
    fn a_picture_too_long_for_any_such_box_gives_its_middle() {
        let step = step(PictureCrop::Random { scale: [1.0, 1.0], ratio: [1.0, 1.0] });
        let (cut, ..) = step.plan(10, 100, 3);
        assert_eq!(cut, CropBox { top: 0, left: 45, height: 10, width: 10 });
    }

    #[test]
    fn the_middle_covers_its_box_whatever_the_shape() {
        let step = step(PictureCrop::Center { shorter: None });
        for (height, width) in [(8, 8), (9, 8), (7, 31), (64, 3), (1, 1), (1, 500)] {
            let (_, rows, columns) = step.plan(height, width, 0);
            assert!(rows.start + rows.len <= rows.whole && columns.start + columns.len <= columns.whole);
            assert!(rows.whole == 8 || columns.whole == 8);
        }
    }
}
