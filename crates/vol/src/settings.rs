//! The settings of this connector, read once.

use std::{ffi::OsStr, sync::OnceLock};

use forebay_config::TierConfig;
use forebay_plugin::{ManagedPaths, PluginSettings, WarnOnce};
use forebay_source::{Error, Result, size};
use forebay_tier::BuiltinPolicy;

use crate::{info_text::switch, unit_grid::UNIT_BYTES};

/// What the connector was told.
#[derive(Clone, Debug)]
pub(crate) struct VolSettings {
    /// Which files are managed.
    pub(crate) managed: ManagedPaths,
    /// Where values are kept (`FOREBAY_HDF5_CACHE`); nowhere: nothing is cached.
    pub(crate) place: Option<TierConfig>,
    /// Which units leave when the place is full (`FOREBAY_HDF5_POLICY`).
    pub(crate) policy: BuiltinPolicy,
    /// Reads are cached unless the program says otherwise for a file (`HDF5_CACHE_RD`).
    pub(crate) caches: bool,
    /// Data sets are read as a whole when they are first read (`FOREBAY_PRESTAGE`).
    pub(crate) prestage: bool,
    /// Bytes of a unit (`FOREBAY_HDF5_UNIT`).
    pub(crate) unit: u64,
    /// Data sets of fewer bytes are left to the byte tiers below (`FOREBAY_HDF5_LEAST`): each takes two files in a folder.
    pub(crate) least: u64,
}

/// Two files of a disk tier for less than this cost more than they save.
const LEAST_BYTES: u64 = 64 << 10;

/// Bytes that wait to be put into the tier, at most (the writer's thread is behind): 64 units.
pub(crate) const WAITING_BYTES: u64 = 64 << 20;

static SETTINGS: OnceLock<VolSettings> = OnceLock::new();
static IN_ERROR: WarnOnce = WarnOnce::new();

/// The settings of this process.
pub(crate) fn current() -> &'static VolSettings {
    SETTINGS.get_or_init(|| {
        VolSettings::read(|name| std::env::var_os(name)).unwrap_or_else(|error| {
            IN_ERROR.say(format_args!("{error}; HDF5 files are read without a cache"));
            VolSettings::nothing()
        })
    })
}

impl VolSettings {
    fn nothing() -> Self {
        Self {
            managed: ManagedPaths::default(),
            place: None,
            policy: BuiltinPolicy::FirstFit,
            caches: false,
            prestage: false,
            unit: UNIT_BYTES,
            least: LEAST_BYTES,
        }
    }

    /// From variables that `get` knows.
    fn read(get: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<Self> {
        let shared = PluginSettings::from_variables(&get)?;
        let text = |name: &str| {
            let value = get(name).filter(|value| !value.is_empty())?;
            Some(utf8(name, &value).map(str::to_owned))
        };
        let bytes = |name: &str, default: u64| match text(name).transpose()? {
            Some(value) => size::parse(&value).map_err(|what| Error::invalid(what).at(name)),
            None => Ok(default),
        };
        let place = text("FOREBAY_HDF5_CACHE").transpose()?;
        let place = place.map(|word| TierConfig::parse(&word)).transpose()?;
        let policy = match text("FOREBAY_HDF5_POLICY").transpose()? {
            Some(word) => policy(&word)?,
            None => BuiltinPolicy::FirstFit,
        };
        let said = text("HDF5_CACHE_RD").transpose()?.and_then(|value| switch(&value));
        Ok(Self {
            managed: shared.managed,
            caches: place.is_some() && said.unwrap_or(true),
            place,
            policy,
            prestage: shared.prestage,
            unit: bytes("FOREBAY_HDF5_UNIT", UNIT_BYTES)?,
            least: bytes("FOREBAY_HDF5_LEAST", LEAST_BYTES)?,
        })
    }
}

fn policy(word: &str) -> Result<BuiltinPolicy> {
    let wanted = word.trim().to_ascii_lowercase();
    BuiltinPolicy::ALL.into_iter().find(|policy| policy.word() == wanted).ok_or_else(|| {
        Error::invalid(format!("no policy is called {word:?}"))
            .at("FOREBAY_HDF5_POLICY")
            .hint("first-fit, lru, lfu, fifo or lifo")
    })
}

fn utf8<'a>(name: &str, value: &'a OsStr) -> Result<&'a str> {
    value.to_str().ok_or_else(|| Error::invalid("not UTF-8").at(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<VolSettings> {
        VolSettings::read(|name| {
            variables.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn nothing_is_cached_unless_a_place_is_named() {
        let settings = of(&[("FOREBAY_HDF5_PATHS", "/lustre")]).unwrap();
        assert!(!settings.caches && settings.place.is_none());
        let settings = of(&[("FOREBAY_HDF5_CACHE", "memory:64MiB")]).unwrap();
        assert!(settings.caches && settings.policy == BuiltinPolicy::FirstFit);
        let settings = of(&[("FOREBAY_HDF5_CACHE", "/nvme:1GiB:keep"), ("HDF5_CACHE_RD", "no")]).unwrap();
        assert!(!settings.caches && matches!(settings.place, Some(TierConfig::Disk(_))));
    }

    #[test]
    fn policies_go_by_the_names_that_cache_vol_has_for_them() {
        for (word, policy) in [("LRU", BuiltinPolicy::Lru), ("lifo", BuiltinPolicy::Lifo)] {
            assert_eq!(of(&[("FOREBAY_HDF5_POLICY", word)]).unwrap().policy, policy);
        }
        let error = of(&[("FOREBAY_HDF5_POLICY", "best")]).unwrap_err();
        assert!(error.to_string().contains("FOREBAY_HDF5_POLICY"), "{error}");
        assert!(of(&[("FOREBAY_HDF5_UNIT", "big")]).is_err());
    }
}
