//! One width, one length of samples, one length of batches: measured on all ranks at once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use forebay::{
    Error, ErrorKind, Result,
    process::Histogram,
    store::{
        Comm, FieldGather, PaddingRows, SampleLens, Store, StoreOptions, StoredVariable, VariableSpec, Wait,
    },
};
use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) width: usize,
    pub(super) sample_bytes: u64,
    pub(super) batch: u64,
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// What came of it, over all ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) width: usize,
    pub(super) sample_bytes: u64,
    pub(super) batch: u64,
    pub(super) get_p50_us: Option<f64>,
    pub(super) get_p95_us: Option<f64>,
    pub(super) get_p99_us: Option<f64>,
    /// Single gets at 0, 5, 10 and so on up to 100 %; none with one rank.
    #[serde(default)]
    pub(super) get_cdf_us: Vec<f64>,
    pub(super) batch_p50_us: f64,
    pub(super) batch_p99_us: f64,
    pub(super) samples_per_s: f64,
    /// Samples per second of batches, in parts of what copies from memory of its own give.
    pub(super) of_copy: f64,
    /// The part of the samples of batches that came from other hosts.
    pub(super) remote_share: f64,
}

/// What one rank measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct RankFigures {
    gets: Latencies,
    batches: Latencies,
    samples_per_s: f64,
    copies_per_s: f64,
    remote_share: f64,
}

/// Latencies of one rank, as others hear of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Latencies {
    count: u64,
    /// In nanoseconds, one for each half per cent.
    quantiles: Vec<u64>,
}

/// Steps of the quantiles that ranks tell each other: half a per cent each.
const STEPS: u32 = 200;

impl Latencies {
    fn of(histogram: &Histogram) -> Self {
        let at = |step: u32| histogram.quantile(f64::from(step) / f64::from(STEPS));
        let nanos = |took: Duration| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let quantiles = (0..=STEPS).filter_map(|step| at(step).map(nanos)).collect();
        Self { count: histogram.count(), quantiles }
    }

    /// The latency, in microseconds, below which the `part` of what all ranks measured lies; nothing where none did.
    fn joined<'a>(ranks: impl Iterator<Item = &'a Self>, part: f64) -> Option<f64> {
        let mut all: Vec<(u64, f64)> = Vec::new();
        for Self { count, quantiles } in ranks {
            let weight = *count as f64 / quantiles.len().max(1) as f64;
            all.extend(quantiles.iter().map(|nanos| (*nanos, weight)));
        }
        all.sort_by_key(|(nanos, _)| *nanos);
        let wanted = part * all.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut seen = 0.0;
        let found = all.iter().find(|(_, weight)| {
            seen += weight;
            seen >= wanted
        });
        found.or(all.last()).map(|(nanos, _)| *nanos as f64 / 1000.0)
    }
}

/// Measures `case` on every rank. Collective.
pub(super) fn measure(comm: &Arc<dyn Comm>, case: Case, wait: &Wait<'_>) -> Result<Figures> {
    let options = StoreOptions { width: Some(case.width), ..StoreOptions::default() };
    let store = Store::new(Arc::clone(comm), options, wait)?;
    let count = (case.bytes / case.sample_bytes.max(1)).max(1);
    fill(&store, case, count, wait)?;
    let variable = store.variable("samples")?;
    comm.barrier(wait)?;
    let gets = gets(&store, &variable, case)?;
    comm.barrier(wait)?;
    let (batches, samples_per_s, remote_share) = batches(&store, &variable, case)?;
    comm.barrier(wait)?;
    let copies_per_s = copies(case, count)?;
    let mine = RankFigures { gets, batches, samples_per_s, copies_per_s, remote_share };
    let told = serde_json::to_vec(&mine).map_err(|error| bug().because(error))?;
    let all = comm.all_gather(told, wait)?;
    store.close(wait)?;
    let all = all.iter().map(|told| serde_json::from_slice(told).map_err(|error| bug().because(error)));
    Ok(joined(case, &all.collect::<Result<Vec<RankFigures>>>()?))
}

/// Each rank writes its samples: every byte of one is its number's lowest.
fn fill(store: &Store, case: Case, count: u64, wait: &Wait<'_>) -> Result<()> {
    let (member, members) = store.member();
    let first = |member: usize| count * member as u64 / members as u64;
    let mine = first(member)..first(member + 1);
    let spec =
        VariableSpec { name: "samples".into(), description: Vec::new(), row_len: case.sample_bytes, runs: 1 };
    let lens = SampleLens::even(mine.end - mine.start, 1);
    let filling = store.begin_from_parts(&[(spec, lens)], wait)?;
    let len = usize::try_from(case.sample_bytes).map_err(|_| bug())?;
    let mut sample_bytes = vec![0; len];
    let written = mine.into_iter().try_for_each(|sample| {
        sample_bytes.fill(pattern(sample));
        filling.write(0, sample, &sample_bytes)
    });
    store.finish(filling, written, wait)
}

fn pattern(sample: u64) -> u8 {
    (sample % 251) as u8
}

/// Single gets of samples that other ranks hold.
fn gets(store: &Store, variable: &StoredVariable, case: Case) -> Result<Latencies> {
    let rank = store.comm().rank();
    let own = variable.samples_of(rank);
    let others = variable.sample_count() - (own.end - own.start);
    if others == 0 {
        return Ok(Latencies::default());
    }
    let mut random = Random::new(rank);
    let mut into = vec![0; usize::try_from(case.sample_bytes).map_err(|_| bug())?];
    let latencies = Histogram::new();
    let started = Instant::now();
    while started.elapsed() < case.time {
        // Of those before its own samples and those behind them.
        let pick = random.below(others);
        let sample = if pick < own.start { pick } else { pick + (own.end - own.start) };
        let began = Instant::now();
        store.get(variable, sample, &mut into)?;
        latencies.record(began.elapsed());
        check(sample, &into)?;
    }
    Ok(Latencies::of(&latencies))
}

/// Batches of samples of any rank.
fn batches(store: &Store, variable: &StoredVariable, case: Case) -> Result<(Latencies, f64, f64)> {
    let mut random = Random::new(store.comm().rank() + 1000);
    let len = usize::try_from(case.sample_bytes.saturating_mul(case.batch)).map_err(|_| bug())?;
    let mut into = vec![0; len];
    let latencies = Histogram::new();
    let before = store.stats();
    let started = Instant::now();
    let mut busy = Duration::ZERO;
    let mut done = 0u64;
    while started.elapsed() < case.time {
        let samples: Vec<_> = (0..case.batch).map(|_| Some(random.below(variable.sample_count()))).collect();
        let began = Instant::now();
        store.get_batch([FieldGather {
            variable,
            samples: &samples,
            padding: PaddingRows::Each(0),
            into: &mut into,
        }])?;
        let took = began.elapsed();
        latencies.record(took);
        busy += took;
        done += case.batch;
        let slots = samples.iter().flatten().zip(into.chunks_exact(into.len() / samples.len().max(1)));
        slots.into_iter().try_for_each(|(sample, slot)| check(*sample, slot))?;
    }
    let after = store.stats();
    let counted = |stats: &forebay::store::StoreStats| {
        [stats.own, stats.same_host, stats.remote].map(|count| count.samples)
    };
    let [own, same_host, remote] = [0, 1, 2].map(|at| counted(&after)[at] - counted(&before)[at]);
    let all = (own + same_host + remote).max(1);
    Ok((Latencies::of(&latencies), done as f64 / busy.as_secs_f64(), remote as f64 / all as f64))
}

/// As many samples from memory of this rank's own: the limit.
fn copies(case: Case, count: u64) -> Result<f64> {
    let sample_len = usize::try_from(case.sample_bytes).map_err(|_| bug())?;
    let held = count.min((case.bytes / case.sample_bytes.max(1)).max(1));
    let memory = vec![1u8; sample_len * usize::try_from(held).map_err(|_| bug())?];
    let mut into = vec![0u8; sample_len * usize::try_from(case.batch).map_err(|_| bug())?];
    let mut random = Random::new(77);
    let started = Instant::now();
    let (mut busy, mut done) = (Duration::ZERO, 0u64);
    while started.elapsed() < case.time {
        let samples: Vec<usize> =
            (0..case.batch).map(|_| usize::try_from(random.below(held)).unwrap_or(0)).collect();
        let began = Instant::now();
        for (sample, slot) in samples.iter().zip(into.chunks_exact_mut(sample_len.max(1))) {
            slot.copy_from_slice(&memory[sample * sample_len..][..sample_len]);
        }
        std::hint::black_box(&mut into);
        busy += began.elapsed();
        done += case.batch;
    }
    Ok(done as f64 / busy.as_secs_f64())
}

fn joined(case: Case, ranks: &[RankFigures]) -> Figures {
    let mean =
        |of: &dyn Fn(&RankFigures) -> f64| ranks.iter().map(of).sum::<f64>() / ranks.len().max(1) as f64;
    let get = |part: f64| Latencies::joined(ranks.iter().map(|rank| &rank.gets), part);
    let batch = |part: f64| Latencies::joined(ranks.iter().map(|rank| &rank.batches), part).unwrap_or(0.0);
    Figures {
        width: case.width,
        sample_bytes: case.sample_bytes,
        batch: case.batch,
        get_p50_us: get(0.5),
        get_p95_us: get(0.95),
        get_p99_us: get(0.99),
        get_cdf_us: (0..=20u32).filter_map(|step| get(f64::from(step) / 20.0)).collect(),
        batch_p50_us: batch(0.5),
        batch_p99_us: batch(0.99),
        samples_per_s: ranks.iter().map(|rank| rank.samples_per_s).sum(),
        of_copy: mean(&|rank| rank.samples_per_s) / mean(&|rank| rank.copies_per_s),
        remote_share: mean(&|rank| rank.remote_share),
    }
}

/// An error where a sample is not what it must be: its first and last bytes, for speed.
fn check(sample: u64, bytes: &[u8]) -> Result<()> {
    let expected = pattern(sample);
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) if *first != expected || *last != expected => Err(Error::new(
            ErrorKind::Bug,
            format!("sample {sample} holds {first} and {last} instead of {expected}"),
        )),
        _ => Ok(()),
    }
}

fn bug() -> Error {
    Error::invalid("more bytes than this machine can address")
}

/// A small generator (xorshift64*): which samples are read matters, not how random they are.
struct Random(u64);

impl Random {
    fn new(seed: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        u64::try_from((u128::from(random) * u128::from(bound)) >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_ranks_are_one_distribution() {
        let of = |micros: &[u64]| {
            let histogram = Histogram::new();
            micros.iter().for_each(|micros| histogram.record(Duration::from_micros(*micros)));
            Latencies::of(&histogram)
        };
        // Half of all gets took 1 us and half 1 ms, each on a rank of its own; a third rank measured none.
        let ranks = [of(&[1; 1000]), of(&[1000; 1000]), Latencies::default()];
        let at = |part: f64| Latencies::joined(ranks.iter(), part).expect("there are some");
        assert!(at(0.0) < 1.2 && at(0.45) < 1.2, "{}", at(0.45));
        assert!(at(0.55) > 900.0 && at(1.0) > 900.0, "{}", at(0.55));
        assert_eq!(Latencies::joined([Latencies::default()].iter(), 0.5), None);
    }
}
