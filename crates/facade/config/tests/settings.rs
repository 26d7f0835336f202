//! Configurations: what wins, what is refused and how, and that what is printed is read back.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;

use forebay_config::{
    Amount, DISK_QUOTA, DiskConfig, Environment, Overrides, PolicyName, Settings, TierConfig, ValueOrigin,
};
use forebay_process::{ErrorKind, Result};

const WHOLE: &str = r#"
[origin]
path = "/lustre/set"

[[tier]]
kind = "memory"
quota = "4GiB"

[[tier]]
kind = "disk"
path = "/nvme/$USER"
quota = "50%"
keep = false
free = 1073741824

[placement]
policy = "first-fit"
threads = 3
block = "2MiB"
whole_file = false
ahead = "1GiB"
"#;

/// The settings where the file says `text`, by these flags and this environment.
fn loaded(text: &str, overrides: Overrides, variables: &[(&str, &str)]) -> Result<Settings> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("forebay.toml"), text).unwrap();
    let variable = |name: &str| {
        let known = [("USER", "ada"), ("HOME", "/home/ada")];
        let found = variables.iter().chain(&known).find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings::load_in(&overrides, &Environment { variable: &variable, folder: folder.path().to_owned() })
}

fn of_file(text: &str) -> Result<Settings> {
    loaded(text, Overrides::default(), &[])
}

fn text(word: &str) -> Option<String> {
    Some(word.to_owned())
}

#[test]
fn a_file_says_everything() {
    let settings = of_file(WHOLE).unwrap();
    let config = &settings.config;
    assert_eq!(config.origin.path.as_deref(), Some("/lustre/set"));
    let disk = DiskConfig {
        path: "/nvme/ada".into(),
        quota: Amount::Percent(50),
        keep: false,
        free: Some(Amount::Bytes(1 << 30)),
        network: false,
    };
    assert_eq!(config.tiers, [TierConfig::Memory { quota: Amount::Bytes(4 << 30) }, TierConfig::Disk(disk)]);
    let placement = &config.placement;
    assert_eq!((placement.policy, placement.threads, placement.block), (PolicyName::FirstFit, 3, 2 << 20));
    assert_eq!((placement.whole_file, placement.ahead), (false, 1 << 30));
}

#[test]
fn without_anything_said_there_are_defaults_and_no_tiers() {
    let settings = of_file("").unwrap();
    let placement = &settings.config.placement;
    assert_eq!((placement.policy, placement.threads, placement.block), (PolicyName::Auto, 6, 1 << 20));
    assert_eq!((placement.whole_file, placement.ahead), (true, 256 << 20));
    assert!(settings.config.tiers.is_empty() && settings.config.origin.path.is_none());
    assert_eq!(settings.origin_of("placement.threads"), &ValueOrigin::Default);
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let environment =
        [("FOREBAY_POLICY", "lru"), ("FOREBAY_BLOCK", "64KiB"), ("FOREBAY_TIERS", "memory, /nvme/$USER")];
    let flags = Overrides { policy: text("lfu"), ..Overrides::default() };
    let settings = loaded(WHOLE, flags, &environment).unwrap();
    let placement = &settings.config.placement;
    assert_eq!((placement.policy, placement.block, placement.threads), (PolicyName::Lfu, 64 << 10, 3));
    assert_eq!(settings.origin_of("placement.policy"), &ValueOrigin::Flag("--policy"));
    assert_eq!(settings.origin_of("placement.block"), &ValueOrigin::Variable("FOREBAY_BLOCK"));
    assert!(matches!(settings.origin_of("placement.threads"), ValueOrigin::File { line: 18, .. }));
    assert_eq!(settings.config.tiers[1], TierConfig::Disk(DiskConfig::at("/nvme/ada")));
    assert_eq!(settings.origin_of("tier.1.path"), &ValueOrigin::Variable("FOREBAY_TIERS"));
    assert_eq!(settings.origin_of("tier.1.quota"), &ValueOrigin::Default);

    let none = Overrides { tiers: vec!["none".to_owned()], ..Overrides::default() };
    assert_eq!(loaded(WHOLE, none, &environment).unwrap().config.tiers, [], "tiers are replaced, not joined");
    let unread = Overrides { config: text("none"), ..Overrides::default() };
    assert_eq!(loaded("nonsense", unread, &[]).unwrap().file, None);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_a_remedy() {
    for (file, expected) in [
        (
            "[[tier]]\nkind = \"disk\"\npath = \"/x\"\nquotta = 1",
            "line 4: [[tier]]: unknown key 'quotta'; did you mean 'quota'?",
        ),
        ("\n[placment]\nthreads = 1", "line 2: unknown key 'placment'; did you mean 'placement'?"),
        (
            "[placement]\npolicy = \"firstfit\"",
            "line 2: [placement] policy: unknown policy 'firstfit'; did you mean 'first-fit'?",
        ),
        ("[[tier]]\nkind = \"dsk\"", "line 2: [[tier]] kind: unknown kind 'dsk'; did you mean 'disk'?"),
        ("[[tier]]\nkind = \"tape\"", "unknown kind 'tape'; it is one of memory, disk, peers"),
        ("[[tier]]\nquota = 5", "line 1: [[tier]]: a tier needs a kind; it is memory, disk or peers"),
        ("[[tier]]\nkind = \"disk\"", "line 1: [[tier]]: a disk tier needs a path"),
        ("[[tier]]\nkind = \"memory\"\nkeep = true", "line 3: [[tier]] keep: a memory tier has no such key"),
        ("[[tier]]\npath = \"/x\"\nquota = \"5 apples\"", "line 3: [[tier]] quota: '5 apples' is no size"),
        ("[[tier]]\npath = \"/x\"\nquota = 1.5", "line 3: [[tier]] quota: a size such as"),
        ("[[tier]]\npath = \"/x\"\nquota = -1", "line 3: [[tier]] quota: a whole number from 0 up is wanted"),
        ("[[tier]]\npath = \"cache\"", "line 2: [[tier]] path: 'cache' is not an absolute path"),
        (
            "[[tier]]\npath = \"/x/$NOBODY\"",
            "line 2: [[tier]] path: the variable NOBODY in '/x/$NOBODY' is not set",
        ),
        ("[placement]\nthreads = 0", "line 2: [placement] threads: 0 threads; from 1 to 1024"),
        (
            "[placement]\nblock = \"3MiB\"",
            "line 2: [placement] block: blocks of 3145728 bytes; a block is a power of two",
        ),
        (
            "[placement]\nwhole_file = 1",
            "line 2: [placement] whole_file: true or false is wanted here, not an integer",
        ),
        ("placement = 1", "line 1: placement: a table is wanted"),
        ("tier = 1", "line 1: tier: a list of tables, each under [[tier]], is wanted"),
        ("[origin\npath = 1", "line 1: "),
        ("[origin]\npath = \"/a\"\npath = \"/b\"", "line 3: "),
    ] {
        let error = of_file(file).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("forebay.toml: line "), "{said}");
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

#[test]
fn what_is_wrong_outside_the_file_is_told_by_its_name() {
    for (name, value, expected) in [
        ("FOREBAY_POLICY", "lur", "FOREBAY_POLICY: unknown policy 'lur'; did you mean 'lru'?"),
        ("FOREBAY_PLACEMENT_THREADS", "many", "FOREBAY_PLACEMENT_THREADS: 'many' is no number of threads"),
        ("FOREBAY_TIERS", "memory,dsk:/x", "FOREBAY_TIERS: tier 'dsk:/x': unknown kind 'dsk'"),
        ("FOREBAY_WHOLE_FILE", "maybe", "FOREBAY_WHOLE_FILE: unknown answer 'maybe'"),
        ("FOREBAY_CONFIG", "/nowhere/forebay.toml", "FOREBAY_CONFIG: /nowhere/forebay.toml: "),
    ] {
        let said = loaded("", Overrides::default(), &[(name, value)]).unwrap_err().to_string();
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let flags = Overrides { block: text("1000"), ..Overrides::default() };
    let error = loaded("", flags, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().starts_with("--block: "), "{error}");
}

#[test]
fn what_is_printed_is_read_back() {
    let odd = "[origin]\npath = \"s3://bucket/a$$b\"\n[[tier]]\npath = \"/a \\\"b\\\" $$c#\\n\"\n";
    for text in [WHOLE, "", odd] {
        let first = of_file(text).unwrap();
        let printed = first.to_toml();
        let again = of_file(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(again.config, first.config, "{printed}");
    }
    let environment = [("FOREBAY_TIERS", "memory:10%,/nvme/$USER:7"), ("FOREBAY_AHEAD", "12345")];
    let first = loaded(WHOLE, Overrides::default(), &environment).unwrap();
    assert_eq!(of_file(&first.to_toml()).unwrap().config, first.config);
}

#[test]
fn what_is_printed_says_where_each_value_comes_from() {
    let flags = Overrides { tiers: vec!["/nvme".to_owned()], ..Overrides::default() };
    let printed = loaded("[placement]\nthreads = 2", flags, &[("FOREBAY_POLICY", "lru")]).unwrap().to_toml();
    let line = |start: &str| {
        let found = printed.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {printed}")).to_owned()
    };
    assert!(line("path = \"/nvme\"").ends_with("# flag --tier"), "{printed}");
    assert!(line(&format!("quota = \"{DISK_QUOTA}\"")).ends_with("# default"), "{printed}");
    assert!(line("policy = \"lru\"").ends_with("# environment FOREBAY_POLICY"), "{printed}");
    assert!(line("threads = 2").ends_with("forebay.toml, line 2"), "{printed}");
    assert!(line("ahead = \"256MiB\"").ends_with("# default"), "{printed}");
}

#[test]
fn the_effective_configuration_is_printed_in_a_fixed_order_with_aligned_comments() {
    let flags = Overrides {
        config: text("none"),
        origin: text("/lustre/set"),
        tiers: vec!["memory:4GiB".to_owned(), "/nvme/$USER:1GiB:keep".to_owned()],
        ..Overrides::default()
    };
    let printed = loaded("", flags, &[("FOREBAY_POLICY", "lru")]).unwrap().to_toml();
    let expected = r#"# file: none

[origin]
path = "/lustre/set"   # flag --origin

[[tier]]
kind = "memory"        # flag --tier
quota = "4GiB"         # flag --tier

[[tier]]
kind = "disk"          # flag --tier
path = "/nvme/ada"     # flag --tier
quota = "1GiB"         # flag --tier
keep = true            # flag --tier
# free is not set: 5% of the disk, at least 1GiB and at most 4GiB, stay free

[placement]
policy = "lru"         # environment FOREBAY_POLICY
threads = 6            # default
block = "1MiB"         # default
whole_file = true      # default
ahead = "256MiB"       # default

[stage]
# path is not set: writes go straight to their destinations
quota = "80%"          # default
# free_floor is not set: 5% of the disk, at least 1GiB and at most 4GiB, stay free
drainers = 2           # default
# bandwidth is not set: as fast as the destination takes it
memory = "10%"         # default
paused = false         # default

[hdf5]
# paths is not set: plug-ins pass every file through
plugins = "auto"       # default
write = true           # default
read = true            # default
delay_close = false    # default
scope = "local"        # default
# cache is not set: the VOL connector keeps no values
# cache_quota is not set: 25% of the memory budget, or 80% of what is free on the disk
cache_policy = "lru"   # default
peers = "auto"         # default
prestage = "off"       # default
unit = "1MiB"          # default
least = "64KiB"        # default
clock_grain_ms = 2000  # default
"#;
    assert_eq!(printed, expected);
}

#[test]
fn a_relative_origin_lies_beside_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forebay.toml");
    fs::write(&path, "[origin]\npath = \"data\"").unwrap();
    let flags = Overrides { config: text(path.to_str().unwrap()), ..Overrides::default() };
    let environment = Environment { variable: &|_| None, folder: "/elsewhere".into() };
    let settings = Settings::load_in(&flags, &environment).unwrap();
    assert_eq!(settings.config.origin.path.unwrap(), folder.path().join("data").to_str().unwrap());
}

#[test]
fn the_examples_of_the_guide_are_configurations() {
    let guide = fs::read_to_string("../../../docs/config.md").unwrap();
    let examples: Vec<_> =
        guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 3, "{}", examples.len());
    let environment = [("SLURM_TMPDIR", "/tmp/job"), ("SCRATCH", "/scratch/ada")];
    for example in examples {
        let settings = loaded(example, Overrides::default(), &environment);
        let settings = settings.unwrap_or_else(|error| panic!("{error}\n{example}"));
        assert_ne!(settings.origins.len(), 0, "{example}");
    }
}
