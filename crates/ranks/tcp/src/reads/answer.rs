//! The answer to a read: sent straight from the memory of the shard, without a copy of ours.

#![expect(
    unsafe_code,
    reason = "a shard is memory that other processes map: it is sent by address, never by reference"
)]

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
    sync::Arc,
};

use forebay_store::{FrameHeader, ShardMemory};
use rustix::io::Errno;

/// What is still to be sent of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    header: [u8; FrameHeader::LEN],
    header_sent: usize,
    /// Pieces that lie within the shard, the last first; none where a request is refused.
    left: Vec<(u64, u64)>,
    shard: Option<Arc<ShardMemory>>,
}

/// Pieces of one call; Linux takes 1,024.
const MOST_VECTORS: usize = 512;

impl Answer {
    /// `header` and then `pieces` of `shard`; nothing where one of them does not lie within it.
    pub(crate) fn new(
        header: FrameHeader,
        shard: Arc<ShardMemory>,
        mut pieces: Vec<(u64, u64)>,
    ) -> Option<Self> {
        let is_within =
            |(offset, len): &(u64, u64)| offset.checked_add(*len).is_some_and(|end| end <= shard.len());
        if !pieces.iter().all(is_within) {
            return None;
        }
        pieces.retain(|(_, len)| *len > 0);
        pieces.reverse();
        Some(Self { header: header.to_bytes(), header_sent: 0, left: pieces, shard: Some(shard) })
    }

    /// `header` alone.
    pub(crate) fn of_header(header: FrameHeader) -> Self {
        Self { header: header.to_bytes(), header_sent: 0, left: Vec::new(), shard: None }
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.header_sent == FrameHeader::LEN && self.left.is_empty()
    }

    /// Sends as much as the socket takes.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while !self.is_sent() {
            match self.send_some(socket) {
                Ok(sent) => self.advance(sent),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn send_some(&self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MOST_VECTORS];
        let mut count = 0;
        let mut push = |base: *mut u8, len: usize| {
            vectors[count] = libc::iovec { iov_base: base.cast(), iov_len: len };
            count += 1;
        };
        let header = &self.header[self.header_sent..];
        if !header.is_empty() {
            push(header.as_ptr().cast_mut(), header.len());
        }
        if let Some(shard) = &self.shard {
            for (offset, len) in self.left.iter().rev().take(MOST_VECTORS - 1) {
                let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                push(shard.address().wrapping_add(start), usize::try_from(*len).unwrap_or(usize::MAX));
            }
        }
        // SAFETY: zeros are a valid header of a message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = count;
        // SAFETY: the socket is open. Each vector is the rest of our header, or a piece that `new` has found within the shard,
        // whose mapping lives as long as `self`; the call only reads them.
        let sent = unsafe {
            libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        };
        usize::try_from(sent)
            .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }

    fn advance(&mut self, sent: usize) {
        let of_header = sent.min(FrameHeader::LEN - self.header_sent);
        self.header_sent += of_header;
        let mut sent = (sent - of_header) as u64;
        while let Some((offset, len)) = self.left.last_mut().filter(|_| sent > 0) {
            let taken = sent.min(*len);
            (*offset, *len, sent) = (*offset + taken, *len - taken, sent - taken);
            if *len == 0 {
                self.left.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::fd::AsFd, os::unix::net::UnixStream};

    use forebay_store::{FrameKind, ShardPlace};

    use super::*;

    #[test]
    fn an_answer_arrives_whole_however_little_the_socket_takes() {
        let shard = Arc::new(ShardMemory::new(3_000_000, &ShardPlace::Memory).expect("memory"));
        let bytes: Vec<u8> =
            (0..3_000_000u32).map(|at| u8::try_from(at * 31 % 251).expect("a byte")).collect();
        shard.write(0, &bytes).expect("within the shard");
        let mut pieces: Vec<(u64, u64)> = (0..2000).map(|at| (at * 1499, at % 3 * 400)).collect();
        pieces.push((0, 3_000_000));
        let total: u64 = pieces.iter().map(|(_, len)| len).sum();
        let header = FrameHeader { len: total, ..FrameHeader::new(FrameKind::Bytes, 4, 0) };
        let mut answer = Answer::new(header, Arc::clone(&shard), pieces.clone()).expect("within the shard");
        let (one, mut other) = UnixStream::pair().expect("sockets");
        let mut got = Vec::new();
        while !answer.is_sent() {
            assert!(matches!(answer.send(one.as_fd()), Ok(()) | Err(Errno::WOULDBLOCK)));
            let mut some = vec![0; 70_001];
            let len = other.read(&mut some).expect("bytes");
            got.extend(&some[..len]);
        }
        drop(one);
        other.read_to_end(&mut got).expect("the rest");
        let mut expected = header.to_bytes().to_vec();
        for (offset, len) in &pieces {
            let mut piece = vec![0; usize::try_from(*len).expect("a small number")];
            shard.copy_to(*offset, &mut piece).expect("within the shard");
            expected.extend(piece);
        }
        assert!(got == expected);
        assert!(Answer::new(header, Arc::clone(&shard), vec![(2_999_999, 2)]).is_none());
        assert!(Answer::new(header, shard, vec![(u64::MAX, 2)]).is_none());
    }
}
