//! What `inspect` says of a file, as plain structs; in JSON these are the field names.

use forebay::{
    Array, Container, Locator, Variable,
    container::{Attribute, ChunkSizes, Extents, Group},
    format::{libhdf5_version, libsilo_version},
};
use serde::Serialize;

use crate::{inspect::verdict::RandomRowCost, output::value};

/// A file: what it is, and all that is in it.
#[derive(Debug, Serialize)]
pub(crate) struct InspectedFile {
    pub(crate) file: String,
    pub(crate) format: String,
    /// Length of the file, or of all files of a store.
    pub(crate) bytes: u64,
    /// Files its values lie in.
    pub(crate) source_count: usize,
    /// Whether a SWMR writer has the file open.
    pub(crate) swmr: bool,
    pub(crate) groups: Vec<GroupFacts>,
    pub(crate) variables: Vec<VariableFacts>,
    pub(crate) aliases: Vec<AliasFacts>,
    pub(crate) refused: Vec<RefusedFacts>,
}

/// A group; the root's name is empty.
#[derive(Debug, Serialize)]
pub(crate) struct GroupFacts {
    pub(crate) name: String,
    pub(crate) attributes: Vec<AttributeFacts>,
}

/// A second name.
#[derive(Debug, Serialize)]
pub(crate) struct AliasFacts {
    pub(crate) name: String,
    pub(crate) target: String,
}

/// What cannot be described, and why.
#[derive(Debug, Serialize)]
pub(crate) struct RefusedFacts {
    pub(crate) name: String,
    pub(crate) why: String,
    pub(crate) corrupt: bool,
}

/// A variable.
#[derive(Debug, Serialize)]
pub(crate) struct VariableFacts {
    pub(crate) name: String,
    /// The name it stands under in the container.
    #[serde(skip)]
    stored_name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    /// What its axes are called; none where none has a name.
    pub(crate) dimensions: Vec<String>,
    /// How far each axis may grow, `null` without bound.
    pub(crate) max_shape: Vec<Option<u64>>,
    pub(crate) layout: String,
    /// Only of chunked variables.
    pub(crate) chunks: Option<ChunkFacts>,
    /// Only of variables whose chunks lie in shards.
    pub(crate) shards: Option<ChunkFacts>,
    pub(crate) filters: Vec<String>,
    /// Bytes of all values, decoded.
    pub(crate) logical_bytes: u64,
    /// Bytes they take in their files, where that is known.
    pub(crate) stored_bytes: Option<u64>,
    /// Decoded bytes per stored byte, of what was written.
    pub(crate) ratio: Option<f64>,
    /// How many parts of other variables it is made of.
    pub(crate) mapping_count: Option<usize>,
    /// Only of variables in blocks that form no grid.
    pub(crate) block_count: Option<usize>,
    /// The library that reads it, if we do not.
    pub(crate) library: Option<FallbackLibrary>,
    /// Why its values cannot be read, if they cannot.
    pub(crate) unreadable: Option<String>,
    /// What one row costs, read at random; of what can be read.
    pub(crate) row: Option<RandomRowCost>,
    pub(crate) attributes: Vec<AttributeFacts>,
}

/// How a variable is cut into chunks.
#[derive(Debug, Serialize)]
pub(crate) struct ChunkFacts {
    pub(crate) shape: Vec<u64>,
    /// Those that were written; of chunks in shards, those whose shard was.
    pub(crate) written_count: u64,
    pub(crate) count: u64,
}

/// A library that reads what we do not, and why.
#[derive(Debug, Serialize)]
pub(crate) struct FallbackLibrary {
    pub(crate) name: String,
    pub(crate) why: String,
    /// Its version and path, where one is found.
    pub(crate) found: Option<String>,
}

/// An attribute; `error` stands in the place of its value where that cannot be read.
#[derive(Debug, Serialize)]
pub(crate) struct AttributeFacts {
    pub(crate) name: String,
    /// True for those by which HDF5 and NetCDF-4 keep dimensions: JSON has them, people need not see them.
    #[serde(skip)]
    pub(crate) is_internal: bool,
    #[serde(flatten)]
    pub(crate) value: AttributeValue,
}

/// An attribute's value.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum AttributeValue {
    Values {
        dtype: String,
        shape: Vec<u64>,
        /// All values, in C order.
        values: Vec<serde_json::Value>,
        /// Some of them, as text.
        #[serde(skip)]
        shown: Vec<String>,
    },
    Error {
        error: String,
    },
}

/// Values of an attribute that are shown as text.
pub(crate) const SHOWN_COUNT: usize = 16;

impl InspectedFile {
    /// All there is to say of `container`, which was found at `file`.
    pub(crate) fn gather(file: &Locator, container: &Container) -> Self {
        Self {
            file: file.to_string(),
            format: container.format.clone(),
            bytes: container.stored_len(),
            source_count: container.sources.len(),
            swmr: container.swmr,
            groups: container.groups.iter().map(group).collect(),
            variables: container.listed().map(|listed| variable(container, listed)).collect(),
            aliases: container
                .aliases
                .iter()
                .map(|alias| AliasFacts { name: alias.name.clone(), target: alias.target.clone() })
                .collect(),
            refused: container
                .refused
                .iter()
                .map(|refused| RefusedFacts {
                    name: refused.name.clone(),
                    why: refused.why.clone(),
                    corrupt: refused.corrupt,
                })
                .collect(),
        }
    }

    /// Leaves only what stands in `container` under one of `names`, or in a group that does.
    pub(crate) fn keep(&mut self, container: &Container, names: &[String]) {
        let kept = |name: &str| {
            names.iter().any(|kept| kept.is_empty() || name.strip_prefix(kept.as_str()).is_some_and(is_end))
        };
        self.groups.retain(|group| kept(&group.name));
        self.variables.retain(|variable| kept(&variable.stored_name));
        // What is not listed is shown when it is named.
        for name in names.iter().filter(|name| !name.is_empty()) {
            let is_shown = self.variables.iter().any(|variable| variable.stored_name == *name);
            let asked = container.variables.iter().find(|variable| variable.name == *name);
            self.variables.extend(asked.filter(|_| !is_shown).map(|asked| variable(container, asked)));
        }
        self.aliases.retain(|alias| kept(&alias.name));
        self.refused.retain(|refused| kept(&refused.name));
    }
}

/// True when what follows a name shows that the name was whole.
fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn group(group: &Group) -> GroupFacts {
    GroupFacts { name: group.name.clone(), attributes: attributes(&group.attributes) }
}

fn variable(container: &Container, variable: &Variable) -> VariableFacts {
    let (chunks, shards) = (chunks(variable), shards(variable));
    let unreadable = variable.dtype.refusal();
    let library = library(variable).filter(|_| unreadable.is_none());
    let stored_bytes = variable.stored_len();
    VariableFacts {
        name: container.shown_name(variable),
        stored_name: variable.name.clone(),
        dtype: variable.dtype.to_string(),
        shape: variable.grid.shape.clone(),
        dimensions: variable.dimensions.clone(),
        max_shape: variable.max_shape.clone(),
        layout: variable.layout.clone(),
        filters: variable.filters.iter().map(|filter| filter.label()).collect(),
        logical_bytes: variable.logical_len(),
        stored_bytes,
        ratio: stored_bytes.and_then(|stored| ratio(variable, chunks.as_ref(), stored)),
        chunks,
        shards,
        mapping_count: match &variable.extents {
            Extents::Mapped(mappings) => Some(mappings.len()),
            _ => None,
        },
        block_count: match &variable.extents {
            Extents::Boxes(boxes) => Some(boxes.len()),
            _ => None,
        },
        row: RandomRowCost::of(variable).filter(|_| unreadable.is_none() && library.is_none()),
        library,
        unreadable,
        attributes: attributes(&variable.attributes),
    }
}

fn chunks(variable: &Variable) -> Option<ChunkFacts> {
    let is_chunked = match &variable.extents {
        Extents::Chunks(table) => {
            let is_cut = !table.is_regular() && variable.grid.chunk_count() > 1;
            is_cut || variable.layout == "chunked"
        }
        Extents::Shards(_) => true,
        _ => false,
    };
    let sizes = ChunkSizes::of(variable).filter(|_| is_chunked)?;
    let (shape, count) = (variable.grid.chunk.clone(), variable.grid.chunk_count());
    Some(ChunkFacts { shape, written_count: sizes.count(), count })
}

fn shards(variable: &Variable) -> Option<ChunkFacts> {
    let Extents::Shards(shards) = &variable.extents else { return None };
    let (shape, count) = (shards.grid.chunk.clone(), shards.grid.chunk_count());
    Some(ChunkFacts { shape, written_count: shards.files.len() as u64, count })
}

/// The library that reads what we do not: what has no extents, and chunks whose filter is unknown here.
fn library(variable: &Variable) -> Option<FallbackLibrary> {
    let (name, why) = match (&variable.extents, variable.unknown_filter()) {
        (Extents::Opaque(opaque), _) => (opaque.library.as_str(), opaque.why.clone()),
        (_, Some(filter)) => ("libhdf5", format!("no decoder for {}", filter.label())),
        _ => return None,
    };
    let found = match name {
        "libhdf5" => libhdf5_version(),
        "libsilo" => libsilo_version(),
        // A user's own reader is part of the program.
        other => Some(other.to_owned()),
    };
    Some(FallbackLibrary { name: name.into(), why, found })
}

/// Decoded bytes per stored byte. Values of variable length lie elsewhere, so their references say nothing.
fn ratio(variable: &Variable, chunks: Option<&ChunkFacts>, stored: u64) -> Option<f64> {
    if stored == 0 || variable.dtype.is_variable() {
        return None;
    }
    let logical = match chunks {
        Some(chunks) if chunks.written_count < chunks.count => {
            variable.chunk_len().saturating_mul(chunks.written_count).min(variable.logical_len())
        }
        _ => variable.logical_len(),
    };
    Some(logical as f64 / stored as f64)
}

fn attributes(all: &[Attribute]) -> Vec<AttributeFacts> {
    all.iter().map(|one| AttributeFacts { is_internal: one.is_internal(all), ..attribute(one) }).collect()
}

fn attribute(attribute: &Attribute) -> AttributeFacts {
    let value = match attribute.value.as_ref().map_err(Clone::clone).and_then(values) {
        Ok(value) => value,
        Err(error) => AttributeValue::Error { error },
    };
    AttributeFacts { name: attribute.name.clone(), is_internal: false, value }
}

fn values(array: &Array) -> Result<AttributeValue, String> {
    let (mut values, mut shown) = (Vec::new(), Vec::new());
    value::each(array, |value| {
        if shown.len() < SHOWN_COUNT {
            shown.push(value.to_string());
        }
        values.extend(serde_json::to_value(&value));
        Ok(())
    })
    .map_err(|error| error.to_string())?;
    Ok(AttributeValue::Values { dtype: array.dtype.to_string(), shape: array.shape.clone(), values, shown })
}
