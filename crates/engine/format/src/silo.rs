//! Silo: meshes, fields and materials of simulations, in HDF5 files and in PDB files.
//!
//! ```text
//! hdf5 ─┐
//!       ├─► Tree: stored arrays + objects that name them ─► fields, blocks ─► Container
//! pdb ──┘
//! ```
//!
//! A Silo file is a tree of arrays, and of objects (meshes, fields, materials) whose members are numbers, texts, or
//! the names of such arrays. `hdf5` and `pdb` read the two kinds of files into a [`Tree`](tree::Tree); `object` is
//! what they have in common; `fields` gives an object's arrays their Silo names and shapes; `blocks`, `names` and
//! `joined` join the blocks of multi-block objects, over several files where need be; `library` reads what only libsilo can.

mod blocks;
mod fields;
mod hdf5;
mod joined;
pub(crate) mod library;
mod names;
mod object;
mod pdb;
mod tree;

use std::collections::{BTreeMap, HashSet};

use forebay_process::Result;

pub(crate) use self::hdf5::is_array_name;
pub use self::library::libsilo_version;
use self::{blocks::Joiner, object::ObjectKind, tree::Tree};
use crate::{Format, Found};
use forebay_container::{Alias, Container, Refused, Variable};

/// The Silo format, in HDF5 and in PDB files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silo;

impl Format for Silo {
    fn name(&self) -> &str {
        "silo"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        if found.file.is_none() || pdb::is_pdb(&found.head) {
            return Ok(found.file.is_some());
        }
        // A damaged HDF5 file is left to the HDF5 reader.
        let has_arrays = || found.hdf5().is_ok_and(|file| forebay_hdf5::root_has(&file, hdf5::ARRAYS));
        Ok(found.probe_superblock()? && has_arrays())
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let tree = Tree::open(found.origin, found.at)?;
        let mut given = SiloContents::default();
        for object in tree.objects.values() {
            if object.kind.is_multi() {
                continue;
            }
            given.take(&object.name, fields::of(&tree, object));
        }
        let mut joiner = Joiner::new(found.origin, &tree);
        for object in tree.objects.values().filter(|object| object.kind.is_multi()) {
            given.take(&object.name, joiner.join(object));
        }
        Ok(finish(&tree, given, joiner))
    }
}

/// What objects have given so far.
#[derive(Default)]
struct SiloContents {
    fields: Vec<fields::SiloField>,
    refused: Vec<Refused>,
}

impl SiloContents {
    /// One object that cannot be made out must not hide the others.
    fn take(&mut self, name: &str, fields: Result<Vec<fields::SiloField>>) {
        match fields {
            Ok(fields) => self.fields.extend(fields),
            Err(error) => self.refused.push(Refused::of(name, &error)),
        }
    }
}

/// The container of what the objects gave and of the arrays that belong to none.
fn finish(tree: &Tree, given: SiloContents, joiner: Joiner<'_>) -> Container {
    let mut container = tree.container.clone();
    container.format = "silo".into();
    container.sources = joiner.sources;
    container.parts = joiner.parts.all;
    container.absent.extend(joiner.absent);
    container.refused.extend(given.refused);
    container.refused.sort_by(|left, right| left.name.cmp(&right.name));
    let mut aliases: BTreeMap<String, String> =
        container.aliases.drain(..).map(|alias| (alias.name, alias.target)).collect();
    for field in &given.fields {
        // The stored name keeps leading to the array, which is listed under the better one.
        if let Some(stored) = &field.stored {
            aliases.entry(stored.clone()).or_insert_with(|| field.variable.name.clone());
        }
    }
    for (name, object) in &tree.objects {
        for (member, target) in tree.relations(object) {
            aliases.entry(format!("{name}/{member}")).or_insert(target);
        }
    }
    let renamed: HashSet<&str> = given.fields.iter().filter_map(|field| field.stored.as_deref()).collect();
    let mut variables: BTreeMap<String, Variable> = BTreeMap::new();
    let kept = container.variables.drain(..).filter(|stored| !renamed.contains(stored.name.as_str()));
    for variable in kept.chain(given.fields.iter().map(|field| field.variable.clone())) {
        variables.entry(variable.name.clone()).or_insert(variable);
    }
    aliases.retain(|name, target| !variables.contains_key(name) && name != target);
    container.aliases = aliases.into_iter().map(|(name, target)| Alias { name, target }).collect();
    container.variables = variables.into_values().collect();
    // Objects have other names than the arrays of which the order is known.
    container.order.clear();
    container
}

impl ObjectKind {
    /// True for objects whose values are those of other objects, joined.
    fn is_multi(self) -> bool {
        matches!(self, Self::MultiMesh | Self::MultiVariable | Self::MultiMaterial | Self::MultiSpecies)
    }
}
