//! `forebay bench`: replays how training reads and checkpoints, and says how fast it went.

use std::io::Write;

use forebay::{Error, Origins, Result};
use forebay_bench::{BenchArgs, BenchHost, BenchOutcome};

use crate::{
    Context,
    args::config::ConfigArgs,
    exit,
    interrupt::Interrupt,
    output::{self, show},
};

/// Arguments of `forebay bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchCommandArgs {
    #[command(flatten)]
    bench: BenchArgs,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs `forebay bench`.
pub(crate) fn run(context: &Context, args: &BenchCommandArgs) -> Result<u8> {
    let interrupt = Interrupt::catch();
    let config = args.config.load()?.config;
    let (origins, tiers) = Origins::new().through_tiers(&config, None)?;
    interrupt.watch();
    let is_interrupted = || interrupt.is_wanted();
    let host = BenchHost {
        program: context.program.clone(),
        arguments: context.arguments.clone(),
        origins: &origins,
        tiers: tiers.as_deref(),
        is_json: context.json,
        is_interrupted: &is_interrupted,
    };
    let outcome = forebay_bench::bench(&args.bench, &host);
    if let Some(tiers) = tiers {
        tiers.close();
    }
    let mut outcome = outcome?;
    if let Some(code) = outcome.ranks_code {
        return Ok(code);
    }
    tell(context, &outcome)?;
    for error in &outcome.unsupported {
        exit::report(error, context.json.then_some(&mut std::io::stdout()));
    }
    if let Some(error) = outcome.failed.take() {
        return Err(error);
    }
    if !outcome.is_complete() || interrupt.is_wanted() {
        return Ok(exit::INTERRUPTED);
    }
    Ok(outcome.unsupported.first().map_or(exit::SUCCESS, |error| exit::code_of(error.kind())))
}

fn tell(context: &Context, outcome: &BenchOutcome) -> Result<()> {
    let Some(answer) = outcome.answer(context.json) else { return Ok(()) };
    for note in &outcome.notes {
        // Nobody may be left to read it.
        let _ = writeln!(std::io::stderr(), "forebay: note: {}", show::message(note));
    }
    let mut out = output::stdout();
    out.write_all(answer.as_bytes()).and_then(|()| out.flush()).map_err(Error::from_io)
}
