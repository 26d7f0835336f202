//! The worker's side: a process that reads samples, or writes files, for the rank that started it.
//!
//! libhdf5 is not thread safe in common builds, so what reads in parallel are processes. A worker ends when its standard input
//! does, however its rank ends.

use std::{
    io::{self, BufReader, BufWriter, Stdin, Stdout},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use forebay::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::{
    generate::{FileWriter, GenerateSetup, GeneratedFile},
    interruption::GLANCE,
    reading::sample_reader::{HyperslabReader, ReaderSetup, RecordPlace, SampleTimes},
    runtime_hdf5::RuntimeHdf5,
    workers::{
        frames::{SentError, receive, send},
        shared_batches::{SharedPlace, WorkerMemory},
    },
};

/// What a worker is for: the first message that it is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkerRole {
    /// Reads samples into shared memory.
    Read(ReaderSetup),
    /// Writes files.
    Generate(GenerateSetup),
}

/// One batch, or a part of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadTask {
    /// The samples, in order.
    pub(crate) samples: Vec<RecordPlace>,
    /// Simulated preprocessing of each, in seconds; none where it is empty.
    pub(crate) preprocess_s: Vec<f64>,
    /// Where their bytes go, one after another.
    pub(crate) into: SharedPlace,
}

/// What a worker answers.
pub(crate) type WorkerAnswer<T> = Result<T, SentError>;

/// How long each sample of a batch took, and what preprocessing took together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BatchTimes {
    pub(crate) samples: Vec<SampleTimes>,
    pub(crate) preprocess_s: f64,
    /// Which worker did it, from 0.
    pub(crate) worker: u32,
    /// When the work began, in nanoseconds of the monotonic clock of the node.
    pub(crate) began_ns: u64,
}

impl BatchTimes {
    /// The same batch when it is in memory: nothing of it is read.
    pub(crate) fn in_memory(&self) -> Self {
        let samples =
            self.samples.iter().map(|sample| SampleTimes { bytes: sample.bytes, ..Default::default() });
        Self { samples: samples.collect(), worker: self.worker, ..Self::default() }
    }
}

/// Does what it is sent until its standard input ends.
pub(crate) fn run() -> Result<()> {
    let mut channel = Channel { from: BufReader::new(io::stdin()), to: BufWriter::new(io::stdout()) };
    let Some(role) = receive::<WorkerRole>(&mut channel.from)? else { return Ok(()) };
    match role {
        WorkerRole::Read(setup) => {
            let made = RuntimeHdf5::find().and_then(|library| HyperslabReader::new(library, setup));
            let Some(mut reader) = channel.begin(made, HyperslabReader::describe)? else { return Ok(()) };
            let mut memory = WorkerMemory::default();
            channel.serve(|task: ReadTask| read_batch(&mut reader, &mut memory, &task))
        }
        WorkerRole::Generate(setup) => {
            let Some(writer) = channel.begin(FileWriter::new(setup), |_| String::new())? else {
                return Ok(());
            };
            channel.serve(|file: GeneratedFile| writer.write(&file))
        }
    }
}

struct Channel {
    from: BufReader<Stdin>,
    to: BufWriter<Stdout>,
}

impl Channel {
    /// Says whether the worker is ready; nothing where it is not.
    fn begin<T>(&mut self, made: Result<T>, describe: impl Fn(&T) -> String) -> Result<Option<T>> {
        let answer: WorkerAnswer<String> = made.as_ref().map(describe).map_err(SentError::from);
        send(&mut self.to, &answer)?;
        Ok(made.ok())
    }

    fn serve<T, A>(&mut self, mut work: impl FnMut(T) -> Result<A>) -> Result<()>
    where
        T: serde::de::DeserializeOwned,
        A: Serialize,
    {
        while let Some(task) = receive::<T>(&mut self.from)? {
            let answer: WorkerAnswer<A> = work(task).map_err(|error| SentError::from(&error));
            send(&mut self.to, &answer)?;
        }
        Ok(())
    }
}

fn read_batch(
    reader: &mut HyperslabReader,
    memory: &mut WorkerMemory,
    task: &ReadTask,
) -> Result<BatchTimes> {
    let sample_len = reader.sample_len();
    let len =
        sample_len.checked_mul(task.samples.len()).ok_or_else(|| Error::invalid("a batch is too long"))?;
    let bytes = memory.bytes(&task.into, len)?;
    // The rank ends this process where it does not want to wait.
    let preprocess = Preprocessing { seconds: &task.preprocess_s, is_over: &AtomicBool::new(false) };
    read_samples(reader, &task.samples, preprocess, bytes)
}

/// Reads `samples` into `bytes`, one after another, each followed by its preprocessing.
pub(crate) fn read_samples(
    reader: &mut HyperslabReader,
    samples: &[RecordPlace],
    preprocess: Preprocessing<'_>,
    bytes: &mut [u8],
) -> Result<BatchTimes> {
    let mut times = BatchTimes { began_ns: monotonic_ns(), ..BatchTimes::default() };
    let sample_len = reader.sample_len().max(1);
    for (number, (sample, into)) in samples.iter().zip(bytes.chunks_exact_mut(sample_len)).enumerate() {
        times.samples.push(reader.read(*sample, into)?);
        times.preprocess_s += preprocess.of(number);
    }
    Ok(times)
}

/// Reads `samples` into `bytes` together with all ranks, round by round; ranks without a sample in a round take part in it.
///
/// An error is reported after the last round: the others wait in each for this rank.
pub(crate) fn read_together(
    reader: &mut HyperslabReader,
    rounds: &[Vec<u32>],
    samples: &[RecordPlace],
    preprocess: Preprocessing<'_>,
    bytes: &mut [u8],
) -> Result<BatchTimes> {
    let mut times = BatchTimes { began_ns: monotonic_ns(), ..BatchTimes::default() };
    let (mut slots, mut outcome) = (bytes.chunks_exact_mut(reader.sample_len().max(1)), Ok(()));
    for (number, files) in rounds.iter().enumerate() {
        let mine = samples.get(number).copied();
        let into = mine.and_then(|_| slots.next()).unwrap_or_default();
        match (reader.read_round(files, mine, into), mine) {
            (Ok(read), Some(_)) => {
                times.samples.push(read);
                times.preprocess_s += preprocess.of(number);
            }
            (Ok(_), None) => {}
            (Err(error), _) => outcome = outcome.and(Err(error)),
        }
    }
    outcome.map(|()| times)
}

/// Simulated preprocessing of the samples of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preprocessing<'a> {
    /// Seconds of each sample; none where it is empty.
    pub(crate) seconds: &'a [f64],
    /// True when nobody waits for it any more.
    pub(crate) is_over: &'a AtomicBool,
}

impl Preprocessing<'_> {
    /// That of sample `number`: sleeps, and says how long it was.
    pub(crate) fn of(&self, number: usize) -> f64 {
        let wanted = self.seconds.get(number).copied().unwrap_or(0.0);
        if wanted <= 0.0 {
            return 0.0;
        }
        let (began, wanted) = (Instant::now(), Duration::try_from_secs_f64(wanted).unwrap_or_default());
        while began.elapsed() < wanted && !self.is_over.load(Relaxed) {
            thread::sleep(wanted.saturating_sub(began.elapsed()).min(GLANCE));
        }
        began.elapsed().as_secs_f64()
    }

    /// That of all samples, one after another.
    pub(crate) fn of_all(&self) -> f64 {
        (0..self.seconds.len()).map(|number| self.of(number)).sum()
    }
}

/// The monotonic clock, which all processes of a node share.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanoseconds.unwrap_or(0)
}
