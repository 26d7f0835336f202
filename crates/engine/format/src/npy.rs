//! NPY: one array of NumPy's in a file, read in place.
//!
//! ```text
//! magic, version, header length ─► header (a Python literal) ─► type, order, shape ─► Variable "data"
//!              header                      literal                    dtype
//! ```

mod dtype;
pub(crate) mod folder;
mod header;
mod literal;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use crate::{Format, Found};
use forebay_container::{
    ChunkTable, Container, Extent, Extents, Filter, SourceIndex, Variable,
    names::{container, text_attribute},
};
pub(crate) use header::{MAGIC, NpyHeader};

/// The NPY format of NumPy, versions 1 to 3.
#[derive(Clone, Copy, Debug, Default)]
pub struct Npy;

/// What the one variable of a file is called, which has no name in it.
pub(crate) const NAME: &str = "data";

impl Format for Npy {
    fn name(&self) -> &str {
        "npy"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        Ok(found.head.starts_with(MAGIC))
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let file = found.need_file()?;
        let header = NpyHeader::read(&**file)?;
        let place = ArrayPlace { source: SourceIndex(0), start: header.len, end: file.id().len };
        let variable = header.variable(NAME, place)?;
        Ok(container(self.name(), vec![file.id().clone()], vec![variable]))
    }
}

/// Where the values of an array lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayPlace {
    /// In which source.
    pub(crate) source: SourceIndex,
    /// From which byte on.
    pub(crate) start: u64,
    /// Where the source, or the part of it that has the array, ends.
    pub(crate) end: u64,
}

/// A chunk of Fortran order is turned around as one: so much at a time, where the last axis divides.
const TURNED_BYTES: u64 = 16 << 20;

impl NpyHeader {
    /// Reads the header of `file`.
    pub(crate) fn read(file: &dyn Source) -> Result<Self> {
        let len = file.id().len;
        let start = file.fetch_one(ByteRange::at(0, len.min(Found::HEAD_BYTES)))?;
        let wanted = Self::wanted_len(&start)?;
        if wanted <= start.len() as u64 {
            return Self::parse(&start);
        }
        let range = ByteRange::checked(0, wanted, len).map_err(|error| error.at("its header"))?;
        Self::parse(&file.fetch_one(range)?)
    }

    /// The array as a variable whose values lie at `place`.
    pub(crate) fn variable(&self, name: &str, place: ArrayPlace) -> Result<Variable> {
        let stored_len = self.values_len()?;
        let range = ByteRange::checked(place.start, stored_len, place.end)
            .map_err(|error| error.at(format!("values of shape {:?}", self.shape)))?;
        let mut variable = self.bare_variable(name);
        if range.is_empty() {
            return Ok(variable);
        }
        let extent = Extent { source: place.source, range, skipped: 0 };
        if self.is_fortran_order && self.shape.iter().filter(|n| **n > 1).count() > 1 {
            self.turn(&mut variable, extent)?;
        } else {
            variable.extents = Extents::Chunks(ChunkTable::one(extent));
        }
        Ok(variable)
    }

    /// The array as a variable, without its values.
    pub(crate) fn bare_variable(&self, name: &str) -> Variable {
        let mut variable = Variable::new(name, self.dtype.clone(), self.shape.clone());
        if let Some(note) = &self.note {
            variable.attributes.push(text_attribute("numpy_dtype", note));
        }
        variable
    }

    /// Bytes of all values.
    pub(crate) fn values_len(&self) -> Result<u64> {
        let len = self.shape.iter().try_fold(self.dtype.stored_len() as u64, |len, n| len.checked_mul(*n));
        len.ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("an array of shape {:?} is longer than any file", self.shape),
            )
        })
    }

    /// The filter that undoes Fortran order of all values at once, where they are in it.
    pub(crate) fn turn_whole(&self) -> Result<Option<Filter>> {
        let is_turned = self.is_fortran_order && self.shape.iter().filter(|n| **n > 1).count() > 1;
        is_turned.then(|| turned(self.dtype.stored_len(), &self.shape)).transpose()
    }

    /// Lays a grid over values in Fortran order: each index of the last axis lies in one piece.
    fn turn(&self, variable: &mut Variable, extent: Extent) -> Result<()> {
        let Some((last, front)) = self.shape.split_last() else { return Ok(()) };
        let slice_len = extent.range.len() / last;
        let most = (TURNED_BYTES / slice_len.max(1)).clamp(1, *last);
        let together = (1..=most).rev().find(|count| last % count == 0).unwrap_or(1);
        variable.grid.chunk = [front, &[together]].concat();
        let first = Extent { range: ByteRange::at(extent.range.start, slice_len * together), ..extent };
        variable.extents =
            Extents::Chunks(ChunkTable::regular(first, slice_len * together, last / together)?);
        variable.layout = "Fortran order".into();
        if variable.grid.chunk.iter().filter(|n| **n > 1).count() > 1 {
            variable.filters.push(turned(self.dtype.stored_len(), &variable.grid.chunk)?);
        }
        Ok(())
    }
}

/// The filter that undoes Fortran order of a chunk of `shape`.
fn turned(element_len: usize, shape: &[u64]) -> Result<Filter> {
    let too_long =
        |_| Error::new(ErrorKind::Unsupported, "Fortran order along an axis of 2^32 elements or more");
    let element_len = u32::try_from(element_len).map_err(too_long)?;
    let ndim = u32::try_from(shape.len()).map_err(too_long)?;
    let shape: Vec<u32> =
        shape.iter().map(|n| u32::try_from(*n)).collect::<Result<_, _>>().map_err(too_long)?;
    Ok(Filter::Transpose { element_len, shape, order: (0..ndim).rev().collect() })
}
