//! One rank of a run: what it works with, and what it has recorded.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use forebay::{
    Error, Launcher, Origins, Result,
    stage::Area,
    store::{Comm, Wait},
    tier::Tiered,
};
use forebay_workload::{Mt19937, RankPosition, RankTimings, TimeDistribution, Workload};

use crate::{
    engine::EngineName,
    interruption::{GLANCE, interrupted},
    progress::ProgressView,
    ranks::{clock::RunClock, digest::SampleDigest},
    reading::parallel_access::{MpiIo, MpiRanks},
    trace::TraceFile,
    workers::worker_process::{OwnCommand, WorkerEnvironment},
};

/// How simulated computation passes its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ComputeKind {
    /// The rank sleeps, as DLIO's does.
    #[default]
    Sleep,
    /// The rank keeps a processor busy.
    Busy,
}

/// What becomes of the page cache before each epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PageCacheState {
    /// It stays as it is.
    #[default]
    Warm,
    /// The kernel is advised to drop the files of the data set.
    Fadvise,
    /// All of the page cache is dropped, which needs root.
    Drop,
}

/// What a run is asked for besides its workload; the same on every rank.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    pub(crate) engine: EngineName,
    pub(crate) compute: ComputeKind,
    pub(crate) cache: PageCacheState,
    /// The command line that starts a worker.
    pub(crate) worker: OwnCommand,
    /// Files are read by MPI-IO, whatever the workload says, by these ranks.
    pub(crate) mpi_io: Option<MpiRanks>,
    /// Samples are checksummed.
    pub(crate) digest: bool,
    /// Where checkpoints are staged, if they are.
    pub(crate) stage: Option<PathBuf>,
    /// What workers have in their environment.
    pub(crate) environment: WorkerEnvironment,
}

/// One rank of a run.
pub(crate) struct RankRun<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) options: &'a RunOptions,
    pub(crate) origins: &'a Origins,
    pub(crate) tiers: Option<&'a Tiered>,
    pub(crate) progress: ProgressView,
    pub(crate) comm: &'a dyn Comm,
    pub(crate) is_interrupted: &'a (dyn Fn() -> bool + Sync),
    /// Ranks that read together have agreed to end, because of an interrupt that may not have reached this one.
    pub(crate) has_agreed_to_end: AtomicBool,
    /// The same for those who read for this rank, while it trains.
    pub(crate) is_training_over: Arc<AtomicBool>,
    pub(crate) clock: RunClock,
    pub(crate) trace: Option<TraceFile>,
    pub(crate) random: Mt19937,
    pub(crate) timings: RankTimings,
    /// What samples are read with, once they are.
    pub(crate) reads_with: String,
    /// The checksum of the samples that were read, where one is asked for.
    pub(crate) digest: Option<SampleDigest>,
    /// Where checkpoints are staged, once one was.
    pub(crate) area: Option<Arc<Area>>,
}

impl RankRun<'_> {
    /// Which rank this is.
    pub(crate) fn at(&self) -> RankPosition {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        RankPosition { rank: count(self.comm.rank()), ranks: count(self.comm.size()) }
    }

    /// True when the user wants an end.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_interrupted)() || self.has_agreed_to_end.load(Relaxed)
    }

    /// Waits for all ranks, and says how long in seconds; an interrupt ends the wait with an error.
    pub(crate) fn barrier(&self) -> Result<f64> {
        let began = Instant::now();
        if self.comm.size() > 1 {
            self.comm.barrier(&Wait::while_ranks_live().interrupted_by(&|| self.check()))?;
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// The same for ranks that read together: none of them leaves before all have come.
    pub(crate) fn barrier_to_the_end(&self) -> Result<f64> {
        let began = Instant::now();
        if self.comm.size() > 1 {
            self.comm.barrier(&Wait::while_ranks_live())?;
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// An error when the user wants an end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_over() { Err(interrupted()) } else { Ok(()) }
    }

    /// Simulated computation of a time drawn from `distribution`; how long it was in seconds.
    pub(crate) fn compute(&mut self, distribution: TimeDistribution) -> f64 {
        let wanted = distribution.draw(&mut self.random);
        if wanted <= 0.0 {
            return 0.0;
        }
        let began = Instant::now();
        let until = began + Duration::try_from_secs_f64(wanted).unwrap_or_default();
        while !self.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            match self.options.compute {
                _ if left.is_zero() => break,
                ComputeKind::Sleep => thread::sleep(left.min(GLANCE)),
                ComputeKind::Busy => std::hint::spin_loop(),
            }
        }
        began.elapsed().as_secs_f64()
    }
}

impl RankRun<'_> {
    /// How MPI-IO is used, if it is: by ranks of an MPI job that read their samples themselves.
    pub(crate) fn mpi_io(&self) -> Result<Option<MpiIo>> {
        let hdf5 = &self.workload.hdf5;
        let is_asked =
            self.options.mpi_io.is_some() || hdf5.collective_meta || hdf5.collective_data || hdf5.subfiling;
        if !is_asked {
            return Ok(None);
        }
        if self.options.environment.log_vfd.is_some() {
            let error = Error::invalid("HDF5's log driver stands where that of MPI-IO or subfiling would");
            return Err(error.hint("leave out --log-vfd, or collective operations and subfiling"));
        }
        let is_mpi = Launcher::of_process() == Launcher::Mpi;
        if is_mpi && self.workload.reader.read_threads == 0 {
            return Ok(Some(MpiIo {
                ranks: self.options.mpi_io.unwrap_or_default(),
                collective_meta: hdf5.collective_meta,
                collective_data: hdf5.collective_data,
                subfiling: hdf5.subfiling,
            }));
        }
        if self.options.mpi_io.is_some() || hdf5.subfiling {
            let what = if hdf5.subfiling { "HDF5's subfiling driver" } else { "MPI-IO" };
            let what = format!("{what} is for ranks of an MPI job that read their samples themselves");
            return Err(Error::invalid(what).hint("start by mpirun, and set read_threads to 0"));
        }
        // Workers are no ranks of the job, and a rank without a job is alone: collective or not is the same there.
        Ok(None)
    }
}
