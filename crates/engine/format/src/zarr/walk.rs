//! From a store to its container.

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, Origin, SourceId};
use serde_json::Value;

use super::{
    array::Described,
    attributes,
    chunks::{self, Files},
    codec::Objects,
    element::{sequence, var_text},
    hierarchy::{Hierarchy, Node},
    ragged::FILL,
    store::ZarrStore,
    text::from_base64,
    v2, v3,
};
use forebay_container::{
    Array, Attribute, ChunkTable, Container, Dtype, Extent, Extents, Grid, Group, Number, Opaque, Refused,
    Shards, SourceIndex, Values, Variable,
};

/// The attributes that say what a type or a fill value does not.
const TYPE_NOTE: &str = "zarr_dtype";
const FILL_NOTE: &str = "zarr_fill_value";

/// Describes the store at `at`.
pub(super) fn describe(origin: &dyn Origin, at: &Locator) -> Result<Container> {
    let store = ZarrStore::new(origin, at);
    let files = store.survey()?;
    let hierarchy = Hierarchy::read(&store, files.as_deref())?;
    let mut builder = Builder { container: Container { format: "zarr".into(), ..Container::default() } };
    let mut arrays: Vec<(String, Described, Value)> = Vec::new();
    for (path, node) in Hierarchy::in_order(hierarchy.nodes) {
        if node.defect.is_none() && !node.is_array() {
            let mut attributes = attributes::of(node.attributes(), &[]);
            node.attribute_order.arrange(&mut attributes);
            builder.container.groups.push(Group { attributes, name: path });
            continue;
        }
        match array(&node) {
            Ok((described, fill)) => arrays.push((path, described, fill)),
            Err(error) => builder.refuse(path, &error),
        }
    }
    let mut groups = std::mem::take(&mut builder.container.groups);
    if groups.first().is_none_or(|group| !group.name.is_empty()) {
        groups.insert(0, Group { name: String::new(), attributes: Vec::new() });
    }
    let placed: Vec<chunks::NamedArray<'_>> =
        arrays.iter().map(|(path, described, _)| (path.as_str(), described)).collect();
    let (found, sources): (Vec<Result<Files>>, Vec<SourceId>) = match files {
        Some(files) => {
            let (found, sources) = chunks::sort(&store, files, &placed, hierarchy.root)?;
            (found.into_iter().map(Ok).collect(), sources)
        }
        None => {
            let mut sources = vec![hierarchy.root];
            let ask = |array| chunks::ask(&store, array, &mut sources);
            (placed.iter().copied().map(ask).collect(), sources)
        }
    };
    for ((path, described, fill), files) in arrays.into_iter().zip(found) {
        match files.and_then(|files| extents(&described, files, &sources)) {
            Ok(extents) => builder.add(path, described, &fill, extents),
            Err(error) if is_about_the_array(&error) => builder.refuse(path, &error),
            Err(error) => return Err(error),
        }
    }
    let mut container = Container { sources, groups, ..builder.container };
    container.sort_variables();
    container.refused.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(container)
}

/// What is wrong with one array must not hide the others; a place that does not answer is wrong with all.
fn is_about_the_array(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported)
}

/// The array that `node` describes, and its fill value.
fn array(node: &Node) -> Result<(Described, Value)> {
    if let Some(error) = &node.defect {
        return Err(Error::corrupt(error.to_string()));
    }
    let (mut described, document) = match (&node.v3, &node.v2_array) {
        (Some(document), _) => (v3::describe(document)?, document),
        (None, Some(document)) => (v2::describe(document, node.v2_attributes.as_ref())?, document),
        (None, None) => return Err(Error::corrupt("no document")),
    };
    node.attribute_order.arrange(&mut described.attributes);
    let len = described.grid.element_count().checked_mul(described.element.dtype.stored_len() as u64);
    if len.is_none_or(|len| len == u64::MAX) {
        return Err(Error::unsupported("more bytes than can be counted"));
    }
    Ok((described, document.get("fill_value").cloned().unwrap_or_default()))
}

/// Where the chunks lie that are in `files`.
fn extents(described: &Described, files: Files, sources: &[SourceId]) -> Result<Extents> {
    let is_plain = described.filters.is_empty() && described.objects.is_none();
    let element_len = described.element.dtype.stored_len() as u64;
    let wanted = described.grid.chunk_element_count().saturating_mul(element_len);
    if let Some(form) = described.shard {
        let grid = described.files.clone();
        let files = ChunkTable::new(files, grid.chunk_count())?;
        return Ok(Extents::Shards(Shards { grid, files, form, chunk_len: is_plain.then_some(wanted) }));
    }
    let other_len = |(_, extent): &&(u64, Extent)| is_plain && extent.range.len() != wanted;
    if let Some((number, extent)) = files.iter().find(other_len) {
        let what = format!("chunk {number} is {} bytes long where {wanted} belong", extent.range.len());
        return Err(Error::corrupt(what).at(&sources[extent.source.0 as usize].locator));
    }
    Ok(Extents::Chunks(ChunkTable::new(files, described.grid.chunk_count())?))
}

/// True when some chunk may never have been written.
fn has_gaps(grid: &Grid, extents: &Extents) -> bool {
    match extents {
        Extents::Chunks(table) => (table.len() as u64) < grid.chunk_count(),
        _ => true,
    }
}

/// Puts what was read of arrays into a description.
struct Builder {
    container: Container,
}

impl Builder {
    fn refuse(&mut self, path: String, error: &Error) {
        self.container.refused.push(Refused::of(variable_name(path), error));
    }

    fn add(&mut self, path: String, described: Described, fill: &Value, extents: Extents) {
        let name = variable_name(path);
        let mut attributes = described.attributes;
        attributes.extend(described.note.map(|note| attributes::note(TYPE_NOTE, &note)));
        if described.has_no_fill && has_gaps(&described.grid, &extents) {
            attributes.push(attributes::note(
                FILL_NOTE,
                "none: what was never written reads as zeros, times as NaT",
            ));
        }
        let variable = Variable {
            grid: described.grid,
            layout: if described.shard.is_some() { "sharded" } else { "chunked" }.into(),
            filters: described.filters,
            fill: described.fill,
            extents,
            dimensions: described.dimensions,
            ..Variable::new(name, described.element.dtype, described.files.shape)
        };
        let variable = match described.objects {
            Some(objects) => self.of_objects(variable, objects, fill),
            None => variable,
        };
        self.container.variables.push(Variable { attributes, ..variable });
    }

    /// The variable whose chunks, those of `chunks`, hold objects: they go to the parts, where its reader finds them.
    fn of_objects(&mut self, chunks: Variable, objects: Objects, fill: &Value) -> Variable {
        let name = chunks.name.clone();
        let (dtype, fill) = match objects {
            Objects::Texts => (var_text(), fill.as_str().map(|text| text.as_bytes().to_vec())),
            Objects::Bytes => (sequence(Dtype::native(Number::U8)), fill.as_str().and_then(from_base64)),
            Objects::Arrays(item) => (sequence(item), None),
        };
        let opaque = Opaque {
            library: "zarr".into(),
            why: "its elements may have any length".into(),
            name: name.clone(),
            source: SourceIndex(0),
        };
        let variable = Variable {
            dtype,
            extents: Extents::Opaque(opaque),
            filters: Vec::new(),
            dimensions: chunks.dimensions.clone(),
            ..chunks.clone()
        };
        let fill = fill.filter(|bytes| !bytes.is_empty()).map(|bytes| {
            let dtype = Dtype::Opaque { len: bytes.len(), tag: String::new() };
            let value = Array { dtype, shape: vec![], values: Values::Fixed(bytes) };
            Attribute { name: FILL.into(), value: Ok(value) }
        });
        let attributes = fill.into_iter().collect();
        self.container.parts.push(Variable { dtype: Dtype::native(Number::U8), attributes, ..chunks });
        variable
    }
}

/// An array that is the store itself has no name of its own.
fn variable_name(path: String) -> String {
    if path.is_empty() { ".".to_owned() } else { path }
}
