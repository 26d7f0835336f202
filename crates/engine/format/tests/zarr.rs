//! Stores that lie: whatever documents, shard indexes and chunks say, the answer is a value or an error.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{collections::BTreeMap, sync::Arc};

use forebay_container::{Array, Selection, Span, Values};
use forebay_format::{Opened, describe};
use forebay_process::{ErrorKind, Result};
use forebay_source::{FaultOrigin, FaultSchedule, Locator, MemoryOrigin, Origin};

/// What is read of a variable at most: a document can claim any shape.
const MOST_BYTES: u64 = 1 << 20;

/// A store by its keys.
type Store = BTreeMap<&'static str, Vec<u8>>;

const V3: &str = r#"{"zarr_format":3,"node_type":"array","shape":[5,4],"data_type":"int16",
"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2,4]}},
"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":7,
"codecs":[{"name":"bytes","configuration":{"endian":"big"}},{"name":"crc32c"}],
"attributes":{"a":[1,2]},"dimension_names":["y",null]}"#;

const SHARDED: &str = r#"{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8",
"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},"chunk_key_encoding":{"name":"default"},
"fill_value":9,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2],
"codecs":[{"name":"bytes"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}]}"#;

const V2: &str = r#"{"zarr_format":2,"shape":[3,2],"chunks":[2,2],"dtype":"<u2","order":"F","filters":[{"id":"shuffle",
"elementsize":2}],"compressor":{"id":"lz4"},"fill_value":3,"dimension_separator":"."}"#;

const TEXTS: &str = r#"{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":"|O","order":"C","fill_value":"",
"filters":[{"id":"vlen-utf8"}],"compressor":null}"#;

/// One small store of each kind, all in one group.
fn store() -> Store {
    let body: Vec<u8> = (0..8u16).flat_map(u16::to_be_bytes).collect();
    let summed = [&body[..], &crc32c(&body)].concat();
    let index: Vec<u8> = [0, 2, u64::MAX, u64::MAX].into_iter().flat_map(u64::to_le_bytes).collect();
    // Eight letters that LZ4 leaves as they are.
    let lz4 = [&[8, 0, 0, 0, 0x80][..], &[1, 3, 2, 4, 0, 0, 0, 0]].concat();
    let texts = [&[2, 0, 0, 0, 1, 0, 0, 0, b'a', 2, 0, 0, 0][..], b"bc"].concat();
    BTreeMap::from([
        ("plain/zarr.json", V3.as_bytes().to_vec()),
        ("plain/c/0/0", summed),
        ("shards/zarr.json", SHARDED.as_bytes().to_vec()),
        ("shards/c/0", [&[5, 6][..], &index].concat()),
        ("two/.zarray", V2.as_bytes().to_vec()),
        ("two/.zattrs", br#"{"_ARRAY_DIMENSIONS":["y","x"],"bad":NaN}"#.to_vec()),
        ("two/0.0", lz4),
        ("texts/.zarray", TEXTS.as_bytes().to_vec()),
        ("texts/0", texts),
    ])
}

/// CRC32C, bit by bit.
fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 },
        )
    });
    (!sum).to_le_bytes()
}

/// The whole of the array at `path` of `store`.
fn read(store: &Store, path: &str) -> Result<Array> {
    let origin = store.iter().fold(MemoryOrigin::default(), |origin, (key, bytes)| {
        origin.with(&format!("s/{key}"), bytes.clone())
    });
    let origin = Arc::new(origin);
    let container = describe(&*origin, &Locator::new(format!("s/{path}")))?;
    let saved = forebay_container::save(&container).unwrap();
    assert_eq!(forebay_container::load(&saved).unwrap(), container, "what is described is sound");
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES);
    let variable = opened.variable(".")?;
    opened.read(variable, &Selection::all(&variable.grid.shape))
}

const PATHS: [&str; 4] = ["plain", "shards", "two", "texts"];

fn fixed(array: &Array) -> &[u8] {
    let Values::Fixed(bytes) = &array.values else { return &[] };
    bytes
}

#[test]
fn the_stores_are_read_as_they_were_made() {
    let store = store();
    let plain = read(&store, "plain").unwrap();
    assert_eq!(plain.shape, [5, 4]);
    let wanted: Vec<u8> = (0..8u16).chain([7; 12]).flat_map(u16::to_le_bytes).collect();
    assert_eq!(fixed(&plain), wanted);
    assert_eq!(fixed(&read(&store, "shards").unwrap()), [5, 6, 9, 9]);
    let two: Vec<u8> = [1u16, 2, 3, 4, 3, 3].into_iter().flat_map(u16::to_le_bytes).collect();
    assert_eq!(fixed(&read(&store, "two").unwrap()), two);
    assert_eq!(read(&store, "texts").unwrap().texts().unwrap(), ["a", "bc"]);
}

#[test]
fn a_store_that_ends_anywhere_gives_values_or_errors() {
    let good = store();
    for (key, bytes) in &good {
        let path = key.split('/').next().unwrap();
        for len in 0..bytes.len() {
            let mut bad = good.clone();
            bad.insert(key, bytes[..len].to_vec());
            let is_document = key.ends_with("json") || key.contains(".z");
            let answer = read(&bad, path);
            assert!(answer.is_err() || is_document, "{key} of {len} bytes reads as if it were whole");
        }
    }
}

#[test]
fn flips_anywhere_never_harm() {
    let good = store();
    for (key, bytes) in &good {
        let path = key.split('/').next().unwrap();
        for at in 0..bytes.len() {
            for byte in [0, 0xff, b'9', b'-', b'"', bytes[at] ^ 1, bytes[at] ^ 0x80] {
                let mut bad = bytes.clone();
                bad[at] = byte;
                let _ = read(&BTreeMap::from_iter(good.clone().into_iter().chain([(*key, bad)])), path);
            }
        }
    }
}

#[test]
fn numbers_that_no_file_justifies_are_refused_at_once() {
    let huge = "18446744073709551615";
    for (path, key, from, to) in [
        ("plain", "plain/zarr.json", "[5,4]", &format!("[{huge},{huge}]")[..]),
        ("plain", "plain/zarr.json", "[2,4]", &format!("[{huge},{huge}]")),
        ("plain", "plain/zarr.json", "[2,4]", "[0,4]"),
        ("plain", "plain/zarr.json", "[2,4]", "[2]"),
        ("shards", "shards/zarr.json", r#""chunk_shape":[2]"#, r#""chunk_shape":[3]"#),
        ("shards", "shards/zarr.json", r#""chunk_shape":[4]"#, r#""chunk_shape":[9223372036854775808]"#),
        ("two", "two/.zarray", "<u2", "|S9223372036854775807"),
        ("two", "two/.zarray", "<u2", "|V18446744073709551615"),
        ("texts", "texts/.zarray", "[2]", &format!("[{huge}]")),
    ] {
        let mut bad = store();
        let text = String::from_utf8(bad[key].clone()).unwrap();
        assert!(text.contains(from), "{key} {from}");
        bad.insert(key, text.replace(from, to).into_bytes());
        assert!(read(&bad, path).is_err(), "{key}: {to}");
    }
}

#[test]
fn a_chunk_outside_its_shard_is_named() {
    for (offset, len) in [(0u64, 99), (99, 2), (u64::MAX - 1, 2), (1, u64::MAX)] {
        let mut bad = store();
        let entries = [offset, len, u64::MAX, u64::MAX].into_iter().flat_map(u64::to_le_bytes);
        bad.insert("shards/c/0", [5, 6].into_iter().chain(entries).collect());
        let error = read(&bad, "shards").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let said = error.to_string();
        assert!(said.contains("s/shards/c/0") && said.contains("index at 0x2"), "{said}");
    }
}

/// Shards of two chunks of one element each, `count` of them, in a store that counts requests.
fn many_shards(count: usize, bad: Option<usize>) -> Arc<FaultOrigin> {
    let document = SHARDED.replace("\"shape\":[4]", &format!("\"shape\":[{}]", 4 * count));
    let entries = [0u64, 2, 2, 2].into_iter().flat_map(u64::to_le_bytes);
    let index: Vec<u8> = entries.collect();
    let mut origin = MemoryOrigin::default().with("s/zarr.json", document.into_bytes());
    for number in 0..count {
        let values = [0, 1, 2, 3].map(|at| u8::try_from((4 * number + at) % 251).unwrap());
        let mut shard = [&values[..], &index].concat();
        if bad == Some(number) {
            shard.truncate(20);
        }
        origin = origin.with(&format!("s/c/{number}"), shard);
    }
    Arc::new(FaultOrigin::new(Arc::new(origin), FaultSchedule::default()))
}

fn open_shards(origin: &Arc<FaultOrigin>) -> Opened {
    let container = describe(&**origin, &Locator::new("s")).unwrap();
    // A saved description has no more of the indexes than a fresh one.
    let loaded = forebay_container::load(&forebay_container::save(&container).unwrap()).unwrap();
    Opened::new(Arc::clone(origin) as Arc<dyn Origin>, Arc::new(loaded)).with_budget(MOST_BYTES)
}

#[test]
fn a_store_of_many_shards_is_opened_by_few_requests_and_an_index_is_read_once() {
    let origin = many_shards(10_000, None);
    let opened = open_shards(&origin);
    let before = origin.counters();
    assert!(before.operations + before.opens < 20, "{before:?}");
    let variable = opened.variable(".").unwrap();
    let row = |number: u64| Selection::new(vec![Span::range(number..number + 1)]);
    let read = |number: u64| fixed(&opened.read(variable, &row(number)).unwrap())[0];
    assert_eq!([read(4001), read(4000), read(4003)].map(u64::from), [4001, 4000, 4003].map(|n| n % 251));
    let after = origin.counters();
    assert_eq!(after.opens - before.opens, 1, "one shard is opened");
    assert_eq!(after.operations - before.operations, 4, "its index, and a row at a time");
}

#[test]
fn all_values_of_many_shards_come_back_and_are_planned_where_they_are_read() {
    let origin = many_shards(300, None);
    let opened = open_shards(&origin);
    let variable = opened.variable(".").unwrap();
    let all = Selection::all(&variable.grid.shape);
    let mut planned = 0;
    opened.plan(variable, &all, &mut |_, range| planned += range.len()).unwrap();
    assert_eq!(planned, 1200);
    let values: Vec<u8> = (0..1200u32).map(|value| u8::try_from(value % 251).unwrap()).collect();
    assert_eq!(fixed(&opened.read(variable, &all).unwrap()), values);
    let mut rows = vec![0; 3];
    opened.read_rows(variable, &[1199, 5, 600], &mut rows).unwrap();
    assert_eq!(rows, [values[1199], values[5], values[600]]);
}

#[test]
fn the_indexes_that_a_plan_would_read_first_are_listed_without_a_request() {
    let origin = many_shards(30, None);
    let opened = open_shards(&origin);
    let variable = opened.variable(".").unwrap();
    // Four rows to a shard: these lie in the last three.
    let selection = Selection::new(vec![Span::range(109..120)]);
    let rows = variable.grid.chunk[0];
    let chunks = || 109 / rows..120_u64.div_ceil(rows);
    let unread = || {
        let unread = opened.unread_shards(variable, &selection);
        assert_eq!(opened.unread_shards_of_chunks(variable, chunks().chain(chunks())), unread);
        assert!(unread.iter().all(|shard| shard.index.is_some()));
        unread.len()
    };
    let before = origin.counters();
    assert_eq!(unread(), 3);
    assert_eq!(origin.counters(), before);
    opened.read(variable, &Selection::new(vec![Span::range(112..116)])).unwrap();
    assert_eq!(unread(), 2);
    opened.plan(variable, &selection, &mut |_, _| ()).unwrap();
    assert_eq!(unread(), 0);
}

#[test]
fn a_shard_that_is_too_short_is_unread_and_hides_no_other() {
    let opened = open_shards(&many_shards(20, Some(7)));
    let variable = opened.variable(".").unwrap();
    let unread = opened.unread_shards(variable, &Selection::all(&variable.grid.shape));
    assert_eq!(unread.len(), 20);
    assert_eq!(unread.iter().filter(|shard| shard.index.is_none()).count(), 1);
}

#[test]
fn a_shard_with_a_bad_index_is_named_and_the_others_are_read() {
    let opened = open_shards(&many_shards(20, Some(7)));
    let variable = opened.variable(".").unwrap();
    let error = opened.read(variable, &Selection::all(&variable.grid.shape)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("s/c/7: a shard of 20 bytes is too short"), "{error}");
    let others = Selection::new(vec![Span::range(0..28)]);
    let values: Vec<u8> = (0..28).collect();
    assert_eq!(fixed(&opened.read(variable, &others).unwrap()), values);
    assert!(opened.plan(variable, &Selection::all(&variable.grid.shape), &mut |_, _| ()).is_err());
}

#[test]
fn an_index_that_cannot_be_read_is_read_again_the_next_time() {
    let sound = many_shards(4, None);
    let container = describe(&*sound, &Locator::new("s")).unwrap();
    let schedule = FaultSchedule { fail_every: std::num::NonZeroU64::new(2), ..FaultSchedule::default() };
    let origin = Arc::new(FaultOrigin::new(sound, schedule));
    let opened = Opened::new(origin, Arc::new(container)).with_budget(MOST_BYTES);
    let variable = opened.variable(".").unwrap();
    let mut failed = Vec::new();
    for shard in 0..4u8 {
        let value = 4 * shard + 1;
        let row = Selection::new(vec![Span::range(u64::from(value)..u64::from(value) + 1)]);
        let mut tries = (0..4).map(|_| opened.read(variable, &row));
        let array = tries.find_map(|read| read.map_err(|error| failed.push(error.to_string())).ok());
        assert_eq!(fixed(&array.unwrap()), [value]);
    }
    assert!(failed.iter().any(|error| error.contains("s/c/1: index at 0x4")), "{failed:?}");
}

#[test]
fn one_bad_array_does_not_hide_the_others() {
    let mut bad: BTreeMap<String, Vec<u8>> = store()
        .into_iter()
        .filter(|(key, _)| key.contains(".z") || key.starts_with("t"))
        .map(|(key, bytes)| (key.to_owned(), bytes))
        .collect();
    bad.insert(".zgroup".into(), br#"{"zarr_format":2}"#.to_vec());
    bad.insert("broken/.zarray".into(), b"{".to_vec());
    let origin = bad
        .into_iter()
        .fold(MemoryOrigin::default(), |origin, (key, bytes)| origin.with(&format!("s/{key}"), bytes));
    for at in PATHS.iter().filter(|path| path.starts_with('t')) {
        let container = describe(&origin, &Locator::new("s")).unwrap();
        assert!(container.variable(at).is_ok(), "{at}");
        assert_eq!(container.variable("broken").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
