//! Elements of any length, as numcodecs' `vlen-utf8`, `vlen-bytes` and `vlen-array` store them.
//!
//! ```text
//!   count u32 LE │ { length u32 LE │ bytes } …
//! ```
//! Where an element lies is known once its chunk is decoded, so these arrays have no extents. Their chunks do: they
//! stand in a part of the container, under the name that the description gives the reader.

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::SourceExt;

use crate::{ReadRequest, Reader, opened::zeroed};
use forebay_container::runs::ArrayPart;
use forebay_container::{Array, Dtype, Extent, Filter, Selection, Values, Variable, native};
use forebay_filter::{is_too_long, undo as undo_filter};

/// The attribute of a part in which the fill value stands.
pub(super) const FILL: &str = "fill_value";

/// Reads elements of any length.
#[derive(Debug)]
pub(crate) struct Ragged;

impl Reader for Ragged {
    fn name(&self) -> &str {
        "zarr"
    }

    fn read(&self, wanted: &ReadRequest<'_>) -> Result<Array> {
        let parts = &wanted.opened.container().parts;
        let part = parts.iter().find(|part| part.name == wanted.opaque.name);
        let part = part.ok_or_else(|| Error::new(ErrorKind::Bug, "an array without its chunks"))?;
        let dtype = wanted.variable.dtype.clone();
        let elements = Chunks { wanted, part }.elements(wanted.selection)?;
        let mut offsets = Vec::with_capacity(elements.len() + 1);
        let mut bytes = Vec::new();
        offsets.push(0);
        for element in elements {
            bytes.extend_from_slice(&element);
            check_budget(bytes.len() as u64, wanted.opened.budget())?;
            offsets.push(bytes.len() as u64);
        }
        if let Dtype::Sequence { item, .. } = &dtype {
            native::make_native(item, &mut bytes);
        }
        Ok(Array { dtype, shape: wanted.selection.shape(), values: Values::Variable { offsets, bytes } })
    }
}

fn check_budget(len: u64, budget: u64) -> Result<()> {
    if len > budget {
        let what = format!("values of more than {budget} bytes, which is all they may take");
        return Err(Error::new(ErrorKind::Full, what).hint("read them in slices"));
    }
    Ok(())
}

struct Chunks<'a> {
    wanted: &'a ReadRequest<'a>,
    part: &'a Variable,
}

impl Chunks<'_> {
    /// The elements of `selection`, in C order.
    fn elements(&self, selection: &Selection) -> Result<Vec<Bytes>> {
        let count = selection.element_count();
        check_budget(count.saturating_mul(size_of::<Bytes>() as u64), self.wanted.opened.budget())?;
        let count =
            usize::try_from(count).map_err(|_| Error::corrupt("more elements than can be addressed"))?;
        let mut elements = vec![self.fill(); count];
        let shape = selection.shape();
        self.wanted.opened.read_indexes_of(self.part, selection)?;
        for overlap in self.part.grid.overlaps(selection) {
            let extent = self.wanted.opened.chunk_extent(self.part, overlap.chunk)?;
            let Some(extent) = extent else { continue };
            let place =
                |error: Error| error.at(format!("chunk {} at {:#x}", overlap.chunk, extent.range.start));
            let chunk = self.chunk(extent).map_err(place)?;
            let part = ArrayPart {
                from_shape: &self.part.grid.chunk,
                selection: &overlap.in_chunk,
                to_shape: &shape,
                to_start: &overlap.in_selection,
            };
            for run in part.runs() {
                for index in 0..run.count {
                    let at = |from: u64| usize::try_from(from + index).unwrap_or(usize::MAX);
                    let element = chunk
                        .get(at(run.from))
                        .ok_or_else(|| place(Error::corrupt("elements are missing")))?;
                    elements[at(run.to)] = element.clone();
                }
            }
        }
        Ok(elements)
    }

    /// What was never written.
    fn fill(&self) -> Bytes {
        match self.part.attribute(FILL).map(|fill| &fill.values) {
            Some(Values::Fixed(bytes)) => Bytes::copy_from_slice(bytes),
            _ => Bytes::new(),
        }
    }

    /// The elements of one chunk.
    fn chunk(&self, extent: Extent) -> Result<Vec<Bytes>> {
        let opened = self.wanted.opened;
        let stored = opened.source(extent.source)?.fetch_one(extent.range)?;
        let mut rest = undo(&self.part.filters, stored, opened.budget())?;
        let count = number(&mut rest)?;
        if u64::from(count) != self.part.grid.chunk_element_count() {
            let what = format!("{count} elements where {} belong", self.part.grid.chunk_element_count());
            return Err(Error::corrupt(what));
        }
        let item_len = match &self.wanted.variable.dtype {
            Dtype::Sequence { item, .. } => item.stored_len(),
            _ => 1,
        };
        let mut elements = Vec::new();
        for _ in 0..count {
            let len = number(&mut rest)? as usize;
            if len > rest.len() || !len.is_multiple_of(item_len) {
                return Err(Error::corrupt(format!("an element of {len} bytes with {} left", rest.len())));
            }
            elements.push(rest.split_to(len));
        }
        Ok(elements)
    }
}

fn number(rest: &mut Bytes) -> Result<u32> {
    let number = rest.first_chunk().copied().ok_or_else(|| Error::corrupt("elements end early"))?;
    let _ = rest.split_to(number.len());
    Ok(u32::from_le_bytes(number))
}

/// What is tried first for the length of what a filter gives, and by how much more each time it was too little.
const FIRST_FACTOR: usize = 8;
const FIRST_EXTRA_BYTES: usize = 64 << 10;

/// Undoes `filters`, last first, when nobody says how long the outcome is.
fn undo(filters: &[Filter], stored: Bytes, budget: u64) -> Result<Bytes> {
    let budget = usize::try_from(budget).unwrap_or(usize::MAX);
    let mut bytes = stored;
    for filter in filters.iter().rev() {
        let mut room = bytes.len().saturating_mul(FIRST_FACTOR).saturating_add(FIRST_EXTRA_BYTES).min(budget);
        bytes = loop {
            let mut out = zeroed(room)?;
            match undo_filter(filter, &bytes, &mut out) {
                Ok(len) => {
                    out.truncate(len);
                    break out.into();
                }
                Err(error) if room >= budget || !is_too_long(&error) => return Err(error),
                Err(_) => room = room.saturating_mul(FIRST_FACTOR).min(budget),
            }
        };
    }
    Ok(bytes)
}
