//! No circle of files in a crate: a file never imports, not even by a detour, one that imports it.
//!
//! What counts is the file where a name is defined: a name that `lib.rs` passes on leads to the file it comes from.

#![expect(clippy::panic, reason = "a file that cannot be parsed has failed the test")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use super::tree;

use syn::{
    Attribute, Item, UseTree,
    visit::{self, Visit},
};

/// A path of names from the crate's root on.
type Names = Vec<String>;

/// One file of a crate.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// What it defines itself.
    items: HashSet<String>,
    /// The names it takes from elsewhere, and the paths they stand for.
    aliases: HashMap<String, Names>,
    globs: Vec<Names>,
    /// Every path that it names, as it is written.
    paths: Vec<Names>,
}

struct Crate {
    modules: BTreeMap<Names, Module>,
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut found = Self { modules: BTreeMap::new() };
        found.add_folder(src, src);
        found
    }

    fn add_folder(&mut self, src: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                self.add_folder(src, &path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let inside = path.strip_prefix(src).expect("inside").with_extension("");
                let mut names: Names =
                    inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
                if names == ["lib"] || names == ["main"] {
                    names.clear();
                }
                let text = fs::read_to_string(&path).expect("a source file");
                let parsed =
                    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let mut module = Module { file: path, ..Module::default() };
                module.visit_file(&parsed);
                self.modules.insert(names, module);
            }
        }
    }

    /// The module that defines what `path`, as `from` writes it, stands for; `None` for what other crates define.
    fn definer(&self, from: &[String], path: &[String], depth: usize) -> Option<&Names> {
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            name => {
                let here = &self.modules[from];
                if let Some(alias) = here.aliases.get(name).filter(|_| depth < 16) {
                    let whole: Names = alias.iter().chain(&path[1..]).cloned().collect();
                    return self.definer(from, &whole, depth + 1);
                }
                let child: Names = from.iter().cloned().chain([name.to_owned()]).collect();
                if !self.modules.contains_key(&child) {
                    return None;
                }
                child
            }
        };
        let mut rest = &path[1..];
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        while let Some((name, behind)) = rest.split_first() {
            let child: Names = at.iter().cloned().chain([name.clone()]).collect();
            if self.modules.contains_key(&child) {
                (at, rest) = (child, behind);
                continue;
            }
            let module = self.modules.get(&at)?;
            if module.items.contains(name) || depth >= 16 {
                break;
            }
            if let Some(alias) = module.aliases.get(name) {
                let whole: Names = alias.iter().chain(behind).cloned().collect();
                return self.definer(&at, &whole, depth + 1);
            }
            for glob in &module.globs {
                let whole: Names = glob.iter().chain(rest).cloned().collect();
                if let Some(found) = self.definer(&at, &whole, depth + 1) {
                    return Some(found);
                }
            }
            break;
        }
        self.modules.get_key_value(&at).map(|(names, _)| names)
    }

    /// Which module takes something from which.
    fn arrows(&self) -> BTreeMap<&Names, BTreeSet<&Names>> {
        let mut arrows = BTreeMap::new();
        for (names, module) in &self.modules {
            let taken = module.paths.iter().filter_map(|path| self.definer(names, path, 0));
            arrows.insert(names, taken.filter(|other| *other != names).collect());
        }
        arrows
    }
}

impl Module {
    fn add_use(&mut self, tree: &UseTree, before: &Names) {
        let with = |name: &dyn ToString| -> Names {
            let name = name.to_string();
            match name.as_str() {
                "self" => before.clone(),
                _ => before.iter().cloned().chain([name]).collect(),
            }
        };
        match tree {
            UseTree::Path(path) => {
                let mut before = before.clone();
                before.push(path.ident.to_string());
                self.add_use(&path.tree, &before);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(tree, before)),
            UseTree::Name(name) => {
                let path = with(&name.ident);
                self.take(path.last().cloned().unwrap_or_default(), path);
            }
            UseTree::Rename(rename) => self.take(rename.rename.to_string(), with(&rename.ident)),
            UseTree::Glob(_) => self.globs.push(before.clone()),
        }
    }

    fn take(&mut self, name: String, path: Names) {
        self.paths.push(path.clone());
        // `use super::name` under the same name as a child would lead back to itself.
        if path != [name.clone()] {
            self.aliases.insert(name, path);
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
    })
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        let name = match item {
            Item::Mod(inner) if is_for_tests(&inner.attrs) => return,
            Item::Use(used) => {
                if !is_for_tests(&used.attrs) {
                    self.add_use(&used.tree, &Names::new());
                }
                return;
            }
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Const(item) => Some(&item.ident),
            Item::Static(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            Item::Union(item) => Some(&item.ident),
            Item::Macro(item) => item.ident.as_ref(),
            _ => None,
        };
        self.items.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

/// The groups of modules of which each leads to every other.
fn circles(found: &Crate) -> Vec<String> {
    let arrows = found.arrows();
    let reached = |from: &Names| {
        let mut reached: BTreeSet<&Names> = BTreeSet::new();
        let mut next: Vec<&Names> = arrows[from].iter().copied().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(&arrows[module]);
            }
        }
        reached
    };
    let reach: BTreeMap<&Names, BTreeSet<&Names>> =
        arrows.keys().map(|from| (*from, reached(from))).collect();
    let mut seen = BTreeSet::new();
    let mut groups = Vec::new();
    for from in arrows.keys() {
        let circle: Vec<&Names> = reach[from].iter().copied().filter(|to| reach[to].contains(from)).collect();
        if circle.len() > 1 && circle.iter().all(|module| seen.insert(*module)) {
            let ties = circle.iter().flat_map(|from| {
                let inside = arrows[from].iter().filter(|to| circle.contains(to));
                inside.map(|to| format!("    {} -> {}", shown(found, from), shown(found, to)))
            });
            groups.push(ties.collect::<Vec<_>>().join("\n"));
        }
    }
    groups
}

fn shown(found: &Crate, module: &Names) -> String {
    let file = &found.modules[module].file;
    file.strip_prefix(tree::root()).unwrap_or(file).display().to_string()
}

#[test]
fn no_file_imports_one_that_imports_it() {
    let mut found = Vec::new();
    for directory in tree::crate_directories() {
        found.extend(circles(&Crate::read(&directory.join("src"))));
    }
    found.sort();
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n\n"));
}
