//! What Python says of a variable, made into a description.

use std::collections::HashMap;

use forebay::{
    Array, Error, ErrorKind, Locator, Result, Values, Variable,
    container::{Attribute, ChunkTable, Extent, Extents, Filter, Grid, Opaque, SourceIndex, native},
    format::Found,
    source::{ByteRange, SourceId},
};
use pyo3::prelude::*;

use crate::tensors::numpy_type::NumpyType;

/// Where one chunk lies: its number, the file (this one where it has no name), offset and length.
type GivenExtent = (u64, Option<String>, u64, u64);

/// A variable as Python gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct PythonVariable {
    pub(super) name: String,
    dtype: NumpyType,
    shape: Vec<u64>,
    chunks: Option<Vec<u64>>,
    extents: Vec<GivenExtent>,
    values: Option<Vec<u8>>,
    fill: Vec<u8>,
    attributes: Vec<(String, NumpyType, Vec<u64>, Vec<u8>)>,
    dimensions: Vec<String>,
    pub(super) read: Option<Py<PyAny>>,
    filters: Vec<(String, Vec<u32>)>,
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

impl PythonVariable {
    /// The description, whose files are put among `sources`; what has a callable is read by `reader`.
    pub(super) fn variable(&self, reader: &str, sources: &mut Sources<'_>) -> Result<Variable> {
        let mut variable = Variable::new(self.name.clone(), self.dtype.0.clone(), self.shape.clone());
        variable.dimensions = self.dimensions.clone();
        variable.fill = self.fill.clone();
        variable.filters =
            self.filters.iter().map(|(name, values)| filter(name, values)).collect::<Result<_>>()?;
        variable.attributes = self.attributes.iter().map(attribute).collect();
        if let Some(chunk) = &self.chunks {
            variable.layout = "chunked".into();
            variable.grid = Grid { shape: self.shape.clone(), chunk: chunk.clone() };
        }
        if variable.logical_len() == u64::MAX || variable.chunk_len() == u64::MAX {
            return Err(invalid("more bytes than can be counted"));
        }
        variable.extents = match (&self.read, &self.values) {
            (Some(_), _) => {
                variable.layout = "python".into();
                Extents::Opaque(Opaque {
                    library: reader.to_owned(),
                    why: "its format gives no extents for it".into(),
                    name: sources.at.to_string(),
                    source: SourceIndex(0),
                })
            }
            (None, Some(values)) => Extents::Inline(values.clone()),
            (None, None) => Extents::Chunks(self.table(&variable, sources)?),
        };
        Ok(variable)
    }

    fn table(&self, variable: &Variable, sources: &mut Sources<'_>) -> Result<ChunkTable> {
        let count = variable.grid.chunk_count();
        let mut pairs = Vec::with_capacity(self.extents.len());
        for (number, file, offset, len) in &self.extents {
            let place = |error: Error| error.at(format!("chunk {number} at {offset:#x}"));
            if *number >= count {
                return Err(invalid(format!("chunk {number} of {count}")));
            }
            let least = least_len(variable, *number);
            if variable.filters.is_empty() && !(least..=variable.chunk_len()).contains(len) {
                let what = format!("{len} bytes where {} belong", variable.chunk_len());
                return Err(place(invalid(what)));
            }
            let source = sources.index(file.as_deref())?;
            let range = ByteRange::checked(*offset, *len, sources.len_of(source)).map_err(place)?;
            pairs.push((*number, Extent { source, range, skipped: 0 }));
        }
        ChunkTable::new(pairs, count)
    }
}

/// The filter that Python calls `name`, or by its number in HDF5 files.
fn filter(name: &str, values: &[u32]) -> Result<Filter> {
    if let Ok(id) = name.parse() {
        return Ok(Filter::from_hdf5(id, "", values.to_vec()));
    }
    Ok(match name {
        "adler32" => Filter::Adler32 { at_start: true },
        "bitshuffle" => Filter::Bitshuffle { client_values: values.to_vec() },
        "blosc" => Filter::Blosc,
        "blosc2" => Filter::Blosc2,
        "bzip2" => Filter::Bzip2,
        "crc32" => Filter::Crc32 { at_start: true },
        "crc32c" => Filter::Crc32c { at_start: false },
        "fletcher32" => Filter::Fletcher32,
        "gzip" => Filter::Gzip,
        "lz4" => Filter::Lz4,
        "lz4_blocks" => Filter::Lz4Blocks,
        "lzf" => Filter::Lzf,
        "shuffle" => Filter::Shuffle { element_len: values.first().copied().unwrap_or(1) },
        "zlib" => Filter::Deflate { level: None },
        "zstd" => Filter::Zstd,
        _ => return Err(invalid(format!("no filter is called '{name}'"))),
    })
}

/// How short the stored bytes of a chunk may be: of rows past the border nothing need be there.
fn least_len(variable: &Variable, number: u64) -> u64 {
    let grid = &variable.grid;
    let (Some(rows), Some(chunk_rows)) = (grid.shape.first(), grid.chunk.first()) else {
        return variable.chunk_len();
    };
    if grid.shape[1..] != grid.chunk[1..] {
        return variable.chunk_len();
    }
    let there = rows.saturating_sub(number.saturating_mul(*chunk_rows)).min(*chunk_rows);
    variable.chunk_len() / chunk_rows.max(&1) * there
}

fn attribute((name, dtype, shape, bytes): &(String, NumpyType, Vec<u64>, Vec<u8>)) -> Attribute {
    let mut bytes = bytes.clone();
    native::make_native(&dtype.0, &mut bytes);
    let array = Array { dtype: dtype.0.clone(), shape: shape.clone(), values: Values::Fixed(bytes) };
    Attribute { name: name.clone(), value: Ok(array) }
}

/// The files that extents point into, each opened once and where the described one was found.
pub(super) struct Sources<'a> {
    found: &'a Found<'a>,
    at: &'a Locator,
    ids: Vec<SourceId>,
    named: HashMap<String, SourceIndex>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(found: &'a Found<'a>) -> Self {
        let ids = found.file.iter().map(|file| file.id().clone()).collect();
        Self { found, at: found.at, ids, named: HashMap::new() }
    }

    pub(super) fn into_ids(self) -> Vec<SourceId> {
        self.ids
    }

    fn len_of(&self, index: SourceIndex) -> u64 {
        self.ids.get(index.0 as usize).map_or(0, |id| id.len)
    }

    /// The source of the file called `name`: beside the file that is described, or inside the folder.
    fn index(&mut self, name: Option<&str>) -> Result<SourceIndex> {
        let Some(name) = name else {
            self.found.need_file()?;
            return Ok(SourceIndex(0));
        };
        if let Some(index) = self.named.get(name) {
            return Ok(*index);
        }
        let at = match self.found.file {
            Some(_) => self.at.beside(name),
            None => self.at.inside("_").beside(name),
        };
        let id = self.found.origin.open(&at)?.id().clone();
        let known = self.ids.iter().position(|known| *known == id);
        let number = known.unwrap_or(self.ids.len());
        if known.is_none() {
            self.ids.push(id);
        }
        let index =
            SourceIndex(u32::try_from(number).map_err(|_| invalid("more files than can be counted"))?);
        self.named.insert(name.to_owned(), index);
        Ok(index)
    }
}
