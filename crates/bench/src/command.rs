//! `forebay bench`: from the command line to the results of a run.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay::{
    DataPath, Error, Launcher, Result, job_comm,
    store::{Comm, Wait},
};
use forebay_workload::{FileFormat, RunTimings, Suite, Task, Workload};

use crate::{
    args::{BenchArgs, BenchCommand},
    bench_host::BenchHost,
    clock::unix_now_s,
    config_file,
    engine::EngineName,
    launch_ranks,
    progress::ProgressView,
    rank_run::RunOptions,
    results,
    run::{RunPlace, run},
    runtime_hdf5::RuntimeHdf5,
    several, worker,
    worker_process::WorkerEnvironment,
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
}

impl BenchOutcome {
    /// True when every run ended by itself.
    pub fn is_complete(&self) -> bool {
        self.runs.iter().all(|run| run.complete)
    }
}

/// Runs what `args` ask for.
pub fn bench(args: &BenchArgs, host: &BenchHost<'_>) -> Result<BenchOutcome> {
    if args.worker {
        worker::run()?;
        return Ok(BenchOutcome { ranks_code: None, ..BenchOutcome::default() });
    }
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
    let asked = args.ranks.or(suite.mpi.as_ref().and_then(|mpi| mpi.ranks));
    if let Some(ranks) = asked.filter(|ranks| *ranks > 1 && Launcher::of_process() == Launcher::None) {
        let code = launch_ranks::launch(ranks, &host.program, &host.arguments)?;
        return Ok(BenchOutcome { ranks_code: Some(code), ..BenchOutcome::default() });
    }
    // First of all: the ranks then find each other by the MPI that the library is linked to.
    let _library = wants_mpi_io(args, &suite).then(RuntimeHdf5::find).transpose()?;
    let comm = job_comm(DataPath::Auto, &Wait::while_ranks_live())?;
    let mut results =
        BenchResults { args, host, suite: &suite, comm: &comm, runs: Vec::new(), reads_with: Vec::new() };
    let mut folder = PathBuf::new();
    for task in &suite.tasks {
        let Task::Training(workload) = task else {
            return Err(Error::unsupported("kernels 'write' and 'read' of h5bench are not run yet"));
        };
        folder = results.run(workload)?;
    }
    let BenchResults { runs, reads_with, .. } = results;
    results::write(&runs, &folder)?;
    Ok(BenchOutcome { runs, reads_with, notes: suite.notes, folder, ..BenchOutcome::default() })
}

/// The runs of a suite, as they are done.
struct BenchResults<'a> {
    args: &'a BenchArgs,
    host: &'a BenchHost<'a>,
    suite: &'a Suite,
    comm: &'a Arc<dyn Comm>,
    runs: Vec<RunTimings>,
    reads_with: Vec<String>,
}

impl BenchResults<'_> {
    /// Runs `workload` by each engine, and gives the folder of the results.
    fn run(&mut self, workload: &Workload) -> Result<PathBuf> {
        let mut workload = workload.clone();
        if let Some(directory) = &self.suite.directory {
            workload.storage.root = directory.join(&workload.storage.root).display().to_string();
        }
        let folder = agree_on(&mut workload, self.args, &**self.comm)?;
        let engines = match self.args.engines.is_empty() {
            true => vec![default_engine(&workload)],
            false => self.args.engines.clone(),
        };
        if self.args.log_vfd.is_some() && engines.contains(&EngineName::Forebay) {
            return Err(
                Error::unsupported("--log-vfd has records of engine hdf5 alone").hint("use --engine hdf5")
            );
        }
        for (number, engine) in engines.into_iter().enumerate() {
            if (self.host.is_interrupted)() {
                break;
            }
            let options = self.options(engine);
            let place = RunPlace {
                origins: self.host.origins,
                tiers: self.host.tiers.filter(|_| engine == EngineName::Forebay),
                progress: self.progress(),
                comm: &**self.comm,
                is_interrupted: self.host.is_interrupted,
                folder: &folder,
                trace: self.args.trace.as_deref().filter(|_| number == 0),
            };
            if let Some((timings, with)) = run(&workload, &options, &place)? {
                self.runs.push(timings);
                self.reads_with.push(with);
            }
            // Files are generated once, whichever engines read them.
            workload.phases.generate = false;
        }
        Ok(folder)
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
        let vol = self.suite.vol.clone().unwrap_or_default();
        let variables = [
            ("LD_LIBRARY_PATH", vol.library),
            ("HDF5_PLUGIN_PATH", vol.path),
            ("HDF5_VOL_CONNECTOR", vol.connector),
            ("LD_PRELOAD", vol.preload),
        ];
        let variables = variables.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let environment = WorkerEnvironment { variables: variables.collect(), log_vfd: args.log_vfd.clone() };
        RunOptions {
            engine,
            compute: args.compute,
            cache: args.cache,
            worker,
            mpi_io: args.mpi_io,
            stage: args.stage.clone(),
            environment,
        }
    }
}

/// True for an MPI job of which a workload is read by MPI-IO.
fn wants_mpi_io(args: &BenchArgs, suite: &Suite) -> bool {
    let mut tasks = suite.tasks.iter();
    let is_collective = tasks.any(|task| match task {
        Task::Training(workload) => workload.hdf5.collective_meta || workload.hdf5.collective_data,
        Task::Kernel(_) => true,
    });
    Launcher::of_process() == Launcher::Mpi && (args.mpi_io || is_collective)
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
    let wait = Wait::while_ranks_live();
    let now_s = comm.broadcast(0, unix_now_s().to_le_bytes().to_vec(), &wait)?;
    let now_s = <[u8; 8]>::try_from(now_s).map_or(0.0, f64::from_le_bytes);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a seed: any bits will do")]
    let seed = (now_s * 1e6) as u64 as u32;
    workload.train.run_seed = seed;
    #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970")]
    let time = chrono::DateTime::from_timestamp(now_s as i64, 0).unwrap_or_default();
    let default = || {
        Path::new("forebay-bench")
            .join(&workload.model.name)
            .join(time.format("%Y-%m-%d-%H-%M-%S").to_string())
    };
    let folder = args.output.clone().or_else(|| workload.output.folder.clone()).unwrap_or_else(default);
    fs::create_dir_all(&folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    Ok(folder)
}
