//! One rank of a run: what it works with, and what it has recorded.

use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay::{
    Error, ErrorKind, Origins, Result,
    stage::Area,
    store::{Comm, Wait},
    tier::Tiered,
};
use forebay_workload::{Mt19937, RankPosition, RankTimings, TimeDistribution, Workload};

use crate::{
    clock::RunClock,
    engine::EngineName,
    progress::ProgressView,
    trace::TraceFile,
    worker_process::{OwnCommand, WorkerEnvironment},
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
    /// Files are read by MPI-IO, whatever the workload says.
    pub(crate) mpi_io: bool,
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
    pub(crate) clock: RunClock,
    pub(crate) trace: Option<TraceFile>,
    pub(crate) random: Mt19937,
    pub(crate) timings: RankTimings,
    /// What samples are read with, once they are.
    pub(crate) reads_with: String,
    /// Where checkpoints are staged, once one was.
    pub(crate) area: Option<Arc<Area>>,
}

/// How often a wait looks whether the run was interrupted.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

impl RankRun<'_> {
    /// Which rank this is.
    pub(crate) fn at(&self) -> RankPosition {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        RankPosition { rank: count(self.comm.rank()), ranks: count(self.comm.size()) }
    }

    /// True when the user wants an end.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_interrupted)()
    }

    /// Waits for all ranks, and says how long in seconds; an interrupt ends the wait with an error.
    pub(crate) fn barrier(&self) -> Result<f64> {
        let began = Instant::now();
        if self.comm.size() > 1 {
            self.comm.barrier(&Wait::while_ranks_live().interrupted_by(&|| self.check()))?;
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

/// What an interrupted wait ends with; [`is_interruption`] knows it again.
pub(crate) fn interrupted() -> Error {
    Error::new(ErrorKind::Unavailable, INTERRUPTED)
}

const INTERRUPTED: &str = "interrupted";

/// True for the end of a wait by Ctrl-C.
pub(crate) fn is_interruption(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.to_string().contains(INTERRUPTED)
}
