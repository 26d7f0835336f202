//! HDF5 against the limit and against h5py, in one interleaved run: `make bench`.
//!
//! The limit of stored values is a plain `pread` loop. Every
//! round runs every contestant once, and the best round of each counts, so that a noisy machine harms all alike.

use std::{
    fs::File,
    hint::black_box,
    io::{BufRead, BufReader, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay::{Container, FileOrigin, IndexCache, Locator, Opened, Selection, Variable, container::Extents};

const ROUNDS: usize = 7;
const ROW_LEN: usize = 8192;
const ROW_COUNT: u64 = 32768;
const ROWS_READ: usize = 60_000;
const BATCH: usize = 64;

fn main() {
    let python = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".into());
    let folder = std::env::var_os("FOREBAY_BENCH_DIR")
        .map_or_else(|| std::env::temp_dir().join("forebay-bench"), PathBuf::from);
    let script = Path::new("benches/peer.py");
    let made = Command::new(&python).arg(script).arg("make").arg(&folder).status().expect("python runs");
    assert!(made.success(), "peer.py could not make its files; `make bench` installs what it needs");
    let mut peer = Peer::start(&python, script, &folder);
    let bench = Bench { folder };
    println!(
        "{} rounds, best of each; {} cores\n",
        ROUNDS,
        std::thread::available_parallelism().map_or(1, Into::into)
    );
    bench.rows(&mut peer);
    bench.samples(&mut peer);
    bench.variables(&mut peer);
    bench.tables(&mut peer);
}

/// h5py in a process of its own, asked job by job.
struct Peer {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &str, script: &Path, folder: &Path) -> Self {
        let mut child = Command::new(python)
            .args([script.as_os_str(), "serve".as_ref(), folder.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        let ask = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, ask, answers }
    }

    fn time(&mut self, job: &str) -> Duration {
        writeln!(self.ask, "{job}").expect("h5py listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("h5py answers");
        Duration::from_secs_f64(line.trim().parse().expect("seconds"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A contestant and its best time so far.
struct Entry<'a> {
    name: &'a str,
    run: Box<dyn FnMut(&mut Peer) -> Duration + 'a>,
    best: Duration,
}

fn entry<'a>(name: &'a str, mut run: impl FnMut() + 'a) -> Entry<'a> {
    let timed = move |_: &mut Peer| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    Entry { name, run: Box::new(timed), best: Duration::MAX }
}

fn peer_entry<'a>(name: &'a str, job: &'a str) -> Entry<'a> {
    Entry { name, run: Box::new(move |peer| peer.time(job)), best: Duration::MAX }
}

/// Runs all entries in turn, and prints what each does per second, beside the first.
fn race(title: &str, unit: &str, amount: f64, entries: &mut [Entry<'_>], peer: &mut Peer) {
    for _ in 0..ROUNDS {
        for entry in entries.iter_mut() {
            entry.best = entry.best.min((entry.run)(peer));
        }
    }
    let first = entries[0].best.as_secs_f64();
    println!("{title}\n{:<44}{:>14}{:>10}", "", unit, "ratio");
    for entry in entries.iter() {
        let seconds = entry.best.as_secs_f64();
        println!("{:<44}{:>14.0}{:>10.2}", entry.name, amount / seconds, first / seconds);
    }
    println!();
}

struct Bench {
    folder: PathBuf,
}

/// Row numbers that jump about, the same for all.
fn random_rows(count: usize) -> Vec<u64> {
    let mut state = 88_172_645_463_325_252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % ROW_COUNT
    };
    (0..count).map(|_| next()).collect()
}

/// Runs `work` on equal parts of `rows` in `threads` threads.
fn share(rows: &[u64], threads: usize, work: impl Fn(&[u64]) + Sync) {
    std::thread::scope(|scope| {
        for part in rows.chunks(rows.len().div_ceil(threads)) {
            scope.spawn(|| work(part));
        }
    });
}

impl Bench {
    fn open(&self, name: &str) -> Opened {
        forebay::open(Arc::new(FileOrigin::under(&self.folder)), &Locator::new(name), None).expect("it opens")
    }

    fn rows(&self, peer: &mut Peer) {
        let opened = self.open("rows.h5");
        let variable = opened.container().variable("x").expect("x");
        let start = match &variable.extents {
            Extents::Chunks(table) => table.get(0).expect("it was written").range.start,
            _ => unreachable!("a contiguous variable has an extent"),
        };
        let file = File::open(self.folder.join("rows.h5")).expect("it opens");
        let rows = random_rows(ROWS_READ);
        let raw = |rows: &[u64]| {
            let mut batch = vec![0; BATCH * ROW_LEN];
            for some in rows.chunks(BATCH) {
                for (row, into) in some.iter().zip(batch.chunks_exact_mut(ROW_LEN)) {
                    file.read_exact_at(into, start + row * ROW_LEN as u64).expect("a row");
                }
                black_box(&batch);
            }
        };
        let batched = |rows: &[u64]| {
            let mut batch = vec![0; BATCH * ROW_LEN];
            for some in rows.chunks(BATCH) {
                opened.read_rows(variable, some, &mut batch[..some.len() * ROW_LEN]).expect("rows");
                black_box(&batch);
            }
        };
        let single = |rows: &[u64]| {
            let mut into = vec![0; ROW_LEN];
            for row in rows {
                let selection = Selection::from_ranges(&[*row..row + 1, 0..ROW_LEN as u64]);
                opened.read_into(variable, &selection, &mut into).expect("a row");
                black_box(&into);
            }
        };
        let amount = ROWS_READ as f64;
        let job = format!("rows {ROWS_READ}");
        race(
            "contiguous, 8 KiB rows in random order, 1 thread",
            "rows/s",
            amount,
            &mut [
                entry("raw pread loop", || raw(&rows)),
                entry("forebay, 64 rows per call", || batched(&rows)),
                entry("forebay, 1 row per call", || single(&rows)),
                peer_entry("h5py, 1 row per call", &job),
            ],
            peer,
        );
        race(
            "contiguous, 8 KiB rows in random order, 2 threads",
            "rows/s",
            amount,
            &mut [
                entry("raw pread loop", || share(&rows, 2, raw)),
                entry("forebay, 64 rows per call", || share(&rows, 2, batched)),
                entry("forebay, 1 row per call", || share(&rows, 2, single)),
            ],
            peer,
        );
    }

    fn samples(&self, peer: &mut Peer) {
        let opened = self.open("samples.h5");
        let variable = opened.container().variable("x").expect("x");
        let all = Selection::all(&variable.grid.shape);
        let len = usize::try_from(variable.logical_len()).expect("fits");
        let (mut one_out, mut two_out) = (vec![0; len], vec![0; len]);
        let pool = |count| rayon::ThreadPoolBuilder::new().num_threads(count).build().expect("a pool");
        let (one, two) = (pool(1), pool(2));
        race(
            "gzip-4 + shuffle, (4096, 64, 64) f32 in chunks of 16, read whole",
            "MB/s",
            len as f64 / 1e6,
            &mut [
                peer_entry("h5py", "samples"),
                entry("forebay, 1 thread", || {
                    one.install(|| opened.read_into(variable, &all, &mut one_out)).expect("values");
                }),
                entry("forebay, 2 threads", || {
                    two.install(|| opened.read_into(variable, &all, &mut two_out)).expect("values");
                }),
            ],
            peer,
        );
        assert_eq!(one_out, two_out, "both read the same");
    }

    fn variables(&self, peer: &mut Peer) {
        let opened = self.open("variables.h5");
        let variables = &opened.container().variables;
        let read = |variable: &Variable| {
            let shape = &variable.grid.shape;
            let mut chunk = vec![0; usize::try_from(variable.chunk_len()).expect("fits")];
            for first in (0..shape[0]).step_by(4) {
                let selection = Selection::from_ranges(&[first..first + 4, 0..shape[1], 0..shape[2]]);
                opened.read_into(variable, &selection, &mut chunk).expect("a chunk");
                black_box(&chunk);
            }
        };
        race(
            "20 variables of one file, gzip + shuffle, chunk by chunk",
            "MB/s",
            variables.iter().map(Variable::logical_len).sum::<u64>() as f64 / 1e6,
            &mut [
                entry("forebay, 1 thread, one variable after another", || variables.iter().for_each(read)),
                entry("forebay, 20 threads, one for each", || {
                    std::thread::scope(|scope| {
                        for variable in variables {
                            scope.spawn(|| read(variable));
                        }
                    });
                }),
            ],
            peer,
        );
    }

    fn tables(&self, peer: &mut Peer) {
        println!("100,000 chunks: from the path to the chunk table, milliseconds");
        let command =
            std::env::var_os("FOREBAY_BIN").expect("FOREBAY_BIN is the command; `make bench` builds it");
        let columns = ["index", "inspect, cold", "open, cold", "open, warm", "by saved index", "h5py"];
        println!("{}", columns.map(|column| format!("{column:<16}")).concat());
        for name in ["tree1.h5", "fixed.h5", "extensible.h5", "tree2.h5"] {
            let path = self.folder.join(name);
            let kept = tempfile::tempdir().expect("a folder");
            let cache = IndexCache::at(kept.path().join("index"));
            let open = |cache: Option<&IndexCache>| {
                let start = Instant::now();
                let opened = forebay::open(
                    Arc::new(FileOrigin::new()),
                    &Locator::new(path.to_str().expect("text")),
                    cache,
                );
                let taken = start.elapsed();
                assert_eq!(chunk_count(opened.expect("it opens").container()), 100_000);
                taken
            };
            let forget = || {
                let file = File::open(&path).expect("it opens");
                let advice = rustix::fs::Advice::DontNeed;
                rustix::fs::fadvise(&file, 0, None, advice).expect("its pages may be forgotten");
            };
            let inspect = || {
                let start = Instant::now();
                let done = Command::new(&command).arg("inspect").arg(&path).arg("--no-index").output();
                assert!(done.expect("the command runs").status.success());
                start.elapsed()
            };
            open(Some(&cache));
            let mut best = [Duration::MAX; 5];
            for _ in 0..ROUNDS {
                forget();
                let inspected = inspect();
                forget();
                let (cold, warm, saved) = (open(None), open(None), open(Some(&cache)));
                let h5py = peer.time(&format!("table {name}"));
                for (best, time) in best.iter_mut().zip([inspected, cold, warm, saved, h5py]) {
                    *best = time.min(*best);
                }
            }
            let row = best.map(|time| format!("{:<16.1}", time.as_secs_f64() * 1e3)).concat();
            println!("{:<16}{row}", name.trim_end_matches(".h5"));
        }
    }
}

fn chunk_count(container: &Container) -> usize {
    container
        .variables
        .iter()
        .map(|variable| match &variable.extents {
            Extents::Chunks(table) => table.len(),
            _ => 0,
        })
        .sum()
}
