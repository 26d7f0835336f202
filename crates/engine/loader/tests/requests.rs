//! What is asked of sources: few requests, each byte once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{sync::Arc, time::Duration};

use forebay_loader::{FieldSpec, Loader, Options, SampleSet, SampleSpec, Samples};
use forebay_plan::Shuffle;
use forebay_source::{FaultOrigin, FaultSchedule};
use made::{
    Made, Rows, epoch, make, memory, opened_as_one, set_on, twofold_set_on, with_spill, without_spill,
};

const ROWS: Rows = Rows { count: 4096, row_len: 2048, chunk: 0 };
const SET_BYTES: u64 = ROWS.count * ROWS.row_len * 4;
const TRANSFER: u64 = 1 << 20;

fn far() -> FaultSchedule {
    FaultSchedule { delay: Duration::from_millis(2), ..FaultSchedule::default() }
}

fn options() -> Options {
    Options {
        batch_size: 64,
        shuffle: Shuffle::Full,
        seed: 7,
        transfer_size: Some(TRANSFER),
        read_threads: Some(2),
        memory: Some(256 << 20),
        ..Options::default()
    }
}

#[test]
fn a_full_shuffle_far_away_reads_the_set_once_in_large_requests() {
    let (set, origin) = set_on(&[make(ROWS)], far());
    let loader = Loader::new(set, without_spill(options())).unwrap();
    let before = origin.counters();
    let mut seen = epoch(&loader, ROWS);
    let after = origin.counters();
    seen.sort_unstable();
    assert_eq!(seen, (0..ROWS.count).collect::<Vec<_>>());
    let (requests, bytes) = (after.operations - before.operations, after.bytes - before.bytes);
    assert!(requests * 10 <= 12 * SET_BYTES / TRANSFER, "{requests} requests for {} MiB", SET_BYTES >> 20);
    assert!(bytes * 100 <= 105 * SET_BYTES, "{bytes} bytes of {SET_BYTES}");
    // Each costs the same delay: this is how many times faster than one request a sample it is.
    assert!(ROWS.count >= 20 * requests);
}

#[test]
fn a_later_epoch_that_memory_holds_asks_for_nothing() {
    let (set, origin) = set_on(&[make(ROWS)], far());
    let loader = Loader::new(set, without_spill(options())).unwrap();
    epoch(&loader, ROWS);
    let before = origin.counters();
    epoch(&loader, ROWS);
    assert_eq!(origin.counters().operations, before.operations);
}

#[test]
fn rows_that_memory_cannot_hold_until_their_turn_are_spilled_and_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (set, origin) = set_on(&[make(ROWS)], far());
    let options = Options { memory: Some(12 << 20), read_threads: Some(1), ..options() };
    let loader = Loader::new(set, with_spill(options, folder.path())).unwrap();
    let mut seen = epoch(&loader, ROWS);
    seen.sort_unstable();
    assert_eq!(seen, (0..ROWS.count).collect::<Vec<_>>());
    assert!(origin.counters().bytes * 100 <= 105 * SET_BYTES);
    let stats = loader.stats();
    assert!(stats.spilled_bytes > SET_BYTES / 2, "{stats:?}");
    assert_eq!(stats.decoded_again, 0);
}

#[test]
fn without_room_for_what_comes_along_each_sample_is_asked_for_alone() {
    let (set, origin) =
        set_on(&[make(ROWS)], FaultSchedule { delay: Duration::from_micros(1), ..FaultSchedule::default() });
    let options = Options { memory: Some(12 << 20), ..options() };
    let loader = Loader::new(set, without_spill(options)).unwrap();
    epoch(&loader, ROWS);
    let counters = origin.counters();
    assert_eq!(counters.bytes, SET_BYTES, "nothing is read that is thrown away");
    assert_eq!(counters.operations, ROWS.count);
}

#[test]
fn a_block_shuffle_far_away_needs_neither_room_nor_small_requests() {
    let (set, origin) = set_on(&[make(ROWS)], far());
    let shuffle = Shuffle::Block { lanes: 4, window: 1 };
    // Four lanes at the end of their groups, and four at the start of the next.
    let options = Options { memory: Some(24 << 20), shuffle, ..options() };
    let loader = Loader::new(set, without_spill(options)).unwrap();
    let mut seen = epoch(&loader, ROWS);
    seen.sort_unstable();
    assert_eq!(seen, (0..ROWS.count).collect::<Vec<_>>());
    assert!(origin.counters().operations * 10 <= 12 * SET_BYTES / TRANSFER);
    assert_eq!(loader.stats().decoded_again, 0);
}

#[test]
fn small_encoded_chunks_far_away_are_fetched_many_at_a_time() {
    let rows = Rows { count: 4096, row_len: 64, chunk: 16 };
    let file = make(rows);
    let stored = file.bytes.len() as u64;
    let (set, origin) = set_on(&[file], far());
    let options = Options { transfer_size: Some(64 << 10), ..options() };
    let loader = Loader::new(set, without_spill(options)).unwrap();
    epoch(&loader, rows);
    let counters = origin.counters();
    assert!(counters.operations <= stored.div_ceil(64 << 10) * 12 / 10 + 1, "{counters:?} of {stored} bytes");
}

#[test]
fn a_small_file_far_away_is_read_whole_by_one_request() {
    let rows = Rows { count: 16, row_len: 64, chunk: 0 };
    let files: Vec<_> = (0..30).map(|_| make(rows)).collect();
    let (set, origin) = twofold_set_on(&files, far());
    let loader = Loader::new(set, without_spill(options())).unwrap();
    let mut seen = epoch(&loader, rows);
    seen.sort_unstable();
    assert_eq!(seen, (0..30 * 16).collect::<Vec<_>>());
    assert_eq!(origin.counters().operations, 30, "one for each file, though it has two fields");
}

#[test]
fn many_requests_wait_at_once_though_one_thread_decodes() {
    for (batch_size, files) in [(1, 1), (64, 40)] {
        let rows = Rows { count: 4096 / files, ..ROWS };
        let made: Vec<_> = (0..files).map(|_| make(rows)).collect();
        let (set, origin) = set_on(&made, far());
        let options =
            Options { batch_size, read_threads: Some(1), memory: Some(12 << 20), ..without_spill(options()) };
        let loader = Loader::new(set, options).unwrap();
        assert_eq!(loader.in_force().threads, 1);
        assert_eq!(
            loader.batches().unwrap().map(|batch| batch.unwrap().samples.len() as u64).sum::<u64>(),
            4096 / files * files
        );
        let most = origin.counters().most_waiting;
        assert!(most >= 8, "{most} with batches of {batch_size}");
    }
}

#[test]
fn near_at_hand_no_thread_is_added_to_those_that_decode() {
    let (set, _) = set_on(&[make(Rows { chunk: 16, ..ROWS })], FaultSchedule::default());
    let loader = Loader::new(set, without_spill(Options { memory: Some(256 << 20), ..options() })).unwrap();
    assert_eq!((loader.in_force().threads, loader.in_force().most_threads), (2, 2));
}

/// Files of eight rows each.
const FRAMES: Rows = Rows { count: 8, row_len: 256, chunk: 0 };
const FRAME_BYTES: u64 = FRAMES.row_len * 4;

/// The rows of `files` as one virtual data set.
fn virtual_set_on(files: &[Made], schedule: FaultSchedule) -> (Arc<SampleSet>, Arc<FaultOrigin>) {
    let origin = Arc::new(FaultOrigin::new(Arc::new(memory(files)), schedule));
    let opened = opened_as_one(files, &(Arc::clone(&origin) as _));
    let spec = SampleSpec { fields: vec![FieldSpec::new("x")] };
    (Arc::new(SampleSet::new(spec, &[vec![opened]]).unwrap()), origin)
}

#[test]
fn a_batch_of_rows_of_a_virtual_set_opens_and_reads_the_sources_it_touches() {
    let files: Vec<_> = (0..500).map(|_| make(FRAMES)).collect();
    let (set, origin) = virtual_set_on(&files, FaultSchedule::default());
    let samples = Samples::new(set, &without_spill(Options::default()));
    samples.get(&[0]).unwrap();
    let before = origin.counters();
    // Two of them have the same source.
    let wanted = [3999, 17, 800, 803, 2500];
    let field = &samples.get(&wanted).unwrap()[0];
    let after = origin.counters();
    assert_eq!(after.bytes - before.bytes, wanted.len() as u64 * FRAME_BYTES);
    assert_eq!(after.operations - before.operations, wanted.len() as u64);
    assert_eq!(after.opens - before.opens, 4);
    let row_bytes = usize::try_from(FRAME_BYTES).expect("small");
    for (row, bytes) in wanted.iter().zip(field.bytes.chunks_exact(row_bytes)) {
        let expected: Vec<u8> =
            FRAMES.row(row % FRAMES.count).into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(bytes, expected, "row {row}");
    }
}

#[test]
fn the_first_batch_of_a_shuffled_virtual_set_reads_no_more_than_its_rows() {
    let files: Vec<_> = (0..500).map(|_| make(FRAMES)).collect();
    let (set, origin) = virtual_set_on(&files, FaultSchedule::default());
    let options = Options { read_threads: Some(1), prefetch: 0, ..options() };
    let loader = Loader::new(set, without_spill(options)).unwrap();
    let before = origin.counters();
    let batch = loader.batches().unwrap().next().unwrap().unwrap();
    made::check(&batch, FRAMES);
    assert_eq!(origin.counters().bytes - before.bytes, 64 * FRAME_BYTES);
}

#[test]
fn compressed_sources_of_a_virtual_set_are_decoded_once_each_in_an_epoch() {
    let files: Vec<_> = (0..60).map(|_| make(Rows { chunk: 8, ..FRAMES })).collect();
    let stored: u64 = files.iter().map(|file| file.chunk(0).len()).sum();
    let (set, origin) = virtual_set_on(&files, FaultSchedule::default());
    let loader = Loader::new(set, without_spill(options())).unwrap();
    let before = origin.counters();
    let mut seen = epoch(&loader, FRAMES);
    seen.sort_unstable();
    assert_eq!(seen, (0..60 * 8).collect::<Vec<_>>());
    assert_eq!(origin.counters().bytes - before.bytes, stored);
}

#[test]
fn a_row_that_is_a_compressed_chunk_of_its_own_is_decoded_alone() {
    let files: Vec<_> = (0..60).map(|_| make(Rows { chunk: 1, ..FRAMES })).collect();
    let (set, origin) = virtual_set_on(&files, FaultSchedule::default());
    let samples = Samples::new(set, &without_spill(Options::default()));
    let before = origin.counters();
    samples.get(&[300, 7, 9, 301]).unwrap();
    let after = origin.counters();
    assert_eq!((after.operations - before.operations, after.opens - before.opens), (4, 3));
}

#[test]
fn a_virtual_set_far_away_is_read_in_stretches_that_are_kept() {
    let files: Vec<_> = (0..60).map(|_| make(FRAMES)).collect();
    let (set, origin) = virtual_set_on(&files, FaultSchedule { delay: Duration::from_micros(1), ..far() });
    let loader = Loader::new(set, without_spill(options())).unwrap();
    let before = origin.counters();
    epoch(&loader, FRAMES);
    // All of it is less than one request ought to bring; each source is still one of its own.
    assert_eq!(origin.counters().operations - before.operations, 60);
}
