//! TFRecord files as DLIO lays them out: an `Example` with the bytes `image` and the integer `size` for each sample, and an
//! index of where each lies, as `tfrecord2idx` writes it.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::file::GeneratedFile;

/// Writes the records to `path`, and gives the lines of their index.
pub(super) fn write_records(path: &Path, file: &GeneratedFile) -> io::Result<String> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut bytes = file.content();
    let len = usize::try_from(file.record_len()).map_err(io::Error::other)?;
    let mut record = vec![0; len];
    let (mut index, mut offset) = (String::new(), 0);
    for _ in 0..file.samples {
        bytes.fill(&mut record);
        let example = example(&record, file.side());
        let length = (example.len() as u64).to_le_bytes();
        out.write_all(&length)?;
        out.write_all(&masked_crc(&length).to_le_bytes())?;
        out.write_all(&example)?;
        out.write_all(&masked_crc(&example).to_le_bytes())?;
        let framed = example.len() as u64 + 16;
        index.push_str(&format!("{offset} {framed}\n"));
        offset += framed;
    }
    out.into_inner()?.sync_data()?;
    Ok(index)
}

/// `Example { features: { image: bytes, size: int64 } }` in the encoding of protocol buffers.
fn example(image: &[u8], size: u64) -> Vec<u8> {
    let image = entry("image", &field(1, &field(1, image)));
    let mut number = Vec::new();
    varint(&mut number, size);
    let size = entry("size", &field(3, &field(1, &number)));
    field(1, &[image, size].concat())
}

/// An entry of the map of features.
fn entry(name: &str, feature: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(2, feature)].concat())
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = Vec::with_capacity(bytes.len() + 8);
    field.push(number << 3 | 2);
    varint(&mut field, bytes.len() as u64);
    field.extend_from_slice(bytes);
    field
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// CRC32C, turned and shifted as TFRecord has it.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
