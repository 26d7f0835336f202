//! Settings of staged writes and HDF5 plug-ins, and those of HDF5's Cache VOL.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{fs, path::Path};

use forebay_config::{
    Amount, Environment, FastPlace, Overrides, PeerReads, PluginChoice, PolicyName, PrestageMode, Settings,
    StageScope, ValueOrigin,
};
use forebay_process::{ErrorKind, Result};

const WHOLE: &str = r#"
[stage]
path = "/nvme/$USER/stage"
quota = "50GiB"
free_floor = "1GiB"
drainers = 2
bandwidth = "500MB/s"
memory = "256MiB"
paused = true

[hdf5]
paths = ["/lustre/run", "~/ckpt"]
plugins = "both"
write = false
read = false
delay_close = true
scope = "global"
cache = "memory"
cache_quota = "10%"
cache_policy = "lfu"
peers = "off"
prestage = "background"
unit = "4MiB"
least = 1
clock_grain_ms = 20
"#;

/// The settings of plug-ins where `forebay.toml` says `text` and the connector string names a file that says `cfg`.
fn loaded(text: &str, cfg: Option<&str>, variables: &[(&str, &str)]) -> Result<Settings> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("forebay.toml"), text).unwrap();
    if let Some(cfg) = cfg {
        fs::write(folder.path().join("cache.cfg"), cfg).unwrap();
    }
    let variable = |name: &str| {
        let known = [("USER", "ada"), ("HOME", "/home/ada")];
        let found = variables.iter().chain(&known).find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let environment = Environment { variable: &variable, folder: folder.path().to_owned() };
    let cfg = cfg.map(|_| Path::new("cache.cfg"));
    Settings::load_for_hdf5_in(&Overrides::default(), cfg, &environment)
}

fn folder(path: &str) -> Option<FastPlace> {
    Some(FastPlace::Folder(path.into()))
}

#[test]
fn a_file_sets_every_key_and_what_is_printed_is_read_back() {
    let settings = loaded(WHOLE, None, &[]).unwrap();
    let (stage, hdf5) = (&settings.config.stage, &settings.config.hdf5);
    assert_eq!(stage.path, folder("/nvme/ada/stage"));
    assert_eq!((stage.quota, stage.free_floor), (Amount::Bytes(50 << 30), Some(Amount::Bytes(1 << 30))));
    assert_eq!((stage.drainers, stage.bandwidth, stage.paused), (2, Some(500_000_000), true));
    assert_eq!(stage.memory, Amount::Bytes(256 << 20));
    assert_eq!(hdf5.paths, [Path::new("/lustre/run"), Path::new("/home/ada/ckpt")]);
    assert_eq!((hdf5.plugins, hdf5.scope), (PluginChoice::Both, StageScope::Global));
    assert_eq!((hdf5.write, hdf5.read, hdf5.delay_close), (false, false, true));
    assert_eq!((&hdf5.cache, hdf5.cache_quota), (&Some(FastPlace::Memory), Some(Amount::Percent(10))));
    assert_eq!((hdf5.cache_policy, hdf5.prestage), (PolicyName::Lfu, PrestageMode::Background));
    assert_eq!(hdf5.peers, PeerReads::Off);
    assert_eq!((hdf5.unit, hdf5.least, hdf5.clock_grain_ms), (4 << 20, 1, 20));
    let again = loaded(&settings.to_toml(), None, &[]).unwrap();
    assert_eq!(again.config, settings.config, "{}", settings.to_toml());
    let json = serde_json::to_string(&settings.config).unwrap();
    let again: forebay_config::Config = serde_json::from_str(&json).unwrap();
    assert_eq!(again, settings.config, "{json}");
}

#[test]
fn variables_win_over_the_file_and_are_named_as_the_origin() {
    let variables = [
        ("FOREBAY_STAGE", "memory"),
        ("FOREBAY_STAGE_QUOTA", "1GiB"),
        ("FOREBAY_HDF5_PATHS", "/a:/b/c:"),
        ("FOREBAY_DELAY_CLOSE", "0"),
        ("FOREBAY_PRESTAGE", "1"),
        ("FOREBAY_HDF5_CACHE", "/nvme/cache"),
    ];
    let settings = loaded(WHOLE, None, &variables).unwrap();
    let (stage, hdf5) = (&settings.config.stage, &settings.config.hdf5);
    assert_eq!((&stage.path, stage.quota), (&Some(FastPlace::Memory), Amount::Bytes(1 << 30)));
    assert_eq!(hdf5.paths, [Path::new("/a"), Path::new("/b/c")]);
    assert_eq!((hdf5.delay_close, hdf5.prestage), (false, PrestageMode::Blocking));
    assert_eq!(hdf5.cache, folder("/nvme/cache"));
    assert_eq!(*settings.origin_of("stage.path"), ValueOrigin::Variable("FOREBAY_STAGE"));
    assert_eq!(*settings.origin_of("hdf5.prestage"), ValueOrigin::Variable("FOREBAY_PRESTAGE"));
    assert!(settings.to_toml().contains("# environment FOREBAY_HDF5_PATHS"), "{}", settings.to_toml());
}

#[test]
fn the_connector_is_switched_on_where_it_has_something_to_do() {
    let of = |text: &str| loaded(text, None, &[]).unwrap().config.hdf5;
    let is_on = |text: &str| (of(text).has_driver(), of(text).has_connector());
    assert_eq!(is_on(""), (true, false));
    assert_eq!(is_on("[hdf5]\ncache = \"memory\""), (true, true));
    assert_eq!(is_on("[hdf5]\nprestage = true"), (true, true));
    assert_eq!(is_on("[hdf5]\ncache = \"memory\"\nplugins = \"vfd\""), (true, false));
    assert_eq!(is_on("[hdf5]\nplugins = \"vol\""), (false, true));
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_a_remedy() {
    for (file, expected) in [
        ("[stage]\npath = \"stage\"", "line 2: [stage] path: 'stage' is not an absolute path"),
        ("[stage]\nbandwidth = 0", "line 2: [stage] bandwidth: a bandwidth of 0; leave it out"),
        ("[stage]\ndrainers = 0", "line 2: [stage] drainers: 0 threads; from 1 to 1024"),
        ("[hdf5]\npaths = \"relative\"", "line 2: [hdf5] paths: 'relative' is not an absolute path"),
        ("[hdf5]\npaths = 1", "line 2: [hdf5] paths: a list of paths is wanted"),
        ("[hdf5]\nunit = 512", "line 2: [hdf5] unit: units of 512 are not between 1KiB and 1GiB"),
        ("[hdf5]\nclock_grain_ms = \"2s\"", "line 2: [hdf5] clock_grain_ms: a whole number"),
        ("[hdf5]\nscope = \"globl\"", "line 2: [hdf5] scope: unknown scope 'globl'; did you mean 'global'?"),
        (
            "[hdf5]\nprestage = \"later\"",
            "unknown way to prestage 'later'; it is one of off, blocking, background",
        ),
        ("[hdf5]\npath = \"/x\"", "line 2: [hdf5]: unknown key 'path'; did you mean 'paths'?"),
        ("[stage]\nqota = 1", "line 2: [stage]: unknown key 'qota'; did you mean 'quota'?"),
    ] {
        let said = loaded(file, None, &[]).unwrap_err().to_string();
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

const CFG: &str = "\
# a comment
HDF5_CACHE_STORAGE_SCOPE: LOCAL # the scope
HDF5_CACHE_STORAGE_PATH: /local/scr$atch
HDF5_CACHE_STORAGE_SIZE: 128188383838
HDF5_CACHE_WRITE_BUFFER_SIZE: 2147483648
HDF5_CACHE_STORAGE_TYPE: SSD
HDF5_CACHE_REPLACEMENT_POLICY: LFU
HDF5_CACHE_FUSION_THRESHOLD: 16777216";

#[test]
fn a_file_of_cache_vol_says_the_same_here() {
    let settings = loaded("[stage]\nquota = \"1GiB\"", Some(CFG), &[]).unwrap();
    let (stage, hdf5) = (&settings.config.stage, &settings.config.hdf5);
    assert_eq!((&stage.path, &hdf5.cache), (&folder("/local/scr$atch"), &folder("/local/scr$atch")));
    assert_eq!(stage.quota, Amount::Bytes(2 << 30), "it stands above forebay.toml");
    assert_eq!(hdf5.cache_quota, Some(Amount::Bytes(128_188_383_838 - (2 << 30))));
    assert_eq!((hdf5.scope, hdf5.cache_policy), (StageScope::Local, PolicyName::Lfu));
    assert!(settings.origin_of("hdf5.cache").to_string().ends_with("cache.cfg, line 3"));
    let variables = [("FOREBAY_STAGE", "memory"), ("HDF5_CACHE_STORAGE_SCOPE", "GLOBAL")];
    let settings = loaded("", Some(CFG), &variables).unwrap();
    assert_eq!(settings.config.stage.path, Some(FastPlace::Memory), "forebay's own variable wins");
    assert_eq!(settings.config.hdf5.scope, StageScope::Local, "the file wins over Cache VOL's variable");
}

#[test]
fn memory_old_files_and_relative_paths_are_understood() {
    let of = |cfg: &str| loaded("", Some(cfg), &[]).unwrap().config;
    let memory =
        of("HDF5_CACHE_STORAGE_TYPE: MEMORY\nHDF5_CACHE_STORAGE_PATH: NULL\nHDF5_CACHE_STORAGE_SIZE: 1e9");
    assert_eq!((memory.stage.path, memory.hdf5.cache), (Some(FastPlace::Memory), Some(FastPlace::Memory)));
    assert_eq!(memory.hdf5.cache_quota, Some(Amount::Bytes(1_000_000_000)));
    let old =
        of("HDF5_CACHE_STORAGE_SCOPE GLOBAL # as older versions have it\n\nHDF5_CACHE_STORAGE_PATH SSD\n");
    assert_eq!(old.hdf5.scope, StageScope::Global);
    let Some(FastPlace::Folder(path)) = old.stage.path else { panic!("a folder") };
    assert!(path.is_absolute() && path.ends_with("SSD"), "{path:?}");
}

#[test]
fn what_cache_vol_has_and_forebay_has_not_is_refused() {
    let fails = |cfg: &str, kind: ErrorKind, expected: &str| {
        let error = loaded("", Some(cfg), &[]).unwrap_err();
        let said = error.to_string();
        assert_eq!(error.kind(), kind, "{said}");
        assert!(said.contains("cache.cfg: line 1: ") && said.contains(expected), "{expected}\n{said}");
    };
    fails("HDF5_CACHE_STORAGE_TYPE: GPU", ErrorKind::Unsupported, "storage of type GPU is not supported");
    fails("HDF5_CACHE_STORAGE_TYPE: TAPE", ErrorKind::Invalid, "it is one of SSD, BURST_BUFFER, MEMORY");
    fails("HDF5_CACHE_STORAGE_SIZ: 1", ErrorKind::Invalid, "did you mean 'HDF5_CACHE_STORAGE_SIZE'?");
    fails("HDF5_CACHE_STORAGE_SIZE: much", ErrorKind::Invalid, "'much' is no size");
    fails("HDF5_CACHE_FUSION_THRESHOLD: much", ErrorKind::Invalid, "'much' is no size");
    fails("HDF5_CACHE_STORAGE_SCOPE: NODE", ErrorKind::Invalid, "unknown scope 'node'");
    fails("HDF5_CACHE_REPLACEMENT_POLICY: MRU", ErrorKind::Invalid, "unknown policy 'mru'");
    let smaller = "HDF5_CACHE_STORAGE_SIZE: 10\nHDF5_CACHE_WRITE_BUFFER_SIZE: 20";
    fails(smaller, ErrorKind::Invalid, "make the write buffer smaller");
    let gpu = loaded("", None, &[("HDF5_CACHE_STORAGE_TYPE", "GPU")]).unwrap_err().to_string();
    assert!(gpu.starts_with("HDF5_CACHE_STORAGE_TYPE: storage of type GPU"), "{gpu}");
    let missing = Settings::load_for_hdf5(&Overrides::default(), Some(Path::new("/nowhere/cache.cfg")));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_switches_of_cache_vol_mean_all_files_unless_some_are_named() {
    let of = |text: &str, variables: &[(&str, &str)]| loaded(text, None, variables).unwrap().config.hdf5;
    let on = of("", &[("HDF5_CACHE_WR", "yes")]);
    assert_eq!((on.paths, on.write, on.read), (vec!["/".into()], true, false));
    let on = of("", &[("HDF5_CACHE_WR", "yes"), ("HDF5_CACHE_RD", "yes")]);
    assert_eq!((on.write, on.read), (true, true));
    let named = of("[hdf5]\npaths = [\"/lustre\"]", &[("HDF5_CACHE_RD", "no"), ("HDF5_CACHE_WR", "yes")]);
    assert_eq!((named.paths, named.write, named.read), (vec!["/lustre".into()], true, false));
    let off = of("", &[("HDF5_CACHE_WR", "no")]);
    assert_eq!((off.paths.len(), off.write, off.read), (0, false, true));
    assert_eq!(of("", &[("FOREBAY_HDF5_PATHS", "/x")]).paths, [Path::new("/x")]);
}
