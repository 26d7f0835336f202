//! `forebay bench`, as the command line says it.

use std::path::PathBuf;

use crate::{
    engine::EngineName,
    ranks::rank_run::{ComputeKind, PageCacheState},
    reading::parallel_access::MpiRanks,
};

const EXAMPLES: &str = "\
Examples:
  forebay bench unet3d.yaml ++workload.workflow.generate_data=True     a DLIO workload, its files generated first
  forebay bench unet3d_h100 ++workload.train.epochs=1                  a preset
  forebay bench h5bench.json --engine hdf5 --engine forebay            the same reads by libhdf5 and by forebay, side by side
  mpirun -n 4 forebay bench unet3d.yaml                                one rank for each simulated accelerator
  forebay bench unet3d.yaml --ranks 4                                  the same without MPI, on this node
  forebay bench compare RESULTS-A RESULTS-B --html both.html           earlier runs side by side
  forebay bench sweep unet3d.yaml --axis read-threads=0,1,2,4          a run for each value

libhdf5 is found at run time (FOREBAY_LIBHDF5 names one). Its read threads are processes, as it is not thread safe in common \
builds. HDF5_DRIVER, HDF5_PLUGIN_PATH and HDF5_VOL_CONNECTOR have the effect that they have on any HDF5 program. Ctrl-C ends the \
run with what was measured so far, marked as incomplete, and exit code 130.";

/// What else `forebay bench` does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare results of earlier runs with the first of them.
    Compare {
        /// Folders of results, or their report.json.
        #[arg(required = true, value_name = "RESULTS")]
        runs: Vec<PathBuf>,
        /// Page with plots of all runs.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Run a workload at every point of a grid of parameters.
    Sweep(SweepArgs),
}

/// Arguments of `forebay bench sweep`.
#[derive(Debug, clap::Args)]
pub(crate) struct SweepArgs {
    /// Workload: a file or a preset, as for `forebay bench`.
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: PathBuf,

    /// Parameter and its values, such as read-threads=0,1,4: sample-size, samples-per-file, files, read-threads, batch-size,
    /// chunking, chunk-size, ranks, or any key of the workload. Points that differ in their files have a data folder each.
    #[arg(long = "axis", required = true, value_name = "NAME=VALUES")]
    pub(crate) axes: Vec<String>,

    /// Overrides as hydra has them, for every point.
    #[arg(value_name = "OVERRIDE")]
    pub(crate) overrides: Vec<String>,

    /// Engines that read, one after another at each point.
    #[arg(long = "engine", value_enum, value_name = "ENGINE")]
    pub(crate) engines: Vec<EngineName>,

    /// Ranks, as processes on this node.
    #[arg(long, value_name = "N")]
    pub(crate) ranks: Option<u32>,

    /// Output folder of the results.
    #[arg(long, value_name = "DIR", default_value = "forebay-bench/sweep")]
    pub(crate) output: PathBuf,
}

/// Arguments of `forebay bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,

    /// Workload: a file (DLIO's YAML, h5bench's JSON, TOML) or the name of a preset.
    #[arg(value_name = "WORKLOAD", required_unless_present = "worker")]
    pub(crate) workload: Option<PathBuf>,

    /// Overrides as hydra has them, such as ++workload.reader.batch_size=4.
    #[arg(value_name = "OVERRIDE")]
    pub(crate) overrides: Vec<String>,

    /// File names of the data set: h5bench, dlio2408 or dlio.
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) layout: Option<String>,

    /// Reproduce known defects of DLIO.
    #[arg(long)]
    pub(crate) like_dlio: bool,

    /// Engines that read, one after another: hdf5 is libhdf5, forebay is this program's own reader.
    #[arg(long = "engine", value_name = "ENGINE", value_enum)]
    pub(crate) engines: Vec<EngineName>,

    /// Ranks, as processes on this node; under mpirun its own count holds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) ranks: Option<u32>,

    /// Output folder of the results.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Simulated compute: sleep, or keep a processor busy.
    #[arg(long, value_enum, value_name = "KIND", default_value = "sleep")]
    pub(crate) compute: ComputeKind,

    /// Page cache before each epoch: leave it warm, drop the data set by fadvise, or drop all of it (needs root).
    #[arg(long, value_enum, value_name = "STATE", default_value = "warm")]
    pub(crate) cache: PageCacheState,

    /// Staged checkpoints: folder on a fast disk that they are written to first.
    #[arg(long, value_name = "DIR")]
    pub(crate) stage: Option<PathBuf>,

    /// Trace in DFTracer's form, for Perfetto: FILE.pfw.gz, with a file for each further rank; of several engines each has its name
    /// in that of the file.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Log VFD: adds the records of HDF5's log driver to FILE, those of further workers to FILE.1 and on; of engine forebay, its
    /// reads in the same form.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_vfd: Option<PathBuf>,

    /// MPI-IO: read by libhdf5's MPI-IO driver, as collective-meta and collective-data do too. Files are opened by all ranks
    /// together, or with --mpi-io=own by each rank alone. Needs mpirun and a libhdf5 built with MPI.
    #[arg(long, value_enum, value_name = "RANKS", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) mpi_io: Option<MpiRanks>,

    /// Checksum of all samples that were read, the same for every engine, driver and order. Costs processor time.
    #[arg(long)]
    pub(crate) digest: bool,

    #[arg(long, hide = true)]
    pub(crate) worker: bool,
}
