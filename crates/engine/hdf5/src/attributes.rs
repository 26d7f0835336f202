//! The attributes of an object, in its header or in a dense heap.

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};

use super::{
    cursor::MetadataCursor,
    file::File,
    fractal_heap::FractalHeap,
    header::ObjectHeader,
    message::{self, attribute},
    tree_v2::TreeV2,
};
use forebay_container::Attribute;

/// The flag of an attribute info message whose object tracks the order its attributes are made in.
const ORDER_TRACKED: u8 = 0x01;
/// A dense attribute whose own message lies among the shared ones.
const SHARED: u8 = 0x02;

/// The place of an attribute whose order nothing says: after all others, where names decide.
const NO_PLACE: u64 = u64::MAX;

/// All attributes, in the order they were made in where the object tracks it, else in that of the header, and by name those of a heap;
/// one that cannot be made out says why and hides nothing else.
pub(crate) fn attributes(file: &File, header: &ObjectHeader) -> Result<Vec<Attribute>> {
    let mut found = Vec::new();
    each_body(file, header, &mut |place, body| {
        found.push((place, readable(body.and_then(|body| attribute::parse(file, &body)))?));
        Ok(())
    })?;
    found.sort_by(|(place, one), (other_place, other)| (place, &one.name).cmp(&(other_place, &other.name)));
    Ok(found.into_iter().map(|(_, attribute)| attribute).collect())
}

/// The addresses of the objects that lists of references in the attribute `name` lead to, the first of each list.
pub(crate) fn references(file: &File, header: &ObjectHeader, name: &str) -> Result<Vec<Option<u64>>> {
    let mut found = Vec::new();
    each_body(file, header, &mut |_, body| {
        if let Ok(Some(lists)) = body.and_then(|body| attribute::references(file, &body, name)) {
            found = lists;
        }
        Ok(())
    })?;
    Ok(found)
}

/// What the reason why an attribute cannot be read takes, about.
const REASON_BYTES: u64 = 256;

type AttributeSink<'a> = dyn FnMut(u64, Result<Bytes>) -> Result<()> + 'a;

/// Calls `each` with the place and the message of every attribute, or with why it, or the rest of them, cannot be found.
fn each_body(file: &File, header: &ObjectHeader, each: &mut AttributeSink<'_>) -> Result<()> {
    for (index, message) in (0..).zip(&header.messages) {
        match message.kind {
            message::ATTRIBUTE => {
                let place = message.creation_order.map_or(index, u64::from);
                each(place, Ok(message.body.clone()))?;
            }
            message::ATTRIBUTE_INFO => {
                if let Err(error) = dense(file, &message.body, each) {
                    each(NO_PLACE, Err(error))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// One attribute that cannot be made out must not hide what it belongs to; a file that cannot be read is another matter.
fn readable(parsed: Result<Attribute>) -> Result<Attribute> {
    match parsed {
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
            Ok(Attribute { name: "(unreadable)".into(), value: Err(error.to_string()) })
        }
        parsed => parsed,
    }
}

fn dense(file: &File, body: &[u8], each: &mut AttributeSink<'_>) -> Result<()> {
    let mut cursor = MetadataCursor::new(body, file.sizes);
    cursor.version(0, "an attribute info message")?;
    let is_tracked = cursor.u8()? & ORDER_TRACKED != 0;
    if is_tracked {
        cursor.skip(2)?;
    }
    let (Some(heap), Some(tree)) = (cursor.address()?, cursor.address()?) else { return Ok(()) };
    let heap = FractalHeap::open(file, heap)?;
    let tree = TreeV2::open(file, tree)?;
    if tree.kind != 8 || tree.record_len < 13 {
        return Err(Error::corrupt(format!("attributes in a B-tree of kind {}", tree.kind)));
    }
    tree.walk(file, &mut |record| {
        let (id, flags, order) = (&record[..8], record[8], &record[9..13]);
        let order = order.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let body = if flags & SHARED != 0 {
            file.shared.in_heap(file, id, message::ATTRIBUTE)
        } else {
            heap.object(file, id)
        };
        // Many records may lead to one object, and one that is not there leaves its reason behind.
        file.spend(body.as_ref().map_or(REASON_BYTES, |body| body.len() as u64))?;
        each(if is_tracked { order } else { NO_PLACE }, body)
    })
}
