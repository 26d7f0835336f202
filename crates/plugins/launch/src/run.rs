//! A program whose files under the origin come from tiers, without a change to it: prepared, supervised, summed up.

mod counter_samples;
mod launch_folder;
pub(crate) mod launch_summary;
pub(crate) mod program_reach;
pub(crate) mod report_file;
mod shared_tiers;
pub(crate) mod stage_area;
pub(crate) mod supervise;
mod tier_warnings;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use forebay_config::{Overrides, Settings, TierConfig, tiered};
use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{RUN_VARIABLE, start_run};
use forebay_source::FileOrigin;
use forebay_tier::{MadeFolders, Tiered};

use crate::{
    exec::{command, exec, not_started},
    run::{
        launch_folder::{LaunchFolder, joined},
        launch_summary::{HeldTier, LaunchSummary},
        program_reach::program_reach,
        shared_tiers::{check_apart, shared_tiers},
        stage_area::check_stage_area,
        supervise::{BlockedSignals, ProgramEnd, supervise},
        tier_warnings::tier_warnings,
    },
    variables::{LaunchVariables, escaped, plugins::PluginFolder},
};

/// What to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest<'a> {
    /// The program: a path, or a name on the search path.
    pub program: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// The settings in force.
    pub settings: &'a Settings,
    /// The flags among them.
    pub overrides: &'a Overrides,
    /// Where the libraries lie.
    pub plugins: &'a PluginFolder,
    /// Whether the HDF5 plug-ins are switched on as well.
    pub hdf5: bool,
}

impl RunRequest<'_> {
    /// Warning for `--stage` without `--hdf5`. An area of the configuration may be there for other programs.
    fn unused_stage(&self) -> Option<String> {
        let stage = self.overrides.stage.as_ref().filter(|_| !self.hdf5)?;
        Some(format!(
            "plain writes of the program are not staged in {stage}: only those through forebay.stage are; --hdf5 stages HDF5 files"
        ))
    }
}

/// A run that was prepared: the program's environment, and what the run holds while it lasts.
#[derive(Debug)]
pub struct TransparentRun<'a> {
    request: RunRequest<'a>,
    origin: String,
    variables: LaunchVariables,
    /// Nothing where this is a part of a run around it.
    hold: Option<RunHold>,
}

/// What a launcher holds while its program runs.
#[derive(Debug)]
struct RunHold {
    folder: LaunchFolder,
    signals: BlockedSignals,
    /// Open for as long as the program runs: a process of it that ends must not remove copies that the next one needs.
    tiers: Option<Arc<Tiered>>,
    /// What tiers have made to lie in.
    folders: MadeFolders,
}

/// How a run ended.
#[derive(Debug)]
struct RunEnd {
    program: ProgramEnd,
    /// What all processes did; nothing where another launcher of the same run is still there and will tell it.
    summary: Option<LaunchSummary>,
}

/// Without samples for a report this process wakes up so often, in case it was not told that the program ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// In which form a summary is told at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryForm {
    /// Not at all.
    Quiet,
    /// In lines for people.
    Text,
    /// As one line of JSON.
    Json,
}

impl<'a> TransparentRun<'a> {
    /// Runs the program and gives the exit code; where a signal ended the program, this process ends by the same. The summary goes to
    /// standard error in the form `form`, lines of it and warnings by `say`, and a page to the file `report`.
    pub fn run_to_end(self, form: SummaryForm, report: Option<&Path>, say: &dyn Fn(&str)) -> Result<u8> {
        if form != SummaryForm::Quiet {
            self.variables.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
        }
        let ended = match self.start(report.is_some()) {
            Ok(ended) => ended,
            Err((error, code)) => {
                say(&error.to_string());
                return Ok(code);
            }
        };
        if let Some(summary) = &ended.summary {
            // Nothing of it may change how this process ends: that is the program's.
            if let Some((path, Err(error))) = report.map(|path| (path, fs::write(path, summary.html()))) {
                say(&format!("{}: {error}", path.display()));
            }
            match form {
                SummaryForm::Quiet => {}
                SummaryForm::Text => summary.lines().iter().for_each(|line| say(line)),
                SummaryForm::Json => drop(writeln!(io::stderr(), "{}", summary.json())),
            }
        }
        Ok(ended.program.follow())
    }

    /// Whether `settings` ask for such a run: a folder as the origin, and tiers for it.
    pub fn is_asked_for(settings: &Settings) -> bool {
        let config = &settings.config;
        let is_folder = config.origin.path.as_ref().is_some_and(|path| !path.contains("://"));
        is_folder && !config.tiers.is_empty()
    }

    /// Prepares the run that `request` asks for: the folder in which its processes meet, the tiers, the variables.
    pub fn prepare(request: RunRequest<'a>) -> Result<Self> {
        let origin = folder_of(request.settings)?;
        if request.hdf5 {
            check_stage_area(request.settings)?;
        }
        let (tiers, warnings) = shared_tiers(&request.settings.config.tiers);
        check_apart(&tiers, Path::new(&origin))?;
        let library = request.plugins.preload()?;
        let mut settings = request.settings.clone();
        settings.config.tiers.clone_from(&tiers);
        settings.config.origin.path = Some(origin.clone());
        let hold = match joined(&escaped(&origin), &|name| env::var_os(name)) {
            Some(_) => None,
            None => Some(RunHold::take(&origin, &settings)?),
        };
        match variables(&request, &settings, hold.as_ref(), library) {
            Ok(mut variables) => {
                variables.warnings.extend(warnings);
                Ok(Self { request, origin, variables, hold })
            }
            Err(error) => {
                let _ = hold.map(|hold| hold.release(LaunchSummary::default()));
                Err(error)
            }
        }
    }

    /// Runs the program to its end. Counters are sampled over time where `is_sampled`. Where the program cannot be started: the
    /// reason and the exit code that shells have for it.
    fn start(self, is_sampled: bool) -> std::result::Result<RunEnd, (Error, u8)> {
        let RunRequest { program, args, .. } = self.request;
        let Some(hold) = &self.hold else { return Err(exec(program, args, &self.variables.set)) };
        let mut summary = self.begun();
        let mut command = command(program, args, &self.variables.set);
        let (counters, began) = (hold.folder.counters(), Instant::now());
        let samples = &mut summary.samples;
        let tick = || {
            if !is_sampled {
                return PATIENCE;
            }
            samples.add(counters);
            samples.pause()
        };
        let ended = supervise(&mut command, &hold.signals, tick);
        summary.samples.add(counters);
        summary.seconds = began.elapsed().as_secs_f64();
        let ended = ended.map_err(|cause| not_started(program, cause));
        let summary = hold.release(summary);
        let program = ended?;
        let summary = summary.map(|mut summary| {
            summary.note_end(program);
            summary
        });
        Ok(RunEnd { program, summary })
    }

    fn begun(&self) -> LaunchSummary {
        let RunRequest { program, args, .. } = self.request;
        let words = std::iter::once(program).chain(args.iter().map(|arg| &**arg));
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        LaunchSummary {
            program: words.join(" "),
            origin: self.origin.clone(),
            started_unix_s: since_1970.as_secs_f64(),
            ..LaunchSummary::default()
        }
    }
}

/// The program's environment, and what the user ought to know of it.
fn variables(
    request: &RunRequest<'_>,
    settings: &Settings,
    hold: Option<&RunHold>,
    library: PathBuf,
) -> Result<LaunchVariables> {
    let (path, reach) = program_reach(request.program);
    let library = hold.map_or_else(|| Ok(library.clone()), |hold| hold.folder.library(&library))?;
    let library = (!reach.is_broken_by_preload()).then_some(&*library);
    let plugins = request.hdf5.then_some(request.plugins);
    let before = |name: &str| env::var_os(name);
    let mut variables = LaunchVariables::for_run(settings, request.overrides, plugins, library, &before)?;
    if let Some(hold) = hold {
        variables.add(RUN_VARIABLE, hold.folder.path());
        variables.warnings.extend(hold.folder.warning().map(str::to_owned));
        variables.warnings.extend(hold.tiers.iter().flat_map(|tiers| tiers.warnings()));
        variables.warnings.extend(tier_warnings(&settings.config));
    }
    variables.warnings.extend(request.unused_stage());
    if let Some(why) = reach.why() {
        let (path, other_way) = (path.display(), reach.other_way());
        variables.warnings.push(format!("{path} reads without tiers: {why}; {other_way}"));
    }
    Ok(variables)
}

impl RunHold {
    fn take(origin: &str, settings: &Settings) -> Result<Self> {
        let folder = LaunchFolder::open(origin)?;
        // From here on tiers of this process are those of the run, and their threads leave signals alone.
        start_run(folder.path());
        let signals = BlockedSignals::new();
        let files = Arc::new(FileOrigin::new().without_mapping());
        let folders = MadeFolders::look(settings.config.tiers.iter().filter_map(TierConfig::folder));
        match tiered(files, &settings.config, None, None) {
            Ok(tiers) => Ok(Self { folder, signals, tiers, folders }),
            Err(error) => {
                folder.leave(|_| {});
                folders.remove_empty();
                Err(error)
            }
        }
    }

    /// Ends the run on the side of this launcher: the last one of the run has the summary of all.
    fn release(&self, mut summary: LaunchSummary) -> Option<LaunchSummary> {
        if let Some(held) = &self.tiers {
            let stats = held.stats();
            summary.tiers = stats.tiers.into_iter().map(held_tier).collect();
            held.close();
        }
        self.folders.remove_empty();
        let mut is_last = false;
        self.folder.leave(|counters| {
            summary.note_counters(counters);
            is_last = true;
        });
        is_last.then_some(summary)
    }
}

fn held_tier(tier: forebay_tier::TierStats) -> HeldTier {
    HeldTier { name: tier.name, used: tier.used, quota: tier.quota, left_out: tier.left_out }
}

/// The flags for the HDF5 plug-ins alone, without tiers: HDF5 files under the origin are managed unless other folders are named.
pub fn hdf5_under_origin(settings: &Settings, overrides: &Overrides) -> Result<Overrides> {
    let origin = settings.config.origin.path.as_deref().filter(|path| !path.contains("://"));
    if origin.is_none() || !settings.config.hdf5.paths.is_empty() {
        return Ok(overrides.clone());
    }
    Ok(Overrides { hdf5_paths: Some(escaped(&folder_of(settings)?)), ..overrides.clone() })
}

/// The folder whose files are managed, without links.
fn folder_of(settings: &Settings) -> Result<String> {
    let path = PathBuf::from(settings.config.origin.path.as_deref().unwrap_or_default());
    let found = fs::canonicalize(&path).map_err(|error| Error::from_io(error).at(path.display()))?;
    let invalid = |what: &str| Err(Error::new(ErrorKind::Invalid, what).at(found.display()));
    if !found.is_dir() {
        return invalid("is not a folder: files below a folder come from tiers");
    }
    if found == Path::new("/") {
        return invalid("is all files of this machine, the program's own among them");
    }
    match found.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => invalid("is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::Environment;

    use super::*;

    fn settings(overrides: &Overrides) -> Settings {
        let variable = |_: &str| None;
        Settings::load_in(overrides, &Environment { variable: &variable, folder: "/".into() }).unwrap()
    }

    #[test]
    fn a_staging_area_that_is_named_without_hdf5_is_told_with_what_would_use_it() {
        let overrides = Overrides { stage: Some("/fast".into()), ..Overrides::default() };
        let (settings, plugins) = (settings(&overrides), PluginFolder::at("/none".into()));
        let request = RunRequest {
            program: "true".as_ref(),
            args: &[],
            settings: &settings,
            overrides: &overrides,
            plugins: &plugins,
            hdf5: false,
        };
        let said = request.unused_stage().unwrap();
        assert!(
            said.contains("/fast") && said.contains("forebay.stage") && said.contains("--hdf5"),
            "{said}"
        );
        assert_eq!(RunRequest { hdf5: true, ..request }.unused_stage(), None);
        // As one of the configuration: it may be there for other programs.
        let overrides = Overrides::default();
        assert_eq!(RunRequest { overrides: &overrides, ..request }.unused_stage(), None);
    }

    #[test]
    fn the_plug_ins_manage_hdf5_files_under_the_origin_unless_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().display().to_string();
        let of =
            |overrides: &Overrides| hdf5_under_origin(&settings(overrides), overrides).unwrap().hdf5_paths;
        let origin = Overrides { origin: Some(path.clone()), ..Overrides::default() };
        assert_eq!(of(&origin), Some(path));
        assert_eq!(of(&Overrides { hdf5_paths: Some("/x".into()), ..origin }), Some("/x".into()));
        assert_eq!(of(&Overrides::default()), None);
        let url = Overrides { origin: Some("s3://bucket/set".into()), ..Overrides::default() };
        assert_eq!(of(&url), None);
        let missing = Overrides { origin: Some("/no/such/folder".into()), ..Overrides::default() };
        let error = hdf5_under_origin(&settings(&missing), &missing).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}
