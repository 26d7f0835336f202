//! The contracts of [`Comm`] and [`Window`], and what a [`Store`] promises over them: one function per clause.
//!
//! Every rank calls them, with its own end of one communicator; each panics where a clause is broken.

use std::{sync::Arc, time::Duration};

use forebay_process::ErrorKind;

use crate::{
    comm::{Comm, Window, WindowPiece, WindowRead},
    store::{
        Store, StoreOptions,
        filling::{Filling, VariableSpec},
        gather::{FieldGather, PaddingRows},
        partition::{Balance, Partition},
        sample_lens::SampleLens,
        shard_memory::{ShardMemory, ShardPlace},
    },
    wait::Wait,
};

/// Runs every clause.
pub fn every_clause(comm: &Arc<dyn Comm>) {
    every_comm_clause(&**comm);
    every_window_clause(&**comm);
    every_store_clause(comm);
}

/// Runs every clause of [`Comm`].
pub fn every_comm_clause(comm: &dyn Comm) {
    ranks_know_each_other(comm);
    everybody_hears_the_root(comm);
    everybody_hears_all(comm);
    long_messages_arrive_whole(comm);
    nobody_is_gone(comm);
}

/// Runs every clause of [`Window`].
pub fn every_window_clause(comm: &dyn Comm) {
    shards_of_any_length_are_read(comm);
    pieces_may_be_empty_repeat_and_come_in_any_order(comm);
    beyond_a_shard_is_invalid_and_leaves_others_alone(comm);
    many_windows_stand_side_by_side(comm);
    many_threads_read_at_once(comm);
}

/// Runs every clause of [`Store`].
pub fn every_store_clause(comm: &Arc<dyn Comm>) {
    for width in (1..=comm.size()).map(Some).chain([None]) {
        every_rank_reads_every_sample(comm, width);
        ragged_samples_join_along_any_axis(comm, width);
    }
    what_ranks_bring_follows_each_other(comm);
    restriped_samples_are_even_and_the_same(comm);
    a_failure_of_one_rank_is_an_error_on_all(comm);
    ranks_that_disagree_are_told(comm);
    nothing_is_written_after_the_seal(comm);
    shards_on_disk_read_the_same(comm);
}

/// Ranks are numbered, and everybody counts the same.
pub fn ranks_know_each_other(comm: &dyn Comm) {
    assert!(comm.rank() < comm.size());
    let all = comm.all_gather(vec![byte(comm.rank())], &patience()).expect("all ranks are there");
    assert_eq!(all, (0..comm.size()).map(|rank| vec![byte(rank)]).collect::<Vec<_>>());
    let hosts: Vec<u8> = (0..comm.size()).map(|rank| byte(comm.host_of(rank))).collect();
    let all = comm.all_gather(hosts.clone(), &patience()).expect("all ranks are there");
    assert!(all.iter().all(|other| *other == hosts), "ranks differ about hosts: {all:?}");
}

/// A broadcast gives everybody the bytes of its root, whichever rank it is.
pub fn everybody_hears_the_root(comm: &dyn Comm) {
    for root in 0..comm.size() {
        let mine = format!("rank {} of {}", comm.rank(), comm.size()).into_bytes();
        let heard = comm.broadcast(root, mine, &patience()).expect("all ranks are there");
        assert_eq!(heard, format!("rank {root} of {}", comm.size()).into_bytes());
    }
}

/// An `all_gather` gives the bytes of all, also where ranks bring nothing.
pub fn everybody_hears_all(comm: &dyn Comm) {
    for round in 0..5 {
        let bytes_of = |rank: usize| vec![byte(rank * 7 + round); (rank + round) % 3 * 1000];
        let all = comm.all_gather(bytes_of(comm.rank()), &patience()).expect("all ranks are there");
        assert_eq!(all, (0..comm.size()).map(bytes_of).collect::<Vec<_>>());
        comm.barrier(&patience()).expect("all ranks are there");
    }
}

/// Messages longer than any buffer of a socket arrive whole.
pub fn long_messages_arrive_whole(comm: &dyn Comm) {
    let long = |rank: usize| (0..3_000_000 + rank).map(|at| byte(at * 31 + rank)).collect::<Vec<u8>>();
    let all = comm.all_gather(long(comm.rank()), &patience()).expect("all ranks are there");
    assert!(all.iter().enumerate().all(|(rank, bytes)| *bytes == long(rank)), "a message is cut or mixed up");
}

/// Ranks that run are not gone.
pub fn nobody_is_gone(comm: &dyn Comm) {
    assert_eq!(comm.first_gone(0..comm.size()), None);
}

/// Every rank reads every shard, also an empty one, wholly and in parts.
pub fn shards_of_any_length_are_read(comm: &dyn Comm) {
    for unit in [0, 1, 13, 4096, 300_000] {
        let len_of = |rank: usize| unit * (rank % 3);
        let window = window(comm, unit as u64, len_of);
        let mut whole: Vec<Vec<u8>> = (0..comm.size()).map(|rank| vec![0xee; len_of(rank)]).collect();
        read(
            &*window,
            whole.iter_mut().enumerate().map(|(rank, into)| (rank, vec![(0, &mut into[..])])).collect(),
        );
        for (rank, bytes) in whole.iter().enumerate() {
            assert!(
                *bytes == shard_bytes(unit as u64, rank, len_of(rank)),
                "shard of rank {rank}, {unit} bytes"
            );
        }
        window.close(&patience()).expect("all ranks close it");
    }
}

/// Pieces may be empty, overlap, repeat, and come in any order; ranks may be named twice.
pub fn pieces_may_be_empty_repeat_and_come_in_any_order(comm: &dyn Comm) {
    let len = 50_000;
    let window = window(comm, 77, |_| len);
    let offsets = [49_999usize, 0, 20_000, 20_000, 50_000, 123, 4096];
    let lens = [1usize, 4096, 5000, 5000, 0, 0, 45_904];
    for first in 0..comm.size() {
        let ranks: Vec<usize> =
            (0..comm.size()).map(|step| (first + step) % comm.size()).chain([first]).collect();
        let mut got: Vec<Vec<Vec<u8>>> =
            ranks.iter().map(|_| lens.iter().map(|len| vec![0xee; *len]).collect()).collect();
        let reads = ranks.iter().zip(&mut got).map(|(rank, got)| {
            (*rank, offsets.iter().zip(got).map(|(offset, into)| (*offset as u64, &mut into[..])).collect())
        });
        read(&*window, reads.collect());
        for (rank, got) in ranks.iter().zip(&got) {
            let whole = shard_bytes(77, *rank, len);
            for ((offset, len), got) in offsets.iter().zip(lens).zip(got) {
                assert!(*got == whole[*offset..offset + len], "{len} bytes at {offset} of rank {rank}");
            }
        }
    }
    window.close(&patience()).expect("all ranks close it");
}

/// What lies beyond a shard is invalid, and what is asked of other ranks in the same call is read.
pub fn beyond_a_shard_is_invalid_and_leaves_others_alone(comm: &dyn Comm) {
    let window = window(comm, 5, |rank| 1000 + rank);
    let wrong = comm.size() - 1;
    let mut got = vec![vec![0u8; 10]; comm.size()];
    let mut reads: Vec<_> = got
        .iter_mut()
        .enumerate()
        .map(|(rank, into)| WindowRead {
            rank,
            pieces: vec![WindowPiece {
                offset: if rank == wrong { 1000 + rank as u64 - 9 } else { 0 },
                into,
            }],
            outcome: Ok(()),
        })
        .collect();
    window.get(&mut reads, &patience());
    for read in reads {
        match read.rank == wrong {
            true => assert_eq!(read.outcome.expect_err("one byte too many").kind(), ErrorKind::Invalid),
            false => assert!(read.outcome.is_ok(), "rank {}: {:?}", read.rank, read.outcome),
        }
    }
    for (rank, got) in got.iter().enumerate().filter(|(rank, _)| *rank != wrong) {
        assert_eq!(*got, shard_bytes(5, rank, 10));
    }
    window.close(&patience()).expect("all ranks close it");
}

/// Windows do not see each other's bytes.
pub fn many_windows_stand_side_by_side(comm: &dyn Comm) {
    let windows: Vec<_> = (0..6u64).map(|seed| window(comm, seed, |rank| 5000 + rank)).collect();
    for (seed, window) in windows.iter().enumerate().rev() {
        let mut got = vec![vec![0u8; 5000]; comm.size()];
        read(
            &**window,
            got.iter_mut().enumerate().map(|(rank, into)| (rank, vec![(0, &mut into[..])])).collect(),
        );
        for (rank, got) in got.iter().enumerate() {
            assert!(*got == shard_bytes(seed as u64, rank, 5000), "window {seed}, rank {rank}");
        }
    }
    comm.barrier(&patience()).expect("all ranks are there");
    for window in windows {
        window.close(&patience()).expect("all ranks close it");
    }
}

/// Threads of one rank read at once, where the communicator allows it.
pub fn many_threads_read_at_once(comm: &dyn Comm) {
    let window = window(comm, 9, |rank| 20_000 + rank);
    let work = || {
        for round in 0..50usize {
            let mut got = vec![vec![0u8; 300]; comm.size()];
            let offset = round * 391;
            read(
                &*window,
                got.iter_mut()
                    .enumerate()
                    .map(|(rank, into)| (rank, vec![(offset as u64, &mut into[..])]))
                    .collect(),
            );
            for (rank, got) in got.iter().enumerate() {
                assert!(
                    *got == shard_bytes(9, rank, 20_000)[offset..offset + 300],
                    "rank {rank}, round {round}"
                );
            }
        }
    };
    match comm.threads() {
        crate::CommThreads::Caller => work(),
        crate::CommThreads::Any => std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(work);
            }
        }),
    }
    comm.barrier(&patience()).expect("all ranks are there");
    window.close(&patience()).expect("all ranks close it");
}

/// Every rank reads every sample, in any order, by itself and in batches.
pub fn every_rank_reads_every_sample(comm: &Arc<dyn Comm>, width: Option<usize>) {
    let options = StoreOptions { width, ..StoreOptions::default() };
    let store = Store::new(Arc::clone(comm), options, &patience()).expect("a store");
    let count = 37u64;
    let lens = SampleLens::even(count, 12);
    let (_, members) = store.member();
    for balance in [Balance::Count, Balance::Bytes] {
        let partition = Partition::even(&lens, members, balance);
        let name = format!("{balance:?}");
        let spec = VariableSpec { name: name.clone(), description: vec![1, 2], row_len: 4, runs: 1 };
        let filling = store.begin(&[(spec, lens.clone())], &partition, &patience()).expect("memory");
        let written = write_own(&filling, comm.rank(), |sample| sample_bytes(sample, 48));
        store.finish(filling, written, &patience()).expect("all ranks wrote");
        let variable = store.variable(&name).expect("it was added");
        assert_eq!((variable.sample_count(), variable.description()), (count, &[1u8, 2][..]));
        for sample in 0..count {
            let mut got = vec![0; 48];
            store.get(&variable, sample, &mut got).expect("a sample");
            assert_eq!(got, sample_bytes(sample, 48), "sample {sample}, width {width:?}");
        }
        let samples: Vec<_> = (0..100u64).map(|at| (at % 9 != 4).then_some(at * 31 % count)).collect();
        let mut got = vec![0; 48 * samples.len()];
        let gather = FieldGather {
            variable: &variable,
            samples: &samples,
            padding: PaddingRows::Each(12),
            into: &mut got,
        };
        store.get_batch([gather]).expect("a batch");
        for (sample, got) in samples.iter().zip(got.chunks(48)) {
            assert_eq!(got, sample.map_or(vec![0; 48], |sample| sample_bytes(sample, 48)));
        }
        let error = store.get(&variable, count, &mut [0; 48]).expect_err("there is no such sample");
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(&name), "{error}");
    }
    comm.barrier(&patience()).expect("all ranks are there");
    store.close(&patience()).expect("all ranks close it");
}

/// Ragged samples, some of no bytes, join along their first axis or run by run along another.
pub fn ragged_samples_join_along_any_axis(comm: &Arc<dyn Comm>, width: Option<usize>) {
    let options = StoreOptions { width, ..StoreOptions::default() };
    let store = Store::new(Arc::clone(comm), options, &patience()).expect("a store");
    let rows: Vec<u64> = (0..41u64).map(|sample| sample * 5 % 7).collect();
    let lens = SampleLens::ragged(&rows);
    let partition = Partition::even(&lens, store.member().1, Balance::Bytes);
    let specs = [("nodes", 12, 1u64), ("edges", 8, 2)].map(|(name, row_len, runs)| {
        (VariableSpec { name: name.to_owned(), description: Vec::new(), row_len, runs }, lens.clone())
    });
    let filling = store.begin(&specs, &partition, &patience()).expect("memory");
    let written = (0..2).try_for_each(|variable| {
        filling.variables()[variable].samples_of(comm.rank()).try_for_each(|sample| {
            let len = [12, 16][variable] * rows[at(sample)];
            filling.write(variable, sample, &sample_bytes(sample, at(len)))
        })
    });
    store.finish(filling, written, &patience()).expect("all ranks wrote");
    let samples: Vec<_> = (0..60u64).map(|at| Some(at * 13 % 41)).collect();
    for (name, row_len, runs) in [("nodes", 12, 1), ("edges", 8, 2)] {
        let variable = store.variable(name).expect("it was added");
        let total =
            at(FieldGather::rows(&variable, &samples, PaddingRows::Each(0)).expect("samples that there are"));
        let mut got = vec![0xee; total * row_len * runs];
        store
            .get_batch([FieldGather {
                variable: &variable,
                samples: &samples,
                padding: PaddingRows::Each(0),
                into: &mut got,
            }])
            .expect("a batch");
        let mut expected: Vec<u8> = Vec::new();
        for run in 0..runs {
            for sample in samples.iter().flatten() {
                let run_len = at(rows[at(*sample)]) * row_len;
                expected.extend(&sample_bytes(*sample, run_len * runs)[run * run_len..][..run_len]);
            }
        }
        assert!(got == expected, "'{name}', width {width:?}");
    }
    comm.barrier(&patience()).expect("all ranks are there");
    store.close(&patience()).expect("all ranks close it");
}

/// Samples that ranks bring follow those of lower ranks, also where some bring none.
pub fn what_ranks_bring_follows_each_other(comm: &Arc<dyn Comm>) {
    let store = Store::new(Arc::clone(comm), StoreOptions::default(), &patience()).expect("a store");
    let count_of = |rank: usize| (rank * 3 % 4) as u64;
    let first: u64 = (0..comm.rank()).map(count_of).sum();
    let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: 5, runs: 1 };
    let mine = SampleLens::even(count_of(comm.rank()), 3);
    let filling = store.begin_from_parts(&[(spec, mine)], &patience()).expect("memory");
    let written = write_own(&filling, comm.rank(), |sample| sample_bytes(sample, 15));
    assert_eq!(filling.variables()[0].samples_of(comm.rank()), first..first + count_of(comm.rank()));
    store.finish(filling, written, &patience()).expect("all ranks wrote");
    let variable = store.variable("x").expect("it was added");
    assert_eq!(variable.sample_count(), (0..comm.size()).map(count_of).sum::<u64>());
    for sample in 0..variable.sample_count() {
        let mut got = [0; 15];
        store.get(&variable, sample, &mut got).expect("a sample");
        assert_eq!(got[..], sample_bytes(sample, 15));
    }
    comm.barrier(&patience()).expect("all ranks are there");
    store.close(&patience()).expect("all ranks close it");
}

/// Where one rank brought all samples, restriping gives every rank its part of them; what was updated before is kept.
pub fn restriped_samples_are_even_and_the_same(comm: &Arc<dyn Comm>) {
    let store = Store::new(Arc::clone(comm), StoreOptions::default(), &patience()).expect("a store");
    let last = comm.size() - 1;
    let rows: Vec<u64> = (0..30u64).map(|sample| sample * 5 % 7).collect();
    let mine = SampleLens::ragged(if comm.rank() == last { &rows } else { &[] });
    let specs = [("nodes", 12u64, 1u64), ("edges", 8, 2)].map(|(name, row_len, runs)| {
        (VariableSpec { name: name.to_owned(), description: Vec::new(), row_len, runs }, mine.clone())
    });
    let len_of = |name: &str, sample: u64| at(if name == "nodes" { 12 } else { 16 } * rows[at(sample)]);
    let filling = store.begin_from_parts(&specs, &patience()).expect("memory");
    let written = specs.iter().enumerate().try_for_each(|(number, (spec, _))| {
        filling.variables()[number].samples_of(comm.rank()).try_for_each(|sample| {
            filling.write(number, sample, &sample_bytes(sample + 1, len_of(&spec.name, sample)))
        })
    });
    store.finish(filling, written, &patience()).expect("all ranks wrote");
    if comm.rank() == last {
        for (spec, _) in &specs {
            let right = (0..30).flat_map(|sample| sample_bytes(sample, len_of(&spec.name, sample)));
            store.update(&spec.name, 0, &right.collect::<Vec<_>>()).expect("its own samples");
        }
    }
    store.restripe(Balance::Count, &patience()).expect("all ranks move samples");
    assert_eq!(
        store.variables().iter().map(|variable| variable.name()).collect::<Vec<_>>(),
        ["nodes", "edges"]
    );
    for variable in store.variables() {
        let mine = variable.samples_of(comm.rank());
        assert!((30 / comm.size() as u64..=30 / comm.size() as u64 + 1).contains(&(mine.end - mine.start)));
        for sample in 0..30 {
            let mut got = vec![0xee; len_of(variable.name(), sample)];
            store.get(&variable, sample, &mut got).expect("a sample");
            assert!(got == sample_bytes(sample, got.len()), "'{}', sample {sample}", variable.name());
        }
    }
    let bytes: u64 = store
        .variables()
        .iter()
        .map(|variable| {
            let mine = variable.samples_of(comm.rank());
            mine.map(|sample| variable.sample_len(sample).expect("a sample")).sum::<u64>()
        })
        .sum();
    assert!(
        store.stats().shard_bytes >= bytes && store.stats().shard_bytes < bytes + 4096,
        "what was before is gone"
    );
    comm.barrier(&patience()).expect("all ranks are there");
    store.close(&patience()).expect("all ranks close it");
}

/// A rank that cannot write its part, or has no memory for it, makes that an error on every rank that names it; none hangs.
pub fn a_failure_of_one_rank_is_an_error_on_all(comm: &Arc<dyn Comm>) {
    let bad = comm.size() / 2;
    let limit = (comm.rank() == bad).then_some(0);
    let store = Store::new(Arc::clone(comm), StoreOptions { limit, ..StoreOptions::default() }, &patience())
        .expect("a store");
    let lens = SampleLens::even(10 * comm.size() as u64, 1);
    let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: 8, runs: 1 };
    let partition = Partition::even(&lens, comm.size(), Balance::Count);
    let error = store
        .begin(&[(spec.clone(), lens.clone())], &partition, &patience())
        .expect_err("one rank has no memory");
    assert!(comm.rank() == bad || error.to_string().contains(&format!("rank {bad}")), "{error}");
    let store = Store::new(Arc::clone(comm), StoreOptions::default(), &patience()).expect("a store");
    let filling = store.begin(&[(spec, lens)], &partition, &patience()).expect("memory");
    let written = match comm.rank() == bad {
        true => Err(forebay_process::Error::corrupt("this file is damaged")),
        false => Ok(()),
    };
    let error = store.finish(filling, written, &patience()).expect_err("one rank could not write");
    assert!(error.to_string().contains("this file is damaged"), "{error}");
    assert!(store.variable("x").is_err(), "what was not written by all is not there");
}

/// Ranks that give different names, types or widths are told so.
pub fn ranks_that_disagree_are_told(comm: &Arc<dyn Comm>) {
    if comm.size() == 1 {
        return;
    }
    let store = Store::new(Arc::clone(comm), StoreOptions::default(), &patience()).expect("a store");
    let row_len = if comm.rank() == 0 { 8 } else { 4 };
    let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len, runs: 1 };
    let error =
        store.begin_from_parts(&[(spec, SampleLens::even(3, 1))], &patience()).expect_err("types differ");
    assert!(error.to_string().contains("different"), "{error}");
    let width = Some(if comm.rank() == 0 { 1 } else { comm.size() });
    let error = Store::new(Arc::clone(comm), StoreOptions { width, ..StoreOptions::default() }, &patience());
    assert!(error.expect_err("widths differ").to_string().contains("width"));
    let lens = SampleLens::ragged(&[9, 1, 1, 1, 1, 1]);
    let balance = if comm.rank() == 0 { Balance::Bytes } else { Balance::Count };
    let partition = Partition::even(&lens, comm.size(), balance);
    let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: 4, runs: 1 };
    let error = store.begin(&[(spec.clone(), lens)], &partition, &patience()).expect_err("divisions differ");
    assert!(error.to_string().contains("division"), "{error}");
    let error = store.restripe(balance, &patience()).expect_err("balances differ");
    assert!(error.to_string().contains("balance"), "{error}");
    // As many rows in as many samples, and not the same ones.
    let lens = SampleLens::ragged(if comm.rank() == 0 { &[1, 2] } else { &[2, 1] });
    let partition = Partition::even(&lens, comm.size(), Balance::Count);
    let error = store.begin(&[(spec, lens)], &partition, &patience()).expect_err("lengths differ");
    assert!(error.to_string().contains("variables"), "{error}");
}

/// Samples are written anew until the seal, and never after it.
pub fn nothing_is_written_after_the_seal(comm: &Arc<dyn Comm>) {
    let store = Store::new(Arc::clone(comm), StoreOptions::default(), &patience()).expect("a store");
    let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: 4, runs: 1 };
    let mine = SampleLens::even(2, 1);
    let filling = store.begin_from_parts(&[(spec.clone(), mine.clone())], &patience()).expect("memory");
    store.finish(filling, Ok(()), &patience()).expect("all ranks wrote");
    let own = 2 * comm.rank() as u64;
    store.update("x", own + 1, &sample_bytes(own + 1, 4)).expect("its own sample");
    if comm.size() > 1 {
        let other = (own + 2) % (2 * comm.size() as u64);
        assert!(store.update("x", other, &[0; 4]).is_err(), "a sample of another rank");
    }
    store.seal(&patience()).expect("all ranks seal it");
    let variable = store.variable("x").expect("it was added");
    for rank in 0..comm.size() as u64 {
        let mut got = [0; 4];
        store.get(&variable, 2 * rank + 1, &mut got).expect("a sample");
        assert_eq!(got[..], sample_bytes(2 * rank + 1, 4));
    }
    assert!(store.update("x", own, &[0; 4]).expect_err("it is sealed").to_string().contains("sealed"));
    assert!(store.begin_from_parts(&[(spec, mine)], &patience()).is_err(), "it is sealed");
    comm.barrier(&patience()).expect("all ranks are there");
    store.close(&patience()).expect("all ranks close it");
}

/// Shards that are files of a disk give the same bytes.
pub fn shards_on_disk_read_the_same(comm: &Arc<dyn Comm>) {
    let place = ShardPlace::Disk(std::env::temp_dir());
    let store = Store::new(Arc::clone(comm), StoreOptions { place, ..StoreOptions::default() }, &patience())
        .expect("a store");
    let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: 100, runs: 1 };
    let filling = store.begin_from_parts(&[(spec, SampleLens::even(9, 1))], &patience()).expect("a file");
    let written = write_own(&filling, comm.rank(), |sample| sample_bytes(sample, 100));
    store.finish(filling, written, &patience()).expect("all ranks wrote");
    let variable = store.variable("x").expect("it was added");
    for sample in 0..9 * comm.size() as u64 {
        let mut got = [0; 100];
        store.get(&variable, sample, &mut got).expect("a sample");
        assert_eq!(got[..], sample_bytes(sample, 100));
    }
    comm.barrier(&patience()).expect("all ranks are there");
    store.close(&patience()).expect("all ranks close it");
}

/// Long enough for a loaded machine, short enough for a test that hangs.
pub fn patience() -> Wait<'static> {
    Wait::at_most(Duration::from_secs(60))
}

/// A published window whose shards hold bytes that depend on `seed` and the rank.
fn window(comm: &dyn Comm, seed: u64, len_of: impl Fn(usize) -> usize) -> Arc<dyn Window> {
    let len = len_of(comm.rank());
    let shard = Arc::new(ShardMemory::new(len as u64, &ShardPlace::Memory).expect("memory"));
    let window = comm.window(Arc::clone(&shard), &patience()).expect("a window");
    shard.write(0, &shard_bytes(seed, comm.rank(), len)).expect("within the shard");
    window.publish(&patience()).expect("all ranks publish");
    window
}

/// What is read of one rank: offsets, and where the bytes go.
type RankPieces<'a> = (usize, Vec<(u64, &'a mut [u8])>);

/// Reads all by `get`, and has what lies in shared memory read by loads as well: both must give the same.
fn read(window: &dyn Window, reads: Vec<RankPieces<'_>>) {
    let mut listed = Vec::new();
    for (rank, pieces) in reads {
        let pieces = pieces.into_iter().map(|(offset, into)| WindowPiece { offset, into }).collect();
        listed.push(WindowRead { rank, pieces, outcome: Ok(()) });
    }
    window.get(&mut listed, &patience());
    for read in listed {
        assert!(read.outcome.is_ok(), "rank {}: {:?}", read.rank, read.outcome);
        let Some(shard) = window.shared(read.rank) else { continue };
        for piece in read.pieces {
            let mut loaded = vec![0; piece.into.len()];
            shard.copy_to(piece.offset, &mut loaded).expect("within the shard");
            assert!(loaded == *piece.into, "rank {}: loads and gets differ", read.rank);
        }
    }
}

fn write_own(filling: &Filling, rank: usize, bytes: impl Fn(u64) -> Vec<u8>) -> forebay_process::Result<()> {
    filling.variables()[0].samples_of(rank).try_for_each(|sample| filling.write(0, sample, &bytes(sample)))
}

fn shard_bytes(seed: u64, rank: usize, len: usize) -> Vec<u8> {
    let seed = at(seed);
    (0..len).map(|place| byte(place * 31 + place / 251 + rank * 101 + seed * 17)).collect()
}

fn sample_bytes(sample: u64, len: usize) -> Vec<u8> {
    let sample = at(sample);
    (0..len).map(|place| byte(place * 7 + sample * 131 + 1)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "a pattern of bytes")]
fn byte(number: usize) -> u8 {
    number as u8
}

fn at(number: u64) -> usize {
    usize::try_from(number).expect("a small number")
}
