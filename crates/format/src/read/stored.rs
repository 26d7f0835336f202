//! Chunks in two steps, first their stored bytes, then their elements: for callers that plan their own reads.

use bytes::Bytes;
use forebay_source::{ByteRange, Error, ErrorKind, Result, coalesce};

use super::chunks::at_chunk;
use crate::decode::with_workspace;
use crate::{Opened, fill::fill_all};
use forebay_container::{ChunkTable, Extent, Extents, Variable};

/// Chunks that lie this near are fetched by one request: what lies between costs less than a request.
const GAP_BYTES: u64 = 4096;

/// The requests for chunks whose stored bytes are `ranges`.
pub(super) fn together(ranges: impl Iterator<Item = ByteRange>) -> Vec<ByteRange> {
    coalesce(&ranges.collect::<Vec<_>>(), GAP_BYTES)
}

/// A chunk's stored bytes.
#[derive(Clone, Debug)]
pub struct Stored {
    extent: Extent,
    bytes: Bytes,
}

impl Stored {
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl Opened {
    /// The stored bytes of chunks `numbers`, near ones by one request; `None` for one that was never written.
    pub fn fetch_chunks(&self, variable: &Variable, numbers: &[u64]) -> Result<Vec<Option<Stored>>> {
        let extents: Vec<_> = match &variable.extents {
            Extents::Chunks(table) => numbers.iter().map(|number| table.get(*number)).collect(),
            _ => return Err(self.place(variable, Error::new(ErrorKind::Unsupported, "not stored in chunks"))),
        };
        self.fetch_extents(&extents).map_err(|error| self.place(variable, error))
    }

    fn fetch_extents(&self, extents: &[Option<Extent>]) -> Result<Vec<Option<Stored>>> {
        let mut found: Vec<Option<Stored>> = vec![None; extents.len()];
        let mut wanted: Vec<(usize, Extent)> =
            extents.iter().enumerate().filter_map(|(index, extent)| Some((index, (*extent)?))).collect();
        wanted.sort_unstable_by_key(|(_, extent)| (extent.source, extent.range.start));
        for same_source in wanted.chunk_by(|one, next| one.1.source == next.1.source) {
            let runs = together(same_source.iter().map(|(_, extent)| extent.range));
            let read = self.source(same_source[0].1.source)?.fetch(&runs)?;
            for (index, extent) in same_source {
                let bytes = if extent.range.is_empty() {
                    Bytes::new()
                } else {
                    let run = runs.partition_point(|run| run.start <= extent.range.start) - 1;
                    extent.range.cut(&read[run], runs[run].start)
                };
                found[*index] = Some(Stored { extent: *extent, bytes });
            }
        }
        Ok(found)
    }

    /// Decodes chunk `number` into `out`, which takes [`chunk_len`](Variable::chunk_len) bytes; one that was never
    /// written gives the fill value.
    pub fn decode_chunk(
        &self,
        variable: &Variable,
        number: u64,
        stored: Option<&Stored>,
        out: &mut [u8],
    ) -> Result<()> {
        let Some(Stored { extent, bytes }) = stored else {
            fill_all(variable, out);
            return Ok(());
        };
        with_workspace(|workspace| workspace.decode_into(variable, *extent, bytes, out))
            .map_err(|error| self.place(variable, at_chunk(self, error, number, *extent)))
    }

    /// The chunks of `variable`, where it has chunks that need decoding and are not of variable length.
    pub fn encoded_chunks<'a>(&self, variable: &'a Variable) -> Option<&'a ChunkTable> {
        let is_fixed =
            !variable.dtype.is_variable() && variable.dtype.native_len() == variable.dtype.stored_len();
        match &variable.extents {
            Extents::Chunks(table) if is_fixed && !variable.filters.is_empty() => Some(table),
            _ => None,
        }
    }
}
