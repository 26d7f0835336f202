//! The phase that generates files: each rank those of its number, by several threads or processes, only what is missing.

use std::{
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use forebay::{
    Error, ErrorKind, Result,
    store::{Wait, agree},
};
use forebay_workload::{FileFormat, GenerationTimings, layout};
use serde_json::json;

use crate::{
    dataset_files,
    generate::{FileWriter, GenerateSetup, GeneratedFile, GeneratedState, SampleShare},
    interruption::interrupted,
    phases::{generation_lock::GenerationLock, generation_record},
    ranks::rank_run::RankRun,
    reading::subfiling,
    runtime_hdf5::RuntimeHdf5,
    trace::{TraceEvent, arguments},
    workers::{
        worker::WorkerRole,
        worker_process::{OwnCommand, WorkerEnvironment, WorkerProcess},
    },
};

impl RankRun<'_> {
    /// Writes the files of this rank that are missing.
    pub(crate) fn generate(&mut self) -> Result<()> {
        if self.workload.dataset.format == FileFormat::Synthetic {
            return Ok(());
        }
        let folder = dataset_files::data_folder(self.workload);
        let lock =
            (self.comm.rank() == 0).then(|| self.begin_folder(&folder)).transpose().map(Option::flatten);
        let _lock = agree(self.comm, lock, &Wait::while_ranks_live())?;
        let start_s = self.clock.now_s();
        let setup = dataset_files::generate_setup(self.workload)?;
        let at = self.at();
        let mut timings = GenerationTimings { start_s, ..GenerationTimings::default() };
        if self.workload.hdf5.subfiling {
            let written = self.generate_together(&setup, &mut timings);
            timings.end_s = self.clock.now_s();
            self.timings.generation = Some(timings);
            self.trace_generation(timings);
            return written;
        }
        let mut missing = Vec::new();
        for file in dataset_files::generated(self.workload) {
            if layout::generator_of(file.number, at.ranks) != at.rank {
                continue;
            }
            match setup.state(&file)? {
                GeneratedState::Present => timings.files_kept += 1,
                GeneratedState::Missing => missing.push(file),
            }
        }
        let written = self.write_files(&setup, &missing);
        (timings.files_written, timings.bytes) = written.counts;
        timings.end_s = self.clock.now_s();
        self.timings.generation = Some(timings);
        self.trace_generation(timings);
        written.outcome?;
        self.barrier().map(drop)
    }

    /// Files of the subfiling driver, which all ranks write together, one after another.
    fn generate_together(&self, setup: &GenerateSetup, timings: &mut GenerationTimings) -> Result<()> {
        let wait = Wait::while_ranks_live();
        let Some(mpi_io) = self.mpi_io()? else { return Ok(()) };
        let library = RuntimeHdf5::find()?;
        let access = library.access_list(mpi_io)?;
        let at = self.at();
        let share = SampleShare { access: access.id(), rank: at.rank.into(), ranks: at.ranks.into() };
        for file in dataset_files::generated(self.workload) {
            // Rank 0 looks, for all: they must go the same way.
            let begun = || -> Result<GeneratedState> {
                let state = subfiling::state(&file.path)?;
                if state == GeneratedState::Missing {
                    self.check()?;
                    subfiling::begin(&file.path)?;
                }
                Ok(state)
            };
            let state =
                agree(self.comm, if at.rank == 0 { begun() } else { Ok(GeneratedState::Missing) }, &wait)?;
            let is_missing = vec![u8::from(state == GeneratedState::Missing)];
            if self.comm.broadcast(0, is_missing, &wait)? == [0] {
                timings.files_kept += u64::from(at.rank == 0);
                continue;
            }
            agree(self.comm, library.write_file_together(&file, &setup.storage, &share), &wait)?;
            agree(self.comm, if at.rank == 0 { subfiling::end(&file.path) } else { Ok(()) }, &wait)?;
            timings.files_written += u64::from(at.rank == 0);
            timings.bytes += if at.rank == 0 { file.data_len() } else { 0 };
        }
        Ok(())
    }

    /// Makes the folders of the data set, and keeps other runs from generating there; nothing where all files are there already, in
    /// a folder that cannot be written.
    fn begin_folder(&self, folder: &Path) -> Result<Option<GenerationLock>> {
        let held = match GenerationLock::take(folder) {
            Err(error) if error.kind() == ErrorKind::Denied && self.has_all_files()? => {
                generation_record::check(folder, self.workload)?;
                return Ok(None);
            }
            held => held?,
        };
        let dataset = &self.workload.dataset;
        // DLIO lists both, whatever a workload reads.
        for split in [&dataset.train_folder, &dataset.eval_folder] {
            let path = folder.join(split);
            std::fs::create_dir_all(&path).map_err(|error| Error::from_io(error).at(path.display()))?;
        }
        generation_record::claim(folder, self.workload)?;
        Ok(Some(held))
    }

    /// True when nothing is left to generate.
    fn has_all_files(&self) -> Result<bool> {
        if self.workload.hdf5.subfiling {
            return Ok(false);
        }
        let setup = dataset_files::generate_setup(self.workload)?;
        for file in dataset_files::generated(self.workload) {
            if setup.state(&file)? == GeneratedState::Missing {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_files(&self, setup: &GenerateSetup, files: &[GeneratedFile]) -> GenerateTally {
        let writers = writer_count(self.comm.size(), files.len());
        let queue = FileQueue { files, next: AtomicUsize::new(0), is_over: AtomicBool::new(false) };
        let bar = self.progress.files(files.len() as u64);
        let done = Mutex::new(GenerateTally { counts: (0, 0), outcome: Ok(()) });
        let stop = || self.is_over();
        let record = |file: &GeneratedFile, outcome: Result<()>| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(()) => {
                    bar.add(1);
                    done.counts.0 += 1;
                    done.counts.1 += file.data_len();
                }
                Err(error) => {
                    queue.is_over.store(true, Relaxed);
                    done.outcome = std::mem::replace(&mut done.outcome, Ok(())).and(Err(error));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..writers {
                scope.spawn(|| {
                    let begun = FileGenerator::begin(setup, &self.options.worker, writers);
                    let mut maker = match begun {
                        Ok(maker) => maker,
                        Err(error) => return record_failure(&done, &queue, error),
                    };
                    while let Some(file) = queue.take(&stop) {
                        record(file, maker.write(file));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() && done.outcome.is_ok() {
            done.outcome = Err(interrupted());
        }
        done
    }

    fn trace_generation(&mut self, timings: GenerationTimings) {
        if let Some(trace) = &mut self.trace {
            trace.add(TraceEvent {
                name: "generate",
                category: "data_generator",
                worker: 0,
                start_s: timings.start_s,
                took_s: timings.end_s - timings.start_s,
                arguments: arguments(json!({ "files": timings.files_written, "bytes": timings.bytes })),
            });
        }
    }
}

/// Files that were written, their bytes, and what went wrong first.
struct GenerateTally {
    counts: (u64, u64),
    outcome: Result<()>,
}

fn record_failure(done: &Mutex<GenerateTally>, queue: &FileQueue<'_>, error: Error) {
    queue.is_over.store(true, Relaxed);
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    done.outcome = std::mem::replace(&mut done.outcome, Ok(())).and(Err(error));
}

/// Files that writers take one by one.
struct FileQueue<'a> {
    files: &'a [GeneratedFile],
    next: AtomicUsize,
    is_over: AtomicBool,
}

impl FileQueue<'_> {
    fn take(&self, stop: &dyn Fn() -> bool) -> Option<&GeneratedFile> {
        if self.is_over.load(Relaxed) || stop() {
            return None;
        }
        self.files.get(self.next.fetch_add(1, Relaxed))
    }
}

/// Writes files: on this thread, or in a process where libhdf5 would be called by several threads.
enum FileGenerator {
    Own(Box<FileWriter>),
    Process(Box<WorkerProcess>),
}

impl FileGenerator {
    fn begin(setup: &GenerateSetup, command: &OwnCommand, writers: usize) -> Result<Self> {
        if setup.format == FileFormat::Hdf5 && writers > 1 {
            let worker = WorkerProcess::start(
                command,
                &WorkerRole::Generate(setup.clone()),
                &WorkerEnvironment::default(),
            )?;
            return Ok(Self::Process(Box::new(worker)));
        }
        Ok(Self::Own(Box::new(FileWriter::new(setup.clone())?)))
    }

    fn write(&mut self, file: &GeneratedFile) -> Result<()> {
        match self {
            Self::Own(writer) => writer.write(file),
            Self::Process(worker) => worker.ask(file),
        }
    }
}

/// How many files a rank writes at once: as many as it has processors to itself.
fn writer_count(ranks: usize, files: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    (processors / ranks.max(1)).clamp(1, 8).min(files.max(1))
}
