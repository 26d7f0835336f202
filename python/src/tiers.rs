//! From what Python says of tiers to a configuration.

pub(crate) mod ranking;

use forebay::{
    Config, Error, ErrorKind, Settings, TierConfig,
    config::{Amount, Overrides, ValueOrigin, nearest},
};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    error::raised,
    plain::{Plain, plain},
};

/// Arguments of a call; what is missing is for others to say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TierArguments {
    config: Option<String>,
    tiers: Option<Vec<GivenTier>>,
    policy: Option<String>,
    placement_threads: Option<String>,
    block: Option<String>,
    whole_file: Option<String>,
    ahead: Option<String>,
}

/// A tier in a word, or as a table of `forebay.toml`.
#[derive(Deserialize)]
#[serde(untagged)]
enum GivenTier {
    Word(String),
    Table(Map<String, Value>),
}

/// The configuration in force under what `given` says: over `base` where that is given, else over environment and file.
#[pyfunction]
#[pyo3(signature = (given, base=None))]
pub(crate) fn tier_config<'py>(
    py: Python<'py>,
    given: Plain<TierArguments>,
    base: Option<Plain<Config>>,
) -> PyResult<Bound<'py, PyAny>> {
    let config = settled(given.0, base.map(|Plain(base)| base)).map_err(raised_in_words)?;
    plain(py, &config)
}

fn settled(given: TierArguments, base: Option<Config>) -> Result<Config, Error> {
    let is_without = given.tiers.as_ref().is_some_and(Vec::is_empty);
    // Where there are to be no tiers, or all is known, no file has a say.
    let unasked = (is_without || base.is_some()).then(|| "none".to_owned());
    let is_anew = given.config.is_some();
    let settings = Settings::load(&Overrides {
        config: given.config.or(unasked),
        policy: given.policy,
        threads: given.placement_threads,
        block: given.block,
        whole_file: given.whole_file,
        ahead: given.ahead,
        ..Overrides::default()
    })?;
    let mut config = match base {
        Some(base) if !is_anew => laid_over(base, &settings),
        _ => settings.config,
    };
    if let Some(tiers) = given.tiers {
        config.tiers = tiers.into_iter().map(tier).collect::<Result<_, _>>()?;
    }
    Ok(config)
}

/// `base`, but for the values that arguments of the call gave.
fn laid_over(base: Config, settings: &Settings) -> Config {
    let is_given = |name| matches!(settings.origin_of(name), ValueOrigin::Flag(_));
    let (new, mut config) = (&settings.config.placement, base);
    let placement = &mut config.placement;
    if is_given("placement.policy") {
        placement.policy = new.policy;
    }
    if is_given("placement.threads") {
        placement.threads = new.threads;
    }
    if is_given("placement.block") {
        placement.block = new.block;
    }
    if is_given("placement.whole_file") {
        placement.whole_file = new.whole_file;
    }
    if is_given("placement.ahead") {
        placement.ahead = new.ahead;
    }
    config
}

fn tier(given: GivenTier) -> Result<TierConfig, Error> {
    match given {
        GivenTier::Word(word) => TierConfig::parse(&word),
        GivenTier::Table(table) => {
            tabled(&table).map_err(|error| error.at(format!("tier {}", Value::Object(table))))
        }
    }
}

/// The tier of a table: its path is read as that of a word, so that variables stand for the same.
fn tabled(table: &Map<String, Value>) -> Result<TierConfig, Error> {
    let invalid = |what: String| Error::new(ErrorKind::Invalid, what);
    let kind = table.get("kind").and_then(Value::as_str);
    let kind = kind.or_else(|| table.contains_key("path").then_some("disk"));
    let Some(kind) = kind else {
        return Err(invalid("a tier needs a kind".into()).hint("it is memory, disk or peers"));
    };
    let known: &[&str] = match kind {
        "memory" | "peers" => &["kind", "quota"],
        _ => &["kind", "path", "quota", "keep", "free", "network"],
    };
    if let Some(stray) = table.keys().find(|key| !known.contains(&key.as_str())) {
        let remedy = match nearest(stray, known) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it is one of {}", known.join(", ")),
        };
        return Err(invalid(format!("unknown key '{stray}'")).hint(remedy));
    }
    let amount = |key: &str| -> Result<Option<Amount>, Error> {
        let Some(value) = table.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        let read = serde_json::from_value(value.clone());
        read.map(Some).map_err(|error| invalid(error.to_string()).at(key))
    };
    let path = table.get("path").map_or(Some(""), Value::as_str);
    let Some(path) = path else { return Err(invalid("is no text".into()).at("path")) };
    let (quota, free) = (amount("quota")?, amount("free")?);
    let mut tier = match (kind, quota) {
        ("disk", quota) => {
            TierConfig::parse(&format!("disk:{path}:{}", quota.unwrap_or(forebay::config::DISK_QUOTA)))?
        }
        (kind, Some(quota)) => TierConfig::parse(&format!("{kind}:{quota}"))?,
        (kind, None) => TierConfig::parse(kind)?,
    };
    if let TierConfig::Disk(disk) = &mut tier {
        disk.free = free;
        let is_set = |key: &str| match table.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(is_set)) => Ok(*is_set),
            Some(_) => Err(invalid("is neither true nor false".into()).at(key)),
        };
        (disk.keep, disk.network) = (is_set("keep")?, is_set("network")?);
    }
    Ok(tier)
}

/// The exception for `error`, with arguments called as they are in Python.
fn raised_in_words(error: Error) -> PyErr {
    let text = error.to_string();
    let Some((flag, rest)) = text.strip_prefix("--").and_then(|text| text.split_once(':')) else {
        return raised(error);
    };
    let name = match flag {
        "block" => "tier_block".to_owned(),
        "ahead" => "tier_ahead".to_owned(),
        flag => flag.replace('-', "_"),
    };
    let text = format!("{name}:{rest}");
    raised(Error::new(error.kind(), text).because(error))
}
