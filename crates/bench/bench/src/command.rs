//! `forebay bench`: from the command line to the results of a run.

pub(crate) mod args;
pub(crate) mod bench_host;
mod config_file;
mod several;
mod summary;
mod vol_environment;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay::{
    DataPath, Error, Launcher, Result, job_comm,
    store::{Comm, Wait},
};
use forebay_workload::{FileFormat, RankPosition, RunTimings, Split, Suite, Workload, layout, order};

use crate::{
    command::{
        args::{BenchArgs, BenchCommand},
        bench_host::BenchHost,
    },
    engine::EngineName,
    progress::ProgressView,
    ranks::{clock::unix_now_s, launch, lifeline::LifelineWatch, rank_run::RunOptions},
    reading::subfiling,
    results,
    run::{RunPlace, run},
    runtime_hdf5::RuntimeHdf5,
    trace,
    workers::{worker, worker_process::WorkerEnvironment},
};

/// What a command came to.
#[derive(Debug, Default)]
pub struct BenchOutcome {
    /// What each engine recorded, on rank 0; nothing on other ranks, and where the ranks were other processes.
    pub runs: Vec<RunTimings>,
    /// What samples were read with, for each of them.
    pub reads_with: Vec<String>,
    /// What the reader of the configuration ought to know.
    pub notes: Vec<String>,
    /// Where the results lie.
    pub folder: PathBuf,
    /// What there is to print, where nothing was run.
    pub text: Option<String>,
    /// The exit code that the ranks ended with, where they were other processes.
    pub ranks_code: Option<u8>,
    /// Errors of entries of an h5bench file that are not run, on rank 0.
    pub unsupported: Vec<Error>,
    /// What went wrong after some of it was done: the error to end with, once the rest was reported.
    pub failed: Option<Error>,
}

impl BenchOutcome {
    /// True when every run ended by itself.
    pub fn is_complete(&self) -> bool {
        self.failed.is_none() && self.runs.iter().all(|run| run.complete)
    }
}

/// Runs what `args` ask for.
pub fn bench(args: &BenchArgs, host: &BenchHost<'_>) -> Result<BenchOutcome> {
    if args.worker {
        worker::run()?;
        return Ok(BenchOutcome { ranks_code: None, ..BenchOutcome::default() });
    }
    let watch = LifelineWatch::begin();
    let of_host = host.is_interrupted;
    let is_interrupted = || of_host() || watch.is_cut();
    let host = &BenchHost {
        program: host.program.clone(),
        arguments: host.arguments.clone(),
        is_interrupted: &is_interrupted,
        ..*host
    };
    match &args.command {
        Some(BenchCommand::Compare { runs, html }) => {
            let text = several::compare(runs, html.as_deref(), host.is_json)?;
            return Ok(BenchOutcome { text: Some(text), ..BenchOutcome::default() });
        }
        Some(BenchCommand::Sweep(args)) => {
            let text = several::sweep(args, host, host.is_json)?;
            return Ok(BenchOutcome { text: Some(text), ..BenchOutcome::default() });
        }
        None => {}
    }
    let suite = config_file::suite(args)?;
    let unsupported = unsupported(args, &suite);
    if suite.workloads.is_empty() && !unsupported.is_empty() {
        return Ok(BenchOutcome { unsupported, ..BenchOutcome::default() });
    }
    if let Some(vol) = &suite.vol {
        vol_environment::enter(vol, host)?;
    }
    let asked = args.ranks.or(suite.mpi.as_ref().and_then(|mpi| mpi.ranks));
    if let Some(ranks) = asked.filter(|ranks| *ranks > 1 && Launcher::of_process() == Launcher::None) {
        let code = launch::launch(ranks, &host.program, &host.arguments, &is_interrupted)?;
        return Ok(BenchOutcome { ranks_code: Some(code), ..BenchOutcome::default() });
    }
    // First of all: the ranks then find each other by the MPI that the library is linked to.
    let _library = wants_mpi_io(args, &suite).then(RuntimeHdf5::find).transpose()?;
    let comm = job_comm(DataPath::Auto, &Wait::while_ranks_live())?;
    let mut results = BenchResults {
        args,
        host,
        suite: &suite,
        comm: &comm,
        runs: Vec::new(),
        reads_with: Vec::new(),
        notes: suite.notes.clone(),
        folder: PathBuf::new(),
        begun: Vec::new(),
        not_written: None,
    };
    let done = results.run_all();
    if let Err(error) = &done
        && comm.size() > 1
        && Launcher::of_process() == Launcher::Mpi
    {
        // Other ranks may be in a call that waits for this one.
        forebay_mpi::leave_unfinalized(&error.to_string());
    }
    let BenchResults { runs, reads_with, notes, folder, not_written, .. } = results;
    if runs.is_empty() && comm.rank() == 0 && args.output.is_none() {
        // A folder of a time without results tells nobody anything; one that is not empty stays.
        let _ = fs::remove_dir(&folder);
    }
    let unsupported = if comm.rank() == 0 { unsupported } else { Vec::new() };
    let failed = done.err().or(not_written);
    Ok(BenchOutcome { runs, reads_with, notes, folder, unsupported, failed, ..BenchOutcome::default() })
}

/// The runs of a suite, as they are done.
struct BenchResults<'a> {
    args: &'a BenchArgs,
    host: &'a BenchHost<'a>,
    suite: &'a Suite,
    comm: &'a Arc<dyn Comm>,
    runs: Vec<RunTimings>,
    reads_with: Vec<String>,
    notes: Vec<String>,
    /// Directory of the results; of several workloads, that of the last.
    folder: PathBuf,
    /// The engines of runs that were begun.
    begun: Vec<EngineName>,
    /// What could not be written besides the results, the first of it.
    not_written: Option<Error>,
}

impl BenchResults<'_> {
    /// Runs all workloads and writes what they came to; of one that fails, what was done before it.
    fn run_all(&mut self) -> Result<()> {
        let suite = self.suite;
        let done = suite.workloads.iter().try_for_each(|workload| match (self.host.is_interrupted)() {
            true => Ok(()),
            false => self.run(workload),
        });
        let written = results::write(&self.runs, &self.folder);
        self.not_written = written.err().or(self.not_written.take());
        done
    }

    /// Says what of the workload is left out or has no effect here.
    fn note(&mut self, workload: &mut Workload) {
        let left_out = subfiling::suit(workload);
        self.notes.extend(left_out.into_iter().map(|what| format!("left out: {what}")));
        let is_collective = workload.hdf5.collective_meta || workload.hdf5.collective_data;
        let is_mpi = Launcher::of_process() == Launcher::Mpi;
        if is_collective && (!is_mpi || workload.reader.read_threads > 0) {
            let text = "collective operations have no effect without mpirun and with read threads";
            self.notes.push(text.to_owned());
        }
        let splits = [(workload.phases.train, Split::Train), (workload.phases.evaluate, Split::Eval)];
        let asked = splits.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, split)| split);
        self.notes.extend(asked.filter_map(|split| no_steps(workload, split, self.comm.size())));
    }

    /// Runs `workload` by each engine.
    fn run(&mut self, workload: &Workload) -> Result<()> {
        let mut workload = workload.clone();
        if let Some(directory) = &self.suite.directory {
            workload.storage.root = directory.join(&workload.storage.root).display().to_string();
            workload.output.folder = workload.output.folder.map(|folder| directory.join(folder));
        }
        workload.checkpoint.staged |= self.args.stage.is_some();
        self.note(&mut workload);
        self.folder = agree_on(&mut workload, self.args, &**self.comm)?;
        let engines = match self.args.engines.is_empty() {
            true => vec![default_engine(&workload)],
            false => self.args.engines.clone(),
        };
        // Every engine reads them.
        let (last, removes_files) =
            (engines.len() - 1, workload.phases.generate && !workload.dataset.keep_files);
        for (number, engine) in engines.into_iter().enumerate() {
            if (self.host.is_interrupted)() {
                break;
            }
            let options = self.options(engine);
            let trace = self.trace_of(engine);
            let place = RunPlace {
                origins: self.host.origins,
                tiers: self.host.tiers.filter(|_| engine == EngineName::Forebay),
                progress: self.progress(),
                comm: &**self.comm,
                is_interrupted: self.host.is_interrupted,
                folder: &self.folder,
                trace: trace.as_deref(),
                removes_files: removes_files && number == last,
            };
            let outcome = run(&workload, &options, &place)?;
            if let Some((timings, with)) = outcome.recorded {
                self.notes.extend(other_sizes(&timings));
                self.runs.push(timings);
                self.reads_with.push(with);
            }
            self.not_written = self.not_written.take().or(outcome.not_written);
            outcome.failed.map_or(Ok(()), Err)?;
            // Files are generated once, whichever engines read them.
            workload.phases.generate = false;
        }
        Ok(())
    }

    /// Where the trace of the next run goes: of several runs each has the engine in its name.
    fn trace_of(&mut self, engine: EngineName) -> Option<PathBuf> {
        let before = self.begun.iter().filter(|begun| **begun == engine).count();
        self.begun.push(engine);
        let path = self.args.trace.as_deref()?;
        if self.suite.workloads.len() * self.args.engines.len().max(1) == 1 {
            return Some(path.to_owned());
        }
        Some(trace::with_part(path, &results::engine_name(engine.as_str(), before)))
    }

    /// Progress of one rank stands for that of all.
    fn progress(&self) -> ProgressView {
        match self.comm.rank() == 0 && !self.host.is_json {
            true => ProgressView::Shown,
            false => ProgressView::Hidden,
        }
    }

    fn options(&self, engine: EngineName) -> RunOptions {
        let args = self.args;
        let worker = self.host.program.iter().cloned().chain(["bench".into(), "--worker".into()]).collect();
        let environment = WorkerEnvironment { log_vfd: args.log_vfd.clone(), first: 0 };
        RunOptions {
            engine,
            compute: args.compute,
            cache: args.cache,
            worker,
            mpi_io: args.mpi_io,
            digest: args.digest,
            stage: args.stage.clone(),
            environment,
        }
    }
}

/// What is to be known of an epoch without a step, which reads nothing.
fn no_steps(workload: &Workload, split: Split, ranks: usize) -> Option<String> {
    let at = RankPosition { rank: 0, ranks: u32::try_from(ranks).unwrap_or(u32::MAX) };
    if order::steps(workload, split, at).ok()? > 0 || split.file_count(&workload.dataset) == 0 {
        return None;
    }
    let what = if split == Split::Train { "training" } else { "evaluation" };
    let batch = order::batch_size(workload, split);
    let files = order::files_used(workload, split, at.ranks);
    let samples = files.saturating_mul(workload.dataset.num_samples_per_file);
    Some(format!(
        "{what} has no steps and reads nothing: {samples} samples of {files} files are not a batch of {batch} for each rank"
    ))
}

/// What is to be known of samples that are not of the size that the workload says.
fn other_sizes(run: &RunTimings) -> Option<String> {
    let dataset = &run.workload.dataset;
    let is_one_size = dataset.record_length_bytes_stdev <= 0.0
        && matches!(dataset.format, FileFormat::Hdf5 | FileFormat::Npz | FileFormat::Npy);
    let asked = layout::sample_bytes(dataset);
    let blocks = run.ranks.iter().flat_map(|rank| &rank.epochs).flat_map(|epoch| &epoch.blocks);
    let step = blocks.flat_map(|block| &block.steps).find(|step| step.samples > 0)?;
    let found = step.bytes / u64::from(step.samples);
    (is_one_size && found != asked).then(|| {
        format!(
            "samples have {found} bytes, and the workload says {asked}: bytes per second in the CSV and in summary.json are of the latter"
        )
    })
}

/// Returns an error for each entry of `suite` that is not run, with the file of the suite as its place.
fn unsupported(args: &BenchArgs, suite: &Suite) -> Vec<Error> {
    let file = args.workload.as_deref().unwrap_or(Path::new(""));
    suite.unsupported.iter().map(|entry| entry.error().at(file.display())).collect()
}

/// True for an MPI job of which a workload is read by MPI-IO.
fn wants_mpi_io(args: &BenchArgs, suite: &Suite) -> bool {
    let mut layouts = suite.workloads.iter().map(|workload| &workload.hdf5);
    let is_collective = layouts.any(|hdf5| hdf5.collective_meta || hdf5.collective_data || hdf5.subfiling);
    Launcher::of_process() == Launcher::Mpi && (args.mpi_io.is_some() || is_collective)
}

/// libhdf5 for HDF5 files, as the benchmarks that are replayed have it; forebay for others.
fn default_engine(workload: &Workload) -> EngineName {
    match workload.dataset.format {
        FileFormat::Hdf5 => EngineName::Hdf5,
        _ => EngineName::Forebay,
    }
}

/// What ranks must have alike: the folder of the results, and the seed of random shuffles.
fn agree_on(workload: &mut Workload, args: &BenchArgs, comm: &dyn Comm) -> Result<PathBuf> {
    let now_s = broadcast_time(comm)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a seed: any bits will do")]
    let seed = (now_s * 1e6) as u64 as u32;
    workload.train.run_seed = seed;
    let asked = args.output.as_deref().or(workload.output.folder.as_deref());
    results_folder(asked, &workload.model.name, now_s)
}

/// The time on rank 0, in seconds since 1970. Collective.
fn broadcast_time(comm: &dyn Comm) -> Result<f64> {
    let now_s = comm.broadcast(0, unix_now_s().to_le_bytes().to_vec(), &Wait::while_ranks_live())?;
    Ok(<[u8; 8]>::try_from(now_s).map_or(0.0, f64::from_le_bytes))
}

/// The folder of the results: `asked`, or one of the name and the time.
fn results_folder(asked: Option<&Path>, name: &str, now_s: f64) -> Result<PathBuf> {
    #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970")]
    let time = chrono::DateTime::from_timestamp(now_s as i64, 0).unwrap_or_default();
    let default = || Path::new("forebay-bench").join(name).join(time.format("%Y-%m-%d-%H-%M-%S").to_string());
    let folder = asked.map_or_else(default, Path::to_owned);
    fs::create_dir_all(&folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    Ok(folder)
}
