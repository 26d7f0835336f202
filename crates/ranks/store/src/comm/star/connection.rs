//! One connection of a star: frames, and descriptors that come with them where the socket is a unix one.

use std::{
    collections::VecDeque,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use forebay_process::{Error, Result};
use forebay_scratch::ParentOnly;
use rustix::{
    cmsg_space,
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

use crate::comm::frame::{FrameHeader, FrameReader, ReceivedFrame};

/// A frame that is to be sent. What goes to many ranks is kept once.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    header: [u8; FrameHeader::LEN],
    message: Arc<Vec<u8>>,
    descriptors: Arc<Vec<OwnedFd>>,
    sent: usize,
}

impl Outgoing {
    pub(super) fn new(
        mut header: FrameHeader,
        message: Arc<Vec<u8>>,
        descriptors: Arc<Vec<OwnedFd>>,
    ) -> Result<Self> {
        let most = DESCRIPTORS_A_BYTE * FrameHeader::LEN;
        let count = u16::try_from(descriptors.len()).ok().filter(|_| descriptors.len() <= most);
        header.descriptor_count =
            count.ok_or_else(|| Error::invalid(format!("{} descriptors in a frame", descriptors.len())))?;
        header.len = message.len() as u64;
        Ok(Self { header: header.to_bytes(), message, descriptors, sent: 0 })
    }

    fn is_sent(&self) -> bool {
        self.sent == self.header.len() + self.message.len()
    }

    /// Sends some of it: descriptors one bunch with each of the first bytes, then the rest.
    fn send_some(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let bunch: Vec<BorrowedFd<'_>> = match self.descriptors.chunks(DESCRIPTORS_A_BYTE).nth(self.sent) {
            Some(bunch) => bunch.iter().map(AsFd::as_fd).collect(),
            None => Vec::new(),
        };
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_A_BYTE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let header = &self.header[self.sent.min(FrameHeader::LEN)..];
        let len = if bunch.is_empty() {
            let message = &self.message[self.sent.saturating_sub(FrameHeader::LEN)..];
            sendmsg(socket, &[IoSlice::new(header), IoSlice::new(message)], &mut control, flags)?
        } else {
            control.push(SendAncillaryMessage::ScmRights(&bunch));
            sendmsg(socket, &[IoSlice::new(&header[..1])], &mut control, flags)?
        };
        self.sent += len;
        Ok(())
    }
}

/// How many descriptors ride on one byte of a header. Linux allows 253.
const DESCRIPTORS_A_BYTE: usize = 128;

/// Descriptors that may have come before the frame that they belong to.
const MOST_DESCRIPTORS: usize = 8 * DESCRIPTORS_A_BYTE * FrameHeader::LEN;

/// A connected socket, the frame that arrives on it and those that wait to be sent.
#[derive(Debug)]
pub(super) struct Connection {
    _parent_only: ParentOnly,
    socket: OwnedFd,
    reader: FrameReader,
    descriptors: VecDeque<OwnedFd>,
    sending: VecDeque<Outgoing>,
    /// True once something of what came was lost: the rest means nothing.
    is_garbled: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        let reader = FrameReader::new(u64::MAX);
        let _parent_only = ParentOnly::new(socket.as_fd());
        let (descriptors, sending) = (VecDeque::new(), VecDeque::new());
        Self { _parent_only, socket, reader, descriptors, sending, is_garbled: false }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn queue(&mut self, frame: Outgoing) {
        self.sending.push_back(frame);
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.sending.is_empty()
    }

    pub(super) fn unsent_count(&self) -> usize {
        self.sending.len()
    }

    /// Sends what the socket takes; gives how many frames are out. Where the other side has ended it sends nothing more: what
    /// that said before is still to be read, and `receive` finds the end.
    pub(super) fn send(&mut self) -> usize {
        let mut count = 0;
        while let Some(frame) = self.sending.front_mut() {
            match frame.send_some(self.socket.as_fd()) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(_) => break,
            }
            if frame.is_sent() {
                self.sending.pop_front();
                count += 1;
            }
        }
        count
    }

    /// Hands every frame that has arrived to `take`; false when the connection has ended. After an error it hands on nothing
    /// more: what follows cannot be read.
    pub(super) fn receive(
        &mut self,
        take: &mut dyn FnMut(ReceivedFrame, Vec<OwnedFd>) -> Result<()>,
    ) -> Result<bool> {
        if self.is_garbled {
            return Ok(self.discard());
        }
        let received = self.receive_frames(take);
        self.is_garbled = received.is_err();
        received
    }

    fn receive_frames(
        &mut self,
        take: &mut dyn FnMut(ReceivedFrame, Vec<OwnedFd>) -> Result<()>,
    ) -> Result<bool> {
        loop {
            let len = match self.receive_some() {
                Ok(0) => return Ok(false),
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return Ok(true),
                // This process lacks something; the other side is well.
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                    return Err(Error::from_io(errno.into()));
                }
                Err(_) => return Ok(false),
            };
            if self.descriptors.len() > MOST_DESCRIPTORS {
                return Err(Error::corrupt("a rank sends descriptors that belong to no frame"));
            }
            let Some(frame) = self.reader.advance(len)? else { continue };
            let count = usize::from(frame.header.descriptor_count);
            if count > self.descriptors.len() {
                // The system drops those for which this process has no numbers left.
                return Err(Error::corrupt("descriptors of another rank did not arrive")
                    .hint("raise the limit of open files (ulimit -n)"));
            }
            let descriptors = self.descriptors.drain(..count).collect();
            take(frame, descriptors)?;
        }
    }

    /// Receives what nobody can read; false when the connection has ended.
    fn discard(&self) -> bool {
        loop {
            match rustix::net::recv(&self.socket, &mut [0; 4096], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return errno == Errno::WOULDBLOCK,
            }
        }
    }

    fn receive_some(&mut self) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_A_BYTE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received =
            recvmsg(&self.socket, &mut [IoSliceMut::new(self.reader.space())], &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::MFILE);
        }
        Ok(received.bytes)
    }
}
