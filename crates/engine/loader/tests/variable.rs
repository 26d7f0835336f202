//! Texts and sequences, whose lengths are known before they are read: what is asked of the source, and what is too long.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use forebay_container::{Array, Values, sample_spec::Boundary};
use forebay_format::{ReadRequest, Reader, register_reader};
use forebay_loader::{Batch, FieldSpec, Loader, OnError, Options, SampleSet, SampleSpec, Samples};
use forebay_plan::Shuffle;
use forebay_process::{ErrorKind, Result};
use forebay_source::{FaultSchedule, Origin};
use made::{
    make_sequences, make_texts, make_unreferenced, memory, of_shape, opened, set, set_on, without_spill,
};

fn texts(count: usize, len: usize) -> Vec<Vec<u8>> {
    let text = |row: usize| {
        let mut text = format!("{row} ").into_bytes();
        text.resize(len, b'x');
        text
    };
    (0..count).map(text).collect()
}

/// The texts of `batch`, by sample.
fn texts_of(batch: &Batch) -> Vec<Vec<u8>> {
    let field = batch.field("x").unwrap();
    let offsets = field.offsets.as_ref().unwrap();
    let at = |offset: i64| usize::try_from(offset).unwrap();
    offsets.windows(2).map(|two| field.bytes[at(two[0])..at(two[1])].to_vec()).collect()
}

#[test]
fn only_the_references_and_the_texts_of_wanted_rows_are_read() {
    for chunk in [0, 1000] {
        let texts = texts(1000, 10_000);
        let (set, origin) = set_on(&[make_texts(&texts, chunk)], FaultSchedule::default());
        let samples = Samples::new(set, &without_spill(Options::default()));
        samples.get(&[1]).unwrap();
        let before = origin.counters().bytes;
        let fields = samples.get(&[999, 0, 500]).unwrap();
        let read = origin.counters().bytes - before;
        assert_eq!(*fields[0].bytes, [&texts[999][..], &texts[0], &texts[500]].concat());
        // Three texts, the heads of their collections, and a chunk of references at the most.
        assert!(read < 3 * 15_000 + 16_000, "{read} bytes for 3 texts of 10,000, chunks of {chunk}");
    }
}

#[test]
fn texts_and_sequences_are_the_same_in_any_order_and_from_several_files() {
    let texts = [texts(90, 5), texts(70, 3000)];
    let files = [make_texts(&texts[0], 16), make_texts(&texts[1], 0)];
    let all = texts.concat();
    let options = Options { batch_size: 32, shuffle: Shuffle::Full, ..Options::default() };
    let loader = Loader::new(set(&files), without_spill(options.clone())).unwrap();
    let mut seen = 0;
    for batch in loader.batches().unwrap() {
        let batch = batch.unwrap();
        for (sample, text) in batch.samples.iter().zip(texts_of(&batch)) {
            assert_eq!(text, all[usize::try_from(sample.unwrap()).unwrap()]);
            seen += 1;
        }
    }
    assert_eq!(seen, 160);
    let values: Vec<Vec<u32>> =
        (0..50u32).map(|row| (0..row % 7).map(|at| row * 1000 + at).collect()).collect();
    let loader = Loader::new(set(&[make_sequences(&values, 8)]), without_spill(options)).unwrap();
    for batch in loader.batches().unwrap() {
        let batch = batch.unwrap();
        let joined: Vec<u8> = batch
            .samples
            .iter()
            .flat_map(|sample| &values[usize::try_from(sample.unwrap()).unwrap()])
            .flat_map(|number| number.to_ne_bytes())
            .collect();
        let field = batch.field("x").unwrap();
        assert_eq!(*field.bytes, joined);
        assert_eq!(field.shape, [joined.len() as u64 / 4], "offsets count numbers");
    }
}

#[test]
fn a_text_that_a_writer_padded_with_nul_ends_there_and_those_after_it_follow() {
    let padded = [&b"abc\0\0"[..], b"", b"\0\0", b"defg", b"h\0i"].map(<[u8]>::to_vec);
    let samples = Samples::new(set(&[make_texts(&padded, 2)]), &without_spill(Options::default()));
    let fields = samples.get(&[0, 1, 2, 3, 4, 0]).unwrap();
    assert_eq!(*fields[0].bytes, *b"abcdefghabc");
    assert_eq!(fields[0].offsets.as_deref().unwrap(), [0, 3, 3, 3, 7, 8, 11]);
    assert_eq!(fields[0].shape, [11]);
}

#[test]
fn a_text_that_memory_cannot_hold_is_named_or_left_out_and_the_others_come() {
    let memory = 4 << 20;
    let mut texts = texts(40, 100);
    texts[7] = vec![b'x'; 5 << 20];
    let options = |on_error| Options { batch_size: 8, memory: Some(memory), on_error, ..Options::default() };
    let loader = Loader::new(set(&[make_texts(&texts, 8)]), without_spill(options(OnError::Skip))).unwrap();
    let batches: Vec<Batch> = loader.batches().unwrap().map(|batch| batch.unwrap()).collect();
    let seen: Vec<u64> = batches.iter().flat_map(|batch| batch.samples.iter().flatten().copied()).collect();
    assert_eq!(seen, (0..40).filter(|sample| *sample != 7).collect::<Vec<_>>());
    let failed: Vec<_> = batches.iter().flat_map(|batch| &batch.failed).collect();
    assert_eq!((failed.len(), failed[0].sample, loader.stats().skipped), (1, 7, 1));
    assert!(failed[0].why.contains("part0.h5") && failed[0].why.contains("row 7"), "{}", failed[0].why);

    let loader = Loader::new(set(&[make_texts(&texts, 8)]), without_spill(options(OnError::Raise))).unwrap();
    let error = loader.batches().unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Full);
    for part in ["part0.h5", "variable 'x'", "row 7", "5242880", "memory=4194304", "on_error='skip'"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_batch_that_memory_cannot_hold_though_each_of_its_texts_fits_ends_the_run_with_a_remedy() {
    let texts = texts(8, 1 << 20);
    let options =
        Options { batch_size: 8, memory: Some(4 << 20), on_error: OnError::Skip, ..Options::default() };
    let loader = Loader::new(set(&[make_texts(&texts, 0)]), without_spill(options)).unwrap();
    let error = loader.batches().unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("batch_size lower"), "{error}");
}

#[test]
fn how_long_sequences_are_is_known_without_reading_any() {
    let values: Vec<Vec<u32>> = (0..300).map(|row| vec![7; row * 10 % 1701]).collect();
    let (set, origin) = set_on(&[make_sequences(&values, 64)], FaultSchedule::default());
    let before = origin.counters().bytes;
    let lens = set.joined_lens(0).unwrap().unwrap();
    assert_eq!(lens, values.iter().map(|value| value.len() as u64).collect::<Vec<_>>());
    assert_eq!(set.most_delivered_len().unwrap(), 4 * lens.iter().sum::<u64>());
    // A million bytes of numbers, and 16 for each reference.
    assert!(origin.counters().bytes - before < 20_000);
}

#[test]
fn how_long_texts_are_is_left_to_reading_them_as_their_references_count_what_is_cut_off() {
    let padded = [&b"abc\0\0"[..], b"", b"\0\0", b"defg", b"h\0i"].map(<[u8]>::to_vec);
    let set = set(&[make_texts(&padded, 2)]);
    assert_eq!(set.joined_lens(0).unwrap(), None);
    assert_eq!(set.most_delivered_len().unwrap(), 14, "no less than the 8 that are delivered");
}

#[test]
fn one_text_much_longer_than_others_counts_in_what_a_store_of_them_needs() {
    let mut texts = texts(100, 10);
    texts[50] = vec![b'x'; 1 << 20];
    let set = set(&[make_texts(&texts, 0)]);
    assert!(set.delivered_len() < 2000);
    assert_eq!(set.most_delivered_len().unwrap(), 990 + (1 << 20));
}

#[test]
fn references_that_cannot_be_read_are_an_error_and_no_missing_lengths() {
    let values: Vec<Vec<u32>> = (0..30).map(|row| vec![7; row]).collect();
    let schedule = FaultSchedule { fail_every: NonZeroU64::new(1), ..FaultSchedule::default() };
    let (set, _) = set_on(&[make_sequences(&values, 8)], schedule);
    assert_eq!(set.joined_lens(0).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(set.most_delivered_len().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_shape_beyond_all_memory_is_an_error_about_its_samples_and_takes_none() {
    for shape in [vec![4, 1 << 58], vec![4, u64::MAX, u64::MAX]] {
        let files = [of_shape(make_texts(&texts(4, 5), 0), &shape)];
        let memory = Some(16 << 20);
        let options = |on_error| Options { batch_size: 2, memory, on_error, ..Options::default() };
        let loader = Loader::new(set(&files), without_spill(options(OnError::Raise))).unwrap();
        let error = loader.batches().unwrap().find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert!(error.to_string().contains("references"), "{error}");
        let loader = Loader::new(set(&files), without_spill(options(OnError::Skip))).unwrap();
        loader.batches().unwrap().for_each(drop);
        assert_eq!(loader.stats().skipped, 4, "each by itself");
        assert!(set(&files).most_delivered_len().is_err());
    }
}

/// Texts that no reference leads to: row `n` has `len` bytes in each element. Counts the bytes it read.
#[derive(Debug)]
struct TextReader {
    name: &'static str,
    len: usize,
    read: AtomicU64,
}

impl Reader for TextReader {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self, wanted: &ReadRequest<'_>) -> Result<Array> {
        let shape = wanted.selection.shape();
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        let bytes = vec![b'x'; count * self.len];
        self.read.fetch_add(bytes.len() as u64, Relaxed);
        let offsets = (0..=count).map(|end| (end * self.len) as u64).collect();
        let values = Values::Variable { offsets, bytes };
        Ok(Array { dtype: wanted.variable.dtype.clone(), shape, values })
    }
}

fn register(name: &'static str, len: usize) -> Arc<TextReader> {
    let reader = Arc::new(TextReader { name, len, read: AtomicU64::new(0) });
    register_reader(Arc::clone(&reader) as _);
    reader
}

#[test]
fn a_sample_of_many_short_texts_that_memory_cannot_hold_is_left_out_with_the_ends_of_its_texts() {
    register("short", 1);
    // A byte and the end of each text are 6 MiB, and as many again while they are copied.
    let files = [5, 3 << 20, 7].map(|count| make_unreferenced(count, &[], "short"));
    let field = FieldSpec { samples: Boundary::Whole, ..FieldSpec::new("x") };
    let origin: Arc<dyn Origin> = Arc::new(memory(&files));
    let set = SampleSet::new(SampleSpec { fields: vec![field] }, &[opened(&files, &origin)]).unwrap();
    let memory = Some(8 << 20);
    let options = Options { batch_size: 3, memory, on_error: OnError::Skip, ..Options::default() };
    let loader = Loader::new(Arc::new(set), without_spill(options)).unwrap();
    let batches: Vec<Batch> = loader.batches().unwrap().map(|batch| batch.unwrap()).collect();
    let seen: Vec<u64> = batches.iter().flat_map(|batch| batch.samples.iter().flatten().copied()).collect();
    assert_eq!((seen, loader.stats().skipped), (vec![0, 2], 1));
}

#[test]
fn texts_that_only_reading_shows_the_length_of_are_read_ahead_within_memory() {
    let reader = register("long", 64 << 10);
    let (rows, batch_size, memory) = (1024, 16, 12 << 20);
    let options = Options {
        batch_size,
        memory: Some(memory),
        prefetch: 100,
        read_threads: Some(8),
        ..Options::default()
    };
    let set = set(&[make_unreferenced(rows, &[], "long")]);
    // How long they are is known once some were read.
    Samples::new(Arc::clone(&set), &without_spill(Options::default())).get(&[0, 1]).unwrap();
    let loader = Loader::new(set, without_spill(options)).unwrap();
    let (before, mut taken, mut most) = (reader.read.load(Relaxed), 0, 0);
    for batch in loader.batches().unwrap() {
        taken += batch.unwrap().field("x").unwrap().bytes.len() as u64;
        // A consumer that is slow has as much read ahead as may be.
        std::thread::sleep(std::time::Duration::from_millis(2));
        most = most.max((reader.read.load(Relaxed) - before).saturating_sub(taken));
    }
    // The batch that is due has what it needs.
    assert!(most <= memory + (2 << 20), "{most} bytes read ahead in memory for {memory}");
    assert!(most > memory / 4, "{most}: nothing is read ahead");
}
