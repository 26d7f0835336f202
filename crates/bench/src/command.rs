//! `forebay bench`: from the command line to the results of a run.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay::{
    DataPath, Error, ErrorKind, Launcher, Origins, Result, job_comm,
    store::{Comm, Wait},
};
use forebay_workload::{RunTimings, Workload};

use crate::{
    args::BenchArgs,
    clock::unix_now_s,
    config_file,
    engine::EngineName,
    launch_ranks,
    rank_run::RunOptions,
    run::{RunPlace, run},
    worker,
};

/// The program that runs the benchmark.
pub struct BenchHost<'a> {
    /// The command line that starts this program.
    pub program: Vec<OsString>,
    /// The arguments that it was started with.
    pub arguments: Vec<OsString>,
    /// Where files are read by engine forebay, tiers included.
    pub origins: &'a Origins,
    /// True when the user wants an end.
    pub is_interrupted: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for BenchHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.program)
    }
}

/// What a command came to.
#[derive(Debug)]
pub struct BenchOutcome {
    /// What each engine recorded, on rank 0; nothing on other ranks, and where the ranks were other processes.
    pub runs: Vec<RunTimings>,
    /// What samples were read with, for each of them.
    pub reads_with: Vec<String>,
    /// Where the results lie.
    pub folder: PathBuf,
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
        return Ok(BenchOutcome {
            runs: Vec::new(),
            reads_with: Vec::new(),
            folder: PathBuf::new(),
            ranks_code: None,
        });
    }
    let path = args.workload.as_deref().ok_or_else(|| Error::invalid("no workload"))?;
    let mut workload = config_file::read(path)?;
    if let Some(ranks) = args.ranks.filter(|ranks| *ranks > 1 && Launcher::of_process() == Launcher::None) {
        let code = launch_ranks::launch(ranks, &host.program, &host.arguments)?;
        return Ok(BenchOutcome {
            runs: Vec::new(),
            reads_with: Vec::new(),
            folder: PathBuf::new(),
            ranks_code: Some(code),
        });
    }
    let comm = job_comm(DataPath::Auto, &Wait::while_ranks_live())?;
    let folder = agree_on(&mut workload, args, &*comm)?;
    let engines = if args.engines.is_empty() { vec![EngineName::Hdf5] } else { args.engines.clone() };
    let (mut runs, mut reads_with) = (Vec::new(), Vec::new());
    for (number, engine) in engines.iter().enumerate() {
        let of_engine =
            EngineRun { workload: &workload, engine: *engine, is_first: number == 0, folder: &folder };
        if let Some((timings, with)) = of_engine.run(args, host, &comm)? {
            runs.push(timings);
            reads_with.push(with);
        }
        if (host.is_interrupted)() {
            break;
        }
    }
    write_results(&runs, &folder)?;
    Ok(BenchOutcome { runs, reads_with, folder, ranks_code: None })
}

/// One engine's run of the workload.
struct EngineRun<'a> {
    workload: &'a Workload,
    engine: EngineName,
    is_first: bool,
    folder: &'a Path,
}

impl EngineRun<'_> {
    fn run(
        &self,
        args: &BenchArgs,
        host: &BenchHost<'_>,
        comm: &Arc<dyn Comm>,
    ) -> Result<Option<(RunTimings, String)>> {
        let worker = host.program.iter().cloned().chain(["bench".into(), "--worker".into()]).collect();
        let options = RunOptions {
            engine: self.engine,
            compute: args.compute,
            cache: args.cache,
            worker,
            stage: args.stage.clone(),
            log_vfd: args.log_vfd.clone(),
        };
        let mut workload = self.workload.clone();
        // Files are generated once, whichever engines read them.
        workload.phases.generate &= self.is_first;
        let trace = args.trace.as_deref().filter(|_| self.is_first);
        let place = RunPlace {
            origins: host.origins,
            comm: &**comm,
            is_interrupted: host.is_interrupted,
            folder: self.folder,
            trace,
        };
        run(&workload, &options, &place)
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

/// Writes what was recorded to `folder`.
fn write_results(runs: &[RunTimings], folder: &Path) -> Result<()> {
    for run in runs {
        let name = format!("timings-{}.json", run.engine);
        let text = serde_json::to_vec_pretty(run)
            .map_err(|error| Error::new(ErrorKind::Bug, "timings cannot be encoded").because(error))?;
        let (part, whole) = (folder.join(format!(".{name}.part")), folder.join(&name));
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &whole));
        written.map_err(|error| Error::from_io(error).at(whole.display()))?;
    }
    Ok(())
}
