//! What is in a file, as JSON for programs.

use forebay_container::{Container, Extents, Variable, row_cost};
use serde_json::{Value, json};

/// What there is to know of the file at `path`, which `container` describes, but for attributes.
pub fn file_facts(path: &str, container: &Container) -> Value {
    json!({
        "file": path,
        "format": container.format,
        "bytes": container.stored_len(),
        "source_count": container.sources.len(),
        "swmr": container.swmr,
        "groups": container.groups.iter().map(|group| &group.name).collect::<Vec<_>>(),
        "variables": container.variables.iter().map(variable_facts).collect::<Vec<_>>(),
        "aliases": container.aliases.iter().map(|alias| (&alias.name, &alias.target)).collect::<Vec<_>>(),
        "refused": container.refused.iter().map(|refused| (&refused.name, &refused.why)).collect::<Vec<_>>(),
    })
}

/// What there is to know of `variable`, as JSON.
pub fn variable_facts(variable: &Variable) -> Value {
    let chunks = match &variable.extents {
        Extents::Chunks(table) if variable.layout == "chunked" => json!({
            "shape": variable.grid.chunk, "written_count": table.len(), "count": variable.grid.chunk_count(),
        }),
        // How many were written stands in the shards.
        Extents::Shards(_) => json!({
            "shape": variable.grid.chunk, "written_count": Value::Null, "count": variable.grid.chunk_count(),
        }),
        _ => Value::Null,
    };
    let library = match (&variable.extents, variable.unknown_filter()) {
        (Extents::Opaque(opaque), _) => json!({ "name": opaque.library, "why": opaque.why }),
        (_, Some(filter)) => {
            json!({ "name": "libhdf5", "why": format!("no decoder for {}", filter.label()) })
        }
        _ => Value::Null,
    };
    let unreadable = variable.dtype.refusal();
    let row = row_cost(variable).filter(|_| unreadable.is_none() && library.is_null()).map(|cost| {
        json!({
            "used_bytes": cost.used, "read_bytes": cost.read, "decoded_bytes": cost.decoded,
            "read_factor": cost.read_factor(), "decode_factor": cost.decode_factor(),
        })
    });
    json!({
        "name": variable.name,
        "dtype": variable.dtype.to_string(),
        "type_name": variable.type_name,
        "shape": variable.grid.shape,
        "max_shape": variable.max_shape,
        "dimensions": variable.dimensions,
        "layout": variable.layout,
        "chunks": chunks,
        "filters": variable.filters.iter().map(|filter| filter.label()).collect::<Vec<_>>(),
        "logical_bytes": variable.logical_len(),
        "stored_bytes": variable.stored_len(),
        "mapping_count": match &variable.extents {
            Extents::Mapped(mappings) => Some(mappings.len()),
            _ => None,
        },
        "block_count": match &variable.extents {
            Extents::Boxes(boxes) => Some(boxes.len()),
            _ => None,
        },
        "library": library,
        "unreadable": unreadable,
        "row": row,
    })
}
