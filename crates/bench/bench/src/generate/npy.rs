//! NumPy files as DLIO lays them out: one array `[d, d, samples]`, alone (NPY) or with labels in a ZIP archive (NPZ).

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::Path,
};

use flate2::{Compression, Crc, write::DeflateEncoder};
use forebay_workload::zip_layout::{ArchiveMember, ZipMethod, directory};

use super::file::GeneratedFile;

/// Random bytes are made in pieces of this length.
pub(super) const PIECE: usize = 1 << 20;

/// Writes an NPY file.
pub(super) fn write_npy(path: &Path, file: &GeneratedFile) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    write_records(&mut out, file)?;
    out.into_inner()?.sync_data()
}

/// Writes an NPZ file, its members deflated if `is_compressed`.
pub(super) fn write_npz(path: &Path, file: &GeneratedFile, is_compressed: bool) -> io::Result<()> {
    let method = if is_compressed { ZipMethod::Deflated } else { ZipMethod::Stored };
    let mut zip = ZipFile { out: File::create(path)?, members: Vec::new(), method };
    zip.member("x.npy", |out| write_records(out, file))?;
    zip.member("y.npy", |out| {
        out.write_all(&header("<i8", &[file.samples]))?;
        (0..file.samples).try_for_each(|_| out.write_all(&0i64.to_le_bytes()))
    })?;
    zip.finish()
}

fn write_records(out: &mut dyn Write, file: &GeneratedFile) -> io::Result<()> {
    let shape: Vec<u64> = file.shape.iter().copied().chain([file.samples]).collect();
    out.write_all(&header(super::dtypes::numpy_name(file.element), &shape))?;
    write_random(out, file)
}

/// Writes all bytes of `file`, sample after sample.
pub(super) fn write_random(out: &mut dyn Write, file: &GeneratedFile) -> io::Result<()> {
    let mut bytes = file.content();
    let mut left = file.data_len();
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        bytes.fill(&mut piece[..len]);
        out.write_all(&piece[..len])?;
        left -= len as u64;
    }
    Ok(())
}

/// The header of an array in C order, version 1.0, padded to 64 bytes as NumPy does.
fn header(dtype: &str, shape: &[u64]) -> Vec<u8> {
    let axes = shape.iter().map(|axis| format!("{axis}, ")).collect::<String>();
    let axes =
        if shape.len() == 1 { axes.trim_end().to_owned() } else { axes.trim_end_matches(", ").to_owned() };
    let text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({axes}), }}");
    let len = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend(u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes());
    header.extend(format!("{text:<width$}\n", width = len - 1).into_bytes());
    header
}

/// A ZIP archive in the making.
struct ZipFile {
    out: File,
    members: Vec<ArchiveMember>,
    method: ZipMethod,
}

impl ZipFile {
    fn member(&mut self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let offset = self.out.stream_position()?;
        let name = name.to_owned();
        let mut member = ArchiveMember { name, offset, crc: 0, stored_len: 0, len: 0, padding: None };
        self.out.write_all(&member.local_header(self.method))?;
        let begin = self.out.stream_position()?;
        let (mut crc, mut len) = (Crc::new(), 0);
        if self.method == ZipMethod::Deflated {
            let encoder = DeflateEncoder::new(BufWriter::new(&mut self.out), Compression::default());
            let mut counted = CrcWriter { out: encoder, crc: &mut crc, len: &mut len };
            write(&mut counted)?;
            counted.out.finish()?.flush()?;
        } else {
            let mut counted = CrcWriter { out: BufWriter::new(&mut self.out), crc: &mut crc, len: &mut len };
            write(&mut counted)?;
            counted.out.flush()?;
        }
        let end = self.out.stream_position()?;
        member.crc = crc.sum();
        member.stored_len = end - begin;
        member.len = len;
        self.out.seek(SeekFrom::Start(offset))?;
        self.out.write_all(&member.local_header(self.method))?;
        self.out.seek(SeekFrom::Start(end))?;
        self.members.push(member);
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        let begin = self.out.stream_position()?;
        self.out.write_all(&directory(&self.members, self.method, begin))?;
        self.out.sync_data()
    }
}

/// Passes bytes on and keeps their checksum and length.
struct CrcWriter<'a, W: Write> {
    out: W,
    crc: &'a mut Crc,
    len: &'a mut u64,
}

impl<W: Write> Write for CrcWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.crc.update(&bytes[..written]);
        *self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
