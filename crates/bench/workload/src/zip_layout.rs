//! Headers of ZIP archives: those of members, before them and in the directory, and the records at the end.

/// One member of an archive.
#[derive(Clone, Debug)]
pub struct ArchiveMember {
    /// Its name.
    pub name: String,
    /// Where its header starts.
    pub offset: u64,
    /// CRC-32 of its bytes.
    pub crc: u32,
    /// Bytes as they are stored.
    pub stored_len: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes of padding before its first byte, in an extra field.
    pub padding: Option<u16>,
}

/// How members are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZipMethod {
    /// Not at all.
    Stored = 0,
    /// By deflate.
    Deflated = 8,
}

/// The version of the format that 64-bit lengths need.
const ZIP64: u16 = 45;
/// The first day that ZIP knows.
const FIRST_DAY: u16 = 0x21;

impl ArchiveMember {
    /// What stands before the member's bytes; lengths have 64 bits, as NumPy's have.
    pub fn local_header(&self, method: ZipMethod) -> Vec<u8> {
        let mut header = b"PK\x03\x04".to_vec();
        header.extend(self.shared(method));
        header.extend(short(20 + self.padding.map_or(0, |len| 4 + usize::from(len))).to_le_bytes());
        header.extend(self.name.as_bytes());
        header.extend([1, 0, 16, 0]);
        header.extend(self.len.to_le_bytes());
        header.extend(self.stored_len.to_le_bytes());
        if let Some(len) = self.padding {
            // The field that PyTorch pads with.
            header.extend(b"FB");
            header.extend(len.to_le_bytes());
            header.extend(std::iter::repeat_n(b'Z', len.into()));
        }
        header
    }

    /// The member's entry in the directory.
    fn central_header(&self, method: ZipMethod) -> Vec<u8> {
        let mut header = b"PK\x01\x02".to_vec();
        header.extend(ZIP64.to_le_bytes());
        header.extend(self.shared(method));
        header.extend(28u16.to_le_bytes());
        header.extend([0; 10]);
        header.extend(u32::MAX.to_le_bytes());
        header.extend(self.name.as_bytes());
        header.extend([1, 0, 24, 0]);
        for number in [self.len, self.stored_len, self.offset] {
            header.extend(number.to_le_bytes());
        }
        header
    }

    /// What both headers share: version, flags, method, time, checksum, lengths that stand elsewhere.
    fn shared(&self, method: ZipMethod) -> Vec<u8> {
        let mut shared = Vec::new();
        for number in [ZIP64, 0, method as u16, 0, FIRST_DAY] {
            shared.extend(number.to_le_bytes());
        }
        shared.extend(self.crc.to_le_bytes());
        shared.extend([0xff; 8]);
        shared.extend(short(self.name.len()).to_le_bytes());
        shared
    }
}

/// The directory and the records at the end of an archive whose members end at `begin`.
pub fn directory(members: &[ArchiveMember], method: ZipMethod, begin: u64) -> Vec<u8> {
    let mut end: Vec<u8> = members.iter().flat_map(|member| member.central_header(method)).collect();
    let (len, count) = (end.len() as u64, members.len() as u64);
    end.extend(b"PK\x06\x06");
    end.extend(44u64.to_le_bytes());
    end.extend([ZIP64.to_le_bytes(), ZIP64.to_le_bytes()].concat());
    end.extend([0; 8]);
    for number in [count, count, len, begin] {
        end.extend(number.to_le_bytes());
    }
    end.extend(b"PK\x06\x07\0\0\0\0");
    end.extend((begin + len).to_le_bytes());
    end.extend(1u32.to_le_bytes());
    end.extend(b"PK\x05\x06\0\0\0\0");
    let count = short(members.len());
    end.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    for number in [len, begin] {
        end.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
    end.extend([0, 0]);
    end
}

/// A number of 16 bits; the largest stands for one that is in a 64-bit record.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
