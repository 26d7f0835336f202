//! `forebay run`: a program with forebay in its environment.

use std::{ffi::OsString, io::Write, path::PathBuf};

use forebay::{Error, ErrorKind, Result, Settings, config::Overrides};
use forebay_launch::{
    PluginFolder, RunRequest, SummaryForm, TransparentRun, check_report_file, check_stage_area,
    hdf5_under_origin,
};

use crate::{
    Context,
    args::config::ConfigArgs,
    hdf5_env::{self, Hdf5Args},
    output::show,
};

const EXAMPLES: &str = "\
Examples:
  forebay run --origin /pfs/set --tier mem:4GiB --tier /nvme/$USER:100GiB -- python train.py
  forebay run --origin /pfs/set --tier /nvme/$USER:keep --report run.html -- ./train.sh
  srun forebay run --origin /pfs/set --tier mem:4GiB -- python train.py
  forebay run --hdf5 --hdf5-paths /lustre/run --stage /nvme/$USER -- python train.py
  mpirun -n 4 forebay run --hdf5 -- ./simulate input.nml

Files under --origin that the program opens for reading come from the tiers, and are copied there behind it; all else is as \
without forebay. Signals go on to the program, and its exit code is that of this command, which ends by the same signal where one \
ended the program. A summary of all its processes goes to standard error at the end: with --json as one line, program, \
origin, exit_code, signal, started_unix_s, seconds, counters{by name}, origin_reads_saved, tiers[name, used, quota, left_out], \
notes[]. An error \
of this command is a line there too, and with --json an object of error and kind behind it: standard output is the program's. \
With --hdf5 alone the program takes the place of this command, and there is no summary. Exit codes of this command: 127 \
where there is no such program, 126 where it cannot be started, and those of `forebay --help`.";

/// Arguments of `forebay run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("origin", |origin| origin.help("Origin of the data: a folder. Files below it come from the tiers")))]
pub(crate) struct RunArgs {
    /// HDF5 plug-ins: auto, vfd, vol or both.
    #[arg(long, value_name = "PLUGINS", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    hdf5: Option<String>,

    /// Removed option, refused with the remedy.
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    stage_writes: Option<OsString>,

    /// Report of the run, as one HTML page.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Without the summary at the end, and without warnings.
    #[arg(long)]
    quiet: bool,

    #[command(flatten)]
    plugins: Hdf5Args,

    #[command(flatten)]
    config: ConfigArgs,

    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs `forebay run`; it returns only where the program was not put in place of this process.
pub(crate) fn run(context: &Context, args: &RunArgs) -> Result<u8> {
    if args.stage_writes.is_some() {
        let what = "--stage-writes was removed: plain writes of a program go straight to their destinations";
        let hint = "write through forebay.stage, or stage HDF5 files by `forebay run --hdf5 --stage AREA`";
        return Err(Error::new(ErrorKind::Invalid, what).hint(hint));
    }
    // What is configured counts, unless plug-ins are named.
    let named = args.hdf5.as_ref().filter(|plugins| *plugins != "auto");
    let overrides = args.plugins.overrides(named, &args.config);
    let settings = Settings::load_for_hdf5(&overrides, None)?;
    let (program, rest) = args.program.split_first().expect("clap asks for one");
    if TransparentRun::is_asked_for(&settings) {
        args.report.as_deref().map_or(Ok(()), check_report_file)?;
        let plugins = &PluginFolder::find()?;
        let (settings, overrides) = (&settings, &overrides);
        let request =
            RunRequest { program, args: rest, settings, overrides, plugins, hdf5: args.hdf5.is_some() };
        let form = match (args.quiet, context.json) {
            (true, _) => SummaryForm::Quiet,
            (false, true) => SummaryForm::Json,
            (false, false) => SummaryForm::Text,
        };
        return TransparentRun::prepare(request)?.run_to_end(form, args.report.as_deref(), &say);
    }
    if args.hdf5.is_none() {
        return Err(what_is_missing(&settings, &overrides));
    }
    if args.report.is_some() {
        let error = Error::new(ErrorKind::Invalid, "--hdf5 alone makes no report");
        return Err(error.hint("name a folder by --origin and a tier by --tier besides"));
    }
    check_stage_area(&settings)?;
    let overrides = hdf5_under_origin(&settings, &overrides)?;
    let (found, _) = hdf5_env::variables(&overrides)?;
    if !args.quiet {
        found.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    }
    let (error, code) = forebay_launch::exec(program, rest, &found.set);
    say(&error.to_string());
    Ok(code)
}

/// Why there is nothing to run the program with.
fn what_is_missing(settings: &Settings, overrides: &Overrides) -> Error {
    let (origin, has_tiers) = (settings.config.origin.path.as_deref(), !settings.config.tiers.is_empty());
    let missing = |what: &str, hint: &str| Error::new(ErrorKind::Invalid, what).hint(hint);
    match origin {
        Some(url) if url.contains("://") => {
            let hint = "forebay.open, forebay.File and `forebay load` read objects";
            missing("`forebay run` takes folders only", hint).at(url)
        }
        Some(folder) => missing("there is no tier for its files", "name one by --tier").at(folder),
        None if has_tiers => missing("there is no origin for the tiers", "name a folder by --origin"),
        None if overrides.stage.is_some() => missing(
            "nothing is staged by --stage alone",
            "switch on the HDF5 plug-ins by --hdf5, or write through forebay.stage",
        ),
        None => missing(
            "nothing to run the program with",
            "name a folder by --origin and a tier by --tier, or switch on the HDF5 plug-ins by --hdf5",
        ),
    }
}

/// Nobody may be left to read it.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "forebay: {}", show::message(text));
}
