//! Variable-length values: an element is a count and a place in a heap of collections.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use forebay_container::{Dtype, Heap, Values, native};

use crate::heap_fill::{HEAD_LEN, HeapReference, number};

/// Collections kept while one array is resolved; neighbours share them.
const MOST_KEPT_BYTES: u64 = 64 << 20;

/// Reads variable-length values of one source.
#[derive(Debug)]
pub struct HeapReader<'a> {
    source: &'a dyn Source,
    heap: Heap,
    collections: Collections,
    /// Bytes that values may still take.
    left: u64,
}

/// Collections that were read, for as long as they fit.
#[derive(Debug, Default)]
pub(crate) struct Collections {
    kept: HashMap<u64, Collection>,
    kept_bytes: u64,
    /// Where each collection that was ever read begins, and its length.
    known: BTreeMap<u64, u64>,
}

/// One collection: its bytes, and where each object lies in them.
#[derive(Debug)]
struct Collection {
    bytes: Bytes,
    objects: HashMap<u16, (usize, usize)>,
}

/// Why values were not resolved.
enum Unresolved {
    /// They take more than they may.
    Full,
    Other(Error),
}

impl From<Error> for Unresolved {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl<'a> HeapReader<'a> {
    /// A reader of what lies in `heap` of `source`, whose values take at most `most` bytes.
    pub fn new(source: &'a dyn Source, heap: Heap, most: u64) -> Self {
        Self { source, heap, collections: Collections::default(), left: most }
    }

    /// The same, which knows `collections` of this source already.
    pub(crate) fn with_collections(self, collections: Collections) -> Self {
        Self { collections, ..self }
    }

    /// What it read, and how many bytes are left to values.
    pub(crate) fn finish(self) -> (Collections, u64) {
        (self.collections, self.left)
    }

    /// The values of `stored` elements of `dtype`, which has a variable-length part.
    ///
    /// A few bytes of references can stand for any number of values, when they all lead to the same one.
    pub fn resolve(&mut self, dtype: &Dtype, stored: &[u8]) -> Result<Values> {
        let most = self.left;
        let mut offsets = vec![0];
        let mut bytes = Vec::new();
        for element in stored.chunks_exact(dtype.stored_len()) {
            self.append_top(dtype, element, &mut bytes).map_err(|error| match error {
                Unresolved::Full => {
                    let what = format!("values of more than {most} bytes, which is all they may take");
                    Error::new(ErrorKind::Full, what).hint("read them in slices")
                }
                Unresolved::Other(error) => error,
            })?;
            offsets.push(bytes.len() as u64);
        }
        Ok(Values::Variable { offsets, bytes })
    }

    /// Counts `len` bytes before they are written: a level further down may repeat them any number of times.
    fn spend(&mut self, len: usize) -> Result<(), Unresolved> {
        match self.left.checked_sub(len as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Unresolved::Full)
            }
        }
    }

    /// An element by itself: its length is known from the offsets.
    fn append_top(&mut self, dtype: &Dtype, element: &[u8], out: &mut Vec<u8>) -> Result<(), Unresolved> {
        match dtype {
            Dtype::VarText { .. } => {
                let text = self.object(element, 1)?;
                let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
                self.spend(text.len())?;
                out.extend_from_slice(text);
                Ok(())
            }
            Dtype::Sequence { item, .. } => self.append_items(item, element, out).map(drop),
            _ => self.append(dtype, element, out),
        }
    }

    /// An element inside another: what has no fixed length is led by its count.
    fn append(&mut self, dtype: &Dtype, element: &[u8], out: &mut Vec<u8>) -> Result<(), Unresolved> {
        match dtype {
            Dtype::VarText { .. } | Dtype::Sequence { .. } => {
                let at = out.len();
                self.spend(8)?;
                out.extend_from_slice(&[0; 8]);
                let count = match dtype {
                    Dtype::Sequence { item, .. } => self.append_items(item, element, out)?,
                    _ => {
                        self.append_top(dtype, element, out)?;
                        (out.len() - at - 8) as u64
                    }
                };
                out[at..at + 8].copy_from_slice(&count.to_le_bytes());
                Ok(())
            }
            Dtype::Compound { fields, .. } if dtype.is_variable() => {
                for field in fields {
                    let end = field.offset + field.dtype.stored_len();
                    self.append(&field.dtype, &element[field.offset..end], out)?;
                }
                Ok(())
            }
            Dtype::Array { item, .. } if dtype.is_variable() => element
                .chunks_exact(item.stored_len())
                .try_for_each(|item_bytes| self.append(item, item_bytes, out)),
            _ => {
                self.spend(element.len())?;
                let mut bytes = element.to_vec();
                native::make_native(dtype, &mut bytes);
                native::pack(dtype, &bytes, out);
                Ok(())
            }
        }
    }

    fn append_items(&mut self, item: &Dtype, element: &[u8], out: &mut Vec<u8>) -> Result<u64, Unresolved> {
        let items = self.object(element, item.stored_len())?;
        if item.is_variable() {
            items.chunks_exact(item.stored_len()).try_for_each(|bytes| self.append(item, bytes, out))?;
        } else {
            self.spend(items.len())?;
            let mut bytes = items.to_vec();
            native::make_native(item, &mut bytes);
            native::pack(item, &bytes, out);
        }
        Ok((items.len() / item.stored_len()) as u64)
    }

    /// The stored bytes a reference leads to: its count of items, each `item_len` long.
    fn object(&mut self, reference: &[u8], item_len: usize) -> Result<Bytes> {
        let heap = self.heap;
        let reference = HeapReference::read(heap, reference)?;
        let (address, object, count) = (reference.address(), reference.object(), reference.count());
        if count == 0 {
            return Ok(Bytes::new());
        }
        let place = |error: Error| error.at(format!("object {object} of the heap at {address:#x}"));
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(item_len));
        let len = len.ok_or_else(|| place(Error::corrupt("a length beyond memory")))?;
        let collection = self.collections.get(self.source, heap, address).map_err(place)?;
        let found = u16::try_from(object).ok().and_then(|object| collection.objects.get(&object));
        match found {
            Some((from, has)) if len <= *has => Ok(collection.bytes.slice(*from..*from + len)),
            Some((_, has)) => Err(place(Error::corrupt(format!("{len} bytes wanted, {has} there")))),
            None => Err(place(Error::corrupt("no such object"))),
        }
    }

    /// The bytes of one object of a heap, for callers that know where it is.
    pub(crate) fn whole_object(&mut self, address: u64, object: u32) -> Result<Bytes> {
        let collection = self.collections.get(self.source, self.heap, address)?;
        let found = u16::try_from(object).ok().and_then(|object| collection.objects.get(&object));
        match found {
            Some((from, len)) => Ok(collection.bytes.slice(*from..*from + *len)),
            None => Err(Error::corrupt(format!("no object {object} in the heap at {address:#x}"))),
        }
    }
}

impl Collections {
    fn get(&mut self, source: &dyn Source, heap: Heap, address: u64) -> Result<&Collection> {
        if !self.kept.contains_key(&address) {
            let read = Collection::read(source, heap, address)?;
            let len = read.bytes.len() as u64;
            self.check_apart(address, len)?;
            if self.kept_bytes > MOST_KEPT_BYTES {
                self.kept.clear();
                self.kept_bytes = 0;
            }
            self.kept_bytes += len;
            self.kept.insert(address, read);
        }
        Ok(&self.kept[&address])
    }

    /// Collections that lie over each other are read once for each of them, however many there are.
    fn check_apart(&mut self, address: u64, len: u64) -> Result<()> {
        let before = self.known.range(..address).next_back();
        let after = self.known.range(address.saturating_add(1)..).next();
        let is_apart = before.is_none_or(|(start, len)| start.saturating_add(*len) <= address)
            && after.is_none_or(|(start, _)| address.saturating_add(len) <= *start);
        if !is_apart {
            return Err(Error::corrupt("a heap collection that lies over another"));
        }
        self.known.insert(address, len);
        Ok(())
    }
}

impl Collection {
    fn read(source: &dyn Source, heap: Heap, address: u64) -> Result<Self> {
        let at = address.checked_add(heap.base).ok_or_else(|| Error::corrupt("an address beyond 64 bits"))?;
        let length_len = usize::from(heap.length_len);
        let head =
            source.fetch_one(ByteRange::checked(at, (HEAD_LEN + length_len) as u64, source.id().len)?)?;
        if !head.starts_with(b"GCOL\x01") {
            return Err(Error::corrupt("no heap collection here"));
        }
        let len = number(&head[HEAD_LEN..]);
        let bytes = source.fetch_one(ByteRange::checked(at, len, source.id().len)?)?;
        let mut objects = HashMap::new();
        let object_head = (HEAD_LEN + length_len).next_multiple_of(8);
        let mut from = object_head;
        while let Some(head) = bytes.get(from..from + HEAD_LEN + length_len) {
            let index = u16::from_le_bytes([head[0], head[1]]);
            if index == 0 {
                break;
            }
            let start = from + object_head;
            let len = usize::try_from(number(&head[HEAD_LEN..])).unwrap_or(usize::MAX);
            let Some(end) = start.checked_add(len).filter(|end| *end <= bytes.len()) else {
                return Err(Error::corrupt(format!("object {index} reaches past its collection")));
            };
            objects.insert(index, (start, len));
            from = end.next_multiple_of(8);
        }
        Ok(Self { bytes, objects })
    }
}
