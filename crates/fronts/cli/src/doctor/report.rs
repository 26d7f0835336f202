//! What the doctor finds out, as data.

use forebay::{
    Error, Result, Settings, TierConfig,
    config::{
        self,
        candidates::{self, Candidate, Suitability, ThisMachine},
        nearest,
    },
    format::find_libhdf5,
    process::ledger,
};
use serde::Serialize;

use super::{kernel::KernelFacts, machine::MachineFacts, paths::PathFacts, plugins::PluginFacts};
use crate::{config::SettingsFacts, hdf5_env, output::show};
/// Everything the doctor has to say.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) warnings: Vec<Warning>,
    pub(super) machine: MachineFacts,
    pub(super) settings: Option<SettingsFacts>,
    pub(super) settings_error: Option<String>,
    pub(super) tiers: Vec<TierFacts>,
    pub(super) places: Vec<Candidate>,
    /// The tier that would be the best of those nobody asked for.
    pub(super) suggestion: Option<String>,
    pub(super) paths: Vec<PathFacts>,
    pub(super) kernel: KernelFacts,
    pub(super) libraries: Vec<LibraryFacts>,
    pub(super) hdf5_plugins: PluginFacts,
}

/// What is not as it should be, and what helps.
#[derive(Debug, Serialize)]
pub(super) struct Warning {
    pub(super) what: String,
    pub(super) remedy: String,
}

/// A tier of the configuration.
#[derive(Debug, Serialize)]
pub(super) struct TierFacts {
    pub(super) tier: String,
    pub(super) quota_bytes: u64,
    pub(super) verdict: Suitability,
    pub(super) why: String,
}

/// A C library that reads what forebay itself cannot.
#[derive(Debug, Serialize)]
pub(super) struct LibraryFacts {
    pub(super) name: &'static str,
    pub(super) found: Option<String>,
    pub(super) why: Option<String>,
}

impl Report {
    pub(super) fn gather(settings: Result<Settings>, paths: Vec<PathFacts>, plugins: PluginFacts) -> Self {
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
            hdf5_plugins: plugins,
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
        for what in hdf5_env::warnings_of(&self.hdf5_plugins.libraries) {
            warn(what, "`forebay hdf5-env` tells more; other programs are not touched".to_owned());
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

/// Variables of the environment that forebay reads besides those of settings.
const VARIABLES: [&str; 8] = [
    "FOREBAY_CACHE",
    "FOREBAY_CONFIG",
    "FOREBAY_LIBHDF5",
    "FOREBAY_MAP",
    "FOREBAY_MEMORY",
    "FOREBAY_PLUGINS",
    "FOREBAY_SPILL_DIR",
    "FOREBAY_TIERS",
];

/// Variables that are nearly one of forebay's.
fn slips() -> Vec<(String, String)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let known: Vec<&str> = VARIABLES.into_iter().chain(config::variables()).collect();
    let ours = names.filter(|name| name.starts_with("FOREBAY") && !known.contains(&name.as_str()));
    let endings: Vec<&str> = known.iter().map(|known| &known[7..]).collect();
    // Others have variables of this kind too: only what looks like a slip is worth a word.
    let of_slip = |name: String| {
        let near = nearest(&name[7..], &endings)?;
        Some((
            format!("{} is set, and nobody reads it", show::visible(&name)),
            format!("FOREBAY{near} is read"),
        ))
    };
    ours.filter_map(of_slip).collect()
}
