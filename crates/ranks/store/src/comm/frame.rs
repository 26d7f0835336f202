//! Frames between ranks: a header of 24 bytes, then a message. A parser of bytes, which reads nothing itself.

use forebay_process::{Error, Result};

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// What a rank brings to a collective call.
    Offer,
    /// What all ranks brought.
    Answer,
    /// A collective call ended with an error, and every later one will.
    Failed,
    /// Ranks that have not come to a collective call yet.
    Missing,
    /// A rank runs no more.
    Gone,
    /// A rank has left in order.
    Left,
    /// Bytes of a window are wanted.
    Read,
    /// Bytes of a window.
    Bytes,
    /// A read that cannot be served, and why.
    Refused,
}

impl FrameKind {
    const ALL: [Self; 9] = [
        Self::Offer,
        Self::Answer,
        Self::Failed,
        Self::Missing,
        Self::Gone,
        Self::Left,
        Self::Read,
        Self::Bytes,
        Self::Refused,
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().zip(0..).find_map(|(kind, code)| (*kind == self).then_some(code)).unwrap_or(u8::MAX)
    }

    /// The longest message of a frame of this kind. Those of collective calls are as long as what ranks say: the memory for
    /// them grows as they arrive.
    fn most_bytes(self) -> u64 {
        match self {
            Self::Offer | Self::Answer => 1 << 36,
            Self::Bytes => 1 << 62,
            Self::Read => 1 << 20,
            Self::Failed | Self::Missing | Self::Gone | Self::Left | Self::Refused => 1 << 16,
        }
    }
}

/// What stands before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the frame is for.
    pub kind: FrameKind,
    /// What more is to be known of it, by its kind: which collective call, which kind of error.
    pub detail: u8,
    /// Descriptors that come with it, on a socket that can pass them.
    pub descriptor_count: u16,
    /// The number of the collective call, or of the read.
    pub number: u64,
    /// Bytes of the message.
    pub len: u64,
}

impl FrameHeader {
    /// Bytes of a header.
    pub const LEN: usize = 24;

    const MAGIC: [u8; 4] = *b"FBY1";

    /// The header of a message of `len` bytes, with nothing more to be known.
    pub fn new(kind: FrameKind, number: u64, len: usize) -> Self {
        Self { kind, detail: 0, descriptor_count: 0, number, len: len as u64 }
    }

    /// As it is sent.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&Self::MAGIC);
        bytes[4] = self.kind.code();
        bytes[5] = self.detail;
        bytes[6..8].copy_from_slice(&self.descriptor_count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// The header that `bytes` are, or why they are none.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self> {
        let [m0, m1, m2, m3, code, detail, d0, d1, number @ .., l0, l1, l2, l3, l4, l5, l6, l7] = *bytes;
        if [m0, m1, m2, m3] != Self::MAGIC {
            return Err(Error::corrupt("what another rank sent is no frame"));
        }
        let kind = FrameKind::ALL.get(usize::from(code)).copied();
        let kind = kind.ok_or_else(|| Error::corrupt(format!("a frame of the unknown kind {code}")))?;
        let len = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        if len > kind.most_bytes() {
            return Err(Error::corrupt(format!(
                "a frame of {len} bytes, where {} are the most",
                kind.most_bytes()
            )));
        }
        let descriptor_count = u16::from_le_bytes([d0, d1]);
        Ok(Self { kind, detail, descriptor_count, number: u64::from_le_bytes(number), len })
    }
}

/// A header and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// The header.
    pub header: FrameHeader,
    /// The message, as long as the header says.
    pub message: Vec<u8>,
}

/// Takes frames from a stream of bytes.
///
/// The memory for a message grows as its bytes arrive: a header alone, whatever length it claims, costs 64 KiB.
#[derive(Debug)]
pub struct FrameReader {
    most_bytes: u64,
    header: [u8; FrameHeader::LEN],
    header_len: usize,
    current: Option<FrameHeader>,
    message: Vec<u8>,
    message_len: usize,
}

/// Memory for a message of which nothing has arrived.
const FIRST_BYTES: usize = 1 << 16;

impl FrameReader {
    /// For frames whose messages have at most `most_bytes`.
    pub fn new(most_bytes: u64) -> Self {
        let header = [0; FrameHeader::LEN];
        Self { most_bytes, header, header_len: 0, current: None, message: Vec::new(), message_len: 0 }
    }

    /// Where the next bytes go; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let Some(header) = &self.current else { return &mut self.header[self.header_len..] };
        if self.message_len == self.message.len() {
            let whole = usize::try_from(header.len).unwrap_or(usize::MAX);
            self.message.resize(whole.min((self.message_len * 2).max(FIRST_BYTES)), 0);
        }
        &mut self.message[self.message_len..]
    }

    /// Takes the first `len` bytes of [`space`](Self::space), which are there now; gives the frame that they end.
    pub fn advance(&mut self, len: usize) -> Result<Option<ReceivedFrame>> {
        let header = match self.current {
            Some(header) => {
                self.message_len += len;
                header
            }
            None => {
                self.header_len += len;
                if self.header_len < FrameHeader::LEN {
                    return Ok(None);
                }
                let header = FrameHeader::parse(&self.header)?;
                if header.len > self.most_bytes {
                    return Err(Error::corrupt(format!("a frame of {} bytes is too long here", header.len)));
                }
                *self.current.insert(header)
            }
        };
        if (self.message_len as u64) < header.len {
            return Ok(None);
        }
        let message = std::mem::replace(self, Self::new(self.most_bytes)).message;
        Ok(Some(ReceivedFrame { header, message }))
    }

    /// True between two frames.
    pub fn is_between(&self) -> bool {
        self.header_len == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a reader makes of `bytes` that arrive in steps of at most `step`.
    fn read(mut bytes: &[u8], step: usize) -> Result<Vec<ReceivedFrame>> {
        let mut reader = FrameReader::new(u64::MAX);
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let space = reader.space();
            let len = space.len().min(step).min(bytes.len());
            space[..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            frames.extend(reader.advance(len)?);
        }
        Ok(frames)
    }

    fn any_frame() -> impl Strategy<Value = ReceivedFrame> {
        let message = proptest::collection::vec(any::<u8>(), 0..5000);
        (0..FrameKind::ALL.len(), any::<u8>(), any::<u16>(), any::<u64>(), message).prop_map(
            |(kind, detail, descriptor_count, number, message)| {
                let kind = FrameKind::ALL[kind];
                let header =
                    FrameHeader { kind, detail, descriptor_count, number, len: message.len() as u64 };
                ReceivedFrame { header, message }
            },
        )
    }

    proptest! {
        #[test]
        fn frames_are_the_same_however_their_bytes_arrive(
            frames in proptest::collection::vec(any_frame(), 0..6),
            step in 1usize..9000,
        ) {
            let mut bytes = Vec::new();
            for frame in &frames {
                bytes.extend(frame.header.to_bytes());
                bytes.extend(&frame.message);
            }
            prop_assert_eq!(read(&bytes, step).expect("frames"), frames);
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300), step in 1usize..40) {
            let _ = read(&bytes, step);
        }
    }

    #[test]
    fn a_header_that_claims_much_costs_little() {
        let mut reader = FrameReader::new(u64::MAX);
        let header = FrameHeader::new(FrameKind::Answer, 7, 1 << 36).to_bytes();
        reader.space().copy_from_slice(&header);
        assert_eq!(reader.advance(header.len()).expect("a header"), None);
        assert_eq!(reader.space().len(), FIRST_BYTES);
        let too_long = FrameHeader::new(FrameKind::Read, 7, 1 << 21).to_bytes();
        assert!(FrameHeader::parse(&too_long).is_err());
    }
}
