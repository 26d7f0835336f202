//! Reads of one rank from the others over TCP: batches of random samples, then single ones. One process per rank:
//!
//! ```text
//! tcp_reads RANK SIZE FOLDER ADDRESS_OF_RANK_0 [SECONDS [SAMPLE_BYTES [BATCH]]]
//! tcp_reads RANK SIZE FOLDER ADDRESS_OF_RANK_0 gather
//! ```
//!
//! With `gather` the ranks tell each other 8 MiB again and again, until that is an error.
//!
//! Rank 0 reads and prints a line of JSON; the folder is where the ranks find each other. Every rank is a host of its own.

#![expect(clippy::panic, clippy::cast_possible_truncation, reason = "a benchmark of small numbers")]

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_store::{Comm, JobName, ShardMemory, ShardPlace, Wait, Window, WindowPiece, WindowRead};
use forebay_tcp::{FolderRendezvous, TcpComm, TcpListen, TcpOptions};

struct Job {
    rank: usize,
    size: usize,
    seconds: f64,
    sample_len: usize,
    batch: usize,
}

/// Bytes of a shard: more than the caches of a processor hold.
const SHARD_LEN: u64 = 256 << 20;

fn patience() -> Wait<'static> {
    Wait::at_most(Duration::from_secs(60))
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [rank, size, folder, master, rest @ ..] = &arguments[..] else { panic!("see the head of this file") };
    let is_gathering = rest.first().is_some_and(|work| work == "gather");
    let number = |index: usize, default: f64| match rest.get(index).filter(|_| !is_gathering) {
        Some(text) => text.parse().expect("a number"),
        None => default,
    };
    let job = Job {
        rank: rank.parse().expect("a rank"),
        size: size.parse().expect("a number of ranks"),
        seconds: number(0, 5.0),
        sample_len: number(1, 8192.0) as usize,
        batch: number(2, 128.0) as usize,
    };
    let options = TcpOptions {
        rank: job.rank,
        size: job.size,
        job: JobName::new("tcp-reads"),
        listen: TcpListen::Toward(master.clone(), 29500),
        secret_file: None,
        host: Some(format!("host-{rank}")),
    };
    let comm = TcpComm::new(&options, &FolderRendezvous::new(folder), &patience()).expect("all ranks come");
    if is_gathering {
        let error = loop {
            let gathered = comm.all_gather(vec![7; 8 << 20], &Wait::while_ranks_live());
            if let Err(error) = gathered {
                break error;
            }
        };
        panic!("{error}");
    }
    let shard = Arc::new(ShardMemory::new(SHARD_LEN, &ShardPlace::Memory).expect("memory"));
    let page: Vec<u8> = (0..1 << 20).map(|at: usize| (at * 7 + job.rank) as u8).collect();
    (0..SHARD_LEN / page.len() as u64).for_each(|at| shard.write(at << 20, &page).expect("within the shard"));
    let window = comm.window(shard, &patience()).expect("a window");
    window.publish(&patience()).expect("all publish");
    if job.rank == 0 {
        measure(&job, &*window);
    }
    comm.barrier(&Wait::while_ranks_live()).expect("all come");
    window.close(&patience()).expect("all close");
}

fn measure(job: &Job, window: &dyn Window) {
    let mut samples = Samples { state: 88172645463325252, per_shard: SHARD_LEN / job.sample_len as u64, job };
    let mut into = vec![0u8; job.batch * job.sample_len];
    let (mut batches, started) = (0u64, Instant::now());
    let until = Duration::from_secs_f64(job.seconds);
    while started.elapsed() < until {
        samples.read(window, &mut into);
        batches += 1;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let bytes = batches as f64 * into.len() as f64;
    let mut single = vec![0u8; job.sample_len];
    let mut times: Vec<f64> = (0..20_000)
        .map(|_| {
            let started = Instant::now();
            samples.read(window, &mut single);
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    println!(
        "{{\"gbit_per_s\": {:.3}, \"samples_per_s\": {:.0}, \"batches\": {batches}, \"p50_us\": {:.1}, \"p95_us\": {:.1}, \"p99_us\": {:.1}}}",
        bytes * 8e-9 / elapsed,
        batches as f64 * job.batch as f64 / elapsed,
        at(0.5),
        at(0.95),
        at(0.99)
    );
}

struct Samples<'a> {
    state: u64,
    per_shard: u64,
    job: &'a Job,
}

impl Samples<'_> {
    /// A number that nobody foresees (xorshift).
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Fills `into` with random samples of the other ranks, by one call.
    fn read(&mut self, window: &dyn Window, into: &mut [u8]) {
        let mut reads: Vec<WindowRead<'_>> =
            (1..self.job.size).map(|rank| WindowRead { rank, pieces: Vec::new(), outcome: Ok(()) }).collect();
        for into in into.chunks_mut(self.job.sample_len) {
            let number = self.next();
            let place = (number >> 20) % self.per_shard * self.job.sample_len as u64;
            let peer = number as usize % reads.len();
            reads[peer].pieces.push(WindowPiece { offset: place, into });
        }
        reads.retain(|read| !read.pieces.is_empty());
        window.get(&mut reads, &patience());
        for read in &reads {
            if let Err(error) = &read.outcome {
                panic!("{error}");
            }
            for piece in &read.pieces {
                let expected = ((piece.offset % (1 << 20)) as usize * 7 + read.rank) as u8;
                assert_eq!(piece.into[0], expected, "wrong bytes");
            }
        }
    }
}
