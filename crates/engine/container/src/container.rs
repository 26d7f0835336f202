//! A file or store, described.
//!
//! | file | idea |
//! |---|---|
//! | `variable` | one array, described |
//! | `file_order`, `dimension_scales` | in which order things are; which attributes are a format's own |
//! | `names`, `group_pattern` | what formats write into a description themselves; patterns that name groups |
//! | `saved` | the description as bytes |

pub(crate) mod dimension_scales;
pub(crate) mod file_order;
pub mod group_pattern;
pub mod names;
pub(crate) mod saved;
pub(crate) mod variable;

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, SourceId};
use serde::{Deserialize, Serialize};

use crate::{
    container::variable::{Attribute, Variable},
    extents::{Extents, mapping::Mapping},
};

/// A group of variables and groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Full name; the root's is empty.
    pub name: String,
    /// Named values that belong to it.
    pub attributes: Vec<Attribute>,
}

/// A second name for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// The second name.
    pub name: String,
    /// The name under which it stands in the container.
    pub target: String,
}

/// Something that is there but cannot be described.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its full name.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
    /// True when the file breaks its own format, false when it asks for what this build does not do.
    pub corrupt: bool,
}

impl Refused {
    /// What `error` says of the variable or group called `name`.
    pub fn of(name: impl Into<String>, error: &Error) -> Self {
        let corrupt = error.kind() == ErrorKind::Corrupt;
        Self { name: name.into(), why: error.to_string(), corrupt }
    }
}

/// A file or store, described: plain data, cheap to send to another process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// The format's name.
    pub format: String,
    /// The sources that extents point into; the first is the one that was described.
    pub sources: Vec<SourceId>,
    /// Files it names that were not there: what is mapped from them reads as the fill value, until they appear.
    pub absent: Vec<Locator>,
    /// All groups, the root first.
    pub groups: Vec<Group>,
    /// All variables, sorted by name.
    pub variables: Vec<Variable>,
    /// Indexes of `variables` in the order in which the file has them; empty where that is by name, or not known.
    pub order: Vec<u32>,
    /// Variables that stand under no name here but are mapped into others.
    pub parts: Vec<Variable>,
    /// Second names, sorted.
    pub aliases: Vec<Alias>,
    /// What could not be described.
    pub refused: Vec<Refused>,
    /// True when a SWMR writer has one of its files open: it is described as of its opening and will change.
    pub swmr: bool,
}

/// Links to links end somewhere; the HDF5 library gives up after 16.
const MOST_HOPS: usize = 64;

/// How NetCDF-4 begins the stored name of a variable that shares a dimension's name without being its coordinate.
const NOT_A_COORDINATE: &str = "_nc4_non_coord_";

impl Container {
    /// The format of NetCDF-4 files, which are HDF5 files by the rules of NetCDF.
    pub const NETCDF4: &str = "netcdf4";

    /// True for HDF5 and what is built on it.
    pub fn is_hdf5(&self) -> bool {
        self.format == "hdf5" || self.format == Self::NETCDF4
    }

    /// Bytes of the file, or of all files of a store that is a folder; files that an HDF5 file refers to do not count.
    pub fn stored_len(&self) -> u64 {
        let own = if self.is_hdf5() { 1 } else { self.sources.len() };
        self.sources.iter().take(own).fold(0, |sum, source| sum.saturating_add(source.len))
    }

    /// The variables that are listed to a user, by name: all, but for what NetCDF-4 stores for dimensions without values.
    pub fn listed(&self) -> impl Iterator<Item = &Variable> {
        self.variables.iter().filter(|variable| self.is_listed(variable))
    }

    /// The same in the order of the file.
    pub fn listed_in_file_order(&self) -> impl Iterator<Item = &Variable> {
        self.in_file_order().filter(|variable| self.is_listed(variable))
    }

    fn is_listed(&self, variable: &Variable) -> bool {
        self.format != Self::NETCDF4 || !variable.is_bare_dimension()
    }

    /// What a user calls `variable`: its stored name, without what NetCDF-4 puts before some.
    pub fn shown_name(&self, variable: &Variable) -> String {
        let (group, last) = variable.name.rsplit_once('/').map_or(("", &*variable.name), |parts| parts);
        match last.strip_prefix(NOT_A_COORDINATE) {
            Some(last) if self.format == Self::NETCDF4 && group.is_empty() => last.to_owned(),
            Some(last) if self.format == Self::NETCDF4 => format!("{group}/{last}"),
            _ => variable.name.clone(),
        }
    }

    /// The variable called `name`, by its own name or by an alias of it or of a group above it.
    ///
    /// A name that starts with `/` is the stored one; without it, NetCDF-4's own name for a variable goes first.
    pub fn variable(&self, name: &str) -> Result<&Variable> {
        let is_stored_name = name.starts_with('/');
        let mut name = name.trim_matches('/').to_owned();
        if name.is_empty() {
            // An array that is the whole store has no other name.
            name.push('.');
        }
        for _ in 0..MOST_HOPS {
            if let (false, Some(variable)) = (is_stored_name, self.beside_its_dimension(&name)) {
                return Ok(variable);
            }
            if let Ok(index) = self.variables.binary_search_by(|variable| variable.name.as_str().cmp(&name)) {
                return Ok(&self.variables[index]);
            }
            if let Some(refused) = self.refused.iter().find(|refused| refused.name == name) {
                let kind = if refused.corrupt { ErrorKind::Corrupt } else { ErrorKind::Unsupported };
                return Err(Error::new(kind, refused.why.clone()).at(format!("variable '{name}'")));
            }
            match self.follow(&name) {
                Some(next) => name = next,
                None => break,
            }
        }
        Err(self.no_variable(&name))
    }

    /// NetCDF-4 stores a variable that shares a dimension's name, without being its coordinate, under a longer name.
    fn beside_its_dimension(&self, name: &str) -> Option<&Variable> {
        let (group, last) = name.rsplit_once('/').map_or(("", name), |(group, last)| (group, last));
        let slash = if group.is_empty() { "" } else { "/" };
        let stored = format!("{group}{slash}{NOT_A_COORDINATE}{last}");
        let index = self.variables.binary_search_by(|variable| variable.name.as_str().cmp(&stored)).ok()?;
        Some(&self.variables[index])
    }

    /// Replaces the shortest leading part of `name` that is an alias by what it stands for.
    fn follow(&self, name: &str) -> Option<String> {
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        ends.into_iter().find_map(|end| {
            let index = self.aliases.binary_search_by(|alias| alias.name.as_str().cmp(&name[..end])).ok()?;
            let target = &self.aliases[index].target;
            Some(format!("{target}{}", &name[end..]).trim_matches('/').to_owned())
        })
    }

    fn no_variable(&self, name: &str) -> Error {
        if self.groups.iter().any(|group| !name.is_empty() && group.name == name) {
            let inside = |variable: &&Variable| {
                variable.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
            };
            let error = Error::new(ErrorKind::NotFound, format!("'{name}' is a group, no variable"));
            return match self.variables.iter().find(inside) {
                Some(first) => error.hint(format!("name a variable, such as '{}'", first.name)),
                None => error.hint("`forebay inspect` lists what is there"),
            };
        }
        let error = Error::new(ErrorKind::NotFound, format!("no variable '{name}'"));
        let near = self
            .variables
            .iter()
            .map(|variable| (strsim::levenshtein(&variable.name, name), &variable.name))
            .min()
            .filter(|(distance, _)| *distance <= name.len() / 3 + 1);
        match near {
            Some((_, near)) => error.hint(format!("did you mean '{near}'?")),
            None => error.hint("`forebay inspect` lists what is there"),
        }
    }

    /// True when all indexes point to something: what was saved may have been changed since.
    pub fn is_sound(&self) -> bool {
        let sound = |extents: &Extents| extents.is_sound(self.sources.len(), self.parts.len());
        let is_whole = |variable: &Variable| {
            let grid = &variable.grid;
            let fill_len = variable.fill.len();
            grid.shape.len() == grid.chunk.len()
                && !grid.chunk.contains(&0)
                && variable.dtype.is_sound()
                && variable.logical_len() < u64::MAX
                && (fill_len == 0 || fill_len == variable.dtype.stored_len())
                && (variable.dimensions.is_empty() || variable.dimensions.len() == grid.shape.len())
                && variable.extents_fit_shape()
        };
        let has_its_heap = |variable: &Variable| {
            variable.heap.is_none_or(|heap| (heap.source.0 as usize) < self.sources.len())
        };
        let fits = |ndim: usize, mapping: &Mapping| {
            mapping.to.len() == ndim && mapping.from.len() == self.parts[mapping.part].grid.shape.len()
        };
        let maps = |variable: &Variable, part_count: usize| match &variable.extents {
            Extents::Mapped(mappings) => mappings
                .iter()
                .all(|mapping| mapping.part < part_count && fits(variable.grid.shape.len(), mapping)),
            _ => true,
        };
        let mut all = self.variables.iter().chain(&self.parts);
        all.all(|variable| sound(&variable.extents) && is_whole(variable) && has_its_heap(variable))
            // Parts are described before what is made of them, so none can lead back to itself.
            && self.parts.iter().enumerate().all(|(number, part)| maps(part, number))
            && self.variables.iter().all(|variable| maps(variable, self.parts.len()))
            && self.variables.is_sorted_by(|low, high| low.name < high.name)
            && self.order_is_sound()
    }

    /// All variables by stored name, with their aliases: `(name, variable)`, sorted.
    pub fn names(&self) -> Vec<(&str, &Variable)> {
        let by_name: HashMap<&str, &Variable> =
            self.variables.iter().map(|variable| (variable.name.as_str(), variable)).collect();
        let aliases = self.aliases.iter().filter_map(|alias| {
            Some((alias.name.as_str(), *by_name.get(self.variable(&alias.target).ok()?.name.as_str())?))
        });
        let mut names: Vec<_> =
            self.variables.iter().map(|variable| (variable.name.as_str(), variable)).chain(aliases).collect();
        names.sort_by_key(|(name, _)| *name);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Number, dtype::Dtype, extents::chunk_table::ChunkTable, grid::Grid};

    fn container() -> Container {
        let variable = |name: &str| Variable {
            name: name.into(),
            dtype: Dtype::native(Number::U8),
            grid: Grid::whole(vec![1]),
            max_shape: vec![Some(1)],
            layout: "contiguous".into(),
            filters: vec![],
            fill: vec![],
            extents: Extents::Chunks(ChunkTable::default()),
            heap: None,
            attributes: vec![],
            dimensions: vec![],
            type_name: None,
        };
        let alias = |name: &str, target: &str| Alias { name: name.into(), target: target.into() };
        Container {
            variables: vec![variable("a/temperature"), variable("b")],
            aliases: vec![alias("loop", "loop"), alias("shortcut", "a"), alias("z", "shortcut/temperature")],
            ..Container::default()
        }
    }

    #[test]
    fn a_name_is_found_through_aliases_of_groups_and_of_aliases() {
        for name in ["a/temperature", "/a/temperature", "shortcut/temperature", "z"] {
            assert_eq!(container().variable(name).unwrap().name, "a/temperature", "{name}");
        }
    }

    #[test]
    fn a_ring_of_aliases_ends_and_a_near_name_is_suggested() {
        assert_eq!(container().variable("loop").unwrap_err().kind(), ErrorKind::NotFound);
        let error = container().variable("a/temprature").unwrap_err().to_string();
        assert!(error.contains("did you mean 'a/temperature'?"), "{error}");
    }
}
