//! Object headers: the list of messages that describe a group, a variable or a type.

use bytes::Bytes;
use forebay_process::{Error, Result};

use super::{cursor::MetadataCursor, message, metadata::Metadata};

/// The HDF5 library itself writes a handful of continuation blocks; a ring of them must end.
const MOST_BLOCKS: usize = 4096;
const SHARED: u8 = 0x02;
/// The writer asked readers that do not know the message not to open the object.
const FAIL_IF_UNKNOWN: u8 = 0x80;

/// One message of an object header.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) body: Bytes,
    /// Address of the body, where it lies in the file as it is.
    pub(crate) address: u64,
    /// The body stands elsewhere, and other objects may have it too.
    pub(crate) is_shared: bool,
    /// How many messages of attributes were made before it, where the header keeps count.
    pub(crate) creation_order: Option<u16>,
}

/// An object header.
#[derive(Clone, Debug)]
pub(crate) struct ObjectHeader {
    pub(crate) messages: Vec<Message>,
}

/// What is still to be read of a header.
struct HeaderBlock {
    address: u64,
    len: u64,
}

impl ObjectHeader {
    /// The first message of `kind`.
    pub(crate) fn find(&self, kind: u16) -> Option<&Message> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    /// True when there is a message of `kind`.
    pub(crate) fn has(&self, kind: u16) -> bool {
        self.find(kind).is_some()
    }

    /// Reads the header at `address`, all continuation blocks included; shared messages say where they are.
    pub(crate) fn read(file: &Metadata, address: u64) -> Result<Self> {
        let start = file.read_up_to(address, 64)?;
        if start.starts_with(b"OHDR") {
            read_new(file, address, &start)
        } else {
            read_old(file, address, &start)
        }
    }

    /// The first message of `kind` in the header at `address`, which must not itself be shared.
    pub(crate) fn unshared_message(file: &Metadata, address: u64, kind: u16) -> Result<Bytes> {
        if let Some(body) = file.committed.borrow().get(&(address, kind)) {
            return Ok(body.clone());
        }
        let header = Self::read(file, address).map_err(|error| error.at(format!("{address:#x}")))?;
        match header.messages.iter().find(|message| message.kind == kind && !message.is_shared) {
            Some(message) => {
                file.committed.borrow_mut().insert((address, kind), message.body.clone());
                Ok(message.body.clone())
            }
            None => Err(Error::corrupt(format!(
                "no message {kind:#x} to share in the object header at {address:#x}"
            ))),
        }
    }
}

fn read_old(file: &Metadata, address: u64, start: &[u8]) -> Result<ObjectHeader> {
    let mut cursor = MetadataCursor::new(start, file.sizes);
    match cursor.u8()? {
        1 => {}
        version => return Err(Error::corrupt(format!("no object header here (first byte {version:#x})"))),
    }
    cursor.skip(1)?;
    let count = cursor.u16()?;
    let _references = cursor.u32()?;
    let first = HeaderBlock { address: address + 16, len: cursor.u32()?.into() };
    let mut messages = Vec::new();
    let mut blocks = vec![first];
    let mut done = 0;
    while let Some(block) = blocks.get(done) {
        let (block_address, bytes) = (block.address, file.read(block.address, block.len)?);
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        while cursor.left() >= 8 && messages.len() < usize::from(count) {
            let kind = cursor.u16()?;
            let len = cursor.u16()?;
            let flags = cursor.u8()?;
            cursor.skip(3)?;
            let at = cursor.position();
            cursor.skip(len)?;
            let body = bytes.slice(at..at + usize::from(len));
            push(
                file,
                &mut messages,
                &mut blocks,
                RawMessage { kind, flags, body, address: block_address + at as u64, creation_order: None },
            )?;
        }
        done += 1;
    }
    Ok(ObjectHeader { messages })
}

fn read_new(file: &Metadata, address: u64, start: &[u8]) -> Result<ObjectHeader> {
    let mut cursor = MetadataCursor::new(start, file.sizes);
    cursor.signature(b"OHDR")?;
    cursor.version(2, "an object header")?;
    let flags = cursor.u8()?;
    if flags & 0x20 != 0 {
        cursor.skip(16)?;
    }
    if flags & 0x10 != 0 {
        cursor.skip(4)?;
    }
    let len = cursor.uint(1 << (flags & 3))?;
    let prefix = cursor.position() as u64;
    let has_creation_order = flags & 0x04 != 0;
    let mut messages = Vec::new();
    let mut blocks = Vec::new();
    let total = prefix
        .checked_add(len)
        .and_then(|sum| sum.checked_add(4))
        .ok_or_else(|| Error::corrupt("header length overflows 64 bits"))?;
    let bytes = file.read(address, total)?;
    let mut reading = NewBlock { file, bytes, address, from: prefix, has_creation_order };
    reading.messages(&mut messages, &mut blocks)?;
    let mut done = 0;
    while let Some(block) = blocks.get(done) {
        let bytes = file.read(block.address, block.len)?;
        MetadataCursor::new(&bytes, file.sizes).signature(b"OCHK")?;
        reading = NewBlock { bytes, address: block.address, from: 4, ..reading };
        reading.messages(&mut messages, &mut blocks)?;
        done += 1;
    }
    Ok(ObjectHeader { messages })
}

/// A block of a version 2 header: messages from `from` up to the checksum at the end.
struct NewBlock<'a> {
    file: &'a Metadata,
    bytes: Bytes,
    address: u64,
    from: u64,
    has_creation_order: bool,
}

impl NewBlock<'_> {
    fn messages(&self, messages: &mut Vec<Message>, blocks: &mut Vec<HeaderBlock>) -> Result<()> {
        let Some(end) = self.bytes.len().checked_sub(4) else {
            return Err(Error::corrupt("a block of an object header shorter than its checksum"));
        };
        let mut whole = MetadataCursor::new(&self.bytes, self.file.sizes);
        whole.skip(end)?;
        whole.checksum("an object header")?;
        let mut cursor = MetadataCursor::new(&self.bytes[..end], self.file.sizes);
        cursor.skip(usize::try_from(self.from).unwrap_or(usize::MAX))?;
        let header_len = if self.has_creation_order { 6 } else { 4 };
        // Fewer bytes than a message header at the end are a gap.
        while cursor.left() >= header_len {
            let kind = cursor.u8()?;
            let len = cursor.u16()?;
            let flags = cursor.u8()?;
            let creation_order = if self.has_creation_order { Some(cursor.u16()?) } else { None };
            let at = cursor.position();
            cursor.skip(len)?;
            let body = self.bytes.slice(at..at + usize::from(len));
            let address = self.address + at as u64;
            let message = RawMessage { kind: kind.into(), flags, body, address, creation_order };
            push(self.file, messages, blocks, message)?;
        }
        Ok(())
    }
}

struct RawMessage {
    kind: u16,
    flags: u8,
    body: Bytes,
    address: u64,
    creation_order: Option<u16>,
}

fn push(
    file: &Metadata,
    messages: &mut Vec<Message>,
    blocks: &mut Vec<HeaderBlock>,
    raw: RawMessage,
) -> Result<()> {
    let RawMessage { kind, flags, body, address, creation_order } = raw;
    if kind == message::CONTINUATION && flags & SHARED == 0 {
        let mut cursor = MetadataCursor::new(&body, file.sizes);
        let block =
            HeaderBlock { address: cursor.some_address("a continuation block")?, len: cursor.length()? };
        if blocks.len() >= MOST_BLOCKS {
            return Err(Error::corrupt("continuation blocks in a ring"));
        }
        blocks.push(block);
    }
    if kind > message::LAST_KNOWN && flags & FAIL_IF_UNKNOWN != 0 {
        return Err(Error::unsupported(format!(
            "message {kind:#x}, which the writer says must be understood"
        )));
    }
    let is_shared = flags & SHARED != 0;
    messages.push(Message { kind, body, address, is_shared, creation_order });
    Ok(())
}
