//! Documents name files that are there: each path below `crates/` and `python/` in them exists.

use std::fs;

use super::tree;

/// The Markdown files of the root and of `docs/`.
fn documents() -> Vec<std::path::PathBuf> {
    let folders =
        [tree::root(), tree::root().join("docs")].map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = folders.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The paths that `text` names, `{a,b}` spelled out.
fn paths(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/_.-{},".contains(c);
    let mut found = Vec::new();
    let starts = ["crates/", "python/forebay", "python/src", "python/tests"];
    for (at, _) in starts.iter().flat_map(|start| text.match_indices(start)) {
        let path = &text[at..];
        let end = path.find(|c| !is_part(c)).unwrap_or(path.len());
        // Patterns such as `crates/*` and `crates/<name>` name no file.
        if path[end..].starts_with(['*', '<']) {
            continue;
        }
        let path = path[..end].trim_end_matches(['.', ',']);
        match path.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?))) {
            Some((start, (names, end))) => {
                found.extend(names.split(',').map(|name| format!("{start}{name}{end}")));
            }
            None => found.push(path.to_owned()),
        }
    }
    found
}

#[test]
fn every_path_that_a_document_names_is_there() {
    let (mut count, mut missing) = (0, Vec::new());
    for document in documents() {
        for path in paths(&fs::read_to_string(&document).expect("a document")) {
            count += 1;
            if !tree::root().join(&path).exists() {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(count > 100, "paths are found: {count}");
    assert!(missing.is_empty(), "{missing:#?}");
}
