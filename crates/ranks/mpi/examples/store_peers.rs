//! A store of the ranks of one node beside what programs without one do, for `mpirun -n 2` or more: `store_peers [--json]`.
//!
//! Every rank reads from the others at once: single samples by [`Store::get`] and by lock, get and unlock; batches of 128 by
//! [`Store::get_batch`], by copies from the same shared memory, by lock, get and unlock, and by exchanges of all ranks. Every
//! sample is compared with what it must be. Last, memory is looked at before and after a million gets.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_mpi::{AllToAll, LockingWindow, MpiComm, MpiOptions};
use forebay_store::{
    Comm, FieldGather, PaddingRows, SampleLens, ShardMemory, ShardPlace, Store, StoreOptions, VariableSpec,
    Window, check::patience,
};

/// Bytes of a rank's shard.
const SHARD: usize = 64 << 20;
const BATCH: usize = 128;
/// How long each figure is measured.
const TIME: Duration = Duration::from_millis(800);
/// Each is measured so often, in turns, and the median taken: ranks share processors.
const TURNS: usize = 5;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let comm: Arc<MpiComm> =
        Arc::new(MpiComm::world(MpiOptions::default(), &patience()).expect("ranks that are there"));
    assert!(comm.size() > 1, "run it with mpirun -n 2 or more");
    let mut figures = Vec::new();
    for (len, wanted) in [(8 << 10, 6.0), (256 << 10, 2.5)] {
        let peers = Peers::new(&comm, len);
        let (ours, theirs) = (peers.median(Peers::get_of_store), peers.median(Peers::get_under_lock));
        figures.push(Figure::new(
            format!("get of {} KiB, us: store, lock/get/unlock", len >> 10),
            ours,
            theirs,
            theirs / ours,
            wanted,
        ));
        if len == 8 << 10 {
            let store = peers.median(Peers::batch_of_store);
            let copied = peers.median(Peers::batch_by_copies);
            let locked = peers.median(Peers::batch_under_locks);
            let exchanged = peers.median(Peers::batch_by_exchange);
            let name = |other: &str| format!("batch of {BATCH} x 8 KiB, us: store, {other}");
            figures.push(Figure::new(name("copies from shared memory"), store, copied, copied / store, 0.85));
            figures.push(Figure::new(name("lock/get/unlock"), store, locked, locked / store, 1.0));
            figures.push(Figure::new(name("all to all"), store, exchanged, exchanged / store, 1.0));
            let (before, after) = peers.million_gets();
            figures.push(Figure::new(
                "memory, MiB: before, after a million gets".into(),
                before,
                after,
                before / after,
                0.99,
            ));
        }
        peers.close();
    }
    if comm.rank() != 0 {
        return;
    }
    for Figure { name, ours, theirs, ratio, wanted } in &figures {
        if json {
            println!(
                "{{\"what\": \"{name}\", \"first\": {ours:.3}, \"second\": {theirs:.3}, \"ratio\": {ratio:.3}, \"wanted\": {wanted}}}"
            );
        } else {
            let verdict = if ratio >= wanted { "reached" } else { "missed" };
            println!("{name:<60} {ours:>10.2} {theirs:>10.2}   {ratio:>6.2} of {wanted} {verdict}");
        }
    }
}

struct Figure {
    name: String,
    ours: f64,
    theirs: f64,
    ratio: f64,
    wanted: f64,
}

impl Figure {
    fn new(name: String, ours: f64, theirs: f64, ratio: f64, wanted: f64) -> Self {
        Self { name, ours, theirs, ratio, wanted }
    }
}

/// The same samples in a store, in a window that is locked for every get, and in shards that are exchanged.
struct Peers {
    comm: Arc<MpiComm>,
    store: Store,
    locking: LockingWindow,
    exchange: AllToAll,
    /// The same shards, for plain copies.
    window: Arc<dyn Window>,
    sample_len: usize,
    of_rank: usize,
}

impl Peers {
    fn new(comm: &Arc<MpiComm>, sample_len: usize) -> Self {
        let of_rank = SHARD / sample_len;
        let shard = || {
            let memory = ShardMemory::new(SHARD as u64, &ShardPlace::Memory).expect("memory");
            for sample in 0..of_rank {
                let bytes = vec![pattern(comm.rank() * of_rank + sample); sample_len];
                memory.write((sample * sample_len) as u64, &bytes).expect("within the shard");
            }
            Arc::new(memory)
        };
        let shared: Arc<dyn Comm> = Arc::<MpiComm>::clone(comm);
        let store = Store::new(shared, StoreOptions::default(), &patience()).expect("a store");
        let spec =
            VariableSpec { name: "x".into(), description: Vec::new(), row_len: sample_len as u64, runs: 1 };
        let filling = store
            .begin_from_parts(&[(spec, SampleLens::even(of_rank as u64, 1))], &patience())
            .expect("room");
        let first = (comm.rank() * of_rank) as u64;
        let written = (0..of_rank).try_for_each(|sample| {
            filling.write(
                0,
                first + sample as u64,
                &vec![pattern(comm.rank() * of_rank + sample); sample_len],
            )
        });
        store.finish(filling, written, &patience()).expect("all write");
        let window = comm.window(shard(), &patience()).expect("a window");
        window.publish(&patience()).expect("all publish");
        let locking = LockingWindow::new(comm, shard(), &patience()).expect("a window");
        let exchange = AllToAll::new(comm, shard(), sample_len);
        Self { comm: Arc::clone(comm), store, locking, exchange, window, sample_len, of_rank }
    }

    /// The median over turns of the mean over ranks, in microseconds. Collective.
    fn median(&self, measure: impl Fn(&Self, &mut Random) -> f64) -> f64 {
        let mut random = Random(0x9e37_79b9 + self.comm.rank() as u64);
        let mut turns: Vec<f64> = (0..TURNS)
            .map(|_| {
                self.comm.barrier(&patience()).expect("all are there");
                let mine = measure(self, &mut random);
                let all =
                    self.comm.all_gather(mine.to_le_bytes().to_vec(), &patience()).expect("all are there");
                let all = all.iter().map(|told| f64::from_le_bytes(std::array::from_fn(|at| told[at])));
                all.sum::<f64>() / self.comm.size() as f64
            })
            .collect();
        turns.sort_by(f64::total_cmp);
        turns[TURNS / 2]
    }

    /// A sample of another rank: who holds it, and its number there.
    fn other(&self, random: &mut Random) -> (usize, usize) {
        let rank = (self.comm.rank() + 1 + random.below(self.comm.size() - 1)) % self.comm.size();
        (rank, random.below(self.of_rank))
    }

    /// A sample of any rank.
    fn any(&self, random: &mut Random) -> (usize, usize) {
        (random.below(self.comm.size()), random.below(self.of_rank))
    }

    fn check(&self, (rank, sample): (usize, usize), bytes: &[u8]) {
        let expected = pattern(rank * self.of_rank + sample);
        assert!(bytes[0] == expected && bytes[bytes.len() - 1] == expected, "sample {sample} of rank {rank}");
    }

    /// The median time of gets, in microseconds.
    fn gets(&self, random: &mut Random, get: impl Fn((usize, usize), &mut [u8])) -> f64 {
        let mut into = vec![0; self.sample_len];
        let mut times = Vec::new();
        let started = Instant::now();
        while started.elapsed() < TIME {
            let chosen = self.other(random);
            let began = Instant::now();
            get(chosen, &mut into);
            times.push(began.elapsed());
            self.check(chosen, &into);
        }
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    }

    fn get_of_store(&self, random: &mut Random) -> f64 {
        let variable = self.store.variable("x").expect("the variable");
        self.gets(random, |(rank, sample), into| {
            self.store.get(&variable, (rank * self.of_rank + sample) as u64, into).expect("a get");
        })
    }

    fn get_under_lock(&self, random: &mut Random) -> f64 {
        self.gets(random, |(rank, sample), into| {
            self.locking.get(rank, (sample * self.sample_len) as u64, into).expect("a get");
        })
    }

    /// The median time of batches, in microseconds; `rounds` of them where ranks have to take part in each other's.
    fn batches(
        &self,
        random: &mut Random,
        rounds: Option<usize>,
        batch: impl Fn(&[(usize, usize)], &mut [u8]),
    ) -> f64 {
        let mut into = vec![0; self.sample_len * BATCH];
        let mut times = Vec::new();
        let started = Instant::now();
        while rounds.map_or_else(|| started.elapsed() < TIME, |rounds| times.len() < rounds) {
            let chosen: Vec<_> = (0..BATCH).map(|_| self.any(random)).collect();
            let began = Instant::now();
            batch(&chosen, &mut into);
            times.push(began.elapsed());
            for (chosen, sample) in chosen.iter().zip(into.chunks_exact(self.sample_len)) {
                self.check(*chosen, sample);
            }
        }
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    }

    fn batch_of_store(&self, random: &mut Random) -> f64 {
        let variable = self.store.variable("x").expect("the variable");
        self.batches(random, None, |chosen, into| {
            let samples: Vec<_> =
                chosen.iter().map(|(rank, sample)| Some((rank * self.of_rank + sample) as u64)).collect();
            let gather =
                FieldGather { variable: &variable, samples: &samples, padding: PaddingRows::Each(0), into };
            self.store.get_batch([gather]).expect("a batch");
        })
    }

    fn batch_by_copies(&self, random: &mut Random) -> f64 {
        self.batches(random, None, |chosen, into| {
            for ((rank, sample), slot) in chosen.iter().zip(into.chunks_exact_mut(self.sample_len)) {
                let shard = self.window.shared(*rank).expect("a rank of this node");
                shard.copy_to((sample * self.sample_len) as u64, slot).expect("within the shard");
            }
        })
    }

    fn batch_under_locks(&self, random: &mut Random) -> f64 {
        self.batches(random, None, |chosen, into| {
            for ((rank, sample), slot) in chosen.iter().zip(into.chunks_exact_mut(self.sample_len)) {
                self.locking.get(*rank, (sample * self.sample_len) as u64, slot).expect("a get");
            }
        })
    }

    fn batch_by_exchange(&self, random: &mut Random) -> f64 {
        self.batches(random, Some(200), |chosen, into| {
            let wanted: Vec<_> =
                chosen.iter().map(|(rank, sample)| (*rank, (sample * self.sample_len) as u64)).collect();
            self.exchange.batch(&wanted, into).expect("an exchange");
        })
    }

    /// Memory of this process before and after a million gets, in MiB.
    fn million_gets(&self) -> (f64, f64) {
        let variable = self.store.variable("x").expect("the variable");
        let (mut random, mut into) = (Random(7), vec![0; self.sample_len]);
        let mut gets = |count: usize| {
            for _ in 0..count {
                let (rank, sample) = self.other(&mut random);
                self.store.get(&variable, (rank * self.of_rank + sample) as u64, &mut into).expect("a get");
            }
        };
        // The pages of the other shards are mapped by the first gets.
        gets(200_000);
        let before = private_mib();
        gets(1_000_000);
        (before, private_mib())
    }

    fn close(self) {
        self.store.close(&patience()).expect("all close it");
        self.window.close(&patience()).expect("all close it");
        self.locking.close(&patience()).expect("all close it");
    }
}

/// Memory of this process that is not shared.
fn private_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("a kernel that tells");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().expect("a number") / 1024.0
}

#[expect(clippy::cast_possible_truncation, reason = "a pattern of bytes")]
fn pattern(sample: usize) -> u8 {
    (sample % 251) as u8
}

/// Which samples are read matters, not how random they are.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("48 bits") % bound
    }
}
