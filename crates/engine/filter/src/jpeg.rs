//! JPEG files, decoded to the very levels that libjpeg-turbo gives: training that reads the same pictures by Pillow or
//! torchvision elsewhere sees the same pixels.
//!
//! ```text
//! markers (header) ─► entropy-coded blocks (bits, huffman, scan) ─► samples (idct) ─► rows of pixels (upsample, color)
//! ```
//!
//! Baseline and progressive files of 8 bits. What is cut or damaged is an error, never filled with grey.

mod bits;
#[expect(clippy::cast_possible_truncation, reason = "levels are no more than they were made of")]
mod color;
mod header;
#[expect(clippy::cast_possible_truncation, reason = "codes have 16 bits at most, and there are 256 at most")]
mod huffman;
mod idct;
#[expect(clippy::cast_possible_truncation, reason = "levels are clamped, and products have 16 bits")]
mod rgb;
#[expect(
    clippy::cast_possible_truncation,
    reason = "coefficients have 16 bits; those of a damaged file wrap"
)]
mod scan;
#[expect(clippy::cast_possible_truncation, reason = "a mean of samples is one")]
mod spread;
#[expect(clippy::cast_possible_truncation, reason = "a mean of samples is one")]
mod upsample;
mod wide;

use forebay_process::Result;

pub(crate) use header::JpegHeader;
use scan::Scans;

/// Decodes the whole of `input` into `out`, whose length is that of all pixels: 1 channel of grey files, else 3.
pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<()> {
    let mut scans = Scans::default();
    let header = JpegHeader::read(input, &mut scans)?;
    let planes = scans.finish(&header)?;
    color::write_rows(&header, &planes, out);
    Ok(())
}

/// The size that the header of a file says it has; `start` are its first bytes.
pub(crate) fn size_of(start: &[u8]) -> Result<JpegHeader> {
    JpegHeader::read(start, &mut header::Nothing)
}
