//! Pixels of a row from the samples of its components, with the constants of libjpeg.

use super::header::ColorModel;

/// Pixels that are mixed at a time.
const STRETCH: usize = 64;

/// Writes the pixels of a row of which these are the samples.
#[inline(always)]
pub(super) fn write_three(color: ColorModel, [one, two, three]: [&[u8]; 3], out: &mut [u8]) {
    let is_mixed = matches!(color, ColorModel::YCbCr | ColorModel::Ycck);
    let mut mixed = [[0; STRETCH]; 3];
    let stretches = one.chunks(STRETCH).zip(two.chunks(STRETCH)).zip(three.chunks(STRETCH));
    for (out, ((one, two), three)) in out.chunks_mut(3 * STRETCH).zip(stretches) {
        let [red, green, blue] = if is_mixed {
            to_rgb([one, two, three], &mut mixed);
            mixed.each_ref().map(|levels| &levels[..one.len()])
        } else {
            [one, two, three]
        };
        let levels = red.iter().zip(green).zip(blue);
        for (pixel, ((red, green), blue)) in out.as_chunks_mut::<3>().0.iter_mut().zip(levels) {
            *pixel = [*red, *green, *blue];
        }
    }
}

/// The levels of libjpeg: `y + 1.402 cr`, `y - 0.34414 cb - 0.71414 cr` and `y + 1.772 cb`, each product of 16 fractional bits and
/// rounded. Whole multiples are taken out of the factors, so that all numbers have 16 bits and eight or sixteen go by one instruction.
#[inline(always)]
fn to_rgb([y, cb, cr]: [&[u8]; 3], [red, green, blue]: &mut [[u8; STRETCH]; 3]) {
    let samples = y.iter().zip(cb).zip(cr);
    let levels = red.iter_mut().zip(green).zip(blue);
    for (((red, green), blue), ((y, cb), cr)) in levels.zip(samples) {
        let (y, cb, cr) = (i16::from(*y), i16::from(*cb) - 128, i16::from(*cr) - 128);
        *red = level(y + cr + half_of(2 * cr, 26_345));
        let product = i32::from(cb) * -22_554 + i32::from(cr) * 18_734;
        *green = level(y - cr + ((product + (1 << 15)) >> 16) as i16);
        *blue = level(y + 2 * cb + half_of(2 * cb, -14_942));
    }
}

/// Half of `value` times `factor`, without its 16 fractional bits, rounded.
#[inline(always)]
fn half_of(value: i16, factor: i16) -> i16 {
    (((i32::from(value) * i32::from(factor)) >> 16) as i16 + 1) >> 1
}

#[inline(always)]
fn level(value: i16) -> u8 {
    value.clamp(0, 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_whole_factors() {
        const HALF: i32 = 1 << 15;
        for number in 0..1 << 16 {
            let (y, cb, cr) = ((number * 7) as u8, (number >> 8) as u8, number as u8);
            let mut levels = [[0; STRETCH]; 3];
            to_rgb([&[y], &[cb], &[cr]], &mut levels);
            let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
            let expected = [
                y + ((91_881 * cr + HALF) >> 16),
                y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16),
                y + ((116_130 * cb + HALF) >> 16),
            ];
            assert_eq!(levels.map(|levels| levels[0]), expected.map(|level| level.clamp(0, 255) as u8));
        }
    }
}
