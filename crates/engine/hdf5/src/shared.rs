//! Messages that several objects share: committed types and the file's shared message heaps.

use bytes::Bytes;
use forebay_process::{Error, Result};

use super::{
    cursor::MetadataCursor,
    fractal_heap::FractalHeap,
    header::ObjectHeader,
    message::{DATATYPE, SHARED_TABLE},
    metadata::Metadata,
};

/// The heaps of shared messages of a file, by the message kinds they hold.
#[derive(Debug, Default)]
pub(crate) struct SharedMessages(Vec<(u16, FractalHeap)>);

impl SharedMessages {
    /// Reads the table that a superblock extension may point to.
    pub(crate) fn read(file: &Metadata, extension: &ObjectHeader) -> Result<Self> {
        let Some(message) = extension.find(SHARED_TABLE) else { return Ok(Self::default()) };
        let mut cursor = MetadataCursor::new(&message.body, file.sizes);
        cursor.version(0, "a shared message table")?;
        let address = cursor.some_address("the shared message table")?;
        let count = u64::from(cursor.u8()?);
        let one = 1 + 1 + 2 + 4 + 2 + 2 + 2 + 2 * u64::from(file.sizes.offset);
        let bytes = file.read(address, 4 + count * one + 4)?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.signature(b"SMTB")?;
        let mut heaps = Vec::new();
        for _ in 0..count {
            cursor.skip(2)?;
            let kinds = cursor.u16()?;
            cursor.skip(4 + 2 + 2 + 2)?;
            let _index = cursor.address()?;
            if let Some(heap) = cursor.address()? {
                heaps.push((kinds, FractalHeap::open(file, heap)?));
            }
        }
        cursor.checksum("the shared message table")?;
        Ok(Self(heaps))
    }

    /// The header at `address` with the bodies that its shared messages stand for.
    pub(crate) fn resolve_all(
        &self,
        file: &Metadata,
        mut header: ObjectHeader,
        address: u64,
    ) -> Result<ObjectHeader> {
        for message in header.messages.iter_mut().filter(|message| message.is_shared) {
            message.body = self.locate(file, &message.body, message.kind, Some(address))?;
        }
        Ok(header)
    }

    /// The body itself, or what it stands for when it `is_shared`.
    pub(crate) fn maybe(&self, file: &Metadata, body: &[u8], is_shared: bool, kind: u16) -> Result<Bytes> {
        if is_shared { self.locate(file, body, kind, None) } else { Ok(Bytes::copy_from_slice(body)) }
    }

    /// Where a message is found. All but types are copied by whatever has them: a few bytes stand for many.
    fn locate(&self, file: &Metadata, body: &[u8], kind: u16, owner: Option<u64>) -> Result<Bytes> {
        let found = self.find(file, body, kind, owner)?;
        if kind != DATATYPE {
            file.spend(found.len() as u64)?;
        }
        Ok(found)
    }

    fn find(&self, file: &Metadata, body: &[u8], kind: u16, owner: Option<u64>) -> Result<Bytes> {
        let mut cursor = MetadataCursor::new(body, file.sizes);
        let version = cursor.u8()?;
        let place = cursor.u8()?;
        match (version, place) {
            (1, _) => {
                cursor.skip(6)?;
                // Old writers put an unused heap index before the address.
                if cursor.left() >= usize::from(file.sizes.length) + usize::from(file.sizes.offset) {
                    cursor.length()?;
                }
            }
            (3, 1) => return self.in_heap(file, cursor.take(8)?, kind),
            (2, _) | (3, 2 | 3) => {}
            _ => {
                return Err(Error::unsupported(format!(
                    "a shared message of version {version}, place {place}"
                )));
            }
        }
        let address = cursor.some_address("a shared message")?;
        if owner == Some(address) {
            return Err(Error::corrupt("a message that shares itself"));
        }
        ObjectHeader::unshared_message(file, address, kind)
    }

    /// The message of `kind` that the file's shared heaps hold under `id`.
    pub(crate) fn in_heap(&self, file: &Metadata, id: &[u8], kind: u16) -> Result<Bytes> {
        let holds = |kinds: u16| 1u16.checked_shl(kind.into()).is_some_and(|bit| kinds & bit != 0);
        let mut heaps = self.0.iter().filter(|(kinds, _)| holds(*kinds));
        match heaps.next() {
            Some((_, heap)) => heap.object(file, id),
            None => Err(Error::corrupt(format!("no heap of shared messages of kind {kind:#x}"))),
        }
    }
}
