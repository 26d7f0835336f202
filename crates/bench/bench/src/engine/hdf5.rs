//! libhdf5: by the rank itself, or by worker processes that fill shared memory.

use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicBool};

use forebay::{
    Error, Result,
    batch::{Arena, Buffer, MakerThreads},
};

use super::{StepBatch, StepReader, StepRequest};
use crate::{
    reading::{
        parallel_access::MpiIo,
        sample_reader::{HyperslabReader, ReaderSetup, RecordPlace},
    },
    runtime_hdf5::RuntimeHdf5,
    workers::{
        shared_batches::SharedBacking,
        worker::{BatchTimes, Preprocessing, ReadTask, WorkerRole, read_samples, read_together},
        worker_process::{OwnCommand, WorkerEnvironment, WorkerProcess},
    },
};

/// How the samples of a split are read by libhdf5.
#[derive(Clone, Debug)]
pub(crate) struct Hdf5Plan {
    /// Files and data sets.
    pub(crate) setup: ReaderSetup,
    /// By which a sample's number becomes a file and a record.
    pub(crate) samples_per_file: u64,
    /// Worker processes; 0 to read in the rank itself.
    pub(crate) workers: u32,
    /// Bytes of batches that may wait.
    pub(crate) memory: u64,
}

/// Reads by libhdf5.
#[derive(Debug)]
pub(crate) struct Hdf5StepReader {
    plan: Hdf5Plan,
    arena: Arc<Arena>,
    readers: Readers,
}

#[derive(Debug)]
enum Readers {
    /// The rank itself.
    Own(Box<Mutex<HyperslabReader>>),
    /// Processes.
    Workers { processes: Vec<Mutex<WorkerProcess>>, backing: Arc<SharedBacking> },
}

impl Hdf5StepReader {
    /// Opens the library, or starts the workers by `command`.
    pub(crate) fn start(
        plan: Hdf5Plan,
        command: &OwnCommand,
        environment: &WorkerEnvironment,
    ) -> Result<Self> {
        if plan.workers == 0 && !environment.needs_processes() {
            let reader = HyperslabReader::new(RuntimeHdf5::find()?, plan.setup.clone())?;
            let (arena, readers) = (Arena::new(plan.memory), Readers::Own(Box::new(Mutex::new(reader))));
            return Ok(Self { plan, arena, readers });
        }
        let role = WorkerRole::Read(plan.setup.clone());
        let start =
            |number| WorkerProcess::start(command, &role, &environment.of_worker(number)).map(Mutex::new);
        let processes = (0..plan.workers.max(1)).map(start).collect::<Result<Vec<_>>>()?;
        let backing = Arc::new(SharedBacking::default());
        let arena = Arena::over(plan.memory, Arc::clone(&backing) as _);
        Ok(Self { plan, arena, readers: Readers::Workers { processes, backing } })
    }

    fn place(&self, sample: u64) -> Result<RecordPlace> {
        let (file, record) = (sample / self.plan.samples_per_file, sample % self.plan.samples_per_file);
        let too_many = |_| Error::invalid("more files or records than can be counted");
        Ok(RecordPlace {
            file: u32::try_from(file).map_err(too_many)?,
            record: u32::try_from(record).map_err(too_many)?,
        })
    }

    /// The files that all ranks open together, for each sample of those that have most; in order of rank.
    fn rounds(&self, of_ranks: &[&[u64]]) -> Result<Vec<Vec<u32>>> {
        let most = of_ranks.iter().map(|samples| samples.len()).max().unwrap_or(0);
        let mut rounds = vec![Vec::new(); most];
        for (number, files) in rounds.iter_mut().enumerate() {
            for sample in of_ranks.iter().filter_map(|samples| samples.get(number)) {
                let file = self.place(*sample)?.file;
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(rounds)
    }

    fn read_into(&self, request: &StepRequest<'_>, bytes: &mut Buffer) -> Result<BatchTimes> {
        let samples = request.samples.iter().map(|sample| self.place(*sample)).collect::<Result<Vec<_>>>()?;
        match &self.readers {
            Readers::Own(reader) if self.is_together() => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                let rounds = self.rounds(request.of_ranks)?;
                read_together(&mut reader, &rounds, &samples, request.preprocess, bytes)
            }
            Readers::Own(reader) => {
                // A panic elsewhere leaves the reader as it was: it holds no half-done read.
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                read_samples(&mut reader, &samples, request.preprocess, bytes)
            }
            Readers::Workers { processes, backing } => {
                let into = backing.place(bytes)?;
                let worker = &processes[request.worker as usize % processes.len()];
                let Preprocessing { seconds, is_over } = request.preprocess;
                let task = ReadTask { samples, preprocess_s: seconds.to_vec(), into };
                worker.lock().unwrap_or_else(PoisonError::into_inner).ask_until(&task, is_over)
            }
        }
    }
}

impl StepReader for Hdf5StepReader {
    fn threads(&self) -> MakerThreads {
        if self.plan.workers == 0 { MakerThreads::Caller } else { MakerThreads::Any }
    }

    fn read(&self, request: &StepRequest<'_>) -> Result<StepBatch> {
        let (count, sample_len) = (request.samples.len() as u64, self.plan.setup.sample_len);
        let len = usize::try_from(count * sample_len).map_err(|_| Error::invalid("a batch is too long"))?;
        let mut bytes = self.arena.take(len)?;
        let times = self.read_into(request, &mut bytes)?;
        Ok(StepBatch::of_records(bytes, [count, sample_len], times))
    }

    fn is_together(&self) -> bool {
        self.plan.setup.mpi_io.is_some_and(MpiIo::is_together)
    }

    fn take_part(&self, of_ranks: &[&[u64]]) -> Result<()> {
        let Readers::Own(reader) = &self.readers else { return Ok(()) };
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = Preprocessing { seconds: &[], is_over: &AtomicBool::new(false) };
        read_together(&mut reader, &self.rounds(of_ranks)?, &[], nothing, &mut []).map(drop)
    }

    fn describe(&self) -> String {
        let of =
            |mutex: &Mutex<HyperslabReader>| mutex.lock().unwrap_or_else(PoisonError::into_inner).describe();
        match &self.readers {
            Readers::Own(reader) => of(reader),
            Readers::Workers { processes, .. } => {
                let first = processes.first();
                first.map_or_else(String::new, |worker| {
                    worker.lock().unwrap_or_else(PoisonError::into_inner).says.clone()
                })
            }
        }
    }
}
