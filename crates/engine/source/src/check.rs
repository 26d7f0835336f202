//! The contracts of [`Source`] and [`Origin`], one function per clause.
//!
//! Each takes an implementation and what it must give, and panics where the clause is broken.
//! [`every_source_clause`] runs all that a source must keep.

use std::thread;

use bytes::Bytes;
use forebay_process::ErrorKind;

use crate::{
    locator::Locator,
    origin::Origin,
    range::{ByteRange, Fill},
    source::{Source, SourceExt},
};

/// Runs every clause of [`Source`] on `source`, whose bytes are `expected`.
pub fn every_source_clause(source: &dyn Source, expected: &[u8]) {
    the_whole_is_as_long_as_the_id_says(source, expected);
    answers_keep_the_order_asked(source, expected);
    ranges_may_touch_and_overlap(source, expected);
    ranges_may_repeat(source, expected);
    empty_ranges_give_no_bytes(source, expected);
    past_the_end_is_invalid(source, expected);
    a_fill_of_another_length_is_invalid(source, expected);
    fills_hold_what_is_lent(source, expected);
    many_threads_read_at_once(source, expected);
    the_wished_request_stays_the_same(source, expected);
}

/// The length in the id is the number of bytes there are.
pub fn the_whole_is_as_long_as_the_id_says(source: &dyn Source, expected: &[u8]) {
    assert_eq!(source.id().len, expected.len() as u64);
    let whole = source.fetch_one(ByteRange::at(0, source.id().len)).expect("the whole can be read");
    assert_same(&whole, expected);
}

/// One answer per range, in the order asked.
pub fn answers_keep_the_order_asked(source: &dyn Source, expected: &[u8]) {
    let mut ranges = tiles(expected.len() as u64, 16);
    assert_reads(source, expected, &ranges);
    ranges.reverse();
    assert_reads(source, expected, &ranges);
    // Neither up nor down: outermost first.
    let mixed: Vec<_> = ranges.iter().zip(ranges.iter().rev()).flat_map(|(one, two)| [*one, *two]).collect();
    assert_reads(source, expected, &mixed);
}

/// Ranges may touch and overlap.
pub fn ranges_may_touch_and_overlap(source: &dyn Source, expected: &[u8]) {
    let len = expected.len() as u64;
    let nested = (0..8).map(|step| ByteRange { start: len * step / 16, end: len - len * step / 16 });
    let shifted = (0..8).map(|step| ByteRange { start: len * step / 16, end: len * (step + 8) / 16 });
    assert_reads(source, expected, &nested.chain(shifted).collect::<Vec<_>>());
}

/// The same range may be asked for more than once.
pub fn ranges_may_repeat(source: &dyn Source, expected: &[u8]) {
    let tiles = tiles(expected.len() as u64, 3);
    assert_reads(source, expected, &[&tiles[..], &tiles[..], &tiles[..1], &tiles[..1]].concat());
}

/// An empty range, wherever it lies up to the end, gives no bytes; so does no range at all.
pub fn empty_ranges_give_no_bytes(source: &dyn Source, expected: &[u8]) {
    let len = expected.len() as u64;
    assert_reads(source, expected, &[]);
    assert_reads(source, expected, &[ByteRange::at(0, 0), ByteRange::at(len / 2, 0), ByteRange::at(len, 0)]);
    let between = [ByteRange::at(len / 2, 0), ByteRange::at(0, len), ByteRange::at(len / 2, 0)];
    assert_reads(source, expected, &between);
}

/// A range past the end is refused, alone or among others, lent or filled.
pub fn past_the_end_is_invalid(source: &dyn Source, expected: &[u8]) {
    let len = expected.len() as u64;
    let past = [
        ByteRange::at(len, 1),
        ByteRange { start: 0, end: len + 1 },
        ByteRange::at(len + 1, 0),
        ByteRange { start: u64::MAX - 1, end: u64::MAX },
        ByteRange { start: 1, end: 0 },
    ];
    for range in past {
        let error = source.fetch(&[ByteRange::at(0, len), range]).expect_err("past the end");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{range:?}: {error}");
        let mut memory = vec![0; usize::from(range.len() == 1)];
        let error = source.fetch_into(&mut [Fill { range, into: &mut memory }]).expect_err("past the end");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{range:?}: {error}");
    }
}

/// A fill whose memory is longer or shorter than its range is refused.
pub fn a_fill_of_another_length_is_invalid(source: &dyn Source, expected: &[u8]) {
    let range = ByteRange::at(0, expected.len() as u64);
    for len in [expected.len() + 1, expected.len() / 2, expected.len().saturating_sub(1)] {
        if len == expected.len() {
            continue;
        }
        let error =
            source.fetch_into(&mut [Fill { range, into: &mut vec![0; len] }]).expect_err("wrong length");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{len} for {range:?}: {error}");
    }
}

/// What is put into the caller's memory is what would have been lent, and nothing beside it is touched.
pub fn fills_hold_what_is_lent(source: &dyn Source, expected: &[u8]) {
    const BORDER: u8 = 0xa5;
    let ranges = tiles(expected.len() as u64, 9);
    let mut memory: Vec<_> =
        ranges.iter().map(|range| vec![BORDER; slice(expected, *range).len() + 2]).collect();
    let inner = memory.iter_mut().map(|memory| memory.split_last_mut().expect("has borders").1);
    let inner = inner.map(|memory| &mut memory[1..]);
    let fill = |(range, into): (&ByteRange, _)| Fill { range: *range, into };
    let mut fills: Vec<_> = ranges.iter().zip(inner).rev().map(fill).collect();
    source.fetch_into(&mut fills).expect("valid fills");
    for (range, memory) in ranges.iter().zip(&memory) {
        assert_same(&memory[1..memory.len() - 1], slice(expected, *range));
        assert_eq!((memory[0], memory[memory.len() - 1]), (BORDER, BORDER), "touched beside {range:?}");
    }
}

/// Many threads may read at once.
pub fn many_threads_read_at_once(source: &dyn Source, expected: &[u8]) {
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 1..20 {
                    assert_reads(source, expected, &tiles(expected.len() as u64, thread * 3 + round));
                }
            });
        }
    });
}

/// How long a request ought to be does not depend on what was read before.
pub fn the_wished_request_stays_the_same(source: &dyn Source, expected: &[u8]) {
    let wished = source.request_bytes();
    assert_reads(source, expected, &tiles(expected.len() as u64, 3));
    assert_eq!(source.request_bytes(), wished);
}

/// Opening unchanged bytes again gives an equal id, which says where they were opened.
pub fn reopening_gives_an_equal_id(origin: &dyn Origin, at: &Locator) {
    let first = origin.open(at).expect("opens");
    let second = origin.open(at).expect("opens again");
    assert_eq!(first.id(), second.id());
    assert_eq!(first.id().locator, *at);
}

/// Opening what is not there is `NotFound`, and the message names it.
pub fn what_is_missing_is_not_found(origin: &dyn Origin, missing: &Locator) {
    let error = origin.open(missing).expect_err("is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(missing.as_str()), "'{error}' does not name '{missing}'");
}

/// A list is sorted, names just what is there, and each name opens and is listed by itself.
pub fn a_list_is_sorted_and_every_name_opens(
    origin: &dyn Origin,
    under: &Locator,
    expected: &[(Locator, Bytes)],
) {
    let listed = origin.list(under).expect("lists");
    assert!(listed.is_sorted(), "{listed:?}");
    let mut names: Vec<_> = expected.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    assert_eq!(listed, names);
    let surveyed = origin.survey(under).expect("surveys");
    let opened: Vec<_> =
        listed.iter().map(|name| origin.open(name).expect("a listed name opens").id().clone()).collect();
    assert_eq!(surveyed, opened);
    for (name, bytes) in expected {
        let source = origin.open(name).expect("a listed name opens");
        assert_reads(&*source, bytes, &[ByteRange::at(0, bytes.len() as u64)]);
        assert!(origin.list(name).expect("lists").contains(name), "{name} is not under itself");
    }
}

/// `count` ranges side by side that cover `len` bytes.
fn tiles(len: u64, count: u64) -> Vec<ByteRange> {
    (0..count).map(|index| ByteRange { start: len * index / count, end: len * (index + 1) / count }).collect()
}

fn slice(bytes: &[u8], range: ByteRange) -> &[u8] {
    let border = |at: u64| usize::try_from(at).expect("in memory");
    &bytes[border(range.start)..border(range.end)]
}

/// Reads `ranges` both ways and holds them against `expected`.
fn assert_reads(source: &dyn Source, expected: &[u8], ranges: &[ByteRange]) {
    let lent = source.fetch(ranges).expect("valid ranges are lent");
    assert_eq!(lent.len(), ranges.len(), "one answer per range");
    let mut memory: Vec<_> = ranges.iter().map(|range| vec![0; slice(expected, *range).len()]).collect();
    let fill = |(range, into): (&ByteRange, _)| Fill { range: *range, into };
    let mut fills: Vec<_> =
        ranges.iter().zip(memory.iter_mut().map(|memory| &mut memory[..])).map(fill).collect();
    source.fetch_into(&mut fills).expect("valid fills are filled");
    for ((range, lent), filled) in ranges.iter().zip(&lent).zip(&memory) {
        assert_same(lent, slice(expected, *range));
        assert_same(filled, slice(expected, *range));
    }
}

/// `assert_eq` on long buffers would print them.
fn assert_same(read: &[u8], expected: &[u8]) {
    assert_eq!(read.len(), expected.len(), "length");
    let first = read.iter().zip(expected).position(|(read, expected)| read != expected);
    assert_eq!(first, None, "first byte that differs");
}
