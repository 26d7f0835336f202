//! `forebay doctor`: what forebay would use on this machine, and why.
//!
//! | file | idea |
//! |---|---|
//! | `machine` | cores and memory, and who limits them |
//! | `kernel` | what the kernel and its limits allow |
//! | `paths` | where given paths lie |
//! | `text` | the report for people |

mod kernel;
mod machine;
mod paths;
mod text;

use forebay::{
    Error, Result, Settings, TierConfig,
    config::{
        candidates::{self, Candidate, Suitability, ThisMachine},
        nearest,
    },
    format::find_libhdf5,
    source::ledger,
};
use serde::Serialize;

use self::{kernel::KernelFacts, machine::MachineFacts, paths::PathFacts};
use crate::{
    Context,
    config::{ConfigArgs, SettingsFacts},
    output, show,
};

const EXAMPLES: &str = "\
Examples:
  forebay doctor                              this machine, its places for copies, the configuration
  forebay doctor /lustre/set/train.h5         where the data lie, and whether they would be copied
  forebay doctor --tier /nvme/$USER           whether a place would do as a tier
  forebay doctor --json | jq '.places[] | select(.verdict == \"suitable\") | .path'

Warnings come first, each with a remedy. Nothing is written anywhere. The exit code is 0 unless one of PATHS cannot be \
read.

JSON: version, warnings[what, remedy], machine{system, cores, cores_of_machine, cores_by, memory_limit_bytes, \
memory_limit_by, memory_budget_bytes}, settings{file, config, whence} or settings_error, tiers[tier, quota_bytes, \
verdict, why], places[path, named_by, device, file_system, disk_bytes, free_bytes, writable, quota_bytes, verdict (used, \
refused, suitable, unfit), why, tier_path], suggestion, paths[path, error, near, mount_point, file_system, device, \
format, copied, why], kernel{mapping, mapping_why, fuse, fuse_why, open_files, open_files_most}, libraries[name, found, \
why].";

/// Arguments of `forebay doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files or folders of data.
    #[arg(value_name = "PATHS")]
    paths: Vec<String>,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Everything the doctor has to say.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    warnings: Vec<Warning>,
    machine: MachineFacts,
    settings: Option<SettingsFacts>,
    settings_error: Option<String>,
    tiers: Vec<TierFacts>,
    places: Vec<Candidate>,
    /// The tier that would be the best of those nobody asked for.
    suggestion: Option<String>,
    paths: Vec<PathFacts>,
    kernel: KernelFacts,
    libraries: Vec<LibraryFacts>,
}

/// What is not as it should be, and what helps.
#[derive(Debug, Serialize)]
struct Warning {
    what: String,
    remedy: String,
}

/// A tier of the configuration.
#[derive(Debug, Serialize)]
struct TierFacts {
    tier: String,
    quota_bytes: u64,
    verdict: Suitability,
    why: String,
}

/// A C library that reads what forebay itself cannot.
#[derive(Debug, Serialize)]
struct LibraryFacts {
    name: &'static str,
    found: Option<String>,
    why: Option<String>,
}

/// Runs `forebay doctor`.
pub(crate) fn run(context: &Context, args: &Args) -> Result<()> {
    let settings = args.config.load();
    let (paths, broken) = paths::look_at(&args.paths, settings.as_ref().ok());
    let report = Report::gather(settings, paths);
    if context.json {
        output::say(serde_json::json!(report))?;
        context.told.set(true);
    } else {
        text::lines(&report, context.paint).into_iter().try_for_each(output::say)?;
    }
    broken.map_or(Ok(()), Err)
}

impl Report {
    fn gather(settings: Result<Settings>, paths: Vec<PathFacts>) -> Self {
        let configured = settings.as_ref().map(|settings| settings.config.tiers.clone()).unwrap_or_default();
        let places = candidates::survey(&ThisMachine, &configured);
        let suggestion = candidates::best(&places).filter(|_| configured.is_empty());
        let mut report = Self {
            version: env!("CARGO_PKG_VERSION"),
            warnings: Vec::new(),
            machine: MachineFacts::gather(),
            settings_error: settings.as_ref().err().map(Error::to_string),
            settings: settings.as_ref().ok().map(SettingsFacts::of),
            tiers: configured.iter().map(|tier| TierFacts::of(tier, &places)).collect(),
            suggestion: suggestion.map(word),
            places,
            paths,
            kernel: KernelFacts::gather(),
            libraries: vec![libhdf5()],
        };
        report.warnings = report.warnings();
        report
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |what: String, remedy: String| warnings.push(Warning { what, remedy });
        if let Some(error) = &self.settings_error {
            let remedy = "put it right; `forebay config` shows what is in force".to_owned();
            warn(format!("the configuration cannot be used: {error}"), remedy);
        }
        for tier in self.tiers.iter().filter(|tier| tier.verdict == Suitability::Refused) {
            let remedy = "name another place: those that are suitable are listed below".to_owned();
            warn(format!("{} will not do: {}", tier.tier, tier.why), remedy);
        }
        for path in &self.paths {
            if let Some(error) = &path.error {
                warn(error.clone(), "look at the path, and at who may read it".to_owned());
            }
        }
        let is_far = self.paths.iter().any(|path| path.near == Some(false));
        if let (true, Some(tier)) = (is_far, &self.suggestion) {
            let what = "the data are behind a network, and no tier is configured".to_owned();
            warn(what, format!("keep copies near: --tier {tier}"));
        }
        for (what, remedy) in self.kernel.warnings().into_iter().chain(slips()) {
            warn(what, remedy);
        }
        warnings
    }
}

impl TierFacts {
    fn of(tier: &TierConfig, places: &[Candidate]) -> Self {
        let TierConfig::Disk(disk) = tier else {
            let quota_bytes = tier.quota().of(ledger().share());
            let why = "out of the memory budget".to_owned();
            return Self { tier: tier.to_string(), quota_bytes, verdict: Suitability::Used, why };
        };
        let place = places.iter().find(|place| place.path == disk.path);
        Self {
            tier: tier.to_string(),
            quota_bytes: place.map_or(0, |place| place.quota_bytes),
            verdict: place.map_or(Suitability::Refused, |place| place.verdict),
            why: place
                .map_or_else(|| "the same folder as another tier".to_owned(), |place| place.why.clone()),
        }
    }
}

/// A tier at `place`, as a flag says it, with a round quota.
fn word(place: &Candidate) -> String {
    let quota = (place.quota_bytes >> 30).max(1);
    format!("disk:{}:{quota}GiB", place.tier_path.display())
}

fn libhdf5() -> LibraryFacts {
    match find_libhdf5() {
        Ok(found) => LibraryFacts { name: "libhdf5", found: Some(found), why: None },
        Err(error) => LibraryFacts { name: "libhdf5", found: None, why: Some(error.to_string()) },
    }
}

/// Variables of the environment that forebay reads.
const VARIABLES: [&str; 12] = [
    "FOREBAY_AHEAD",
    "FOREBAY_BLOCK",
    "FOREBAY_CACHE",
    "FOREBAY_CONFIG",
    "FOREBAY_LIBHDF5",
    "FOREBAY_MAP",
    "FOREBAY_ORIGIN",
    "FOREBAY_PLACEMENT_THREADS",
    "FOREBAY_POLICY",
    "FOREBAY_SPILL_DIR",
    "FOREBAY_TIERS",
    "FOREBAY_WHOLE_FILE",
];

/// Variables that are nearly one of forebay's.
fn slips() -> Vec<(String, String)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours = names.filter(|name| name.starts_with("FOREBAY") && !VARIABLES.contains(&name.as_str()));
    // Others have variables of this kind too: only what looks like a slip is worth a word.
    let of_slip = |name: String| {
        let near = nearest(&name[7..], &VARIABLES.map(|known| &known[7..]))?;
        Some((
            format!("{} is set, and nobody reads it", show::visible(&name)),
            format!("FOREBAY{near} is read"),
        ))
    };
    ours.filter_map(of_slip).collect()
}
