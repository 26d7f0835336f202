//! From an object header to a described variable.

use forebay_process::{Error, Result};
use forebay_source::ByteRange;

use super::{
    attributes::attributes,
    cursor::MetadataCursor,
    external,
    file::File,
    files::{ObjectAddress, OpenFiles},
    header::{Message, ObjectHeader},
    index::IndexedArray,
    mapped,
    message::{
        self,
        dataspace::Dataspace,
        datatype::Datatypes,
        fill,
        layout::{self, ChunkedLayout, DataLayout},
        pipeline,
    },
    placement::DataPlacement,
};
use forebay_container::{ChunkTable, Dtype, Extent, Extents, Filter, Grid, Segments, Variable};

/// Describes the variable that `object` is.
fn describe_object(
    files: &mut OpenFiles<'_>,
    object: ObjectAddress,
    name: &str,
    nesting: usize,
) -> Result<Variable> {
    let header = files.file(object.0).header(object.1)?;
    describe(files, object, &header, name, nesting)
}

/// Describes the variable whose header is `header`.
pub(crate) fn describe(
    files: &mut OpenFiles<'_>,
    object: ObjectAddress,
    header: &ObjectHeader,
    name: &str,
    nesting: usize,
) -> Result<Variable> {
    let file = files.file(object.0);
    let need = |kind: u16, what: &str| {
        header.find(kind).ok_or_else(|| Error::corrupt(format!("a variable without a {what} message")))
    };
    let cursor = |message: &'_ Message| message.body.clone();
    let space =
        Dataspace::parse(MetadataCursor::new(&cursor(need(message::DATASPACE, "dataspace")?), file.sizes))?;
    let dtype = datatype(&file, need(message::DATATYPE, "datatype")?)?;
    let layout_message = need(message::LAYOUT, "layout")?;
    let layout = layout::parse(MetadataCursor::new(&layout_message.body, file.sizes))?;
    let filters = match header.find(message::PIPELINE) {
        Some(message) => pipeline::parse(MetadataCursor::new(&message.body, file.sizes))?,
        None => Vec::new(),
    };
    let fill = fill::parse(header, file.sizes)?;
    if !fill.is_empty() && fill.len() != dtype.stored_len() {
        return Err(Error::corrupt(format!(
            "a fill value of {} bytes for {}",
            fill.len(),
            dtype.stored_len()
        )));
    }
    let shape = if space.is_null { vec![0] } else { space.shape };
    let byte_len = shape.iter().try_fold(dtype.stored_len() as u64, |len, n| len.checked_mul(*n));
    if byte_len.is_none() && !shape.contains(&0) {
        return Err(Error::corrupt(format!("an array of shape {shape:?}: more bytes than 64 bits count")));
    }
    let heap = dtype.is_variable().then(|| file.heap());
    let mut variable = Variable {
        name: name.to_owned(),
        dtype,
        grid: Grid::whole(shape),
        max_shape: if space.is_null { vec![Some(0)] } else { space.max_shape },
        layout: "null".into(),
        filters: Vec::new(),
        fill,
        extents: Extents::Chunks(ChunkTable::default()),
        heap,
        attributes: attributes(&file, header)?,
        dimensions: vec![],
        type_name: None,
    };
    if space.is_null {
        return Ok(variable);
    }
    let place = DataPlacement { files, file: &file, object, nesting, describe: describe_object };
    match layout {
        DataLayout::Compact { at, len } => {
            place.compact(&mut variable, layout_message.address + at as u64, len)
        }
        DataLayout::Contiguous { address } => match header.find(message::EXTERNAL_FILES) {
            Some(message) => place.external(&mut variable, &message.body),
            None => place.contiguous(&mut variable, address),
        },
        DataLayout::Chunked(chunked) => place.chunked(&mut variable, &chunked, filters),
        DataLayout::Virtual { heap, index } => mapped::place(place, &mut variable, heap, index),
    }?;
    Ok(variable)
}

/// The type that `message` describes.
pub(crate) fn datatype(file: &File, message: &Message) -> Result<Dtype> {
    let parse = || {
        Datatypes { reference_len: file.heap().reference_len() }
            .parse(&mut MetadataCursor::new(&message.body, file.sizes))
    };
    if message.is_shared { file.shared_type(parse) } else { parse() }
}

impl DataPlacement<'_, '_> {
    fn compact(self, variable: &mut Variable, address: u64, len: usize) -> Result<()> {
        variable.layout = "compact".into();
        let needed = variable.logical_len();
        if (len as u64) < needed {
            return Err(Error::corrupt(format!("{len} bytes of compact values, {needed} needed")));
        }
        variable.extents = self.one_extent(variable, Some(address))?;
        Ok(())
    }

    fn contiguous(self, variable: &mut Variable, address: Option<u64>) -> Result<()> {
        variable.layout = "contiguous".into();
        variable.extents = self.one_extent(variable, address)?;
        Ok(())
    }

    fn one_extent(&self, variable: &Variable, address: Option<u64>) -> Result<Extents> {
        let len = variable.logical_len();
        let (Some(address), true) = (address, len > 0) else {
            return Ok(Extents::Chunks(ChunkTable::new(Vec::new(), variable.grid.chunk_count())?));
        };
        let range =
            self.file.range(address, len).map_err(|error| error.at(format!("values at {address:#x}")))?;
        let extent = Extent { source: self.file.index, range, skipped: 0 };
        Ok(Extents::Chunks(ChunkTable::new(vec![(0, extent)], 1)?))
    }

    fn chunked(self, variable: &mut Variable, layout: &ChunkedLayout, filters: Vec<Filter>) -> Result<()> {
        variable.layout = "chunked".into();
        let ndim = variable.grid.shape.len();
        let element_len = variable.dtype.stored_len() as u64;
        let chunk = match layout.sizes.split_last() {
            Some((last, sizes)) if sizes.len() == ndim => {
                if *last != element_len {
                    return Err(Error::corrupt(format!(
                        "chunks of elements {last} bytes long, not {element_len}"
                    )));
                }
                sizes.to_vec()
            }
            _ if layout.sizes.len() == ndim => layout.sizes.clone(),
            _ => {
                return Err(Error::corrupt(format!(
                    "chunks of {} dimensions for {ndim}",
                    layout.sizes.len()
                )));
            }
        };
        if chunk.contains(&0) || ndim == 0 {
            return Err(Error::corrupt(format!("chunks of shape {chunk:?}")));
        }
        variable.grid.chunk = chunk;
        variable.filters = filters;
        let indexed = IndexedArray {
            file: self.file,
            grid: &variable.grid,
            max_shape: &variable.max_shape,
            filters: &variable.filters,
            chunk_len: variable.chunk_len(),
            edges_unfiltered: layout.edges_unfiltered,
        };
        variable.extents = Extents::Chunks(indexed.table(layout)?);
        Ok(())
    }

    fn external(self, variable: &mut Variable, body: &[u8]) -> Result<()> {
        variable.layout = "external".into();
        let mut left = variable.logical_len();
        let mut segments = Segments::default();
        for segment in external::segments(self.file, body)? {
            let len = segment.len.unwrap_or(left).min(left);
            let (source, file_len) = self
                .files
                .raw_source(self.object.0, &segment.file)
                .map_err(|error| error.at("external values"))?;
            let there = file_len.saturating_sub(segment.offset).min(len);
            let range = ByteRange::at(segment.offset.min(file_len), there);
            segments.push_padded(len, source, range)?;
            left -= len;
        }
        if left > 0 {
            return Err(Error::corrupt(format!("{left} bytes of values lie in no external file")));
        }
        variable.extents = Extents::Segments(segments);
        Ok(())
    }
}
