//! A JPEG or PNG file, recognised by its first bytes, decoded to rows of pixels.
//!
//! An image of another size is an error, never cut or stretched;
//! a grey one is repeated over three channels where those are wanted.

use std::io::Cursor;

use crate::error::too_long;
use forebay_process::{Error, ErrorKind, Result};
use png::{Limits, Transformations};

use super::jpeg;

/// What PNG files start with.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// What JPEG files start with.
const JPEG: &[u8] = &[0xff, 0xd8, 0xff];

/// Memory a decoder may take besides the pixels.
const EXTRA_BYTES: usize = 1 << 20;

/// The size of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of pixels.
    pub height: u32,
    /// Pixels of a row.
    pub width: u32,
    /// 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha.
    pub channels: u32,
    /// 8 or 16.
    pub bits: u32,
}

/// True for the first bytes of a file that can be decoded here.
pub fn is_image(head: &[u8]) -> bool {
    head.starts_with(PNG) || head.starts_with(JPEG)
}

/// The size of the image that `start`, the first bytes of its file, says it has.
pub fn size_of(start: &[u8]) -> Result<Size> {
    if start.starts_with(PNG) {
        let reader = png_decoder(start, EXTRA_BYTES).read_info().map_err(bad_png)?;
        return Ok(png_size(&reader));
    }
    jpeg::size_of(start).map(|header| jpeg_size(&header))
}

/// The most pixels of a picture whose size is only known from its own file: as many as Pillow decodes.
const MOST_PIXELS: u64 = 178_956_970;

/// Decodes the picture `input` to rows of pixels of three channels of 8 bits: grey is repeated, transparency left out.
pub fn decode_colour(input: &[u8], out: &mut Vec<u8>) -> Result<Size> {
    let found = size_of(input)?;
    if found.bits != 8 {
        let what = format!("an image of {} bits a channel where 8 are wanted", found.bits);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    if u64::from(found.height) * u64::from(found.width) > MOST_PIXELS {
        let what = format!("an image of {} x {} pixels", found.height, found.width);
        return Err(Error::new(ErrorKind::Unsupported, what).hint("no more than 178,956,970 are decoded"));
    }
    let wanted = Size { channels: if found.channels == 1 { 3 } else { found.channels }, ..found };
    let len = wanted.len().ok_or_else(too_long)?;
    // What was there before is written over, so that only what is added need be cleared.
    out.try_reserve_exact(len.saturating_sub(out.len())).map_err(|_| too_long())?;
    out.resize(len, 0);
    decode(wanted, input, out)?;
    drop_transparency(wanted, out);
    Ok(Size { channels: 3, ..found })
}

/// Leaves colour alone in `pixels`; grey that has transparency is repeated.
fn drop_transparency(size: Size, pixels: &mut Vec<u8>) {
    match size.channels {
        4 => {
            for pixel in 0..pixels.len() / 4 {
                pixels.copy_within(4 * pixel..4 * pixel + 3, 3 * pixel);
            }
            pixels.truncate(pixels.len() / 4 * 3);
        }
        2 => *pixels = pixels.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        _ => {}
    }
}

pub(crate) fn decode(wanted: Size, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let len = wanted.len().ok_or_else(too_long)?;
    let out = out.get_mut(..len).ok_or_else(too_long)?;
    if input.starts_with(PNG) {
        decode_png(input, wanted, out)?;
    } else if input.starts_with(JPEG) {
        decode_jpeg(input, wanted, out)?;
    } else {
        return Err(Error::corrupt("neither a JPEG nor a PNG file"));
    }
    Ok(len)
}

impl Size {
    /// Bytes of all pixels.
    fn len(self) -> Option<usize> {
        let sizes = [self.height, self.width, self.channels, self.bits / 8];
        sizes.iter().try_fold(1usize, |len, n| len.checked_mul(*n as usize))
    }

    fn check(self, found: Self) -> Result<()> {
        let is_repeated = found.channels == 1 && self.channels == 3;
        if self == found || (is_repeated && self == (Self { channels: 3, ..found })) {
            return Ok(());
        }
        let say = |size: Self| {
            format!(
                "{} x {} pixels of {} channels of {} bits",
                size.height, size.width, size.channels, size.bits
            )
        };
        let what = format!("an image of {} among images of {}", say(found), say(self));
        let hint = "give all images one size and colour, or read `encoded` and decode it yourself";
        Err(Error::new(ErrorKind::Unsupported, what).hint(hint))
    }
}

fn png_decoder(input: &[u8], bytes: usize) -> png::Decoder<Cursor<&[u8]>> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(input), Limits { bytes });
    // Palettes and grey of a few bits become whole bytes; 16 bits stay.
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder
}

fn png_size(reader: &png::Reader<Cursor<&[u8]>>) -> Size {
    let (colour, depth) = reader.output_color_type();
    let (width, height) = reader.info().size();
    let bits = if depth == png::BitDepth::Sixteen { 16 } else { 8 };
    Size { height, width, channels: u32::try_from(colour.samples()).unwrap_or(0), bits }
}

fn decode_png(input: &[u8], wanted: Size, out: &mut [u8]) -> Result<()> {
    let mut reader =
        png_decoder(input, out.len().saturating_add(EXTRA_BYTES)).read_info().map_err(bad_png)?;
    let found = png_size(&reader);
    wanted.check(found)?;
    let used = found.len().filter(|len| *len <= out.len()).ok_or_else(too_long)?;
    reader.next_frame(&mut out[..used]).map_err(bad_png)?;
    // The chunks after the pixels have checksums too, and a file that was cut lacks its end.
    reader.finish().map_err(bad_png)?;
    repeat_grey(found, wanted, out);
    Ok(())
}

fn jpeg_size(header: &jpeg::JpegHeader) -> Size {
    let [height, width, channels] =
        [header.height, header.width, header.channels()].map(|len| u32::try_from(len).unwrap_or(u32::MAX));
    Size { height, width, channels, bits: 8 }
}

fn decode_jpeg(input: &[u8], wanted: Size, out: &mut [u8]) -> Result<()> {
    let found = jpeg_size(&jpeg::size_of(input)?);
    wanted.check(found)?;
    let used = found.len().filter(|len| *len <= out.len()).ok_or_else(too_long)?;
    jpeg::decode(input, &mut out[..used])?;
    repeat_grey(found, wanted, out);
    Ok(())
}

/// Spreads grey pixels at the front of `out` over three channels, from the last one on.
fn repeat_grey(found: Size, wanted: Size, out: &mut [u8]) {
    if found.channels == wanted.channels {
        return;
    }
    let sample_len = (wanted.bits / 8) as usize;
    for pixel in (0..out.len() / (3 * sample_len)).rev() {
        for channel in (0..3).rev() {
            out.copy_within(pixel * sample_len..(pixel + 1) * sample_len, (3 * pixel + channel) * sample_len);
        }
    }
}

fn bad_png(error: png::DecodingError) -> Error {
    Error::corrupt("PNG is damaged").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_is_spread_in_place() {
        let grey = Size { height: 1, width: 2, channels: 1, bits: 8 };
        let mut out = [7, 9, 0, 0, 0, 0];
        repeat_grey(grey, Size { channels: 3, ..grey }, &mut out);
        assert_eq!(out, [7, 7, 7, 9, 9, 9]);
    }

    #[test]
    fn transparency_is_left_out() {
        let size = Size { height: 1, width: 2, channels: 4, bits: 8 };
        let mut colour = vec![1, 2, 3, 255, 4, 5, 6, 0];
        drop_transparency(size, &mut colour);
        assert_eq!(colour, [1, 2, 3, 4, 5, 6]);
        let mut grey = vec![7, 255, 9, 0];
        drop_transparency(Size { channels: 2, ..size }, &mut grey);
        assert_eq!(grey, [7, 7, 7, 9, 9, 9]);
    }

    #[test]
    fn another_size_is_named() {
        let wanted = Size { height: 4, width: 2, channels: 3, bits: 8 };
        assert!(wanted.check(Size { channels: 1, ..wanted }).is_ok());
        let error = wanted.check(Size { height: 5, ..wanted }).unwrap_err().to_string();
        assert!(error.contains("5 x 2 pixels") && error.contains("4 x 2 pixels"), "{error}");
        assert!(Size { channels: 1, ..wanted }.check(wanted).is_err(), "colour is not thrown away");
    }
}
