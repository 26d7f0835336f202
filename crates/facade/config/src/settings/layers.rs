//! Values of several layers, of which the upper one wins.

use std::collections::BTreeMap;

use forebay_process::Result;

use crate::{
    config::{
        Config,
        amount::Amount,
        tier::{DiskWords, TierConfig},
    },
    environment::Environment,
    settings::{
        find::NONE,
        given::GivenValue,
        setting::{Overrides, Setting},
        table,
        value_origin::ValueOrigin,
    },
};

/// What the flag and the variable for tiers are called.
const TIERS: (&str, &str) = ("--tier", table::TIERS_VARIABLE);

/// A configuration that is put together from the top down: a value that is set stays.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) config: Config,
    pub(crate) origins: BTreeMap<String, ValueOrigin>,
    has_tiers: bool,
}

/// A tier, and where each value of it comes from.
#[derive(Debug)]
pub(crate) struct TierSetting {
    pub(crate) tier: TierConfig,
    /// By the name of a value in the table of the tier.
    pub(crate) origins: BTreeMap<&'static str, ValueOrigin>,
}

impl Layers {
    pub(crate) fn add_flags(&mut self, overrides: &Overrides, environment: &Environment<'_>) -> Result<()> {
        for setting in table::all() {
            if let Some(text) = (setting.text)(overrides) {
                self.add_text(setting, text, ValueOrigin::Flag(setting.flag), environment)
                    .map_err(|error| error.at(setting.flag))?;
            }
        }
        self.add_tier_words(&overrides.tiers, &ValueOrigin::Flag(TIERS.0), environment)
            .map_err(|error| error.at(TIERS.0))
    }

    pub(crate) fn add_environment(&mut self, environment: &Environment<'_>) -> Result<()> {
        for setting in table::all() {
            if let Some(text) = environment.get(setting.variable) {
                self.add_text(setting, &text, ValueOrigin::Variable(setting.variable), environment)
                    .map_err(|error| error.at(setting.variable))?;
            }
        }
        let words = environment.get(TIERS.1).unwrap_or_default();
        let words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_owned).collect();
        self.add_tier_words(&words, &ValueOrigin::Variable(TIERS.1), environment)
            .map_err(|error| error.at(TIERS.1))
    }

    fn add_text(
        &mut self,
        setting: &Setting,
        text: &str,
        origin: ValueOrigin,
        environment: &Environment<'_>,
    ) -> Result<()> {
        self.set(setting, GivenValue::Text(text.trim()), origin, environment)
    }

    fn add_tier_words(
        &mut self,
        words: &[String],
        origin: &ValueOrigin,
        environment: &Environment<'_>,
    ) -> Result<()> {
        let words = match words {
            [] => return Ok(()),
            [only] if only == NONE => &[],
            words => words,
        };
        let one = |word: &String| {
            let tier = TierConfig::parse_in(word, environment)?;
            let mut keys = vec!["kind"];
            keys.extend(matches!(tier, TierConfig::Disk(_)).then_some("path"));
            let (rest, options) = DiskWords::split(word.trim())?;
            keys.extend(options.keep.then_some("keep"));
            keys.extend(options.network.then_some("network"));
            keys.extend(options.free.map(|_| "free"));
            keys.extend(has_quota(rest).then_some("quota"));
            let origins = keys.into_iter().map(|key| (key, origin.clone())).collect();
            Ok(TierSetting { tier, origins })
        };
        self.set_tiers(words.iter().map(one).collect::<Result<_>>()?);
        Ok(())
    }

    /// Puts a value in force, unless a layer above has set it.
    pub(crate) fn set(
        &mut self,
        setting: &Setting,
        given: GivenValue<'_>,
        origin: ValueOrigin,
        environment: &Environment<'_>,
    ) -> Result<()> {
        let name = setting.name();
        if self.origins.contains_key(&name) {
            // A value that another overrides has to make sense all the same.
            return (setting.set)(&mut Config::default(), given, environment);
        }
        (setting.set)(&mut self.config, given, environment)?;
        self.origins.insert(name, origin);
        Ok(())
    }

    /// Puts tiers in force, unless a layer above has set some: they are replaced as a whole, not joined.
    pub(crate) fn set_tiers(&mut self, tiers: Vec<TierSetting>) {
        if self.has_tiers {
            return;
        }
        self.has_tiers = true;
        for (index, TierSetting { tier, origins }) in tiers.into_iter().enumerate() {
            self.config.tiers.push(tier);
            let named = origins.into_iter().map(|(key, origin)| (format!("tier.{index}.{key}"), origin));
            self.origins.extend(named);
        }
    }
}

/// True where the short word of a tier ends with a quota.
fn has_quota(word: &str) -> bool {
    word.rsplit_once(':').is_some_and(|(_, last)| last.parse::<Amount>().is_ok())
}
