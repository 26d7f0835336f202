//! A set of files in the memory of several ranks: threads here, on hosts that are made up.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use forebay::{
    FillOptions, IndexCache, Loader, OnLost, Options, SampleSet, Samples, SetSpec, StoreMaker,
    ToldContainers,
    container::{ByteOrder, Dtype, Number},
    fill_store,
    loader::{Next, set_identity},
    plan::{Shard, Shuffle, Tail},
    source::{MemoryOrigin, Operation, TracedOrigin, TracedRequest},
    store::{Balance, Comm, LocalComm, SampleLens, Store, StoreOptions, VariableSpec, check::patience},
};

const COUNT: u64 = 103;
const ROW: usize = 7;

/// A NumPy file whose row `n` holds `n * 100 + column`.
fn rows_file(folder: &Path) -> PathBuf {
    let mut header = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({COUNT}, {ROW}), }}");
    while (10 + header.len() + 1) % 64 > 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    for row in 0..COUNT {
        bytes.extend((0..ROW as u64).flat_map(|column| (row * 100 + column).to_le_bytes()));
    }
    let path = folder.join("x.npy");
    fs::write(&path, bytes).unwrap();
    path
}

fn spec(path: &Path) -> SetSpec {
    let spec = serde_json::json!({
        "files": [[path]],
        "fields": { "fields": [{ "name": "x", "variable": "data", "files": 0, "samples": { "fixed": { "rows": 1 } } }] },
    });
    serde_json::from_value(spec).unwrap()
}

fn open(path: &Path) -> Arc<SampleSet> {
    Arc::new(forebay::open_set(spec(path), None).unwrap())
}

fn filled(comm: &Arc<dyn Comm>, set: &Arc<SampleSet>, width: Option<usize>, balance: Balance) -> Arc<Store> {
    let options = StoreOptions { width, ..StoreOptions::default() };
    let store = Store::new(Arc::clone(comm), options, &patience()).unwrap();
    let options = FillOptions { balance, ..FillOptions::default() };
    let mut seen = 0;
    let mut progress = |done: forebay::FillProgress| {
        assert!(done.samples >= seen && done.samples <= done.of);
        seen = done.samples;
        Ok(())
    };
    fill_store(&store, set, &options, &mut progress, &patience()).unwrap();
    Arc::new(store)
}

fn loader(store: &Arc<Store>, set: &Arc<SampleSet>, shuffle: Shuffle, on_lost: OnLost) -> Loader {
    let comm = store.comm();
    let shard = shard(comm.rank(), comm.size());
    let maker =
        StoreMaker::new(Arc::clone(store), &["x".to_owned()], set_identity(set), 64 << 20, on_lost).unwrap();
    let options =
        Options { batch_size: 4, shuffle, seed: 5, shard, tail: Some(Tail::Pad), ..Options::default() };
    Loader::of_maker(Arc::new(maker), options).unwrap()
}

fn shard(rank: usize, world: usize) -> Shard {
    Shard { rank: u32::try_from(rank).unwrap(), world: u32::try_from(world).unwrap() }
}

/// The samples of an epoch, each with its row as it must be.
fn epoch(loader: &Loader) -> Vec<u64> {
    let mut samples = Vec::new();
    for batch in loader.batches().unwrap() {
        let batch = batch.unwrap();
        let field = batch.field("x").unwrap();
        for (sample, row) in batch.samples.iter().zip(field.bytes.chunks_exact(8 * ROW)) {
            let values = row.chunks_exact(8).map(|value| u64::from_ne_bytes(value.try_into().unwrap()));
            match sample {
                Some(sample) => {
                    assert!(values.eq((0..ROW as u64).map(|column| sample * 100 + column)), "sample {sample}")
                }
                None => assert!(row.iter().all(|byte| *byte == 0), "padding is zero"),
            }
            samples.extend(sample);
        }
    }
    samples
}

#[test]
fn ranks_share_out_every_epoch_for_any_width() {
    let folder = tempfile::tempdir().unwrap();
    let path = rows_file(folder.path());
    for hosts in [&[0][..], &[0, 0], &[0, 1, 1], &[0, 0, 1, 1, 2]] {
        for width in (1..=hosts.len()).map(Some).chain([None]) {
            let epochs = LocalComm::run(hosts, |comm| {
                let set = open(&path);
                let store = filled(&comm, &set, width, Balance::Bytes);
                let loader = loader(&store, &set, Shuffle::Full, OnLost::Raise);
                let epochs = [epoch(&loader), epoch(&loader)];
                comm.barrier(&patience()).unwrap();
                store.close(&patience()).unwrap();
                epochs
            });
            for number in 0..2 {
                let mut all: Vec<u64> = epochs.iter().flat_map(|rank| rank[number].clone()).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..COUNT), "hosts {hosts:?}, width {width:?}, epoch {number}");
            }
        }
    }
}

#[test]
fn the_order_is_that_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = rows_file(folder.path());
    let orders = LocalComm::run(&[0, 1], |comm| {
        let set = open(&path);
        let store = filled(&comm, &set, None, Balance::Count);
        let from_store = epoch(&loader(&store, &set, Shuffle::Full, OnLost::Raise));
        let shard = shard(comm.rank(), 2);
        let options = Options {
            batch_size: 4,
            shuffle: Shuffle::Full,
            seed: 5,
            shard,
            tail: Some(Tail::Pad),
            ..Options::default()
        };
        let from_files = epoch(&Loader::new(Arc::clone(&set), options).unwrap());
        comm.barrier(&patience()).unwrap();
        (from_store, from_files)
    });
    for (from_store, from_files) in orders {
        assert_eq!(from_store, from_files);
    }
}

#[test]
fn each_rank_reads_its_share_of_the_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = rows_file(folder.path());
    let shares = LocalComm::run(&[0, 0, 1, 1], |comm| {
        let store = filled(&comm, &open(&path), Some(2), Balance::Bytes);
        let share = store.variable("x").unwrap().samples_of(comm.rank());
        comm.barrier(&patience()).unwrap();
        share
    });
    let mut by_group: HashMap<usize, u64> = HashMap::new();
    for (rank, share) in shares.iter().enumerate() {
        *by_group.entry(rank / 2).or_default() += share.end - share.start;
        assert!((share.end - share.start).abs_diff(COUNT / 2) <= 1, "{shares:?}");
    }
    assert!(by_group.values().all(|count| *count == COUNT));
}

#[test]
fn a_share_is_read_and_nothing_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let set = open(&rows_file(folder.path()));
    let options = Options { batch_size: 4, prefetch: 8, read_threads: Some(2), ..Options::default() };
    let loader = Loader::new(set, options).unwrap();
    let mut run = loader.start_steps(3).unwrap();
    let mut samples = 0;
    loop {
        match loader.next(&mut run, std::time::Duration::from_secs(60)).unwrap() {
            Next::Batch(batch) => samples += batch.samples.len(),
            Next::Waiting => {}
            Next::End => break,
        }
    }
    assert_eq!(samples, 12);
    assert_eq!(loader.stats().batches, 3, "no batch is made that nobody takes");
}

#[test]
fn a_set_that_another_rank_described_is_opened_without_reading_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::read(rows_file(folder.path())).unwrap();
    let opened = |told: Option<&[u8]>| {
        let reads = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&reads);
        let count = move |request: &TracedRequest<'_>| {
            if request.operation != Operation::Open {
                counter.fetch_add(1, SeqCst);
            }
        };
        let memory = Arc::new(MemoryOrigin::default().with("/x.npy", file.clone()));
        let origin = Arc::new(TracedOrigin::new(memory, Arc::new(count)));
        let cache = told.map(|told| IndexCache::told(Arc::new(ToldContainers::heard(told).unwrap())));
        let set = forebay::open_set_on(origin, spec(Path::new("/x.npy")), cache.as_ref()).unwrap();
        (set, reads.load(SeqCst))
    };
    let (set, reads) = opened(None);
    assert!(reads > 0);
    let told = ToldContainers::message(&set).unwrap();
    let (other, reads) = opened(Some(&told));
    assert_eq!((reads, other.len()), (0, COUNT));
    assert!(ToldContainers::heard(&told[..told.len() / 2]).is_err(), "a torn message");
}

#[test]
fn a_sample_beyond_2_gib_is_whole_on_another_host() {
    const LEN: usize = (2 << 30) + 12_345;
    let marks = [0, (1 << 31) - 4, (1 << 31) + 5, LEN - 8];
    LocalComm::run(&[0, 1], |comm| {
        let store = Store::new(Arc::clone(&comm), StoreOptions::default(), &patience()).unwrap();
        let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: LEN as u64, runs: 1 };
        let count = if comm.rank() == 0 { 1 } else { 0 };
        let filling = store.begin_from_parts(&[(spec, SampleLens::even(count, 1))], &patience()).unwrap();
        let written = (0..count).try_for_each(|sample| {
            let mut bytes = vec![0u8; LEN];
            marks.iter().for_each(|at| bytes[*at..at + 8].copy_from_slice(&at.to_le_bytes()));
            filling.write(0, sample, &bytes)
        });
        store.finish(filling, written, &patience()).unwrap();
        if comm.rank() == 1 {
            let mut got = vec![0u8; LEN];
            store.get(&store.variable("x").unwrap(), 0, &mut got).unwrap();
            for at in marks {
                assert_eq!(got[at..at + 8], at.to_le_bytes(), "at {at}");
            }
            assert_eq!(store.stats().remote.bytes, LEN as u64);
        }
        comm.barrier(&patience()).unwrap();
    });
}

#[test]
fn a_batch_after_restriping_is_that_of_the_new_shards() {
    let values = LocalComm::run(&[0, 1], |comm| {
        let store = Arc::new(Store::new(Arc::clone(&comm), StoreOptions::default(), &patience()).unwrap());
        let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: 8, runs: 1 };
        let description = forebay::StoredField {
            dtype: Dtype::Number { number: Number::I64, order: ByteOrder::NATIVE },
            kind: forebay::container::cf::ValueKind::Number,
            sample_shape: Vec::new(),
            categories: Vec::new(),
        };
        let spec = VariableSpec { description: description.spec("x").unwrap().description, ..spec };
        let count = if comm.rank() == 0 { 10 } else { 0 };
        let parts = [(spec, SampleLens::even(count, 1))];
        let filling = store.begin_from_parts(&parts, &patience()).unwrap();
        let written = (0..count).try_for_each(|sample| filling.write(0, sample, &1i64.to_ne_bytes()));
        store.finish(filling, written, &patience()).unwrap();
        let identity = forebay::added_identity(&store.variables());
        let maker =
            StoreMaker::new(Arc::clone(&store), &["x".to_owned()], identity, 1 << 20, OnLost::Raise).unwrap();
        let all: Vec<_> = (0..10).map(Some).collect();
        let before = maker.fields_of(&all, &patience()).unwrap()[0].bytes.to_vec();
        store.restripe(Balance::Count, &patience()).unwrap();
        let mine = store.variable("x").unwrap().samples_of(comm.rank());
        assert_eq!(mine.end - mine.start, 5);
        store.update("x", mine.start, &[2i64.to_ne_bytes(); 5].concat()).unwrap();
        assert!(store.update("x", mine.start, &[0; 12]).is_err(), "half a sample");
        store.seal(&patience()).unwrap();
        let after = maker.fields_of(&all, &patience()).unwrap()[0].bytes.to_vec();
        comm.barrier(&patience()).unwrap();
        (before, after)
    });
    for (before, after) in values {
        assert_eq!(before, [1i64.to_ne_bytes(); 10].concat());
        assert_eq!(after, [2i64.to_ne_bytes(); 10].concat());
    }
}

#[test]
fn stores_take_of_the_memory_of_their_process_and_give_it_back() {
    LocalComm::run(&[0], |comm| {
        let free = || forebay::process::ledger().free();
        let before = free();
        let store = Store::new(Arc::clone(&comm), StoreOptions::default(), &patience()).unwrap();
        let spec = |len| VariableSpec { name: "x".into(), description: Vec::new(), row_len: len, runs: 1 };
        let filling =
            store.begin_from_parts(&[(spec(1 << 20), SampleLens::even(8, 1))], &patience()).unwrap();
        store.finish(filling, Ok(()), &patience()).unwrap();
        assert!(before - free() >= 8 << 20, "{} of {before}", free());
        let other = Store::new(Arc::clone(&comm), StoreOptions::default(), &patience()).unwrap();
        let error = other.begin_from_parts(&[(spec(before), SampleLens::even(1, 1))], &patience());
        assert!(error.unwrap_err().to_string().contains("are left of what it may take"));
        store.close(&patience()).unwrap();
        drop(store);
        assert_eq!(free(), before);
    });
}

#[test]
fn samples_of_a_rank_that_is_gone_are_an_error_or_come_from_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = rows_file(folder.path());
    for reads_files in [false, true] {
        let ranks = LocalComm::on_hosts(&[0, 1, 2]);
        std::thread::scope(|scope| {
            for comm in ranks {
                let path = &path;
                scope.spawn(move || {
                    let comm = Arc::new(comm);
                    let (as_comm, set) = (Arc::clone(&comm) as Arc<dyn Comm>, open(path));
                    let store = filled(&as_comm, &set, None, Balance::Bytes);
                    comm.barrier(&patience()).unwrap();
                    if comm.rank() == 1 {
                        return comm.leave();
                    }
                    while comm.first_gone(0..3).is_none() {
                        std::thread::yield_now();
                    }
                    let on_lost = match reads_files {
                        true => {
                            OnLost::ReadFiles(Arc::new(Samples::new(Arc::clone(&set), &Options::default())))
                        }
                        false => OnLost::Raise,
                    };
                    // All samples on this rank: those of the rank that is gone are among them.
                    let maker = StoreMaker::new(
                        Arc::clone(&store),
                        &["x".to_owned()],
                        set_identity(&set),
                        64 << 20,
                        on_lost,
                    );
                    let options = Options { batch_size: 8, shuffle: Shuffle::Full, ..Options::default() };
                    let loader = Loader::of_maker(Arc::new(maker.unwrap()), options).unwrap();
                    if reads_files {
                        let mut samples = epoch(&loader);
                        samples.sort_unstable();
                        assert!(samples.into_iter().eq(0..COUNT), "each sample comes once");
                    } else {
                        let error = loader.batches().unwrap().find_map(Result::err).expect("a rank is gone");
                        assert!(error.to_string().contains("rank 1 is gone"), "{error}");
                    }
                });
            }
        });
    }
}
