//! `forebay run`: a program with forebay in its environment.

use std::{ffi::OsString, io::Write};

use forebay::{Error, ErrorKind, Result};

use crate::{
    Context,
    config::ConfigArgs,
    hdf5_env::{self, Hdf5Args},
    show,
};

const EXAMPLES: &str = "\
Examples:
  forebay run --hdf5 --hdf5-paths /lustre/run --stage /nvme/$USER -- python train.py
  forebay run --hdf5=both --hdf5-cache memory --hdf5-paths /lustre -- ./simulate input.nml
  mpirun -n 4 forebay run --hdf5 -- ./simulate input.nml

The program takes the place of this command: signals, terminal and exit code are its own. Exit codes of this command: 127 \
where there is no such program, 126 where it cannot be started, and those of `forebay --help`.";

/// Arguments of `forebay run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// HDF5 plug-ins: auto, vfd, vol or both.
    #[arg(long, value_name = "PLUGINS", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    hdf5: Option<String>,

    #[command(flatten)]
    plugins: Hdf5Args,

    #[command(flatten)]
    config: ConfigArgs,

    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs `forebay run`; it returns only where the program is not started.
pub(crate) fn run(_: &Context, args: &RunArgs) -> Result<u8> {
    let mut variables = Vec::new();
    let Some(hdf5) = &args.hdf5 else {
        let error = Error::new(ErrorKind::Invalid, "nothing to run the program with");
        return Err(error.hint("switch on the HDF5 plug-ins by --hdf5"));
    };
    // What is configured counts, unless plug-ins are named.
    let named = (hdf5 != "auto").then_some(hdf5);
    let (found, _) = hdf5_env::variables(&args.plugins.overrides(named, &args.config))?;
    for warning in &found.warnings {
        // Nobody may be left to read it.
        let _ = writeln!(std::io::stderr(), "forebay: warning: {}", show::message(warning));
    }
    variables.extend(found.set);
    let (program, rest) = args.program.split_first().expect("clap asks for one");
    let (error, code) = forebay_launch::exec(program, rest, &variables);
    let _ = writeln!(std::io::stderr(), "forebay: {}", show::message(&error.to_string()));
    Ok(code)
}
