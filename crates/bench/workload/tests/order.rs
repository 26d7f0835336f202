//! Orders against those that `make_orders.py` computed with NumPy, and what holds for every order.

use forebay_workload::{
    BatchOrder, ConfigOptions, EpochOrder, FileNaming, LoaderKind, RankPosition, RankShare, ShuffleMode,
    Split, Workload, config, order,
};
use proptest::prelude::*;
use serde::Deserialize;

/// Worker and samples of each batch.
type RankBatches = Vec<(u32, Vec<u64>)>;

#[derive(Deserialize)]
struct Case {
    loader: LoaderKind,
    files: u64,
    samples_per_file: u64,
    batch: u64,
    ranks: u32,
    threads: u32,
    file_shuffle: bool,
    sample_shuffle: bool,
    seed_change_epoch: bool,
    like_dlio: bool,
    /// By epoch and rank.
    epochs: Vec<Vec<RankBatches>>,
}

fn shuffle(on: bool) -> ShuffleMode {
    if on { ShuffleMode::Seed } else { ShuffleMode::Off }
}

fn workload(case: &Case) -> Workload {
    let mut workload = Workload { like_dlio: case.like_dlio, ..Workload::default() };
    // DLIO of 2024-08 does not trim files: trimming has a test of its own.
    workload.dataset.naming = FileNaming::Dlio2408;
    workload.dataset.num_files_train = case.files;
    workload.dataset.num_samples_per_file = case.samples_per_file;
    workload.reader.loader = case.loader;
    workload.reader.batch_size = case.batch;
    workload.reader.read_threads = case.threads;
    workload.reader.file_shuffle = shuffle(case.file_shuffle);
    workload.reader.sample_shuffle = shuffle(case.sample_shuffle);
    workload.train.seed_change_epoch = case.seed_change_epoch;
    workload
}

#[test]
fn orders_are_those_that_numpy_gives() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("orders.json")).unwrap();
    assert!(cases.len() >= 8);
    for (number, case) in cases.iter().enumerate() {
        let workload = workload(case);
        for (epoch, ranks) in (1..).zip(&case.epochs) {
            for (rank, expected) in (0..).zip(ranks) {
                let at = RankPosition { rank, ranks: case.ranks };
                let found = order::batches(&workload, Split::Train, epoch, at).unwrap();
                let expected =
                    expected.iter().cloned().map(|(worker, samples)| BatchOrder { worker, samples });
                assert!(found.into_iter().eq(expected), "case {number}, epoch {epoch}, rank {rank}");
            }
        }
    }
}

/// The thesis's workload: 128 + 32 files of 4 samples, batches of 1, 511 steps.
#[test]
fn the_workload_of_table_6_1_reads_639_samples_160_160_160_and_159_of_each_record() {
    for (loader, threads) in [(LoaderKind::PyTorch, 0), (LoaderKind::PyTorch, 4)] {
        let mut workload = Workload::default();
        workload.dataset.num_files_train = 128;
        workload.dataset.num_files_eval = 32;
        workload.dataset.num_samples_per_file = 4;
        workload.reader.loader = loader;
        workload.reader.read_threads = threads;
        workload.train.steps_per_epoch = Some(511);
        let at = RankPosition { rank: 0, ranks: 1 };
        let mut reads = order::samples(&workload, Split::Train, 1, at).unwrap();
        reads.extend(order::samples(&workload, Split::Eval, 1, at).unwrap());
        assert_eq!(reads.len(), 639);
        let of_record = |record| reads.iter().filter(|sample| *sample % 4 == record).count();
        assert_eq!([0, 1, 2, 3].map(of_record), [160, 160, 160, 159]);
    }
}

#[test]
fn more_steps_than_there_are_is_an_error_that_says_how_many_there_are() {
    let mut workload = Workload::default();
    workload.train.steps_per_epoch = Some(9);
    let error = order::steps(&workload, Split::Train, RankPosition { rank: 0, ranks: 1 }).unwrap_err();
    assert!(error.to_string().contains("9 steps of an epoch are asked for and there are 8"), "{error}");
}

#[test]
fn a_limit_of_all_ranks_is_dealt_to_them() {
    let mut workload = Workload::default();
    workload.dataset.num_files_train = 100;
    workload.train.steps_per_epoch = Some(11);
    workload.train.steps_of_all_ranks = true;
    let steps = [0, 1, 2, 3]
        .map(|rank| order::steps(&workload, Split::Train, RankPosition { rank, ranks: 4 }).unwrap());
    assert_eq!(steps, [3, 3, 3, 2]);
    // h5bench's is a maximum.
    workload.train.steps_per_epoch = Some(1000);
    assert_eq!(order::steps(&workload, Split::Train, RankPosition { rank: 3, ranks: 4 }).unwrap(), 25);
}

#[test]
fn dlio_trims_files_to_a_multiple_of_samples_and_2408_does_not() {
    let mut workload = Workload { like_dlio: true, ..Workload::default() };
    workload.dataset.num_samples_per_file = 4;
    workload.reader.batch_size = 7;
    assert_eq!(order::files_used(&workload, Split::Train, 1), 0, "8 files x 4 samples, batches of 7");
    workload.dataset.naming = FileNaming::Dlio2408;
    assert_eq!(order::files_used(&workload, Split::Train, 1), 8);
    workload.like_dlio = false;
    workload.dataset.naming = FileNaming::Dlio;
    assert_eq!(order::files_used(&workload, Split::Train, 1), 8);
}

#[test]
fn billions_of_samples_in_order_are_not_listed() {
    let mut workload = Workload::default();
    workload.dataset.num_files_train = 1;
    workload.dataset.num_samples_per_file = 4_195_198_976;
    workload.reader.loader = LoaderKind::PyTorch;
    workload.reader.batch_size = 2048;
    workload.train.steps_per_epoch = Some(3);
    let at = RankPosition { rank: 1, ranks: 2 };
    let samples = order::samples(&workload, Split::Train, 1, at).unwrap();
    assert_eq!((samples.len(), samples[0]), (3 * 2048, 4_195_198_976 / 2));
}

#[test]
fn a_shuffled_order_of_which_little_is_read_takes_the_memory_of_what_is_read() {
    let bert = |overrides: &[&str]| {
        let overrides = overrides.iter().map(|text| (*text).to_owned()).collect();
        let options = ConfigOptions { overrides, ..ConfigOptions::default() };
        let Some(workload) = config::preset("bert", &options).unwrap().workloads.pop() else {
            panic!("bert is trained")
        };
        workload
    };
    let at = RankPosition { rank: 0, ranks: 1 };
    // A hundredth of its files, of which its 1000 batches of 48 samples are still a small part.
    let short =
        EpochOrder::new(&bert(&["++workload.dataset.num_files_train=5"]), Split::Train, 1, at).unwrap();
    assert_eq!((short.len(), short.byte_len()), (1000, 4 * 48_000));
    let all = ["++workload.dataset.num_files_train=5", "++workload.train.total_training_steps=-1"];
    let whole = EpochOrder::new(&bert(&all), Split::Train, 1, at).unwrap();
    assert_eq!(whole.byte_len(), 4 * 5 * 313_532);
    for step in [0, 1, 500, 999] {
        assert_eq!(short.batch(step), whole.batch(step), "step {step}");
    }
}

fn any_workload() -> impl Strategy<Value = (Workload, u32)> {
    let words = (0..3u8, 0..2u8, any::<bool>(), any::<bool>(), any::<bool>());
    ((1u64..20, 1u64..6, 1u64..6), (0u32..5, 1u32..5), words).prop_map(|(sizes, (threads, ranks), words)| {
        let mut workload = Workload::default();
        (
            workload.dataset.num_files_train,
            workload.dataset.num_samples_per_file,
            workload.reader.batch_size,
        ) = sizes;
        workload.reader.read_threads = threads;
        workload.reader.loader =
            [LoaderKind::PyTorch, LoaderKind::TensorFlow, LoaderKind::Dali][usize::from(words.0)];
        workload.reader.rank_share = [RankShare::Ranges, RankShare::Batches][usize::from(words.1)];
        workload.reader.file_shuffle = shuffle(words.2);
        workload.reader.sample_shuffle = shuffle(words.3);
        workload.train.seed_change_epoch = words.4;
        (workload, ranks)
    })
}

proptest! {
    #[test]
    fn no_sample_is_read_twice_in_an_epoch_and_every_one_exists((workload, ranks) in any_workload(), epoch in 1u32..4) {
        let total = workload.dataset.num_files_train * workload.dataset.num_samples_per_file;
        let mut read = Vec::new();
        for rank in 0..ranks {
            let at = RankPosition { rank, ranks };
            let batches = order::batches(&workload, Split::Train, epoch, at).unwrap();
            prop_assert!(batches.len() as u64 <= order::steps(&workload, Split::Train, at).unwrap());
            prop_assert!(batches.iter().all(|batch| batch.worker < workload.reader.read_threads.max(1)));
            read.extend(batches.into_iter().flat_map(|batch| batch.samples));
        }
        prop_assert!(read.iter().all(|sample| *sample < total));
        let count = read.len();
        read.sort_unstable();
        read.dedup();
        prop_assert_eq!(read.len(), count);
    }

    #[test]
    fn with_one_rank_and_whole_batches_every_sample_is_read((mut workload, _) in any_workload(), epoch in 1u32..4) {
        workload.reader.batch_size = 1;
        let at = RankPosition { rank: 0, ranks: 1 };
        let mut read = order::samples(&workload, Split::Train, epoch, at).unwrap();
        read.sort_unstable();
        let total = workload.dataset.num_files_train * workload.dataset.num_samples_per_file;
        prop_assert!(read.into_iter().eq(0..total));
    }
}
