//! Consecutive samples, whose bytes follow each other in each shard that holds some of them.

use std::{ops::Range, time::Instant};

use forebay_process::{Error, Result};

use crate::{
    comm::{WindowPiece, WindowRead},
    stats::Traffic,
    store::{Store, variable::StoredVariable},
    wait::Wait,
};

impl Store {
    /// The bytes of consecutive `samples`, one after the other, into memory that is as long.
    ///
    /// They are one piece for each rank that holds some of them, however many and however short they are: rows of a single byte
    /// cost no more than long ones.
    pub fn get_range(
        &self,
        variable: &StoredVariable,
        samples: Range<u64>,
        into: &mut [u8],
        wait: &Wait<'_>,
    ) -> Result<()> {
        let started = Instant::now();
        self.check_alive()?;
        check(variable, &samples, into.len())?;
        let mut traffic = Traffic::default();
        let mut reads = range_reads(variable, samples, into, self.comm().rank(), &mut traffic)?;
        if !reads.is_empty() {
            variable.window.get(&mut reads, wait);
        }
        reads.into_iter().try_for_each(|read| read.outcome)?;
        self.counters.add(&traffic);
        self.counters.gets.record(started.elapsed());
        Ok(())
    }
}

/// An error where there are no such samples, or their bytes are not `len`.
fn check(variable: &StoredVariable, samples: &Range<u64>, len: usize) -> Result<()> {
    let named = |error: Error| error.at(format!("variable '{}'", variable.name));
    let total = variable.sample_count();
    if samples.start > samples.end || samples.end > total {
        return Err(named(Error::invalid(format!("samples {samples:?} of {total}"))));
    }
    let bytes = bytes_of(variable, samples);
    if bytes != len as u64 {
        let what = format!("the samples have {bytes} bytes, and the memory for them {len}");
        return Err(named(Error::invalid(what)));
    }
    Ok(())
}

/// Bytes of consecutive samples.
fn bytes_of(variable: &StoredVariable, samples: &Range<u64>) -> u64 {
    (variable.lens.start(samples.end) - variable.lens.start(samples.start)) * variable.row_len * variable.runs
}

/// Copies what lies in memory of this host, and lists the rest by rank.
fn range_reads<'a>(
    variable: &StoredVariable,
    samples: Range<u64>,
    into: &'a mut [u8],
    own_rank: usize,
    traffic: &mut Traffic,
) -> Result<Vec<WindowRead<'a>>> {
    let (mut next, mut rest, mut remote) = (samples.start, into, Vec::new());
    while next < samples.end {
        let member = variable.partition.member_of(next);
        let held = next..variable.partition.samples_of(member).end.min(samples.end);
        let bytes = bytes_of(variable, &held);
        let (slot, after) = rest.split_at_mut(usize::try_from(bytes).unwrap_or(usize::MAX));
        let place = variable.place(next);
        let read = match variable.window.shared(place.rank) {
            Some(shard) => {
                shard.copy_to(place.offset, slot)?;
                if place.rank == own_rank { &mut traffic.own } else { &mut traffic.same_host }
            }
            None => {
                let pieces = vec![WindowPiece { offset: place.offset, into: slot }];
                remote.push(WindowRead { rank: place.rank, pieces, outcome: Ok(()) });
                &mut traffic.remote
            }
        };
        read.samples += held.end - held.start;
        read.bytes += bytes;
        (next, rest) = (held.end, after);
    }
    Ok(remote)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        check::patience,
        comm::local_comm::LocalComm,
        store::{StoreOptions, filling::VariableSpec, sample_lens::SampleLens},
    };

    fn counted_on(bytes: Range<u64>) -> Vec<u8> {
        bytes.map(|at| u8::try_from(at).expect("few bytes")).collect()
    }

    /// A store of one variable of which rank r brings samples of `lens[r]` rows: the bytes count on from 0.
    fn filled(comm: Arc<dyn crate::Comm>, lens: &[Vec<u64>], runs: u64) -> Store {
        let wait = Wait::while_ranks_live();
        let mine = &lens[comm.rank()];
        let before: u64 = lens[..comm.rank()].iter().flatten().sum::<u64>() * runs;
        let store = Store::new(comm, StoreOptions::default(), &wait).expect("a store");
        let spec = VariableSpec { name: "x".to_owned(), description: Vec::new(), row_len: 1, runs };
        let filling = store.begin_from_parts(&[(spec, SampleLens::ragged(mine))], &wait).expect("begun");
        let first = filling.variables()[0].samples_of(store.comm().rank()).start;
        let bytes = counted_on(before..before + mine.iter().sum::<u64>() * runs);
        let written = filling.write(0, first, &bytes);
        store.finish(filling, written, &wait).expect("published");
        store
    }

    #[test]
    fn a_range_over_ranks_and_hosts_is_what_they_wrote() {
        let lens = [vec![1; 7], vec![], vec![1; 40], vec![3, 0, 2, 0, 0], vec![1; 4]];
        for (hosts, runs) in [([0, 0, 0, 0, 0], 1), ([0, 1, 1, 0, 2], 1), ([0, 1, 2, 3, 4], 2)] {
            LocalComm::run(&hosts, |comm| {
                let store = filled(comm, &lens, runs);
                let x = store.variable("x").expect("there");
                for first in 0..=x.sample_count() {
                    for end in first..=x.sample_count() {
                        let expected = counted_on(x.lens.start(first) * runs..x.lens.start(end) * runs);
                        let mut into = vec![0; expected.len()];
                        store.get_range(&x, first..end, &mut into, &patience()).expect("read");
                        assert_eq!(into, expected, "{first}..{end}");
                    }
                }
                store.comm().barrier(&Wait::while_ranks_live()).expect("all have read");
            });
        }
    }

    #[test]
    fn a_range_counts_the_samples_and_bytes_it_read() {
        LocalComm::run(&[0, 0, 1], |comm| {
            let store = filled(comm, &[vec![1; 10], vec![1; 20], vec![1; 30]], 1);
            let x = store.variable("x").expect("there");
            store.get_range(&x, 5..55, &mut [0; 50], &patience()).expect("read");
            let stats = store.stats();
            let read = [stats.own.samples, stats.same_host.samples, stats.remote.samples];
            let expected = [[5, 20, 25], [20, 5, 25], [25, 0, 25]][store.comm().rank()];
            assert_eq!((read, stats.get_latency.count), (expected, 1));
            store.comm().barrier(&Wait::while_ranks_live()).expect("all have read");
        });
    }

    #[test]
    fn a_range_that_there_is_not_or_that_memory_is_not_for_is_an_error() {
        LocalComm::run(&[0], |comm| {
            let store = filled(comm, &[vec![2; 5]], 1);
            let x = store.variable("x").expect("there");
            let wrong = [(4..6, 4), (6..6, 0), (0..u64::MAX, 2), (1..3, 3), (1..3, 5)];
            for (samples, len) in wrong {
                let error =
                    store.get_range(&x, samples, &mut vec![0; len], &patience()).expect_err("refused");
                assert!(error.to_string().contains("variable 'x'"), "{error}");
            }
        });
    }
}
