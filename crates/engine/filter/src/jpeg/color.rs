//! From components to pixels, with the constants of libjpeg.

use super::{
    header::{ColorModel, JpegHeader},
    scan::Plane,
    upsample::ComponentRows,
};

/// Writes all pixels to `out`, row by row.
pub(crate) fn write_rows(header: &JpegHeader, planes: &[Plane], out: &mut [u8]) {
    let components = header.components.iter().zip(planes);
    let mut rows: Vec<ComponentRows<'_>> =
        components.map(|(component, plane)| ComponentRows::new(header, component, plane)).collect();
    let row_len = header.width * header.channels();
    for (at, out) in out.chunks_exact_mut(row_len).take(header.height).enumerate() {
        match &mut rows[..] {
            [grey] => out.copy_from_slice(&grey.get(at)[..header.width]),
            [one, two, three] => write_three(header.color, [one.get(at), two.get(at), three.get(at)], out),
            [one, two, three, black] => {
                write_three(header.color, [one.get(at), two.get(at), three.get(at)], out);
                darken(header.color, black.get(at), out);
            }
            _ => {}
        }
    }
}

fn write_three(color: ColorModel, [one, two, three]: [&[u8]; 3], out: &mut [u8]) {
    let samples = one.iter().zip(two).zip(three);
    let pixels = out.as_chunks_mut::<3>().0.iter_mut().zip(samples);
    if matches!(color, ColorModel::YCbCr | ColorModel::Ycck) {
        pixels.for_each(|(pixel, ((y, cb), cr))| *pixel = to_rgb(*y, *cb, *cr));
    } else {
        pixels.for_each(|(pixel, ((one, two), three))| *pixel = [*one, *two, *three]);
    }
}

#[inline]
fn to_rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((91_881 * cr + HALF) >> 16);
    let green = y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16);
    let blue = y + ((116_130 * cb + HALF) >> 16);
    [red, green, blue].map(|level| level.clamp(0, 255) as u8)
}

/// Applies black, which Adobe stores turned round as it does the colours.
fn darken(color: ColorModel, black: &[u8], out: &mut [u8]) {
    for (pixel, black) in out.as_chunks_mut::<3>().0.iter_mut().zip(black) {
        for level in pixel {
            let bright = if color == ColorModel::Ycck { 255 - *level } else { *level };
            let product = u32::from(bright) * u32::from(*black) + 128;
            *level = ((product + (product >> 8)) >> 8) as u8;
        }
    }
}
