//! From components to rows of pixels.

use super::{
    header::{ColorModel, JpegHeader},
    scan::Plane,
    upsample::ComponentRows,
    wide,
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
            [one, two, three] => {
                wide::write_three(header.color, [one.get(at), two.get(at), three.get(at)], out)
            }
            [one, two, three, black] => {
                wide::write_three(header.color, [one.get(at), two.get(at), three.get(at)], out);
                darken(header.color, black.get(at), out);
            }
            _ => {}
        }
    }
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
