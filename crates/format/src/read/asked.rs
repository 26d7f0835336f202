//! What a read asks of sources, without reading: for whoever fetches it ahead.

use forebay_source::{ByteRange, Error, ErrorKind, Result};

use super::{chunks, direct, gather::Windows, requests::Each, segments, stored};
use crate::Opened;
use forebay_container::runs::Part;
use forebay_container::{ChunkTable, Extent, Extents, Selection, SourceIndex, Variable};

impl Opened {
    /// Calls `each` with the ranges that [`read_into`](Self::read_into) asks for on one thread, nearly in that order;
    /// with none for what a library reads.
    pub fn asked(
        &self,
        variable: &Variable,
        selection: &Selection,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        selection.check(&variable.grid.shape)?;
        match &variable.extents {
            Extents::Chunks(table) => of_chunks(variable, table, selection, each),
            Extents::Segments(list) => {
                segments::asked(variable, list, selection, each);
                Ok(())
            }
            Extents::Mapped(mappings) => {
                for mapping in mappings.touching(selection) {
                    let Some(part) = self.container().parts.get(mapping.part) else {
                        return Err(Error::new(ErrorKind::Bug, "a mapping from a part that is not there"));
                    };
                    for patch in mapping.patches(selection, &part.grid.shape) {
                        self.asked(part, &patch.from, each)?;
                    }
                }
                Ok(())
            }
            Extents::Inline(_) | Extents::Opaque(_) => Ok(()),
        }
    }

    /// Calls `each` with the ranges that [`fetch_chunks`](Self::fetch_chunks) asks for.
    pub fn asked_for_chunks(
        &self,
        variable: &Variable,
        numbers: impl Iterator<Item = u64>,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) {
        let Extents::Chunks(table) = &variable.extents else { return };
        let mut extents: Vec<Extent> = numbers.filter_map(|number| table.get(number)).collect();
        if let [extent] = extents[..] {
            return each(extent.source, extent.range);
        }
        extents.sort_unstable_by_key(|extent| extent.source);
        for same_source in extents.chunk_by(|one, next| one.source == next.source) {
            let runs = stored::together(same_source.iter().map(|extent| extent.range));
            runs.into_iter().for_each(|run| each(same_source[0].source, run));
        }
    }
}

fn of_chunks(
    variable: &Variable,
    table: &ChunkTable,
    selection: &Selection,
    each: &mut Each<'_>,
) -> Result<()> {
    let mut windows = Windows::default();
    let is_done = direct::place_rows(variable, selection, &mut |place| {
        let before = place.ok().and_then(|placed| windows.push(placed));
        before.into_iter().for_each(|window| each(window.source, window.range));
        Ok(())
    })?;
    if !is_done {
        chunk_by_chunk(variable, table, selection, &mut windows, each)?;
    }
    windows.last().into_iter().for_each(|window| each(window.source, window.range));
    Ok(())
}

fn chunk_by_chunk(
    variable: &Variable,
    table: &ChunkTable,
    selection: &Selection,
    windows: &mut Windows,
    each: &mut Each<'_>,
) -> Result<()> {
    let shape = selection.shape();
    for overlap in variable.grid.overlaps(selection) {
        let Some(extent) = table.get(overlap.chunk) else { continue };
        if !chunks::is_plain(variable, extent) {
            each(extent.source, extent.range);
            continue;
        }
        let part = Part {
            from_shape: &variable.grid.chunk,
            selection: &overlap.in_chunk,
            to_shape: &shape,
            to_start: &overlap.in_selection,
        };
        direct::Plain { variable, extent }.place(&part, &mut |placed| {
            windows.push(placed).into_iter().for_each(|window| each(window.source, window.range));
            Ok(())
        })?;
    }
    Ok(())
}
