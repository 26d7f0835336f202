//! Reads of a variable: any hyperslab, into the caller's memory, in parallel over chunks.
//!
//! ```text
//! Selection ─► slabs (one per thread's piece of the output) ─► overlaps with chunks ─► fetch ─► decode ─► copy
//! ```

mod asked;
mod chunks;
mod direct;
mod gather;
mod joined;
mod mapped;
mod rows;
mod slabs;
mod stored;
mod threads;

pub use stored::Stored;

use std::sync::{Arc, OnceLock};

use forebay_source::{Error, ErrorKind, Origin, Result, Source, ledger};

use crate::opaque;
use forebay_container::runs;
use forebay_container::{
    Array, Container, Dtype, Extents, Selection, SourceIndex, Values, Variable, native, odd,
};
use forebay_hdf5::{HeapReader, SwmrSource, explain_swmr};

/// A described container with its sources at hand, ready to be read by many threads at once.
#[derive(Debug)]
pub struct Opened {
    container: Arc<Container>,
    origin: Arc<dyn Origin>,
    sources: Vec<OnceLock<Arc<dyn Source>>>,
    budget: u64,
    threads: Threads,
}

/// Who does the work of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    /// The pool of the process, where there is enough to do.
    Pool,
    /// The caller alone.
    Caller,
}

impl Opened {
    /// The container `container`, whose sources `origin` has. Sources are opened when they are first needed.
    pub fn new(origin: Arc<dyn Origin>, container: Arc<Container>) -> Self {
        let sources = container.sources.iter().map(|_| OnceLock::new()).collect();
        Self { container, origin, sources, budget: ledger().share(), threads: Threads::Pool }
    }

    /// Reads its first source through `source`, by which it was described, if that is still what was described: it need not
    /// be opened again.
    #[must_use]
    pub fn with_first_source(self, source: Arc<dyn Source>) -> Self {
        if let (Some(slot), Some(id)) = (self.sources.first(), self.container.sources.first())
            && source.id().locator == id.locator
            && source.id().names_same_bytes(id)
        {
            let _ = slot.set(self.watched(source));
        }
        self
    }

    /// Reads on the caller's thread alone: for callers that have threads of their own.
    #[must_use]
    pub fn on_caller_thread(self) -> Self {
        Self { threads: Threads::Caller, ..self }
    }

    /// How many threads a read may use.
    fn thread_count(&self) -> usize {
        match self.threads {
            Threads::Pool => threads::count(),
            Threads::Caller => 1,
        }
    }

    /// Lets one read take at most `bytes` of memory.
    #[must_use]
    pub fn with_budget(self, bytes: u64) -> Self {
        Self { budget: bytes, ..self }
    }

    /// The description.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Bytes one read may take.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// The variable called `name`, found as [`Container::variable`] finds it.
    pub fn variable(&self, name: &str) -> Result<&Variable> {
        let first = self.container.sources.first();
        self.container.variable(name).map_err(|error| match first {
            Some(id) => error.at(&id.locator),
            None => error,
        })
    }

    /// The source at `index`; it must still be what was described.
    pub fn source(&self, index: SourceIndex) -> Result<&dyn Source> {
        self.slot(index).map(|source| &**source)
    }

    /// As [`source`](Self::source), for whoever keeps it.
    pub fn shared_source(&self, index: SourceIndex) -> Result<Arc<dyn Source>> {
        self.slot(index).map(Arc::clone)
    }

    fn slot(&self, index: SourceIndex) -> Result<&Arc<dyn Source>> {
        let number = index.0 as usize;
        let (Some(slot), Some(id)) = (self.sources.get(number), self.container.sources.get(number)) else {
            return Err(Error::new(ErrorKind::Bug, format!("no source {number}")));
        };
        if slot.get().is_none() {
            let source = self.origin.open(&id.locator)?;
            if !source.id().names_same_bytes(id) {
                let error = Error::new(ErrorKind::Unavailable, "changed since it was described");
                let error = error.hint("open it again").at(&id.locator);
                return Err(if self.container.swmr { explain_swmr(error) } else { error });
            }
            // Another thread may have been faster: its source has the same id, so either will do.
            let _ = slot.set(self.watched(source));
        }
        slot.get().ok_or_else(|| Error::new(ErrorKind::Bug, "a source vanished"))
    }

    /// `source`, whose errors say what a writer that adds to it does, where there is one.
    fn watched(&self, source: Arc<dyn Source>) -> Arc<dyn Source> {
        if self.container.swmr { Arc::new(SwmrSource(source)) } else { source }
    }

    /// The values of `selection` from `variable`, which belongs to this container.
    ///
    /// What forebay itself cannot read, a library reads where there is one: one caller at a time.
    pub fn read(&self, variable: &Variable, selection: &Selection) -> Result<Array> {
        self.read_natively(variable, selection)
            .or_else(|error| opaque::instead(self, variable, selection, error))
    }

    /// As [`read`](Self::read), by the library alone: for comparing the two.
    #[doc(hidden)]
    pub fn read_by_library(&self, variable: &Variable, selection: &Selection) -> Result<Array> {
        opaque::by_library(self, variable, selection).map_err(|error| self.place(variable, error))
    }

    fn read_natively(&self, variable: &Variable, selection: &Selection) -> Result<Array> {
        let place = |error: Error| self.place(variable, error);
        self.check(variable, selection).map_err(place)?;
        let shape = selection.shape();
        if let Extents::Opaque(opaque) = &variable.extents {
            return opaque::read(self, opaque, variable, selection).map_err(place);
        }
        let len = self.output_len(variable, selection).map_err(place)?;
        let mut bytes = zeroed(len).map_err(place)?;
        self.fill(variable, selection, &mut bytes).map_err(place)?;
        if let Dtype::Odd { number, .. } = variable.dtype {
            let mut wide = zeroed(len / variable.dtype.stored_len() * number.size()).map_err(place)?;
            odd::widen(&variable.dtype, &bytes, &mut wide);
            return Ok(Array { dtype: Dtype::native(number), shape, values: Values::Fixed(wide) });
        }
        if !variable.dtype.is_variable() {
            return Ok(Array { dtype: variable.dtype.clone(), shape, values: Values::Fixed(bytes) });
        }
        let heap =
            variable.dtype.heap().ok_or_else(|| Error::new(ErrorKind::Bug, "no heap")).map_err(place)?;
        let source = self.source(heap.source).map_err(place)?;
        let values = HeapReader::new(source, self.budget).resolve(&variable.dtype, &bytes).map_err(place)?;
        Ok(Array { dtype: variable.dtype.clone(), shape, values })
    }

    /// The elements of `selection` before odd numbers among them are widened; a library gives none such.
    fn read_stored(&self, variable: &Variable, selection: &Selection) -> Result<Vec<u8>> {
        let place = |error: Error| self.place(variable, error);
        self.check(variable, selection).map_err(place)?;
        if let Extents::Opaque(opaque) = &variable.extents {
            return Err(place(Error::new(ErrorKind::Unsupported, opaque.why.clone())));
        }
        let mut bytes = zeroed(self.output_len(variable, selection).map_err(place)?).map_err(place)?;
        self.fill(variable, selection, &mut bytes).map_err(place)?;
        Ok(bytes)
    }

    /// Fills `out` with the values of `selection`; every element takes [`native_len`](Dtype::native_len).
    pub fn read_into(&self, variable: &Variable, selection: &Selection, out: &mut [u8]) -> Result<()> {
        let place = |error: Error| self.place(variable, error);
        self.check(variable, selection).map_err(place)?;
        if variable.dtype.is_variable() {
            let what = "values of variable length do not fit memory of fixed length";
            return Err(place(Error::new(ErrorKind::Invalid, what)));
        }
        let stored_len = self.output_len(variable, selection).map_err(place)?;
        let element_len = variable.dtype.stored_len();
        if stored_len / element_len * variable.dtype.native_len() != out.len() {
            return Err(place(Error::new(ErrorKind::Invalid, "memory of another length than the selection")));
        }
        if let Extents::Opaque(opaque) = &variable.extents {
            let array = opaque::read(self, opaque, variable, selection);
            return array.and_then(|array| opaque::copy_out(&array, variable, out)).map_err(place);
        }
        self.fill_widened(variable, selection, stored_len, out)
            .map_err(place)
            .or_else(|error| opaque::instead_into(self, variable, selection, error, out))
    }

    /// Fills `out` with `rows` of axis 0, in the order given; a row may be asked for more than once.
    ///
    /// Many rows in one call cost less than as many calls: each chunk is decoded once, each source asked once.
    pub fn read_rows(&self, variable: &Variable, rows: &[u64], out: &mut [u8]) -> Result<()> {
        let place = |error: Error| self.place(variable, error);
        if let Some(why) = variable.dtype.refusal() {
            return Err(place(Error::new(ErrorKind::Unsupported, why)));
        }
        let inner = variable.grid.shape.get(1..).unwrap_or_default();
        let row_len =
            forebay_container::shape::product(inner).saturating_mul(variable.dtype.stored_len() as u64);
        let is_fixed = !variable.dtype.is_variable() && !matches!(variable.dtype, Dtype::Odd { .. });
        if !is_fixed || row_len.saturating_mul(rows.len() as u64) != out.len() as u64 {
            let what = format!("{} bytes of memory for {} rows of {row_len}", out.len(), rows.len());
            return Err(place(Error::new(ErrorKind::Invalid, what)));
        }
        let native = rows::read(self, variable, rows, out).map_err(place);
        match native {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let row_len = out.len().checked_div(rows.len()).unwrap_or(0).max(1);
                rows.iter().zip(out.chunks_exact_mut(row_len)).try_for_each(|(row, slot)| {
                    self.read_into(variable, &rows::selection(*row..row + 1, inner), slot)
                })
            }
            native => native,
        }
    }

    /// Selections that together make up `selection`, in C order, each of about `wanted_bytes` where chunks allow.
    pub fn slabs<'a>(
        &self,
        variable: &'a Variable,
        selection: &Selection,
        wanted_bytes: u64,
    ) -> impl Iterator<Item = Selection> + use<'a> {
        slabs::cut(variable, selection, slabs::Sizes { wanted: wanted_bytes, most: self.budget })
    }

    fn fill_widened(
        &self,
        variable: &Variable,
        selection: &Selection,
        stored_len: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let Dtype::Odd { .. } = variable.dtype else { return self.fill(variable, selection, out) };
        let mut stored = zeroed(stored_len)?;
        self.fill(variable, selection, &mut stored)?;
        odd::widen(&variable.dtype, &stored, out);
        Ok(())
    }

    fn fill(&self, variable: &Variable, selection: &Selection, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        match &variable.extents {
            Extents::Chunks(table) => chunks::read(self, variable, table, selection, out),
            Extents::Pieces(pieces) => direct::read_pieces(self, variable, pieces, selection, out),
            Extents::Joined(joined) => joined::read(self, variable, joined, selection, out),
            Extents::Mapped(mappings) => mapped::read(self, variable, mappings, selection, out),
            Extents::Inline(bytes) => {
                direct::copy_inline(variable, bytes, selection, out);
                Ok(())
            }
            Extents::Opaque(opaque) => {
                opaque::copy_out(&opaque::read(self, opaque, variable, selection)?, variable, out)
            }
        }
    }

    fn check(&self, variable: &Variable, selection: &Selection) -> Result<()> {
        selection.check(&variable.grid.shape)?;
        match variable.dtype.refusal() {
            Some(why) => Err(Error::new(ErrorKind::Unsupported, why)),
            None => Ok(()),
        }
    }

    fn output_len(&self, variable: &Variable, selection: &Selection) -> Result<usize> {
        let len = selection.element_count().saturating_mul(variable.dtype.stored_len() as u64);
        if len > self.budget {
            let what = format!("{len} bytes asked for at once, the memory budget is {}", self.budget);
            return Err(Error::new(ErrorKind::Full, what).hint("read it in slices"));
        }
        usize::try_from(len).map_err(|_| Error::new(ErrorKind::Full, "more bytes than can be addressed"))
    }

    fn place(&self, variable: &Variable, error: Error) -> Error {
        let error = error.at(format!("variable '{}'", variable.name));
        match self.container.sources.first() {
            Some(id) => error.at(&id.locator),
            None => error,
        }
    }
}

/// `len` zeros, as the system gives them out: pages that were never touched.
pub(crate) fn zeroed(len: usize) -> Result<Vec<u8>> {
    // Asked for first in a way that may fail: a plain vector ends the program where there is no memory.
    let mut room = Vec::<u8>::new();
    let asked = room.try_reserve_exact(len);
    asked.map_err(|_| Error::new(ErrorKind::Full, format!("no memory for {len} bytes")))?;
    // An allocation nobody looks at may be left out by the compiler.
    drop(std::hint::black_box(room));
    Ok(vec![0; len])
}

/// The fill value of `variable` as a native element; empty means zeros.
fn native_fill(variable: &Variable) -> Vec<u8> {
    let mut fill = variable.fill.clone();
    native::make_native(&variable.dtype, &mut fill);
    fill
}

/// Fills the whole of `out` with what elements of `variable` read as that were never written.
pub fn fill_all(variable: &Variable, out: &mut [u8]) {
    runs::fill(&native_fill(variable), out);
}
