//! What a process has once is listed in `crates/statics.txt`, with what a fork does to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::tree;

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
    let root = tree::root();
    let list = fs::read_to_string(root.join("crates/statics.txt")).unwrap();
    let listed: BTreeSet<&str> = list.lines().filter(|line| line.ends_with(".rs")).collect();
    let mut changing = BTreeSet::new();
    for directory in tree::crate_directories() {
        let mut found = Vec::new();
        sources(&directory.join("src"), &mut found);
        for path in found.iter().filter(|path| !path.ends_with("tests.rs")) {
            if has_state(&fs::read_to_string(path).unwrap()) {
                changing.insert(path.strip_prefix(&root).unwrap().display().to_string());
            }
        }
    }
    let changing: BTreeSet<&str> = changing.iter().map(String::as_str).collect();
    let missing: Vec<_> = changing.difference(&listed).collect();
    assert!(missing.is_empty(), "not in crates/statics.txt: {missing:?}");
    let gone: Vec<_> = listed.iter().filter(|path| !root.join(path).is_file()).collect();
    assert!(gone.is_empty(), "crates/statics.txt names files that are gone: {gone:?}");
}

#[test]
fn state_is_told_from_tables_and_from_what_one_thread_has() {
    assert!(has_state("static A: Mutex<u8> = Mutex::new(0);"));
    assert!(has_state("fn f() {\n    static A: AtomicU8 = AtomicU8::new(0);\n}"));
    assert!(!has_state("static A: &[u8] = &[1];"));
    assert!(!has_state("thread_local! {\n    static A: Cell<u8> = const { Cell::new(0) };\n}"));
    assert!(!has_state("#[cfg(test)]\nmod tests { static A: AtomicU8 = AtomicU8::new(0); }"));
}
