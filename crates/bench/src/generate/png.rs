//! PNG files: a grey picture of 8 bits for each file.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use flate2::{Compression, Crc, write::ZlibEncoder};

use super::{content::RandomBytes, file::GeneratedFile};

/// Writes a square picture of as many pixels as a sample of `file` has bytes.
pub(super) fn write_png(path: &Path, file: &GeneratedFile) -> io::Result<()> {
    let (height, width) = (file.side(), file.side());
    let line = usize::try_from(width).map_err(io::Error::other)?;
    let mut bytes = RandomBytes::new(file.seed, file.number, file.compress_ratio);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let mut row = vec![0; line + 1];
    for _ in 0..height {
        // The first byte of a row says that it is stored as it is.
        bytes.fill(&mut row[1..]);
        encoder.write_all(&row)?;
    }
    let side = |len: u64| u32::try_from(len).map(u32::to_be_bytes).map_err(io::Error::other);
    let mut head = [side(width)?, side(height)?].concat();
    head.extend([8, 0, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, b"IHDR", &head)?;
    chunk(&mut out, b"IDAT", &encoder.finish()?)?;
    chunk(&mut out, b"IEND", &[])?;
    fs::write(path, out)
}

fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], bytes: &[u8]) -> io::Result<()> {
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(bytes);
    out.extend(u32::try_from(bytes.len()).map_err(io::Error::other)?.to_be_bytes());
    out.extend(kind);
    out.extend(bytes);
    out.extend(crc.sum().to_be_bytes());
    Ok(())
}
