//! Chunks in two steps, first their stored bytes, then their elements: for callers that plan their own reads.

use bytes::Bytes;
use forebay_process::{Error, Result};
use forebay_source::{ByteRange, coalesce};

use super::plan::at_chunk;
use crate::decode::with_workspace;
use crate::{Opened, fill::fill_all};
use forebay_container::{ChunkSizes, Extent, SourceIndex, Variable};

/// Chunks that lie this near are fetched by one request: what lies between costs less than a request.
const GAP_BYTES: u64 = 4096;

/// A chunk's place among those that are wanted, and where it lies.
type WantedChunk = (usize, Extent);

/// Sorts `wanted`, and calls `each` with the chunks of one source and the requests that bring them.
fn by_source(
    wanted: &mut [WantedChunk],
    mut each: impl FnMut(&[WantedChunk], &[ByteRange]) -> Result<()>,
) -> Result<()> {
    wanted.sort_unstable_by_key(|(_, extent)| (extent.source, extent.range.start));
    wanted.chunk_by(|one, next| one.1.source == next.1.source).try_for_each(|same_source| {
        let ranges: Vec<ByteRange> = same_source.iter().map(|(_, extent)| extent.range).collect();
        each(same_source, &coalesce(&ranges, GAP_BYTES))
    })
}

/// A chunk's stored bytes.
#[derive(Clone, Debug)]
pub struct StoredChunk {
    extent: Extent,
    bytes: Bytes,
}

impl StoredChunk {
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
    pub fn fetch_chunks(&self, variable: &Variable, numbers: &[u64]) -> Result<Vec<Option<StoredChunk>>> {
        let place = |error: Error| self.place(variable, error);
        self.read_indexes_of_chunks(variable, numbers).map_err(place)?;
        let extents = numbers.iter().map(|number| self.chunk_extent(variable, *number));
        let extents: Vec<Option<Extent>> = extents.collect::<Result<_>>().map_err(place)?;
        self.fetch_extents(&extents).map_err(place)
    }

    fn fetch_extents(&self, extents: &[Option<Extent>]) -> Result<Vec<Option<StoredChunk>>> {
        let mut found: Vec<Option<StoredChunk>> = vec![None; extents.len()];
        let mut wanted: Vec<WantedChunk> =
            extents.iter().enumerate().filter_map(|(index, extent)| Some((index, (*extent)?))).collect();
        by_source(&mut wanted, |chunks, requests| {
            let read = self.source(chunks[0].1.source)?.fetch(requests)?;
            for (index, extent) in chunks {
                let bytes = if extent.range.is_empty() {
                    Bytes::new()
                } else {
                    let request = requests.partition_point(|other| other.start <= extent.range.start) - 1;
                    extent.range.cut(&read[request], requests[request].start)
                };
                found[*index] = Some(StoredChunk { extent: *extent, bytes });
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `each` with the ranges that [`fetch_chunks`](Self::fetch_chunks) requests.
    pub fn plan_chunks(
        &self,
        variable: &Variable,
        numbers: impl Iterator<Item = u64>,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        let extents = numbers.filter_map(|number| self.chunk_extent(variable, number).transpose());
        let mut wanted: Vec<WantedChunk> = extents.map(|extent| Ok((0, extent?))).collect::<Result<_>>()?;
        if let [(_, extent)] = wanted[..] {
            each(extent.source, extent.range);
            return Ok(());
        }
        by_source(&mut wanted, |chunks, requests| {
            requests.iter().for_each(|request| each(chunks[0].1.source, *request));
            Ok(())
        })
    }

    /// Decodes chunk `number` into `out`, which takes [`chunk_len`](Variable::chunk_len) bytes; one that was never
    /// written gives the fill value.
    pub fn decode_chunk(
        &self,
        variable: &Variable,
        number: u64,
        stored: Option<&StoredChunk>,
        out: &mut [u8],
    ) -> Result<()> {
        let Some(StoredChunk { extent, bytes }) = stored else {
            fill_all(variable, out);
            return Ok(());
        };
        with_workspace(|workspace| workspace.decode_into(variable, *extent, bytes, out))
            .map_err(|error| self.place(variable, at_chunk(self, error, number, *extent)))
    }

    /// How long the stored chunks of `variable` are, where it has chunks that need decoding and are not of variable length.
    pub fn encoded_chunks<'a>(&self, variable: &'a Variable) -> Option<ChunkSizes<'a>> {
        let is_fixed =
            !variable.dtype.is_variable() && variable.dtype.native_len() == variable.dtype.stored_len();
        ChunkSizes::of(variable).filter(|_| is_fixed && !variable.filters.is_empty())
    }
}
