//! What the machine itself allows a loader, for `make bench-loader`: replays a table of plain offsets, without forebay.
//!
//! ```text
//! limits TABLE --mode pread|mapped|inflate [--threads N] [--batch B] [--epochs E] [--seconds S] [--pages small|large]
//!        [--fresh] [--keep]
//! ```
//!
//! `pread` and `mapped` copy the pieces of each sample into the buffers of a batch, which are reused (`--fresh`: new
//! ones for every batch). `inflate` decodes each chunk once, when the first of its samples is due, and copies samples
//! out in the order of the table; chunks whose samples are all out make room for others (`--keep`: they stay, as in a
//! loader that decodes nothing in the next epoch). Threads take whole batches in turn. There are E epochs, and more
//! until S seconds have passed since the files began to be opened. One line of JSON says how long each epoch took, and all.

mod arena;
mod inflate;
mod mapped;
mod pieces;
mod table;

use std::{
    ops::Range,
    path::PathBuf,
    process::ExitCode,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use arena::Pages;
use table::Table;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "limits TABLE --mode pread|mapped|inflate [--threads N] [--batch B] [--epochs E] [--seconds S] [--fresh] [--keep]";

struct Options {
    table: PathBuf,
    mode: String,
    threads: usize,
    batch: usize,
    epochs: usize,
    seconds: f64,
    pages: Pages,
    fresh: bool,
    keep: bool,
}

impl Options {
    fn from_args() -> Outcome<Self> {
        let mut args = std::env::args().skip(1);
        let table = args.next().ok_or(USAGE)?.into();
        let mut options = Self {
            table,
            mode: String::new(),
            threads: 1,
            batch: 64,
            epochs: 1,
            seconds: 0.0,
            pages: Pages::Small,
            fresh: false,
            keep: false,
        };
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("{name} needs a value: {USAGE}"));
            match name.as_str() {
                "--mode" => options.mode = value()?,
                "--threads" => options.threads = value()?.parse()?,
                "--batch" => options.batch = value()?.parse()?,
                "--epochs" => options.epochs = value()?.parse()?,
                "--seconds" => options.seconds = value()?.parse()?,
                "--pages" => {
                    options.pages = match value()?.as_str() {
                        "small" => Pages::Small,
                        "large" => Pages::Large,
                        _ => return Err(USAGE.into()),
                    }
                }
                "--fresh" => options.fresh = true,
                "--keep" => options.keep = true,
                _ => return Err(USAGE.into()),
            }
        }
        if options.threads == 0 || options.batch == 0 || options.epochs == 0 {
            return Err(USAGE.into());
        }
        Ok(options)
    }
}

/// What fills batches, called by several threads at once, each with a worker of its own.
trait Limit: Sync {
    type Worker: Send;
    fn worker(&self) -> Outcome<Self::Worker>;
    fn fill(&self, positions: Range<usize>, worker: &mut Self::Worker) -> Outcome<()>;
}

/// The seconds of each epoch, and when the first batch was there.
struct Times {
    epochs: Vec<f64>,
    first_batch: Instant,
}

/// Epochs until there are enough and the seconds since `begun` have passed.
fn replay<L: Limit>(limit: &L, sample_count: usize, options: &Options, begun: Instant) -> Outcome<Times> {
    let mut workers = (0..options.threads).map(|_| limit.worker()).collect::<Outcome<Vec<_>>>()?;
    let first_batch = OnceLock::new();
    let mut epochs = Vec::new();
    while epochs.len() < options.epochs || begun.elapsed().as_secs_f64() < options.seconds {
        let start = Instant::now();
        let next = AtomicUsize::new(0);
        let work = |worker: &mut L::Worker| -> Outcome<()> {
            loop {
                let from = next.fetch_add(options.batch, Ordering::Relaxed);
                if from >= sample_count {
                    return Ok(());
                }
                limit.fill(from..(from + options.batch).min(sample_count), worker)?;
                first_batch.get_or_init(Instant::now);
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            let running: Vec<_> =
                workers.iter_mut().map(|worker| scope.spawn(move || work(worker))).collect();
            running.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
        })?;
        epochs.push(start.elapsed().as_secs_f64());
    }
    Ok(Times { epochs, first_batch: *first_batch.get().ok_or("the table has no samples")? })
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A figure of `/proc/self/status`, in bytes.
fn status_len(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn run() -> Outcome<()> {
    let options = Options::from_args()?;
    let table = Table::read(&options.table)?;
    let sample_count = table.sample_count();
    arena::warm()?;
    // What was touched by then does not count.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let rss_at_start = status_len("VmRSS");
    let (start, cpu_at_start) = (Instant::now(), cpu_seconds());
    let times = match (&table, options.mode.as_str()) {
        (Table::Pieces(table), "pread" | "mapped") => {
            replay(&pieces::Copies::open(table, &options)?, sample_count, &options, start)?
        }
        (Table::Chunks(table), "inflate") => {
            let mut arena = inflate::arena(table, options.pages)?;
            replay(&inflate::Decoder::open(table, arena.bytes(), &options)?, sample_count, &options, start)?
        }
        _ => return Err("this table is not for that mode".into()),
    };
    let total = start.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu_at_start;
    println!(
        "{}",
        json!({
            "samples": sample_count,
            "epoch_s": times.epochs,
            "total_s": total,
            "first_batch_s": times.first_batch.duration_since(start).as_secs_f64(),
            "cpu_s": cpu,
            "rss_start": rss_at_start,
            "rss_peak": status_len("VmHWM"),
        })
    );
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("limits: {error}");
            ExitCode::FAILURE
        }
    }
}
