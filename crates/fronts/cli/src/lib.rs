//! The `forebay` command, as a library: the program `forebay` and the Python package's command both call [`run`].
//!
//! | module | content |
//! |---|---|
//! | `inspect` | what is in a file, and what reading it at random costs: facts, a verdict, a tree |
//! | `dump` | a variable's values, as text, raw bytes or a checksum |
//! | `convert` | variables written as a Zarr store or an NPY file |
//! | `load` | epochs run over a set of samples, and what came of it |
//! | `plan` | what epochs will cost, without running them; what would make them cheaper; what each policy of tiers would read |
//! | `simulate` | a folder shown as a slow file system (feature `fuse`, on Linux); a store as a larger machine would have it |
//! | `mount` | a folder shown elsewhere, read through tiers (feature `fuse`, on Linux) |
//! | `bench` | how training reads and checkpoints, replayed; the crate `bench` does it (feature `replay`) |
//! | `store_bench` | how fast samples come from the memory of other ranks |
//! | `tier` | copies made before the job reads |
//! | `stage`, `recover` | staged writes on their way, and those of killed processes |
//! | `config` | the configuration in force, and the flags that change it |
//! | `doctor` | what forebay would use on this machine, and why |
//! | `hdf5_env`, `run` | HDF5 programs with the plug-ins: the variables; a program started with them, or with its files on tiers |
//! | `args` | arguments of several commands: the set and the loader, paths, times and bandwidths |
//! | `output` | standard output, whose reader may leave; values, sizes and tables as text; colour; progress bars |
//! | `partial_file` | a file that appears when it is whole |
//! | `exit`, `interrupt` | error kinds as exit codes; Ctrl-C |

mod args;
#[cfg(feature = "replay")]
mod bench;
mod config;
mod convert;
mod doctor;
mod dump;
mod exit;
mod hdf5_env;
mod inspect;
mod interrupt;
mod load;
#[cfg(all(feature = "fuse", target_os = "linux"))]
mod mount;
mod output;
mod partial_file;
mod plan;
mod recover;
mod run;
mod simulate;
mod stage;
mod store_bench;
mod tier;

use std::{
    cell::Cell,
    ffi::OsString,
    io::{self, Write},
};

use clap::{CommandFactory, Parser, Subcommand};
use forebay::{Error, IndexCache, Locator, Opened, Result};

use crate::output::color::{ColorMode, Paint};

/// Feeds AI training from scientific data, in place.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Neither use nor write saved indexes of files.
    #[arg(long, global = true)]
    no_index: bool,

    /// Threads that read and decode [default: one per core].
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Answer in JSON.
    #[arg(long, global = true)]
    json: bool,

    /// When to colour the output.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorMode,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what is in a file, and what reading it at random costs.
    Inspect(inspect::InspectArgs),
    /// Print a variable's values, or their bytes or checksum.
    Dump(dump::DumpArgs),
    /// Write variables as a Zarr store or an NPY file.
    Convert(convert::ConvertArgs),
    /// Run epochs over a set of samples, and say how fast they were and what held them up.
    Load(Box<load::LoadArgs>),
    /// Say what epochs over a set of samples will cost, without running them.
    Plan(Box<plan::PlanArgs>),
    /// Show a folder as a slow file system, and count what is read from it; or predict the speed of a distributed store.
    Simulate(simulate::SimulateArgs),
    /// Show a folder elsewhere, read through tiers, to programs that nothing can be loaded into.
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    Mount(Box<mount::MountArgs>),
    /// Measure how fast samples come from the memory of other ranks; run it under mpirun.
    StoreBench(store_bench::StoreBenchArgs),
    /// Replay how training reads and checkpoints (DLIO, MLPerf Storage, h5bench), and report how fast it went.
    #[cfg(feature = "replay")]
    Bench(Box<bench::BenchCommandArgs>),
    /// Not in this build: replay how training reads and checkpoints.
    #[cfg(not(feature = "replay"))]
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        /// All arguments of `bench` in a build that has it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<OsString>,
    },
    /// Copy files to tiers before a job reads them; list and remove copies.
    Tier(Box<tier::TierArgs>),
    /// List staged writes, wait for them, hold them back or let them go on.
    Stage(stage::StageArgs),
    /// Finish or discard the staged writes of processes that were killed.
    Recover(recover::RecoverArgs),
    /// Print the configuration in force, and where each value comes from.
    Config(config::ConfigCommandArgs),
    /// Say what forebay would use on this machine, and why.
    Doctor(Box<doctor::DoctorArgs>),
    /// Run a program with its files on tiers, or with the HDF5 plug-ins, without a change to it.
    Run(Box<run::RunArgs>),
    /// Print the lines by which a shell gives HDF5 programs the plug-ins, and try them.
    Hdf5Env(Box<hdf5_env::Hdf5EnvArgs>),
    #[command(hide = true)]
    Hdf5Try(hdf5_env::Hdf5TryArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// What all commands share.
#[derive(Debug)]
struct Context {
    json: bool,
    threads: Option<u16>,
    index: Option<IndexCache>,
    paint: Paint,
    /// The command line that runs this command again.
    program: Vec<OsString>,
    /// The arguments after it.
    arguments: Vec<OsString>,
    /// The error that ends the command is already part of its JSON.
    error_was_shown: Cell<bool>,
}

impl Context {
    fn open(&self, at: &Locator) -> Result<Opened> {
        forebay::open_file_with(at.as_str(), self.index.as_ref())
    }
}

fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut script);
    let mut out = output::stdout();
    out.write_all(&script).and_then(|()| out.flush()).map_err(Error::from_io)
}

/// Error of `forebay bench` in a build without the feature `replay`.
#[cfg(not(feature = "replay"))]
fn without_benchmark() -> Error {
    let error = Error::new(forebay::ErrorKind::Unsupported, "this forebay was built without the benchmark");
    error.hint("use the command of the Python package or of a release, or build it with the feature `replay`")
}

/// Runs the command line `args`, whose first is the program's name, and gives the exit code.
///
/// Ctrl-C ends the process, or the command within a second where it has something to report.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let program =
        std::env::current_exe().map_or_else(|_| "forebay".into(), std::path::PathBuf::into_os_string);
    run_as(vec![program], args)
}

/// As [`run`], where `program` is the command line that starts this command, for what it does in a process of its own.
pub fn run_as(program: Vec<OsString>, args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let arguments = args.iter().skip(1).cloned().collect();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody may be left to read it; the exit code says the same.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(exit::USAGE);
        }
    };
    if let Some(threads) = cli.threads {
        // Only the first builder counts, and this is the first.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global();
    }
    let index = if cli.no_index { None } else { IndexCache::of_user() };
    let context = Context {
        json: cli.json,
        threads: cli.threads,
        index,
        paint: Paint::for_stdout(cli.color),
        program,
        arguments,
        error_was_shown: Cell::new(false),
    };
    let whole = |()| exit::SUCCESS;
    let done = match &cli.command {
        Command::Inspect(args) => inspect::run(&context, args).map(whole),
        Command::Dump(args) => dump::run(&context, args).map(whole),
        Command::Convert(args) => convert::run(&context, args),
        Command::Load(args) => load::run(&context, args),
        Command::Plan(args) => plan::run(&context, args).map(whole),
        Command::StoreBench(args) => store_bench::run(&context, args),
        #[cfg(feature = "replay")]
        Command::Bench(args) => bench::run(&context, args),
        #[cfg(not(feature = "replay"))]
        Command::Bench { .. } => Err(without_benchmark()),
        Command::Simulate(args) => simulate::run(&context, args),
        #[cfg(all(feature = "fuse", target_os = "linux"))]
        Command::Mount(args) => mount::run(&context, args),
        Command::Tier(args) => tier::run(&context, args),
        Command::Stage(args) => stage::run(&context, args),
        Command::Recover(args) => recover::run(&context, args),
        Command::Config(args) => config::run(&context, args).map(whole),
        Command::Doctor(args) => doctor::run(&context, args).map(whole),
        Command::Run(args) => run::run(&context, args),
        Command::Hdf5Env(args) => hdf5_env::run(&context, args).map(whole),
        Command::Hdf5Try(args) => hdf5_env::run_try(args).map(whole),
        Command::Completions { shell } => completions(*shell).map(whole),
    };
    // Of a run standard output is the program's.
    let mut output: Box<dyn Write> = match &cli.command {
        Command::Run(_) => Box::new(io::stderr()),
        _ => Box::new(io::stdout()),
    };
    exit::code(done, (context.json && !context.error_was_shown.get()).then_some(&mut output))
}
