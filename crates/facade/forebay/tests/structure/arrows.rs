//! Which crate depends on which: what cargo says is what `crates/arrows.txt` says, and no arrow leads to a higher shelf.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use super::tree;

/// Shelves with their levels: crates depend on crates of their own shelf and of lower levels.
const SHELVES: &[(&str, u8)] =
    &[("engine", 0), ("ranks", 1), ("write", 1), ("facade", 2), ("plugins", 3), ("bench", 3), ("fronts", 4)];

/// Crates that libraries loaded into other programs are built on: none of these may come with them.
const LEAN: &[(&str, &[&str])] = &[
    ("forebay-config", RUNTIMES),
    ("forebay-preload", RUNTIMES),
    ("forebay-vfd", RUNTIMES),
    ("forebay-vol", RUNTIMES),
];

const RUNTIMES: &[&str] =
    &["forebay", "forebay-format", "forebay-loader", "hyper", "object_store", "reqwest", "rustls", "tokio"];

/// Output of cargo for `arguments`.
fn cargo(arguments: &[&str]) -> Vec<u8> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let answer = Command::new(cargo).args(arguments).current_dir(tree::root()).output().expect("cargo runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    answer.stdout
}

/// A crate: its shelf, and the crates of ours that it depends on.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    shelf: String,
    needs: BTreeSet<String>,
}

type Crates = BTreeMap<String, Crate>;

/// Crates of `crates/arrows.txt`.
fn listed() -> Crates {
    let text = std::fs::read_to_string(tree::root().join("crates/arrows.txt")).expect("crates/arrows.txt");
    let (mut shelf, mut crates) = (String::new(), Crates::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut shelf);
            continue;
        }
        let (name, needs) = line.split_once("->").expect("a crate, an arrow and crates");
        let needs = needs.split_whitespace().map(str::to_owned).collect();
        crates.insert(name.trim().to_owned(), Crate { shelf: shelf.clone(), needs });
    }
    crates
}

/// Crates that cargo knows, each on the shelf that its directory is in. Examples are on none.
fn built() -> Crates {
    let answer = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("cargo speaks JSON");
    let packages = answer["packages"].as_array().expect("packages");
    let ours = |name: &str| {
        if name == "forebay" {
            Some(name.to_owned())
        } else {
            name.strip_prefix("forebay-").map(str::to_owned)
        }
    };
    let one = |package: &serde_json::Value| {
        let text = |key: &str| package[key].as_str().expect("a text").to_owned();
        let needs = package["dependencies"].as_array().expect("dependencies");
        // A dependency of tests or of a build script has a kind.
        let normal = needs.iter().filter(|needed| needed["kind"].is_null());
        let needs = normal.filter_map(|needed| ours(needed["name"].as_str()?)).collect();
        let manifest = PathBuf::from(text("manifest_path"));
        let directory = manifest.parent().expect("a directory");
        let above = directory.parent().and_then(|above| above.file_name()).expect("a directory");
        if above == "examples" {
            return None;
        }
        // The Python package lies at the root, for those who look for it.
        let is_python = directory.ends_with("python");
        let shelf = if is_python { "fronts".to_owned() } else { above.to_string_lossy().into_owned() };
        Some((ours(&text("name")).expect("a crate of ours"), Crate { shelf, needs }))
    };
    packages.iter().filter_map(one).collect()
}

#[test]
fn crates_depend_on_each_other_as_arrows_txt_says() {
    assert_eq!(built(), listed(), "left: cargo metadata, right: crates/arrows.txt");
}

#[test]
fn no_arrow_leads_to_a_higher_shelf() {
    let crates = listed();
    let level = |shelf: &str| SHELVES.iter().find(|(name, _)| *name == shelf).expect("a shelf").1;
    for (name, Crate { shelf, needs }) in &crates {
        for needed in needs {
            let below = &crates[needed].shelf;
            assert!(below == shelf || level(below) < level(shelf), "{name} ({shelf}) -> {needed} ({below})");
        }
    }
}

/// Crates that `arguments` of `cargo tree` name, their dependencies included.
fn needed_by(arguments: &[&str]) -> BTreeSet<String> {
    // By package, as `cargo metadata` resolves features of the whole workspace at once: there the object stores of the
    // facade count for every crate.
    let tree = ["tree", "--edges", "normal", "--prefix", "none", "--offline"];
    let tree = String::from_utf8(cargo(&[&tree, arguments].concat())).expect("UTF-8");
    let needed: BTreeSet<String> =
        tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(needed.contains("forebay-source"), "{tree}");
    needed
}

#[test]
fn the_command_without_its_feature_replay_needs_no_benchmark() {
    let is_of_benchmark = |name: &str| ["forebay-bench", "forebay-workload"].contains(&name);
    for package in ["forebay-cli", "forebay-python"] {
        let with = needed_by(&["--package", package]);
        assert_eq!(with.iter().filter(|name| is_of_benchmark(name)).count(), 2, "{package}: {with:?}");
        let without = needed_by(&["--package", package, "--no-default-features"]);
        assert!(!without.iter().any(|name| is_of_benchmark(name)), "{package}: {without:?}");
    }
}

#[test]
fn what_other_programs_load_brings_no_runtime_no_tls_and_no_formats() {
    for (name, forbidden) in LEAN {
        let needed = needed_by(&["--package", name]);
        let found: Vec<_> = forbidden.iter().filter(|crate_name| needed.contains(**crate_name)).collect();
        assert!(found.is_empty(), "{name} needs {found:?}");
    }
}
