//! `forebay hdf5-env`: the variables by which HDF5 programs get the plug-ins; and `hdf5-try`, which a child of it runs.

use std::{collections::BTreeMap, env, io, path::PathBuf};

use forebay::{Error, ErrorKind, Result, config::Overrides};
use forebay_launch::{LaunchVariables, LibraryTrial, PluginFolder, TrialVerdict, try_libraries};
use serde::Serialize;

use crate::{
    Context,
    args::config::ConfigArgs,
    output::{self, show},
};

const EXAMPLES: &str = "\
Examples:
  eval \"$(forebay hdf5-env --hdf5-paths /lustre/run --stage /nvme/$USER)\"
  forebay hdf5-env --hdf5=both --hdf5-cache memory >> job.sh
  forebay hdf5-env --json | jq '.libraries[] | {path, version, verdict}'

The plug-ins are tried in a child process with each libhdf5 that is found; what came of it stands behind the lines, as \
comments. HDF5_PLUGIN_PATH keeps what it held, and the folders that HDF5 and netCDF4 search without it.

JSON: variables{by their names}, plugins (the folder), libraries[path, version, thread_safe, parallel, verdict (works, \
unreached, broken), why, left_out], warnings.";

/// Arguments of `forebay hdf5-env`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Hdf5EnvArgs {
    /// Plug-ins to switch on: auto, vfd, vol or both.
    #[arg(long, value_name = "PLUGINS")]
    hdf5: Option<String>,

    /// Print the lines without trying the plug-ins.
    #[arg(long)]
    untried: bool,

    #[command(flatten)]
    plugins: Hdf5Args,

    #[command(flatten)]
    config: ConfigArgs,
}

/// What the plug-ins do, as the command line says it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "HDF5 plug-ins")]
pub(crate) struct Hdf5Args {
    /// Folders whose HDF5 files are managed, with colons between; all others pass through.
    #[arg(long, value_name = "PATHS")]
    hdf5_paths: Option<String>,

    /// Staging area for writes: a folder on a fast disk, or 'memory'.
    #[arg(long, value_name = "PLACE")]
    stage: Option<String>,

    /// Most bytes that are staged at once.
    #[arg(long, value_name = "SIZE")]
    stage_quota: Option<String>,

    /// Most bytes a second that staged writes take of their destination, such as 500MB/s.
    #[arg(long, value_name = "SIZE")]
    bandwidth: Option<String>,

    /// Delayed close: flush and close return once all is staged, and not only when it is in the file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    delay_close: Option<String>,

    /// Read cache of the VOL connector: a folder, or 'memory'.
    #[arg(long, value_name = "PLACE")]
    hdf5_cache: Option<String>,

    /// Prestaging of data sets when they are opened: off, blocking or background.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "blocking")]
    prestage: Option<String>,
}

impl Hdf5Args {
    /// All that the flags say; `plugins` are those to switch on.
    pub(crate) fn overrides(&self, plugins: Option<&String>, config: &ConfigArgs) -> Overrides {
        Overrides {
            hdf5_plugins: plugins.cloned(),
            hdf5_paths: self.hdf5_paths.clone(),
            stage: self.stage.clone(),
            stage_quota: self.stage_quota.clone(),
            bandwidth: self.bandwidth.clone(),
            delay_close: self.delay_close.clone(),
            hdf5_cache: self.hdf5_cache.clone(),
            prestage: self.prestage.clone(),
            ..config.overrides()
        }
    }
}

/// The variables under these flags, and the folder of the plug-ins.
pub(crate) fn variables(overrides: &Overrides) -> Result<(LaunchVariables, PluginFolder)> {
    let settings = forebay::Settings::load_for_hdf5(overrides, None)?;
    let plugins = PluginFolder::find()?;
    let variables = LaunchVariables::for_hdf5(&settings, overrides, &plugins, &|name| env::var_os(name))?;
    Ok((variables, plugins))
}

/// What there is to tell, under stable names.
#[derive(Debug, Serialize)]
struct Hdf5EnvFacts {
    variables: BTreeMap<String, String>,
    plugins: PathBuf,
    libraries: Vec<LibraryTrial>,
    warnings: Vec<String>,
}

/// Runs `forebay hdf5-env`.
pub(crate) fn run(context: &Context, args: &Hdf5EnvArgs) -> Result<()> {
    let overrides = args.plugins.overrides(args.hdf5.as_ref(), &args.config);
    let (variables, plugins) = variables(&overrides)?;
    let libraries = if args.untried { Vec::new() } else { try_libraries(&context.program, &variables.set)? };
    let warnings: Vec<String> = variables.warnings.iter().cloned().chain(warnings_of(&libraries)).collect();
    if context.json {
        let named = variables.set.iter().map(|(name, value)| (name.clone(), value.to_string_lossy().into()));
        let plugins = plugins.path().to_owned();
        output::say(serde_json::json!(Hdf5EnvFacts {
            variables: named.collect(),
            plugins,
            libraries,
            warnings
        }))?;
        return Ok(());
    }
    warnings.iter().for_each(|warning| eprintln!("forebay: warning: {}", show::message(warning)));
    let reached: Vec<_> = libraries.iter().filter(|found| found.verdict != TrialVerdict::Unreached).collect();
    if !reached.is_empty() && reached.iter().all(|found| found.verdict == TrialVerdict::Broken) {
        let error = Error::new(ErrorKind::Unsupported, "the plug-ins work with no libhdf5 of this machine");
        return Err(error.hint("the reasons stand above; `--untried` prints the lines all the same"));
    }
    variables.shell_lines().into_iter().try_for_each(output::say)?;
    libraries.iter().try_for_each(|found| output::say(format!("# {}", show::message(&line(found)))))
}

/// What a user ought to know of the libraries.
pub(crate) fn warnings_of(libraries: &[LibraryTrial]) -> Vec<String> {
    let mut warnings = Vec::new();
    for found in libraries {
        if found.verdict == TrialVerdict::Broken {
            warnings.push(format!("HDF5 does not work with the plug-ins: {}", line(found)));
        }
        for folder in &found.left_out {
            let [folder, library] = [folder, &found.path].map(|path| path.display().to_string());
            let add = "add it to HDF5_PLUGIN_PATH where its filters are needed";
            warnings.push(format!(
                "{library} would search {folder} for plug-ins, which is not on the path; {add}"
            ));
        }
    }
    warnings
}

/// A library and what came of it.
pub(crate) fn line(found: &LibraryTrial) -> String {
    let version = found.version.as_deref().unwrap_or("unknown version");
    let parallel = if found.parallel { ", parallel" } else { "" };
    let verdict = match found.verdict {
        TrialVerdict::Works => "works",
        TrialVerdict::Unreached => "not reached",
        TrialVerdict::Broken => "broken",
    };
    format!("{} ({version}{parallel}): {verdict}, {}", found.path.display(), found.why)
}

/// Arguments of `forebay hdf5-try`.
#[derive(Debug, clap::Args)]
pub(crate) struct Hdf5TryArgs {
    /// The libhdf5.
    library: PathBuf,
    /// A file to write and read.
    file: Option<PathBuf>,
}

/// Runs `forebay hdf5-try`: what a libhdf5 does in this environment, for the process that started this one.
pub(crate) fn run_try(args: &Hdf5TryArgs) -> Result<()> {
    forebay_launch::probe(&args.library, args.file.as_deref(), &mut io::stdout().lock())
}
