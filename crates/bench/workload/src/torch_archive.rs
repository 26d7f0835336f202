//! Checkpoint files that `torch.load` reads: a ZIP archive of a small pickle and the bytes of each tensor, as `torch.save` lays it out.
//!
//! ```text
//! archive/data.pkl  archive/byteorder  archive/data/0  archive/data/1 …  archive/version   directory
//! {key: tensor}     little             64-byte aligned                   3
//! ```
//!
//! All lengths and checksums are known before the first byte is written, so that an archive is written front to back, to a file or
//! to a staging area.

use flate2::Crc;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    checkpoint::{CheckpointFile, TensorSpec},
    workload::ElementType,
    zip_layout::{ArchiveMember, ZipMethod, directory},
};

/// Tensors start at multiples of this, as PyTorch's do, so that they can be mapped.
const ALIGNMENT: u64 = 64;
/// Less than this is gathered before it is written.
const GATHERED: usize = 1 << 20;

/// What tensors are filled with: one stretch of bytes, again and again.
#[derive(Debug)]
pub struct TensorFill {
    bytes: Vec<u8>,
    crc: Crc,
}

/// The bytes of an archive, as it will be written.
#[derive(Debug)]
pub struct TorchArchive {
    segments: Vec<ArchiveSegment>,
    len: u64,
}

#[derive(Debug)]
enum ArchiveSegment {
    /// Headers, the pickle.
    Bytes(Vec<u8>),
    /// A tensor of so many bytes.
    Tensor(u64),
}

impl TensorFill {
    /// Repeats `bytes`, of which there is at least one.
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut crc = Crc::new();
        crc.update(&bytes);
        Self { bytes, crc }
    }

    /// CRC-32 of a tensor of `len` bytes.
    fn crc_of(&self, len: u64) -> u32 {
        let whole = self.bytes.len() as u64;
        let mut crc = Crc::new();
        for _ in 0..len / whole {
            crc.combine(&self.crc);
        }
        crc.update(self.part(len % whole));
        crc.sum()
    }

    /// The first `len` bytes, or all.
    fn part(&self, len: u64) -> &[u8] {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.bytes.len());
        &self.bytes[..len]
    }
}

impl TorchArchive {
    /// The archive of the tensors of `file`, filled with `fill`.
    pub fn new(file: &CheckpointFile, fill: &TensorFill) -> Result<Self> {
        let mut archive = Self { segments: Vec::new(), len: 0 };
        let mut members =
            vec![archive.member("data.pkl", &pickle(&file.tensors)?), archive.member("byteorder", b"little")];
        for (number, tensor) in file.tensors.iter().enumerate() {
            let (name, len) = (format!("data/{number}"), tensor.byte_len());
            members.push(archive.begin(&name, len, fill.crc_of(len)));
            archive.push(ArchiveSegment::Tensor(len));
        }
        members.push(archive.member("version", b"3\n"));
        let end = directory(&members, ZipMethod::Stored, archive.len);
        archive.push(ArchiveSegment::Bytes(end));
        Ok(archive)
    }

    /// Bytes of the whole file.
    #[cfg(test)]
    fn len(&self) -> u64 {
        self.len
    }

    /// Hands all bytes to `write`, front to back.
    pub fn write(&self, fill: &TensorFill, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut gathered = Vec::new();
        for segment in &self.segments {
            let tensor_len = match segment {
                ArchiveSegment::Bytes(bytes) => {
                    gathered.extend_from_slice(bytes);
                    0
                }
                ArchiveSegment::Tensor(len) => *len,
            };
            if tensor_len < GATHERED as u64 {
                let mut left = tensor_len;
                while left > 0 {
                    let part = fill.part(left);
                    gathered.extend_from_slice(part);
                    left -= part.len() as u64;
                }
            }
            if gathered.len() >= GATHERED || tensor_len >= GATHERED as u64 {
                write(&gathered)?;
                gathered.clear();
            }
            if tensor_len >= GATHERED as u64 {
                write_tensor(fill, tensor_len, &mut write)?;
            }
        }
        if gathered.is_empty() { Ok(()) } else { write(&gathered) }
    }

    fn push(&mut self, segment: ArchiveSegment) {
        self.len += match &segment {
            ArchiveSegment::Bytes(bytes) => bytes.len() as u64,
            ArchiveSegment::Tensor(len) => *len,
        };
        self.segments.push(segment);
    }

    /// Adds the header of a member of `len` bytes.
    fn begin(&mut self, name: &str, len: u64, crc: u32) -> ArchiveMember {
        let name = format!("archive/{name}");
        let offset = self.len;
        let mut member = ArchiveMember { name, offset, crc, stored_len: len, len, padding: Some(0) };
        let unpadded = self.len + member.local_header(ZipMethod::Stored).len() as u64;
        let padding = unpadded.next_multiple_of(ALIGNMENT) - unpadded;
        member.padding = u16::try_from(padding).ok();
        self.push(ArchiveSegment::Bytes(member.local_header(ZipMethod::Stored)));
        member
    }

    /// Adds a member of `bytes`.
    fn member(&mut self, name: &str, bytes: &[u8]) -> ArchiveMember {
        let mut crc = Crc::new();
        crc.update(bytes);
        let member = self.begin(name, bytes.len() as u64, crc.sum());
        self.push(ArchiveSegment::Bytes(bytes.to_vec()));
        member
    }
}

fn write_tensor(fill: &TensorFill, len: u64, write: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut left = len;
    while left > 0 {
        let part = fill.part(left);
        write(part)?;
        left -= part.len() as u64;
    }
    Ok(())
}

/// What `torch.load` unpickles: a dictionary of tensors, each a view of a whole storage.
fn pickle(tensors: &[TensorSpec]) -> Result<Vec<u8>> {
    let mut out = Pickle { bytes: b"\x80\x02}(".to_vec() };
    for (number, tensor) in tensors.iter().enumerate() {
        out.text(&tensor.key);
        out.global("torch._utils", "_rebuild_tensor_v2");
        out.push(b"((");
        out.text("storage");
        out.global("torch", storage_name(tensor.dtype)?);
        out.text(&number.to_string());
        out.text("cpu");
        out.number(tensor.len);
        // The storage, the offset in it, shape and stride, no gradient, no hooks.
        out.push(b"tQK\0");
        out.number(tensor.len);
        out.push(b"\x85K\x01\x85\x89");
        out.global("collections", "OrderedDict");
        out.push(b")RtR");
    }
    out.push(b"u.");
    Ok(out.bytes)
}

/// A pickle of protocol 2, in the making.
struct Pickle {
    bytes: Vec<u8>,
}

impl Pickle {
    fn push(&mut self, codes: &[u8]) {
        self.bytes.extend_from_slice(codes);
    }

    fn text(&mut self, text: &str) {
        self.push(b"X");
        self.push(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.push(text.as_bytes());
    }

    fn global(&mut self, module: &str, name: &str) {
        self.push(format!("c{module}\n{name}\n").as_bytes());
    }

    fn number(&mut self, number: u64) {
        match i32::try_from(number) {
            Ok(number) => {
                self.push(b"J");
                self.push(&number.to_le_bytes());
            }
            // A ninth byte, so that the highest bit is no sign.
            Err(_) => {
                self.push(b"\x8a\x09");
                self.push(&number.to_le_bytes());
                self.push(&[0]);
            }
        }
    }
}

/// PyTorch's class of storages of elements of `dtype`.
fn storage_name(dtype: ElementType) -> Result<&'static str> {
    Ok(match dtype {
        ElementType::Int8 => "CharStorage",
        ElementType::UInt8 => "ByteStorage",
        ElementType::Int16 => "ShortStorage",
        ElementType::Int32 => "IntStorage",
        ElementType::Int64 => "LongStorage",
        ElementType::Float16 => "HalfStorage",
        ElementType::BFloat16 => "BFloat16Storage",
        ElementType::Float32 => "FloatStorage",
        ElementType::Float64 => "DoubleStorage",
        ElementType::UInt16 | ElementType::UInt32 | ElementType::UInt64 => {
            let what = format!("checkpoints hold no tensors of {dtype}");
            return Err(Error::unsupported(what).hint("use int8, uint8, fp16, bf16, fp32 or fp64"));
        }
    })
}

/// Refuses a file of `len` bytes with these first and last ones that is no archive of the tensors of `file`, by whichever program it was written.
pub fn check(file: &CheckpointFile, len: u64, first: &[u8], last: &[u8]) -> Result<()> {
    let (tensors, least) = (file.tensors.len() as u64, file.byte_len());
    let most = least + (64 << 10) + tensors * (4 << 10);
    let anew = "it is of another model, or was cut off: save it anew";
    if len < least || len > most {
        let what = format!("has {len} bytes, and its tensors have {least}");
        return Err(Error::new(ErrorKind::Corrupt, what).hint(anew));
    }
    // The last record has 22 bytes.
    let ends_whole = last.len() >= 22 && last[last.len() - 22..].starts_with(b"PK\x05\x06");
    if !first.starts_with(b"PK\x03\x04") || !ends_whole {
        return Err(Error::new(ErrorKind::Corrupt, "this is no archive of torch.save").hint(anew));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::random::Mt19937;

    fn file() -> CheckpointFile {
        let tensor = |key: &str, len, dtype| TensorSpec { key: key.into(), len, dtype };
        let tensors = vec![
            tensor("embedding", 700_001, ElementType::Float16),
            tensor("norm", 33, ElementType::Float32),
            tensor("head", 1_300_000, ElementType::BFloat16),
            tensor("bytes", 5, ElementType::Int8),
        ];
        CheckpointFile { name: "model.pt".into(), tensors }
    }

    fn fill() -> TensorFill {
        let mut random = Mt19937::seeded(1);
        TensorFill::new((0..300_007).map(|_| random.next_u32().to_le_bytes()[0]).collect())
    }

    fn written(archive: &TorchArchive, fill: &TensorFill) -> Vec<u8> {
        let mut bytes = Vec::new();
        archive
            .write(fill, |part| {
                bytes.extend_from_slice(part);
                Ok(())
            })
            .unwrap();
        bytes
    }

    #[test]
    fn torch_loads_every_tensor_with_its_key_type_and_bytes() {
        let (folder, fill) = (tempfile::tempdir().unwrap(), fill());
        let archive = TorchArchive::new(&file(), &fill).unwrap();
        let bytes = written(&archive, &fill);
        assert_eq!(bytes.len() as u64, archive.len());
        std::fs::write(folder.path().join("model.pt"), &bytes).unwrap();
        std::fs::write(folder.path().join("fill"), &fill.bytes).unwrap();
        let python = std::env::var_os("FOREBAY_PYTHON").unwrap_or_else(|| "python3".into());
        let done = Command::new(python).arg("-c").arg(LOAD).current_dir(&folder).output();
        let done = done.expect("FOREBAY_PYTHON is a Python");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Without PyTorch, the archive and its pickle are held against Python's own modules.
    const LOAD: &str = "
import collections, io, pickle, zipfile
fill = open('fill', 'rb').read()
shapes = {'embedding': ('float16', 700001, 2), 'norm': ('float32', 33, 4), 'head': ('bfloat16', 1300000, 2), 'bytes': ('int8', 5, 1)}
with zipfile.ZipFile('model.pt') as archive:
    assert archive.testzip() is None
    assert archive.read('archive/version') == b'3\\n' and archive.read('archive/byteorder') == b'little'
    for number, (name, (dtype, count, size)) in enumerate(shapes.items()):
        held = archive.read(f'archive/data/{number}')
        assert held == (fill * (count * size // len(fill) + 1))[:count * size], name
try:
    import torch
except ImportError:
    raise SystemExit
for options in [{}, {'mmap': True}]:
    state = torch.load('model.pt', **options)
    assert list(state) == list(shapes)
    for name, (dtype, count, size) in shapes.items():
        assert (str(state[name].dtype), tuple(state[name].shape)) == ('torch.' + dtype, (count,)), name
        assert state[name].view(torch.int8).numpy().tobytes() == (fill * (count * size // len(fill) + 1))[:count * size], name
        assert state[name].data_ptr() % 64 == 0 or not options
";

    #[test]
    fn a_file_that_was_cut_off_or_is_of_another_model_is_refused() {
        let fill = fill();
        let bytes = written(&TorchArchive::new(&file(), &fill).unwrap(), &fill);
        let seen =
            |bytes: &[u8]| check(&file(), bytes.len() as u64, &bytes[..64], &bytes[bytes.len() - 64..]);
        seen(&bytes).unwrap();
        for len in [bytes.len() - 1, bytes.len() - 300, bytes.len() / 2] {
            assert_eq!(seen(&bytes[..len]).unwrap_err().kind(), ErrorKind::Corrupt, "{len}");
        }
        assert!(seen(&[&bytes[..], &[0; 200_000]].concat()).is_err(), "longer");
        assert!(seen(&vec![0; bytes.len()]).is_err(), "zeros");
    }

    #[test]
    fn lengths_beyond_31_bits_are_pickled_whole() {
        let tensors = [TensorSpec { key: "a".into(), len: 3 << 31, dtype: ElementType::Int8 }];
        let pickled = pickle(&tensors).unwrap();
        let long = [&b"\x8a\x09"[..], &(3u64 << 31).to_le_bytes(), &[0]].concat();
        assert_eq!(pickled.windows(long.len()).filter(|part| *part == long).count(), 2);
    }
}
