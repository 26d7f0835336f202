//! PNG and JPEG files: a square, grey picture of 8 bits for each file.

use std::{
    fs::File,
    io::{self, BufWriter},
    path::Path,
};

use jpeg_encoder::ColorType as JpegColor;
use png::{BitDepth, ColorType, DeflateCompression, Filter};

use super::file::GeneratedFile;

/// The quality of a JPEG, which is what Pillow, and so DLIO, takes by default.
const QUALITY: u8 = 75;

/// Writes a PNG of as many pixels as a sample of `file` has bytes.
pub(super) fn write_png(path: &Path, file: &GeneratedFile) -> io::Result<()> {
    let side = u32::try_from(file.side()).map_err(io::Error::other)?;
    let mut out = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(&mut out, side, side);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    // Noise does not become smaller: more effort takes time alone.
    encoder.set_deflate_compression(DeflateCompression::Level(1));
    encoder.set_filter(Filter::NoFilter);
    let mut writer = encoder.write_header().map_err(png_error)?;
    writer.write_image_data(&pixels(file, u64::from(side))?).map_err(png_error)?;
    writer.finish().map_err(png_error)?;
    out.into_inner()?.sync_data()
}

/// Writes a JPEG of as many pixels as a sample of `file` has bytes.
pub(super) fn write_jpeg(path: &Path, file: &GeneratedFile) -> io::Result<()> {
    let side = u16::try_from(file.side())
        .map_err(|_| io::Error::other("a JPEG is at most 65535 pixels wide and high"))?;
    let mut out = BufWriter::new(File::create(path)?);
    let encoder = jpeg_encoder::Encoder::new(&mut out, QUALITY);
    encoder.encode(&pixels(file, u64::from(side))?, side, side, JpegColor::Luma).map_err(jpeg_error)?;
    out.into_inner()?.sync_data()
}

fn pixels(file: &GeneratedFile, side: u64) -> io::Result<Vec<u8>> {
    let mut pixels = vec![0; usize::try_from(side * side).map_err(io::Error::other)?];
    file.content().fill(&mut pixels);
    Ok(pixels)
}

/// The cause where that is the disk: its error kind decides the exit code.
fn png_error(error: png::EncodingError) -> io::Error {
    match error {
        png::EncodingError::IoError(error) => error,
        error => io::Error::other(error),
    }
}

fn jpeg_error(error: jpeg_encoder::EncodingError) -> io::Error {
    match error {
        jpeg_encoder::EncodingError::IoError(error) => error,
        error => io::Error::other(error),
    }
}
