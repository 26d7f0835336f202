//! What a rank asks another for: pieces of a window, as bytes. Pure functions.

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{FrameHeader, FrameKind};

/// The most pieces of one request: more are asked for by several. It bounds what a server keeps of a request to 64 KiB.
pub const MOST_PIECES: usize = 4096;

/// Pieces of the shard that a rank has in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceRequest {
    /// The number of the window.
    pub window: u64,
    /// Offsets and lengths.
    pub pieces: Vec<(u64, u64)>,
}

/// Bytes of the message for so many pieces.
pub(crate) const fn request_len(piece_count: usize) -> usize {
    8 + 16 * piece_count
}

impl PieceRequest {
    /// Puts the message for `pieces` of `window` behind what is in `bytes`.
    pub fn write(bytes: &mut Vec<u8>, window: u64, pieces: impl Iterator<Item = (u64, u64)>) {
        bytes.extend(window.to_le_bytes());
        for (offset, len) in pieces {
            bytes.extend(offset.to_le_bytes());
            bytes.extend(len.to_le_bytes());
        }
    }

    /// The request that `bytes` begin with, its number, and how many bytes it takes; nothing while it is not whole.
    pub fn take(bytes: &[u8]) -> Result<Option<(u64, Self, usize)>> {
        let Some((header, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let header = FrameHeader::parse(header)?;
        if header.kind != FrameKind::Read || header.len > request_len(MOST_PIECES) as u64 {
            return Err(Error::corrupt("a rank sends what is no request"));
        }
        let len = usize::try_from(header.len).unwrap_or(usize::MAX);
        let Some(message) = rest.get(..len) else { return Ok(None) };
        Ok(Some((header.number, Self::parse(message)?, FrameHeader::LEN + len)))
    }

    /// What a message asks for.
    pub fn parse(message: &[u8]) -> Result<Self> {
        let broken = || Error::corrupt("a request that cannot be read");
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| broken());
        let (window, pieces) = message.split_at_checked(8).ok_or_else(broken)?;
        if !pieces.len().is_multiple_of(16) || pieces.len() / 16 > MOST_PIECES {
            return Err(broken());
        }
        let piece = |bytes: &[u8]| Ok((number(&bytes[..8])?, number(&bytes[8..])?));
        let pieces = pieces.chunks_exact(16).map(piece).collect::<Result<_>>()?;
        Ok(Self { window: number(window)?, pieces })
    }

    /// Bytes of all pieces, where each lies within a shard of `len` bytes.
    pub fn total(&self, len: u64) -> Option<u64> {
        self.pieces.iter().try_fold(0u64, |total, (offset, piece)| {
            offset.checked_add(*piece).filter(|end| *end <= len)?;
            total.checked_add(*piece)
        })
    }
}

/// Why a read is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ReadRefusal {
    /// There is no such window, or it is closed.
    NoWindow = 1,
    /// A piece does not lie within the shard.
    BeyondTheShard = 2,
}

/// Makes sure that `header` stands before the `total` bytes that `rank` was asked for by request `number`.
///
/// Whatever is wrong with it, bytes of it may have gone to the pieces: the connection is of no use any more.
pub fn check_answer(header: &[u8; FrameHeader::LEN], rank: usize, number: u64, total: u64) -> Result<()> {
    let header = FrameHeader::parse(header)?;
    match header.kind {
        FrameKind::Bytes if header.number == number && header.len == total => Ok(()),
        FrameKind::Refused if header.detail == ReadRefusal::NoWindow as u8 => {
            let what = format!("rank {rank} has closed the window, or left the job");
            Err(Error::new(ErrorKind::Unavailable, what))
        }
        FrameKind::Refused => Err(Error::invalid(format!("rank {rank} holds less than is read of it"))),
        _ => Err(Error::corrupt(format!("rank {rank} answers what was not asked"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_written(window: u64, pieces in proptest::collection::vec(any::<(u64, u64)>(), 0..50)) {
            let mut message = Vec::new();
            PieceRequest::write(&mut message, window, pieces.iter().copied());
            prop_assert_eq!(message.len(), request_len(pieces.len()));
            prop_assert_eq!(PieceRequest::parse(&message).expect("a request"), PieceRequest { window, pieces });
        }

        #[test]
        fn any_bytes_are_a_request_or_an_error(message in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = PieceRequest::parse(&message);
        }

        #[test]
        fn any_other_header_than_that_of_the_answer_is_an_error(other: [u8; FrameHeader::LEN], at in 0..FrameHeader::LEN, bit in 0..8) {
            let right = FrameHeader::new(FrameKind::Bytes, 5, 1000).to_bytes();
            prop_assert!(check_answer(&right, 1, 5, 1000).is_ok());
            prop_assert!(other == right || check_answer(&other, 1, 5, 1000).is_err());
            let mut changed = right;
            changed[at] ^= 1u8 << bit;
            // What more is to be known, and descriptors, mean nothing for bytes.
            prop_assert_eq!(check_answer(&changed, 1, 5, 1000).is_ok(), (5..8).contains(&at));
        }

        #[test]
        fn no_total_goes_beyond_a_shard(pieces in proptest::collection::vec((0u64..100, 0u64..100), 0..5), len in 0u64..150) {
            let request = PieceRequest { window: 0, pieces: pieces.clone() };
            let fits = pieces.iter().all(|(offset, piece)| offset + piece <= len);
            let total = fits.then(|| pieces.iter().map(|(_, piece)| piece).sum());
            prop_assert_eq!(request.total(len), total);
        }
    }

    #[test]
    fn a_request_is_taken_once_it_is_whole() {
        let mut message = Vec::new();
        PieceRequest::write(&mut message, 9, [(1, 2), (3, 4)].into_iter());
        let mut bytes = FrameHeader::new(FrameKind::Read, 77, message.len()).to_bytes().to_vec();
        bytes.extend(&message);
        bytes.extend([1, 2, 3]);
        let whole = bytes.len() - 3;
        for len in 0..whole {
            assert_eq!(PieceRequest::take(&bytes[..len]).expect("no error"), None);
        }
        let (number, request, len) = PieceRequest::take(&bytes).expect("no error").expect("a request");
        assert_eq!((number, request.window, request.pieces, len), (77, 9, vec![(1, 2), (3, 4)], whole));
        let too_long = FrameHeader::new(FrameKind::Read, 77, request_len(MOST_PIECES + 1)).to_bytes();
        assert!(PieceRequest::take(&too_long).is_err(), "refused before anything of it is kept");
        assert!(PieceRequest::take(&FrameHeader::new(FrameKind::Offer, 0, 8).to_bytes()).is_err());
    }

    #[test]
    fn numbers_that_wrap_and_too_many_pieces_are_refused() {
        let request = |pieces: &[(u64, u64)]| PieceRequest { window: 0, pieces: pieces.to_vec() };
        assert_eq!(request(&[(u64::MAX, 1)]).total(u64::MAX), None);
        assert_eq!(request(&[(0, u64::MAX), (0, 1)]).total(u64::MAX), None);
        assert!(PieceRequest::parse(&vec![0; request_len(MOST_PIECES)]).is_ok());
        assert!(PieceRequest::parse(&vec![0; request_len(MOST_PIECES + 1)]).is_err());
        assert!(PieceRequest::parse(&[0; 7]).is_err() && PieceRequest::parse(&[0; 23]).is_err());
    }
}
