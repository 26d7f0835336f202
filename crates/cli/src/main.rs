//! The `forebay` command.
//!
//! | file | idea |
//! |---|---|
//! | `dump` | a variable's values, as text, raw bytes or a checksum |
//! | `sink` | where dumped bytes go |
//! | `exit` | error kinds as exit codes |

mod dump;
mod exit;
mod sink;

use std::{process::ExitCode, sync::Arc};

use clap::{Parser, Subcommand};
use forebay::{FileOrigin, IndexCache, Locator, Opened, Result};

/// Feeds AI training from scientific data, in place.
#[derive(Debug, Parser)]
#[command(version, about, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Neither use nor write saved indexes of files.
    #[arg(long, global = true)]
    no_index: bool,

    /// Threads that read and decode [default: one per core].
    #[arg(long, global = true, value_name = "N")]
    threads: Option<usize>,

    /// Answer in JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a variable's values, or their bytes or checksum.
    Dump(dump::Args),
}

/// What all commands share.
#[derive(Debug)]
struct Context {
    json: bool,
    index: Option<IndexCache>,
}

impl Context {
    fn open(&self, path: &str) -> Result<Opened> {
        forebay::open(Arc::new(FileOrigin::new()), &Locator::new(path), self.index.as_ref())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(threads) = cli.threads {
        // Only the first builder counts, and this is the first.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    }
    let index = if cli.no_index { None } else { IndexCache::of_user() };
    let context = Context { json: cli.json, index };
    let done = match &cli.command {
        Command::Dump(args) => dump::run(&context, args),
    };
    exit::code(done, context.json)
}
