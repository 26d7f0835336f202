//! Each chunk decoded once, whatever the memory; and what happens when one cannot be.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::sync::Arc;

use forebay_loader::{Loader, OnError, Options, SpillOptions};
use forebay_plan::{Shard, Shuffle, Tail};
use forebay_process::ErrorKind;
use made::{Made, Rows, check, epoch, make, set, with_spill, without_spill};

/// 16 MiB in 256 chunks of 64 KiB.
const ROWS: Rows = Rows { count: 4096, row_len: 1024, chunk: 16 };
const CHUNKS: u64 = 256;

fn options(shuffle: Shuffle) -> Options {
    Options {
        batch_size: 32,
        shuffle,
        seed: 3,
        read_threads: Some(1),
        memory: Some(1 << 30),
        ..Options::default()
    }
}

#[test]
fn every_shuffle_decodes_each_chunk_once_and_gives_every_sample_once() {
    for shuffle in [Shuffle::None, Shuffle::Full, Shuffle::Block { lanes: 8, window: 2 }] {
        for threads in [1, 3] {
            let options = Options { read_threads: Some(threads), ..options(shuffle) };
            let loader = Loader::new(set(&[make(ROWS)]), without_spill(options)).unwrap();
            let mut seen = epoch(&loader, ROWS);
            seen.sort_unstable();
            assert_eq!(seen, (0..ROWS.count).collect::<Vec<_>>(), "{shuffle:?}");
            assert_eq!(loader.stats().decoded_units, CHUNKS, "{shuffle:?} {threads} threads");
        }
    }
}

#[test]
fn a_block_shuffle_decodes_once_in_little_memory_and_without_a_spill() {
    let options = Options { memory: Some(4 << 20), ..options(Shuffle::Block { lanes: 8, window: 1 }) };
    let loader = Loader::new(set(&[make(ROWS)]), without_spill(options)).unwrap();
    epoch(&loader, ROWS);
    assert_eq!(loader.stats().decoded_units, CHUNKS);
    assert_eq!(loader.stats().decoded_again, 0);
}

#[test]
fn what_memory_cannot_hold_is_spilled_and_never_decoded_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { memory: Some(4 << 20), ..options(Shuffle::Full) };
    let loader = Loader::new(set(&[make(ROWS)]), with_spill(options, folder.path())).unwrap();
    for _ in 0..3 {
        let mut seen = epoch(&loader, ROWS);
        seen.sort_unstable();
        assert_eq!(seen, (0..ROWS.count).collect::<Vec<_>>());
    }
    let stats = loader.stats();
    assert_eq!((stats.decoded_units, stats.decoded_again), (CHUNKS, 0), "over three epochs");
    assert!(stats.spilled_bytes > 0 && stats.unspilled_bytes > 0);
}

#[test]
fn beyond_the_spill_chunks_are_decoded_again_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = with_spill(Options { memory: Some(4 << 20), ..options(Shuffle::Full) }, folder.path());
    options.spill.quota = Some(2 << 20);
    let loader = Loader::new(set(&[make(ROWS)]), options).unwrap();
    epoch(&loader, ROWS);
    let stats = loader.stats();
    assert!(stats.decoded_again > 0);
    assert_eq!(stats.decoded_units, CHUNKS + stats.decoded_again);
    assert!(stats.spilled_bytes <= 2 << 20);
}

#[test]
fn the_processes_of_a_node_share_what_they_decode() {
    let folder = tempfile::tempdir().unwrap();
    let spill =
        SpillOptions { folder: Some(folder.path().to_owned()), quota: Some(1 << 30), shared: Some(true) };
    let file = || set(&[make(ROWS)]);
    // Two loaders share nothing but the folder, as two processes would.
    let loaders = [0, 1].map(|rank| {
        let shard = Shard { rank, world: 2 };
        let options =
            Options { shard, tail: Some(Tail::Drop), spill: spill.clone(), ..options(Shuffle::Full) };
        Loader::new(file(), options).unwrap()
    });
    let mut seen: Vec<u64> = loaders.iter().flat_map(|loader| epoch(loader, ROWS)).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..ROWS.count).collect::<Vec<_>>());
    let decoded: u64 = loaders.iter().map(|loader| loader.stats().decoded_units).sum();
    assert_eq!(decoded, CHUNKS);
}

fn with_bad_chunk() -> Made {
    let mut file = make(ROWS);
    let range = file.chunk(77);
    let start = usize::try_from(range.start).unwrap();
    file.bytes[start + 8..start + 24].fill(0xff);
    file
}

#[test]
fn a_corrupt_chunk_ends_the_run_with_an_error_that_names_it() {
    let file = with_bad_chunk();
    let at = format!("{:#x}", file.chunk(77).start);
    let loader = Loader::new(set(&[file]), without_spill(options(Shuffle::Full))).unwrap();
    let error = loader.batches().unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    for part in ["part0.h5", "'x'", "chunk 77", &at] {
        assert!(text.contains(part), "{part} in: {text}");
    }
}

#[test]
fn samples_of_a_corrupt_chunk_are_left_out_and_reported() {
    let options = Options { on_error: OnError::Skip, ..options(Shuffle::Full) };
    let loader = Loader::new(set(&[with_bad_chunk()]), without_spill(options)).unwrap();
    let mut seen = Vec::new();
    let mut reported = Vec::new();
    for batch in loader.batches().unwrap() {
        let batch = batch.unwrap();
        check(&batch, ROWS);
        assert_eq!(batch.samples.len() + batch.failed.len(), 32, "a batch is shorter by what is missing");
        seen.extend(batch.samples.iter().flatten().copied());
        reported.extend(batch.failed.iter().map(|failed| failed.sample));
        assert!(batch.failed.iter().all(|failed| failed.why.contains("chunk 77")));
    }
    seen.sort_unstable();
    reported.sort_unstable();
    let bad: Vec<u64> = (77 * 16..78 * 16).collect();
    assert_eq!(reported, bad);
    assert_eq!(seen, (0..ROWS.count).filter(|sample| !bad.contains(sample)).collect::<Vec<_>>());
    assert_eq!(loader.stats().skipped, 16);
}

#[test]
fn a_batch_of_which_nothing_can_be_read_is_left_out_and_counted() {
    for (batch_size, threads, prefetch) in [(1, 1, 4), (1, 3, 4), (16, 3, 0), (8, 1, 0)] {
        let options = Options {
            on_error: OnError::Skip,
            batch_size,
            read_threads: Some(threads),
            prefetch,
            ..options(Shuffle::None)
        };
        let loader = Loader::new(set(&[with_bad_chunk()]), without_spill(options)).unwrap();
        let steps = loader.step_count().unwrap();
        let mut seen = Vec::new();
        let mut reported = Vec::new();
        for batch in loader.batches().unwrap() {
            let batch = batch.unwrap();
            check(&batch, ROWS);
            seen.extend(batch.samples.iter().flatten().copied());
            reported.extend(batch.failed.iter().map(|failed| failed.sample));
        }
        let bad: Vec<u64> = (77 * 16..78 * 16).collect();
        assert_eq!(reported, bad, "with the batch after them");
        assert_eq!(seen, (0..ROWS.count).filter(|sample| !bad.contains(sample)).collect::<Vec<_>>());
        let stats = loader.stats();
        assert_eq!((stats.skipped, stats.skipped_batches), (16, 16 / batch_size));
        assert_eq!((stats.batches, loader.step_count().unwrap()), (steps - 16 / batch_size, steps));
        assert_eq!((loader.state().epoch, loader.state().position), (1, 0), "the epoch is over");
    }
}

#[test]
fn a_rank_that_can_read_nothing_of_a_batch_keeps_its_place_among_the_others() {
    let counts = [0, 1].map(|rank| {
        let shard = Shard { rank, world: 2 };
        let options = Options { shard, on_error: OnError::Skip, batch_size: 16, ..options(Shuffle::None) };
        let loader = Loader::new(set(&[with_bad_chunk()]), without_spill(options)).unwrap();
        let batches: Vec<_> = loader.batches().unwrap().map(Result::unwrap).collect();
        for batch in batches.iter().filter(|batch| batch.samples.contains(&None)) {
            assert_eq!((batch.samples.len(), batch.failed.len()), (16, 16));
            assert!(
                batch
                    .fields
                    .iter()
                    .all(|field| field.shape[0] == 16 && field.bytes.iter().all(|byte| *byte == 0))
            );
        }
        (batches.len(), loader.stats().skipped_batches)
    });
    assert_eq!(counts, [(128, 0), (128, 1)]);
}

#[test]
fn a_rank_that_can_read_nothing_of_an_epoch_has_as_many_batches_as_the_others() {
    let rows = Rows { count: 64, ..ROWS };
    let mut file = make(rows);
    // Rank 0 has the first of each two batches of 16, and each chunk is one batch.
    for chunk in [0, 2] {
        let start = usize::try_from(file.chunk(chunk).start).unwrap();
        file.bytes[start + 8..start + 24].fill(0xff);
    }
    let set = set(&[file]);
    for epoch in 0..2 {
        let counts = [0, 1].map(|rank| {
            let shard = Shard { rank, world: 2 };
            let options =
                Options { shard, on_error: OnError::Skip, batch_size: 16, ..options(Shuffle::None) };
            let loader = Loader::new(Arc::clone(&set), without_spill(options)).unwrap();
            loader.set_epoch(epoch);
            let batches: Vec<_> = loader.batches().unwrap().map(Result::unwrap).collect();
            assert_eq!((loader.state().epoch, loader.state().position), (epoch + 1, 0));
            let read = batches.iter().flat_map(|batch| batch.samples.iter().flatten()).count();
            (batches.len(), read)
        });
        assert_eq!(counts, [(2, 0), (2, 32)]);
    }
}

#[test]
fn an_epoch_of_which_nothing_can_be_read_is_an_error() {
    let rows = Rows { count: 64, ..ROWS };
    let mut file = make(rows);
    for chunk in 0..4 {
        let start = usize::try_from(file.chunk(chunk).start).unwrap();
        file.bytes[start + 8..start + 24].fill(0xff);
    }
    let options = Options { on_error: OnError::Skip, batch_size: 1, ..options(Shuffle::None) };
    let loader = Loader::new(set(&[file]), without_spill(options)).unwrap();
    for _ in 0..2 {
        let mut batches = loader.batches().unwrap();
        let error = batches.next().unwrap().unwrap_err();
        assert!(error.to_string().starts_with("no sample of the epoch can be read"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(batches.next().is_none());
        assert_eq!((loader.state().epoch, loader.state().position), (0, 0), "it can be tried again");
    }
}

#[test]
fn another_sample_stands_in_for_one_that_cannot_be_read() {
    let options = Options { on_error: OnError::Substitute, ..options(Shuffle::Full) };
    let loader = Loader::new(set(&[with_bad_chunk()]), without_spill(options)).unwrap();
    let mut count = 0;
    for batch in loader.batches().unwrap() {
        let batch = batch.unwrap();
        check(&batch, ROWS);
        assert_eq!(batch.samples.len(), 32);
        count += batch.failed.len();
    }
    assert_eq!((count, loader.stats().substituted), (16, 16));
}

#[test]
fn no_sample_stands_in_for_a_batch_of_which_nothing_can_be_read() {
    let options = Options { on_error: OnError::Substitute, batch_size: 16, ..options(Shuffle::None) };
    let loader = Loader::new(set(&[with_bad_chunk()]), without_spill(options)).unwrap();
    let error = loader.batches().unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("no sample of a batch"), "{error}");
}

#[test]
fn memory_that_cannot_hold_a_batch_is_refused_at_once() {
    let options = Options { memory: Some(100 << 10), ..options(Shuffle::Full) };
    let error = Loader::new(set(&[make(ROWS)]), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
}
