//! Silo in PDB: a header with two addresses, a chart of types, a table of symbols.
//!
//! ```text
//! header ─► chart (types) ─► symbols (name, type, address, dims) ─► extents
//!                                └─► groups (objects)
//! ```

mod group;
mod header;
mod symbols;
mod types;

use std::collections::BTreeSet;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use self::{header::PdbHeader, symbols::Symbol, types::Types};
use super::object::Object;
use forebay_container::{
    ChunkTable, Container, Extent, Extents, Group, Opaque, Refused, SourceIndex, Variable,
};

pub(super) use header::is_pdb;

/// The type that Silo keeps its objects in.
const OBJECT: &str = "Group";

/// The arrays and objects of the file in `source`.
pub(super) fn describe(source: &dyn Source) -> Result<(Container, Vec<Object>)> {
    let header = PdbHeader::read(source)?;
    let tables = source.fetch_one(ByteRange { start: header.chart, end: source.id().len })?;
    let (chart, table) =
        tables.split_at(usize::try_from(header.symbols - header.chart).unwrap_or(usize::MAX));
    let types = Types::read(&header, chart, table);
    let Some(object_len) = types.struct_len(OBJECT) else {
        let what = "a PDB file, but not one of Silo's: it has no type 'Group'";
        return Err(Error::new(ErrorKind::Unsupported, what));
    };
    let (symbols, extras) = symbols::read(table).map_err(|error| {
        let at = header.symbols;
        error.at(format!("symbol table at {at:#x}"))
    })?;
    let mut container =
        Container { format: "silo".into(), sources: vec![source.id().clone()], ..Container::default() };
    let mut groups = BTreeSet::from([String::new()]);
    let mut objects = Vec::new();
    for symbol in &symbols {
        match symbol.kind.as_str() {
            "Directory" => drop(groups.insert(symbol.name.trim_matches('/').to_owned())),
            kind if kind.starts_with(OBJECT) => objects.push(symbol),
            _ => match variable(symbol, &types, &extras, source.id().len) {
                Ok(variable) => container.variables.push(variable),
                Err(error) => container.refused.push(Refused::of(&symbol.name, &error)),
            },
        }
    }
    container.groups = groups.into_iter().map(|name| Group { name, attributes: Vec::new() }).collect();
    container.variables.sort_by(|left, right| left.name.cmp(&right.name));
    container.variables.dedup_by(|later, earlier| later.name == earlier.name);
    let (objects, broken) = group::read(source, &objects, object_len)?;
    container.refused.extend(broken.iter().map(|(name, error)| Refused::of(name, error)));
    Ok((container, objects))
}

/// The array that `symbol` stands for.
fn variable(symbol: &Symbol, types: &Types, extras: &symbols::Extras, file_len: u64) -> Result<Variable> {
    let shape = symbol.shape(extras)?;
    let opaque = |why: String| {
        let name = format!("/{}", symbol.name);
        Extents::Opaque(Opaque { library: super::library::NAME.into(), why, name, source: SourceIndex(0) })
    };
    let (dtype, why) = types.find(&symbol.kind)?;
    let mut variable = Variable::new(symbol.name.as_str(), dtype, shape);
    let len = variable.logical_len();
    let is_in_pieces =
        extras.in_blocks.contains(&symbol.name).then(|| "was written in several steps".to_owned());
    if let Some(why) = why.or(is_in_pieces) {
        // libsilo trusts what it opens: at least a byte of each element must be there.
        ByteRange::checked(symbol.address, symbol.count, file_len)?;
        variable.extents = opaque(why);
        return Ok(variable);
    }
    let range = ByteRange::checked(symbol.address, len, file_len)?;
    if len > 0 {
        let extent = Extent { source: SourceIndex(0), range, skipped: 0 };
        variable.extents = Extents::Chunks(ChunkTable::one(extent));
    }
    Ok(variable)
}
