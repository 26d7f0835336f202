//! One array, described.

use serde::{Deserialize, Serialize};

use crate::{
    Filter,
    dtype::Dtype,
    extents::{Extents, chunk_table::ChunkTable, heap::Heap},
    grid::Grid,
    values::array::Array,
};

/// What the NetCDF library writes as the name of a dimension without a variable.
const BARE_DIMENSION: &str = "This is a netCDF dimension but not a netCDF variable";

/// A named value that belongs to a group or a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// The name.
    pub name: String,
    /// The value, or why it cannot be read.
    pub value: Result<Array, String>,
}

/// One array, described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// Full name within the container, groups joined by `/`.
    pub name: String,
    /// Element type, as stored.
    pub dtype: Dtype,
    /// What the file calls that type, where it is an enumeration that stands there under a name of its own.
    pub type_name: Option<String>,
    /// Shape and chunking.
    pub grid: Grid,
    /// How far each axis may grow: `None` without bound.
    pub max_shape: Vec<Option<u64>>,
    /// How the values are laid out, in the format's own words: `contiguous`, `chunked`, `virtual`, `records`.
    pub layout: String,
    /// Steps that were applied on writing, in that order.
    pub filters: Vec<Filter>,
    /// One stored element for what was never written; empty means zeros.
    pub fill: Vec<u8>,
    /// Where the values lie.
    pub extents: Extents,
    /// Where values of variable length lie, to which the stored elements are references.
    pub heap: Option<Heap>,
    /// Named values that belong to it.
    pub attributes: Vec<Attribute>,
    /// What its axes are called, one name each, empty for an axis without one; no names at all where none has one.
    pub dimensions: Vec<String>,
}

impl Variable {
    /// An array of `shape` whose elements are `dtype`, of which nothing was written yet.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: Vec<u64>) -> Self {
        Self {
            name: name.into(),
            dtype,
            type_name: None,
            max_shape: shape.iter().map(|len| Some(*len)).collect(),
            grid: Grid::whole(shape),
            layout: "contiguous".into(),
            filters: Vec::new(),
            fill: Vec::new(),
            extents: Extents::Chunks(ChunkTable::default()),
            heap: None,
            attributes: Vec::new(),
            dimensions: Vec::new(),
        }
    }

    /// The attribute called `name`, where it can be read.
    pub fn attribute(&self, name: &str) -> Option<&Array> {
        let found = self.attributes.iter().find(|attribute| attribute.name == name);
        found.and_then(|attribute| attribute.value.as_ref().ok())
    }

    /// The text of the attribute called `name`, where it is one.
    pub fn text_attribute(&self, name: &str) -> Option<String> {
        self.attribute(name)?.texts()?.into_iter().next()
    }

    /// True for what NetCDF-4 stores for a dimension that has no variable of its own: it holds no values.
    pub fn is_bare_dimension(&self) -> bool {
        let name = self.attribute("NAME").and_then(Array::texts);
        name.is_some_and(|name| name.first().is_some_and(|name| name.starts_with(BARE_DIMENSION)))
    }

    /// True unless values that stand in the description itself, or in segments, are more or fewer than the shape says, or
    /// shards or boxes do not fit the array.
    pub fn extents_fit_shape(&self) -> bool {
        match &self.extents {
            Extents::Inline(bytes) => bytes.len() as u64 == self.logical_len() && !self.dtype.is_variable(),
            Extents::Segments(segments) => segments.array_len() == self.logical_len(),
            Extents::Shards(shards) => shards.fits(&self.grid),
            Extents::Boxes(boxes) => boxes.fits(&self.grid.shape),
            _ => true,
        }
    }

    /// Bytes of one decoded chunk, of the largest where they differ; `u64::MAX` when there are more.
    pub fn chunk_len(&self) -> u64 {
        let count = match &self.extents {
            Extents::Boxes(boxes) => boxes.largest(),
            _ => self.grid.chunk_element_count(),
        };
        count.saturating_mul(self.dtype.stored_len() as u64)
    }

    /// Bytes of all elements, decoded.
    pub fn logical_len(&self) -> u64 {
        self.grid.element_count().saturating_mul(self.dtype.stored_len() as u64)
    }

    /// The first filter that was used on some chunk and cannot be undone here, if there is one.
    pub fn unknown_filter(&self) -> Option<&Filter> {
        let was_used = |index: usize| match &self.extents {
            Extents::Chunks(table) => table.iter().any(|(_, extent)| extent.skipped >> index & 1 == 0),
            Extents::Shards(shards) => !shards.files.is_empty(),
            Extents::Boxes(boxes) => !boxes.is_empty(),
            _ => false,
        };
        let unknown =
            self.filters.iter().enumerate().find(|(index, filter)| !filter.is_known() && was_used(*index));
        unknown.map(|(_, filter)| filter)
    }

    /// Bytes its values take in their sources, where that is known.
    pub fn stored_len(&self) -> Option<u64> {
        match &self.extents {
            Extents::Chunks(table) => Some(table.stored_len()),
            Extents::Shards(shards) => Some(shards.stored_len(&self.grid)),
            Extents::Segments(segments) => Some(segments.stored_len()),
            Extents::Boxes(boxes) => Some(boxes.stored_len()),
            Extents::Inline(bytes) => Some(bytes.len() as u64),
            Extents::Mapped(_) | Extents::Opaque(_) => None,
        }
    }
}
