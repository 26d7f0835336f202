//! Indexed binary: records in one file, and beside it two files of where each starts and how long it is, as DLIO and
//! Megatron's ancestors write them: `FILE`, `FILE.off.idx`, `FILE.sz.idx`, of 8-byte little-endian numbers.

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Locator, Source, SourceExt};

use crate::{Format, Found};
use forebay_container::{
    ChunkTable, Container, Dtype, Extent, Extents, Number, Segments, SourceIndex, Variable,
    names::{container, offsets},
};

/// Records of bytes with an index beside them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Indexed;

impl Format for Indexed {
    fn name(&self) -> &str {
        "indexed"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        if found.file.is_none() || found.at.as_str().ends_with(".idx") {
            return Ok(false);
        }
        let is_there = |ending: &str| found.origin.open(&index_at(found.at, ending)).is_ok();
        Ok(is_there(OFFSETS) && is_there(SIZES))
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let file = found.need_file()?;
        let (starts, starts_file) = numbers(found, OFFSETS)?;
        let (sizes, sizes_file) = numbers(found, SIZES)?;
        if starts.len() != sizes.len() {
            let what = format!("{} offsets and {} sizes", starts.len(), sizes.len());
            return Err(
                Error::new(ErrorKind::Corrupt, what).hint("the index is of another file: make it anew")
            );
        }
        let mut ranges = Vec::with_capacity(starts.len());
        for (number, (start, size)) in starts.iter().zip(&sizes).enumerate() {
            let range = ByteRange::checked(*start, *size, file.id().len);
            ranges.push(range.map_err(|error| error.at(format!("record {number}")))?);
        }
        let sources = vec![file.id().clone(), starts_file.id().clone(), sizes_file.id().clone()];
        Ok(container(self.name(), sources, records(&ranges)?))
    }
}

const OFFSETS: &str = ".off.idx";
const SIZES: &str = ".sz.idx";

fn index_at(at: &Locator, ending: &str) -> Locator {
    Locator::new(format!("{}{ending}", at.as_str()))
}

/// The numbers of the index that ends in `ending`.
fn numbers(found: &Found<'_>, ending: &str) -> Result<(Vec<u64>, std::sync::Arc<dyn Source>)> {
    let at = index_at(found.at, ending);
    let source = found.origin.open(&at)?;
    let len = source.id().len;
    if len % 8 != 0 {
        let what = format!("{len} bytes are no whole number of 8-byte numbers");
        return Err(Error::new(ErrorKind::Corrupt, what).at(at));
    }
    let bytes = source.fetch_one(ByteRange::at(0, len))?;
    Ok((bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number)).collect(), source))
}

/// Records of one length are rows; others are laid end to end.
fn records(ranges: &[ByteRange]) -> Result<Vec<Variable>> {
    let byte = Dtype::native(Number::U8);
    let count = ranges.len() as u64;
    let len = ranges.first().map_or(0, |range| range.len());
    if len > 0 && ranges.iter().all(|range| range.len() == len) {
        let extent = |range: &ByteRange| Extent { source: SourceIndex(0), range: *range, skipped: 0 };
        let mut rows = Variable::new("record", byte, vec![count, len]);
        rows.grid.chunk = vec![1, len];
        rows.layout = "chunked".into();
        let is_end_to_end = ranges.windows(2).all(|two| two[1].start == two[0].end);
        let table = match (ranges.first(), is_end_to_end) {
            (Some(first), true) => ChunkTable::regular(extent(first), len, count)?,
            _ => ChunkTable::new((0..).zip(ranges.iter().map(extent)).collect(), count)?,
        };
        rows.extents = Extents::Chunks(table);
        return Ok(vec![rows]);
    }
    let joined = Segments::within(SourceIndex(0), ranges.iter().copied())?;
    let mut flat = Variable::new("record", byte, vec![joined.stored_len()]);
    flat.layout = "records".into();
    if joined.stored_len() > 0 {
        flat.extents = Extents::Segments(joined);
    }
    Ok(vec![flat, offsets("record", ranges.iter().map(|range| range.len()))])
}
