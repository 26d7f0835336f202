//! `forebay simulate`: a folder as a slow file system shows it, or a store as a larger machine would have it.

#[cfg(all(feature = "fuse", target_os = "linux"))]
mod slow_folder;
mod store;

use forebay::Result;

use crate::Context;

const EXAMPLES: &str = "\
Examples:
  forebay simulate /data/set /mnt/slow                    until Ctrl-C
  forebay simulate /data/set /mnt/slow --latency 10ms --bandwidth 0
  forebay simulate /data/set /mnt/slow -- python train.py /mnt/slow
  forebay simulate /scratch/out /mnt/slow --writable --fsync-latency 20ms -- python checkpoint.py /mnt/slow
  cat /mnt/slow/.forebay-slow/counters.json               what went through so far
  cat /mnt/slow/.forebay-slow/reset.json                  the same, and zero from then on
  forebay simulate store --ranks 1024                     what a distributed store of that size would give

Every read that a program makes waits --latency, many at the same time; then its bytes come over a line of --bandwidth that \
all readers share. The page cache keeps nothing. With --writable the same holds for writes; else nothing can be written. \
Needs FUSE: root and /dev/fuse, or the package fuse3.

A line written to .forebay-slow/control on a writable mount makes its writes fail: `read-only` (EROFS) or `full` (ENOSPC), until \
`normal`.

With a program, its exit code is that of the command (128 and the signal's number if one ended it), and messages go \
to standard error. A folder named `store` is given as ./store.

JSON, of all that went through: opens, reads, requests, bytes, lookups, stats, lists, writes, write_requests, bytes_written, \
fsyncs, creates, renames, removes, truncates, changes, seconds.";

/// Arguments of `forebay simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    simulation: Option<Simulation>,

    #[cfg(all(feature = "fuse", target_os = "linux"))]
    #[command(flatten)]
    folder: Option<slow_folder::SlowFolderArgs>,
}

#[derive(Debug, clap::Subcommand)]
enum Simulation {
    /// Predict how fast samples of a distributed store would come, from constants that store-bench measured.
    Store(Box<store::StoreModelArgs>),
}

/// Runs `forebay simulate`.
pub(crate) fn run(context: &Context, args: &SimulateArgs) -> Result<u8> {
    if let Some(Simulation::Store(args)) = &args.simulation {
        return store::run(context, args);
    }
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    if let Some(args) = &args.folder {
        return slow_folder::run(context, args);
    }
    Err(forebay::Error::invalid("nothing to simulate is named").hint("see forebay simulate --help"))
}
