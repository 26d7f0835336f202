//! Which crate knows which: what cargo says, what the table here says and what ARCHITECTURE.md draws are one.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

/// Every crate of the workspace and what it depends on of ours. Changed on purpose, with the picture, or not at all.
const ARROWS: &[(&str, &[&str])] = &[
    ("forebay-source", &[]),
    ("forebay-format", &["forebay-source"]),
    ("forebay-scratch", &["forebay-source"]),
    ("forebay-loader", &["forebay-format", "forebay-scratch", "forebay-source"]),
    ("forebay-mount", &["forebay-source"]),
    ("forebay-tier", &["forebay-scratch", "forebay-source"]),
    ("forebay", &["forebay-format", "forebay-loader", "forebay-scratch", "forebay-source", "forebay-tier"]),
    ("forebay-cli", &["forebay", "forebay-mount"]),
    ("forebay-python", &["forebay", "forebay-cli"]),
];

fn root() -> PathBuf {
    PathBuf::from("../..")
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
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let asked = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let told = Command::new(cargo).args(asked).current_dir(root()).output().expect("cargo runs");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).expect("cargo speaks JSON");
    let packages = told["packages"].as_array().expect("packages");
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
