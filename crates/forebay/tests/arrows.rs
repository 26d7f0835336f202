//! Which crate knows which: what cargo says, what the table here says and what ARCHITECTURE.md draws are one.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

/// Every crate of the workspace and what it depends on of ours. Changed on purpose, with the picture, or not at all.
const ARROWS: &[(&str, &[&str])] = &[
    ("forebay-source", &[]),
    ("forebay-filter", &["forebay-source"]),
    ("forebay-container", &["forebay-filter", "forebay-source"]),
    ("forebay-hdf5", &["forebay-container", "forebay-filter", "forebay-source"]),
    ("forebay-format", &["forebay-container", "forebay-filter", "forebay-hdf5", "forebay-source"]),
    ("forebay-plan", &["forebay-source"]),
    ("forebay-scratch", &["forebay-source"]),
    ("forebay-batch", &["forebay-container", "forebay-plan", "forebay-source"]),
    (
        "forebay-loader",
        &[
            "forebay-batch",
            "forebay-container",
            "forebay-format",
            "forebay-plan",
            "forebay-scratch",
            "forebay-source",
        ],
    ),
    (
        "forebay-transform",
        &["forebay-batch", "forebay-container", "forebay-filter", "forebay-plan", "forebay-source"],
    ),
    ("forebay-mount", &["forebay-config", "forebay-source", "forebay-tier"]),
    ("forebay-mpi", &["forebay-source", "forebay-store"]),
    ("forebay-object", &["forebay-source"]),
    ("forebay-store", &["forebay-scratch", "forebay-source"]),
    ("forebay-tcp", &["forebay-source", "forebay-store"]),
    ("forebay-tier", &["forebay-scratch", "forebay-source"]),
    ("forebay-stage", &["forebay-scratch", "forebay-source"]),
    ("forebay-config", &["forebay-source", "forebay-stage", "forebay-tier"]),
    ("forebay-peercache", &["forebay-source", "forebay-store", "forebay-tier"]),
    ("forebay-plugin", &["forebay-config", "forebay-source"]),
    ("forebay-units", &["forebay-tier"]),
    ("forebay-vfd", &["forebay-config", "forebay-plugin", "forebay-source", "forebay-stage", "forebay-tier"]),
    (
        "forebay-vol",
        &[
            "forebay-config",
            "forebay-mpi",
            "forebay-peercache",
            "forebay-plugin",
            "forebay-source",
            "forebay-stage",
            "forebay-store",
            "forebay-tcp",
            "forebay-tier",
            "forebay-units",
        ],
    ),
    (
        "forebay-preload",
        &["forebay-config", "forebay-plugin", "forebay-scratch", "forebay-source", "forebay-tier"],
    ),
    ("forebay-tensorflow", &["forebay-config", "forebay-source", "forebay-tier"]),
    ("forebay-workload", &["forebay-source"]),
    (
        "forebay-launch",
        &[
            "forebay-config",
            "forebay-scratch",
            "forebay-source",
            "forebay-stage",
            "forebay-tier",
            "forebay-workload",
        ],
    ),
    (
        "forebay",
        &[
            "forebay-batch",
            "forebay-config",
            "forebay-container",
            "forebay-format",
            "forebay-loader",
            "forebay-mpi",
            "forebay-object",
            "forebay-plan",
            "forebay-scratch",
            "forebay-source",
            "forebay-stage",
            "forebay-store",
            "forebay-tcp",
            "forebay-tier",
            "forebay-transform",
        ],
    ),
    ("forebay-bench", &["forebay", "forebay-mpi", "forebay-workload"]),
    ("forebay-cli", &["forebay", "forebay-bench", "forebay-launch", "forebay-mount"]),
    ("forebay-capi", &["forebay"]),
    ("forebay-python", &["forebay", "forebay-cli"]),
];

/// Crates that libraries loaded into other programs are built on: none of these may come with them.
const LEAN: &[(&str, &[&str])] = &[
    ("forebay-config", RUNTIMES),
    ("forebay-preload", RUNTIMES),
    ("forebay-tensorflow", RUNTIMES),
    ("forebay-vfd", RUNTIMES),
    ("forebay-vol", RUNTIMES),
];

const RUNTIMES: &[&str] =
    &["forebay", "forebay-format", "forebay-loader", "hyper", "object_store", "reqwest", "rustls", "tokio"];

fn root() -> PathBuf {
    PathBuf::from("../..")
}

/// What cargo answers to `arguments`.
fn cargo(arguments: &[&str]) -> Vec<u8> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let answer = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    answer.stdout
}

/// `a -> b` for each arrow, and `a` alone for each crate.
fn lines<'a>(crates: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>) -> BTreeSet<String> {
    crates
        .into_iter()
        .flat_map(|(name, needs)| {
            let arrows = needs.into_iter().map(move |needed| format!("{name} -> {needed}"));
            arrows.chain([name.to_owned()]).collect::<Vec<_>>()
        })
        .collect()
}

fn of_table() -> BTreeSet<String> {
    lines(ARROWS.iter().map(|(name, needs)| (*name, needs.to_vec())))
}

fn of_cargo() -> BTreeSet<String> {
    let answer = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("cargo speaks JSON");
    let packages = answer["packages"].as_array().expect("packages");
    let is_ours = |name: &str| name == "forebay" || name.starts_with("forebay-");
    lines(packages.iter().map(|package| {
        let needs = package["dependencies"].as_array().expect("dependencies");
        // A dependency of tests or of a build script has a kind.
        let normal = needs.iter().filter(|needed| needed["kind"].is_null());
        let ours = normal.filter_map(|needed| needed["name"].as_str()).filter(|name| is_ours(name));
        (package["name"].as_str().expect("a name"), ours.collect())
    }))
}

/// The lines of the blocks fenced as `arrows`.
fn of_picture() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(fence) => inside = fence == "arrows",
            None if inside => {
                found.insert(line.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            None => {}
        }
    }
    found
}

#[test]
fn crates_depend_on_each_other_as_the_table_says() {
    assert_eq!(of_cargo(), of_table(), "left: cargo metadata, right: the table in this file");
}

#[test]
fn the_picture_in_architecture_md_shows_every_crate_and_arrow() {
    assert_eq!(of_picture(), of_table(), "left: ARCHITECTURE.md, right: the table in this file");
}

#[test]
fn what_other_programs_load_brings_no_runtime_no_tls_and_no_formats() {
    for (name, forbidden) in LEAN {
        // By package, as `cargo metadata` resolves features of the whole workspace at once: there the object stores of the
        // facade count for every crate.
        let tree = cargo(&["tree", "--package", name, "--edges", "normal", "--prefix", "none", "--offline"]);
        let tree = String::from_utf8(tree).expect("UTF-8");
        let needed: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(needed.contains("forebay-source"), "{tree}");
        let found: Vec<_> = forbidden.iter().filter(|crate_name| needed.contains(*crate_name)).collect();
        assert!(found.is_empty(), "{name} needs {found:?}");
    }
}
