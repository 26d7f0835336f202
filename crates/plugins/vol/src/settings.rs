//! The settings of this connector, read once: the table `[hdf5]` and its variables, and those of Cache VOL.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use forebay_config::{
    Amount, Config, DISK_QUOTA, DiskConfig, FastPlace, Hdf5Config, MEMORY_QUOTA, ManagedPaths, PeerReads,
    PluginSettings, PrestageMode, StageScope, TierConfig,
};
use forebay_process::{Result, WarnOnce};
use forebay_tier::BuiltinPolicy;

/// What the connector was told.
#[derive(Clone, Debug)]
pub(crate) struct VolSettings {
    /// Which files are managed.
    pub(crate) managed: ManagedPaths,
    /// Where values are kept; nowhere: nothing is cached.
    pub(crate) place: Option<TierConfig>,
    /// What leaves when the place is full.
    pub(crate) policy: BuiltinPolicy,
    /// Whether ranks read what others of them have cached.
    pub(crate) peers: PeerReads,
    /// Reads are cached unless the program says otherwise for a file.
    pub(crate) caches: bool,
    /// Whether data sets are read as a whole when they are first read.
    pub(crate) prestage: PrestageMode,
    /// Managed files are opened over this project's file driver.
    pub(crate) uses_driver: bool,
    /// Bytes of a unit.
    pub(crate) unit: u64,
    /// Data sets of fewer bytes are left to the byte tiers below: each takes two files in a folder.
    pub(crate) least: u64,
    /// A file that was changed less than this ago is not cached: its times are drawn from a coarse clock, and another write could
    /// leave the same.
    pub(crate) clock_grain: Duration,
}

static SETTINGS: OnceLock<VolSettings> = OnceLock::new();
/// The file that a connector string named before the settings were read.
static NAMED_FILE: Mutex<Option<PathBuf>> = Mutex::new(None);
static IN_ERROR: WarnOnce = WarnOnce::new();

/// Has the settings read from `file` as well, in Cache VOL's format; one that is named after they were read counts no more.
pub(crate) fn name_file(file: &str) {
    *NAMED_FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(file.into());
}

/// The settings of this process.
pub(crate) fn current() -> &'static VolSettings {
    SETTINGS.get_or_init(|| {
        VolSettings::read(|name| std::env::var_os(name)).unwrap_or_else(|error| {
            IN_ERROR.say(format_args!("{error}; HDF5 files are read without a cache"));
            let config = Hdf5Config { read: false, ..Hdf5Config::default() };
            VolSettings::of(PluginSettings::from_config(Config { hdf5: config, ..Config::default() }))
        })
    })
}

impl VolSettings {
    /// From variables that `get` knows.
    fn read(get: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let named = NAMED_FILE.lock().unwrap_or_else(PoisonError::into_inner).clone();
        PluginSettings::from_variables(get, named).map(Self::of)
    }

    fn of(settings: PluginSettings) -> Self {
        let config = settings.config.hdf5;
        let quota = |default: Amount| config.cache_quota.unwrap_or(default);
        let place = config.cache.as_ref().map(|place| match place {
            FastPlace::Memory => TierConfig::Memory { quota: quota(MEMORY_QUOTA) },
            FastPlace::Folder(path) => {
                // What several nodes share lies behind a network, and outlives each of them.
                let is_global = config.scope == StageScope::Global;
                let (quota, disk) = (quota(DISK_QUOTA), DiskConfig::at(path));
                TierConfig::Disk(DiskConfig { quota, keep: is_global, network: is_global, ..disk })
            }
        });
        Self {
            managed: settings.managed,
            caches: place.is_some() && config.read,
            place,
            policy: config.cache_policy.builtin(),
            peers: config.peers,
            prestage: config.prestage,
            uses_driver: config.has_driver(),
            unit: config.unit,
            least: config.least,
            clock_grain: Duration::from_millis(config.clock_grain_ms),
        }
    }
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
        let settings =
            of(&[("FOREBAY_HDF5_CACHE", "memory"), ("FOREBAY_HDF5_CACHE_QUOTA", "64MiB")]).unwrap();
        let quota = Amount::Bytes(64 << 20);
        assert!(settings.caches && settings.place == Some(TierConfig::Memory { quota }));
        let settings = of(&[("FOREBAY_HDF5_CACHE", "/nvme"), ("FOREBAY_HDF5_READ", "0")]).unwrap();
        assert!(!settings.caches && matches!(settings.place, Some(TierConfig::Disk(_))));
        let shared = of(&[("FOREBAY_HDF5_CACHE", "/bb"), ("FOREBAY_HDF5_SCOPE", "global")]).unwrap();
        let Some(TierConfig::Disk(disk)) = shared.place else { panic!("a disk: {shared:?}") };
        assert!(disk.keep && disk.network);
    }

    #[test]
    fn a_file_that_the_connector_string_names_is_read_in_cache_vols_format() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache.cfg");
        let text = "HDF5_CACHE_STORAGE_TYPE MEMORY\nHDF5_CACHE_STORAGE_SIZE 1048576\nHDF5_CACHE_STORAGE_SCOPE LOCAL\nHDF5_CACHE_REPLACEMENT_POLICY FIFO\n";
        std::fs::write(&file, text).unwrap();
        let connector = format!("cache_ext config={};under_vol=0;under_info={{}}", file.display());
        let settings = of(&[("HDF5_VOL_CONNECTOR", &connector), ("HDF5_CACHE_RD", "yes")]).unwrap();
        assert_eq!(settings.policy, BuiltinPolicy::Fifo);
        assert!(of(&[("FOREBAY_HDF5_UNIT", "big")]).is_err());
    }
}
