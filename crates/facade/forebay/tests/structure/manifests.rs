//! Every crate can be published as it is: what crates.io asks for is in its manifest, and the licences lie beside it.

use std::{path::Path, process::Command};

use serde_json::Value;

/// What cargo says of the crates of the workspace that are published.
fn published() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let asked = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let answer = Command::new(cargo).args(asked).current_dir("../../..").output().expect("cargo runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let mut answer: Value = serde_json::from_slice(&answer.stdout).expect("cargo writes JSON");
    let packages = answer["packages"].as_array_mut().expect("packages");
    // `publish = false` is an empty list of registries.
    packages.iter().filter(|package| package["publish"] != serde_json::json!([])).cloned().collect()
}

#[test]
fn every_published_crate_states_what_crates_io_shows() {
    let crates = published();
    assert!(crates.len() > 5, "only {} crates", crates.len());
    for package in crates {
        let name = &package["name"];
        for key in ["description", "license", "readme", "rust_version"] {
            assert!(package[key].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {key}");
        }
        for key in ["keywords", "categories"] {
            let count = package[key].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name} has {count} {key}");
        }
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let readme = manifest.with_file_name(package["readme"].as_str().expect("looked at above"));
        assert!(readme.is_file(), "{} is not there", readme.display());
    }
}

#[test]
fn every_published_crate_holds_the_texts_of_its_licences() {
    for package in published() {
        let manifest = package["manifest_path"].as_str().expect("a path");
        for text in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let ours = std::fs::read(Path::new(manifest).with_file_name(text));
            let whole = std::fs::read(Path::new("../../..").join(text)).expect("a text at the root");
            assert_eq!(
                ours.ok(),
                Some(whole),
                "{}: {text} (make it a link to the one at the root)",
                package["name"]
            );
        }
    }
}

#[test]
fn a_crate_that_needs_another_of_ours_names_its_version() {
    for package in published() {
        let needs = package["dependencies"].as_array().expect("dependencies");
        let of_ours = needs.iter().filter(|need| need["path"].is_string() && need["kind"].is_null());
        for need in of_ours {
            assert_ne!(need["req"], "*", "{} needs {} of any version", package["name"], need["name"]);
        }
    }
}
