//! One name, one thing: no two types of the workspace are called the same, so that a search for a name finds what it means.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use syn::Item;

/// Files that stand for another one on some systems, and so hold the same names.
const STAND_INS: [&str; 1] = ["crates/source/src/map_absent.rs"];

/// Every Rust file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The names of the types that `items` define, those of tests left out.
fn type_names(items: &[Item]) -> Vec<String> {
    let names = items.iter().flat_map(|item| match item {
        Item::Struct(item) => vec![item.ident.to_string()],
        Item::Enum(item) => vec![item.ident.to_string()],
        Item::Trait(item) => vec![item.ident.to_string()],
        Item::Type(item) => vec![item.ident.to_string()],
        Item::Union(item) => vec![item.ident.to_string()],
        Item::Mod(item) if item.ident != "tests" => {
            item.content.as_ref().map_or(Vec::new(), |(_, items)| type_names(items))
        }
        _ => Vec::new(),
    });
    names.collect()
}

#[test]
fn no_two_types_have_one_name() {
    let root = Path::new("../..");
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(root.join("crates")).expect("the crates") {
        for path in files(&entry.expect("an entry").path().join("src")) {
            let name = path.strip_prefix(root).expect("below the root").display().to_string();
            if STAND_INS.contains(&&*name) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file");
            let file = syn::parse_file(&text).expect("Rust");
            for name_of_type in type_names(&file.items) {
                defined.entry(name_of_type).or_default().push(name.clone());
            }
        }
    }
    assert!(defined.len() > 500, "the sources are found");
    let twice: Vec<_> = defined.into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}
