//! Values of a global heap, read straight to where they shall stand: a reference says how long its value is before any is read.
//!
//! Of a collection no more is read than leads to the objects that are wanted, window by window. An object that is longer than
//! the window it begins in goes to its place without being held anywhere else.

use std::{collections::VecDeque, ops::Range};

use bytes::Bytes;
use forebay_container::Heap;
use forebay_process::{Error, Result};
use forebay_source::{ByteRange, Fill, Source, SourceExt, coalesce};

/// libhdf5 makes collections at least this long: most are read by one window.
const FIRST_BYTES: u64 = 4 << 10;
/// Objects that are shorter are read with the head of their collection, by one request; the heads of all that are longer take fewer
/// rounds without them.
const SHORT_BYTES: u64 = 16 << 10;
/// libhdf5 lets no collection of several objects grow beyond this.
const WINDOW_BYTES: u64 = 64 << 10;
/// Bytes of windows that are held at a time.
const ROUND_BYTES: u64 = 256 << 10;
/// Windows that lie this near are fetched by one request: what lies between costs less than a request.
const GAP_BYTES: u64 = 4096;
/// A collection's own head, and that of each object in it, without the length.
pub(crate) const HEAD_LEN: usize = 8;

/// What stands in the place of a value that lies in a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeapReference {
    address: u64,
    object: u64,
    count: u64,
}

impl HeapReference {
    /// The reference that `stored` is.
    pub fn read(heap: Heap, stored: &[u8]) -> Result<Self> {
        let offset_len = usize::from(heap.offset_len);
        if stored.len() != heap.reference_len() {
            let what = format!("references of {} bytes, {} needed", stored.len(), heap.reference_len());
            return Err(Error::corrupt(what));
        }
        let (count, rest) = stored.split_at(4);
        let (address, object) = rest.split_at(offset_len);
        let (count, address, object) = (number(count), number(address), number(object));
        // Where nothing was written, the address is zero.
        Ok(Self { address, object, count: if address == 0 { 0 } else { count } })
    }

    /// How many items the value has: bytes of a text, numbers of a sequence.
    pub fn count(self) -> u64 {
        self.count
    }

    /// Where the collection lies that has the object.
    pub(crate) fn address(self) -> u64 {
        self.address
    }

    /// Which object of the collection it is.
    pub(crate) fn object(self) -> u64 {
        self.object
    }

    fn place(self, error: Error) -> Error {
        error.at(format!("object {} of the heap at {:#x}", self.object, self.address))
    }
}

/// A value that is to be read, and the memory for it: as long as its items are.
#[derive(Debug)]
pub struct HeapFill<'a> {
    /// Where it lies.
    pub reference: HeapReference,
    /// Where to put it.
    pub into: &'a mut [u8],
}

/// Reads `fills` from `heap`, which lies in `source`, and gives how many bytes were asked for.
///
/// Each collection is looked at once, however many of its objects are wanted.
pub fn fill_from_heap(source: &dyn Source, heap: Heap, mut fills: Vec<HeapFill<'_>>) -> Result<u64> {
    fills.retain(|fill| !fill.into.is_empty());
    fills.sort_unstable_by_key(|fill| fill.reference);
    let same_collection = fills.chunk_by_mut(|one, next| one.reference.address == next.reference.address);
    let mut walks = same_collection
        .map(|wanted| CollectionWalk::new(source, heap, wanted))
        .collect::<Result<VecDeque<_>>>()?;
    let mut end = source.id().len;
    for walk in walks.iter_mut().rev() {
        (walk.end, end) = (end, walk.at);
    }
    let (mut long, mut asked) = (Vec::new(), 0);
    while !walks.is_empty() {
        let mut left = ROUND_BYTES;
        let mut round = Vec::new();
        while walks.front().is_some_and(|walk| round.is_empty() || walk.window().len() <= left) {
            let Some(walk) = walks.pop_front() else { break };
            left = left.saturating_sub(walk.window().len());
            round.push(walk);
        }
        let windows = fetch(source, &round, &mut asked)?;
        for (mut walk, window) in round.into_iter().zip(windows) {
            if walk.advance(&window, &mut long)? == WalkProgress::NextWindow {
                walks.push_back(walk);
            }
        }
    }
    asked += long.iter().map(|fill: &Fill<'_>| fill.range.len()).sum::<u64>();
    source.fetch_into(&mut long)?;
    Ok(asked)
}

/// The next window of each of `round`, by as few requests as bring them.
fn fetch(source: &dyn Source, round: &[CollectionWalk<'_, '_>], asked: &mut u64) -> Result<Vec<Bytes>> {
    let windows: Vec<ByteRange> = round.iter().map(CollectionWalk::window).collect();
    let requests = coalesce(&windows, GAP_BYTES);
    *asked += requests.iter().map(|request| request.len()).sum::<u64>();
    let fetched = source.fetch(&requests)?;
    let cut = |window: &ByteRange| {
        let number = requests.partition_point(|request| request.start <= window.start).saturating_sub(1);
        window.cut(&fetched[number], requests[number].start)
    };
    Ok(windows.iter().map(cut).collect())
}

/// Whether all wanted objects of a collection were found.
#[derive(PartialEq, Eq)]
enum WalkProgress {
    Found,
    NextWindow,
}

/// The way along the objects of one collection to those that are wanted.
struct CollectionWalk<'f, 'm> {
    heap: Heap,
    /// Where the collection lies in its source.
    at: u64,
    /// Where the next begins that is wanted, or the source ends: collections that lay over each other could be read any number
    /// of times.
    end: u64,
    /// How much of it is read first.
    first_len: u64,
    /// How long it is, once its head was read.
    len: Option<u64>,
    /// Where in the collection the next head begins.
    from: u64,
    /// By object; those that were found have no memory left to fill.
    wanted: &'f mut [HeapFill<'m>],
    missing: usize,
}

impl<'f, 'm> CollectionWalk<'f, 'm> {
    fn new(source: &dyn Source, heap: Heap, wanted: &'f mut [HeapFill<'m>]) -> Result<Self> {
        let (source_len, missing) = (source.id().len, wanted.len());
        // A long object is the first of its collection as a rule.
        let heads = 2 * (HEAD_LEN + usize::from(heap.length_len)).next_multiple_of(8);
        let longest = wanted.iter().map(|fill| (fill.into.len() + heads) as u64);
        let first_len = longest.filter(|len| *len <= SHORT_BYTES).max().unwrap_or(0).max(FIRST_BYTES);
        let at = wanted[0].reference.address.checked_add(heap.base);
        let at = at.filter(|at| *at < source_len).ok_or_else(|| {
            wanted[0]
                .reference
                .place(Error::corrupt(format!("a place beyond the {source_len} bytes there are")))
        })?;
        Ok(Self { heap, at, end: source_len, first_len, len: None, from: 0, wanted, missing })
    }

    /// What is to be read next: never nothing.
    fn window(&self) -> ByteRange {
        let most = self.len.map_or(self.first_len, |len| (len - self.from).min(WINDOW_BYTES));
        let start = self.at + self.from;
        ByteRange::at(start, most.min(self.end - start))
    }

    fn head_len(&self) -> usize {
        HEAD_LEN + usize::from(self.heap.length_len)
    }

    fn object_head(&self) -> u64 {
        self.head_len().next_multiple_of(8) as u64
    }

    /// Copies what `window`, the bytes that were asked for, has of the wanted objects; those that reach beyond it are added to
    /// `long`.
    fn advance(&mut self, window: &Bytes, long: &mut Vec<Fill<'m>>) -> Result<WalkProgress> {
        let along = self.along(window, self.from, long);
        along.map_err(|error| {
            let missing = self.wanted.iter().find(|fill| !fill.into.is_empty());
            missing.map_or(self.wanted[0].reference, |fill| fill.reference).place(error)
        })
    }

    fn along(&mut self, window: &Bytes, first: u64, long: &mut Vec<Fill<'m>>) -> Result<WalkProgress> {
        let len = match self.len {
            Some(len) => len,
            None => self.head(window)?,
        };
        while self.missing > 0 {
            if self.from.saturating_add(self.head_len() as u64) > len {
                return Err(Error::corrupt("no such object"));
            }
            let at = usize::try_from(self.from - first).unwrap_or(usize::MAX);
            let Some(head) = window.get(at..at.saturating_add(self.head_len())) else {
                return Ok(WalkProgress::NextWindow);
            };
            let (index, has) = (u64::from(u16::from_le_bytes([head[0], head[1]])), number(&head[HEAD_LEN..]));
            if index == 0 {
                return Err(Error::corrupt("no such object"));
            }
            let start = self.from + self.object_head();
            let Some(end) = start.checked_add(has).filter(|end| *end <= len) else {
                return Err(Error::corrupt(format!("object {index} reaches past its collection")));
            };
            self.take(index, start..end, (window, first), long)?;
            self.from = end.next_multiple_of(8);
        }
        Ok(WalkProgress::Found)
    }

    /// The length of the collection, of which `window` is the beginning.
    fn head(&mut self, window: &Bytes) -> Result<u64> {
        let head = window.get(..self.head_len()).filter(|head| head.starts_with(b"GCOL\x01"));
        let head = head.ok_or_else(|| Error::corrupt("no heap collection here"))?;
        let len = number(&head[HEAD_LEN..]);
        ByteRange::checked(self.at, len, self.end)?;
        (self.len, self.from) = (Some(len), self.object_head());
        Ok(len)
    }

    /// Fills what wants object `index`, which lies at `object` of the collection.
    fn take(
        &mut self,
        index: u64,
        object: Range<u64>,
        (window, first): (&Bytes, u64),
        long: &mut Vec<Fill<'m>>,
    ) -> Result<()> {
        let from = self.wanted.partition_point(|fill| fill.reference.object < index);
        for fill in self.wanted[from..].iter_mut().take_while(|fill| fill.reference.object == index) {
            let (len, has) = (fill.into.len() as u64, object.end - object.start);
            if len > has {
                return Err(Error::corrupt(format!("{len} bytes wanted, {has} there")));
            }
            let into = std::mem::take(&mut fill.into);
            if into.is_empty() {
                continue;
            }
            self.missing -= 1;
            let at = usize::try_from(object.start - first).unwrap_or(usize::MAX);
            match window.get(at..at.saturating_add(into.len())) {
                Some(bytes) => into.copy_from_slice(bytes),
                None => long.push(Fill { range: ByteRange::at(self.at + object.start, len), into }),
            }
        }
        Ok(())
    }
}

/// At most the first 8 of `bytes`, little-endian.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use forebay_container::SourceIndex;
    use forebay_process::ErrorKind;
    use forebay_source::{Locator, MemoryOrigin, Origin};

    use super::*;

    const HEAP: Heap = Heap { offset_len: 8, length_len: 8, base: 0, source: SourceIndex(0) };

    /// A collection of `objects`, at least as long as libhdf5 makes one.
    fn collection(objects: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = b"GCOL\x01\0\0\0".to_vec();
        bytes.extend([0; 8]);
        for (index, object) in objects {
            bytes.extend(index.to_le_bytes());
            bytes.extend([1, 0, 0, 0, 0, 0]);
            bytes.extend((object.len() as u64).to_le_bytes());
            bytes.extend(object);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes.resize((bytes.len() + 16).max(4096), 0);
        let len = (bytes.len() as u64).to_le_bytes();
        bytes[8..16].copy_from_slice(&len);
        bytes
    }

    fn reference(address: usize, object: u32, count: u32) -> HeapReference {
        let stored = [&count.to_le_bytes()[..], &(address as u64).to_le_bytes(), &object.to_le_bytes()];
        HeapReference::read(HEAP, &stored.concat()).unwrap()
    }

    /// What `wanted` read, and how many bytes were asked for.
    fn read(file: &[u8], wanted: &[HeapReference]) -> Result<(Vec<Vec<u8>>, u64)> {
        let origin = MemoryOrigin::default().with("a.h5", file.to_vec());
        let source = origin.open(&Locator::new("a.h5"))?;
        let mut read: Vec<Vec<u8>> =
            wanted.iter().map(|reference| vec![0; usize::try_from(reference.count()).unwrap()]).collect();
        let fills =
            wanted.iter().zip(&mut read).map(|(reference, into)| HeapFill { reference: *reference, into });
        let asked = fill_from_heap(&*source, HEAP, fills.collect())?;
        Ok((read, asked))
    }

    fn value(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from((at * 7 + seed) % 251).unwrap()).collect()
    }

    #[test]
    fn objects_are_found_in_any_order_also_twice_also_beyond_the_first_window() {
        let small = collection(&[(1, value(1, 10)), (2, value(2, 300)), (7, value(3, 0)), (3, value(4, 33))]);
        let large =
            collection(&[(1, value(5, 3000)), (2, value(6, 3000)), (3, value(7, 200_000)), (4, value(8, 9))]);
        let file = [vec![0; 64], small.clone(), large].concat();
        let (first, second) = (64, 64 + small.len());
        let wanted = [
            reference(second, 4, 9),
            reference(first, 3, 33),
            reference(second, 2, 3000),
            reference(first, 2, 250),
            reference(second, 3, 200_000),
            reference(0, 0, 5),
            reference(first, 3, 33),
        ];
        let (read, _) = read(&file, &wanted).unwrap();
        let expected = [
            value(8, 9),
            value(4, 33),
            value(6, 3000),
            value(2, 300)[..250].to_vec(),
            value(7, 200_000),
            vec![],
        ];
        assert_eq!(read[..6], expected);
        assert_eq!(read[6], value(4, 33));
    }

    #[test]
    fn no_more_is_read_than_leads_to_what_is_wanted() {
        let one = collection(&[(1, value(1, 1 << 20)), (2, value(2, 100))]);
        let file = [vec![0; 64], one.clone(), vec![0; 100_000], collection(&[(1, value(3, 5))])].concat();
        let (texts, asked) = read(&file, &[reference(64, 2, 100)]).unwrap();
        assert_eq!(texts[0], value(2, 100));
        assert!(asked < 10_000, "{asked} bytes for 100");
        let (texts, asked) = read(&file, &[reference(64, 1, 1 << 20)]).unwrap();
        assert_eq!(texts[0], value(1, 1 << 20));
        assert!(asked < (1 << 20) + 5000, "{asked}");
        let (_, asked) = read(&file, &[reference(64 + one.len() + 100_000, 1, 5)]).unwrap();
        assert_eq!(asked, 4096);
    }

    #[test]
    fn what_is_damaged_is_corrupt_and_says_where() {
        let mut file = [vec![0; 64], collection(&[(1, value(1, 10)), (2, value(2, 300))])].concat();
        for (wanted, why) in [
            (reference(64, 3, 1), "no such object"),
            (reference(64, 1, 11), "11 bytes wanted, 10 there"),
            (reference(60, 1, 1), "no heap collection here"),
            (reference(1 << 40, 1, 1), "a place beyond"),
        ] {
            let error = read(&file, &[wanted]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(
                error.to_string().contains(why) && error.to_string().contains("of the heap at"),
                "{error}"
            );
        }
        // The length of the second object.
        file[64 + 16 + 16 + 16 + 8..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read(&file, &[reference(64, 2, 5)]).unwrap_err().to_string().contains("reaches past"));
        let over = [reference(64, 1, 5), reference(72, 1, 5)];
        assert_eq!(read(&file, &over).unwrap_err().kind(), ErrorKind::Corrupt, "one lies over the other");
        file[64 + 8..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(read(&file, &[reference(64, 1, 5)]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
