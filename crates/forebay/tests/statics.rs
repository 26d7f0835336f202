//! What a process has once is listed in ARCHITECTURE.md, with what a fork does to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Words of types that can change: a static of them is state, any other is a table.
const CHANGING: [&str; 7] = ["Mutex<", "RwLock<", "Once", "Atomic", "PerProcess<", "Cell<", "Lazy"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// True where the text before its tests has a static that can change and belongs to no single thread.
fn has_state(text: &str) -> bool {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut is_of_thread = false;
    text.lines().map(str::trim_start).any(|line| {
        if line.starts_with("thread_local!") {
            is_of_thread = true;
        } else if line.starts_with('}') {
            is_of_thread = false;
        }
        let declared = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        let Some((_, kind)) = declared.strip_prefix("static ").and_then(|rest| rest.split_once(':')) else {
            return false;
        };
        !is_of_thread && CHANGING.iter().any(|word| kind.contains(word))
    })
}

#[test]
fn every_static_is_listed_with_what_a_fork_does_to_it() {
    let root = Path::new("../..").canonicalize().unwrap();
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, listed) = architecture.split_once("## Statics").unwrap();
    let mut missing = Vec::new();
    for krate in fs::read_dir(root.join("crates")).unwrap().flatten() {
        let mut found = Vec::new();
        sources(&krate.path().join("src"), &mut found);
        for path in found.iter().filter(|path| !path.ends_with("tests.rs")) {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            if has_state(&fs::read_to_string(path).unwrap()) && !listed.contains(&format!("`{name}`")) {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "not in ARCHITECTURE.md, \"Statics\": {missing:?}");
}

#[test]
fn state_is_told_from_tables_and_from_what_one_thread_has() {
    assert!(has_state("static A: Mutex<u8> = Mutex::new(0);"));
    assert!(has_state("fn f() {\n    static A: AtomicU8 = AtomicU8::new(0);\n}"));
    assert!(!has_state("static A: &[u8] = &[1];"));
    assert!(!has_state("thread_local! {\n    static A: Cell<u8> = const { Cell::new(0) };\n}"));
    assert!(!has_state("#[cfg(test)]\nmod tests { static A: AtomicU8 = AtomicU8::new(0); }"));
}
