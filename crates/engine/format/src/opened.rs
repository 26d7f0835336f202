//! A described container with its sources.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use forebay_container::{Container, Selection, SourceIndex, Variable};
use forebay_hdf5::{SwmrSource, explain_swmr};
use forebay_process::{Error, ErrorKind, Result, ledger};
use forebay_source::{FileOrigin, Origin, Source};

use crate::{shard_indexes::ShardIndexes, threads};

/// A described container with its sources, ready to be read by many threads at once.
#[derive(Debug)]
pub struct Opened {
    container: Arc<Container>,
    origin: Arc<dyn Origin>,
    sources: Vec<OnceLock<Arc<dyn Source>>>,
    pub(crate) shard_indexes: ShardIndexes,
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
        let (budget, shard_indexes) = (ledger().share(), ShardIndexes::default());
        Self { container, origin, sources, shard_indexes, budget, threads: Threads::Pool }
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
    pub(crate) fn thread_count(&self) -> usize {
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

    /// As [`source`](Self::source), for callers that keep it.
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

    pub(crate) fn check(&self, variable: &Variable, selection: &Selection) -> Result<()> {
        selection.check(&variable.grid.shape)?;
        match variable.dtype.refusal() {
            Some(why) => Err(Error::new(ErrorKind::Unsupported, why)),
            None => Ok(()),
        }
    }

    pub(crate) fn output_len(&self, variable: &Variable, selection: &Selection) -> Result<usize> {
        let len = selection.element_count().saturating_mul(variable.dtype.stored_len() as u64);
        if len > self.budget {
            let what = format!("{len} bytes asked for at once, the memory budget is {}", self.budget);
            return Err(Error::new(ErrorKind::Full, what).hint("read it in slices"));
        }
        usize::try_from(len).map_err(|_| Error::new(ErrorKind::Full, "more bytes than can be addressed"))
    }

    pub(crate) fn place(&self, variable: &Variable, error: Error) -> Error {
        let error = error.at(format!("variable '{}'", variable.name));
        match self.container.sources.first() {
            Some(id) => error.at(&id.locator),
            None => error,
        }
    }

    /// The path of a source that is a local file, unchanged since it was described: libraries open nothing else.
    pub(crate) fn local_path(&self, index: SourceIndex) -> Result<PathBuf> {
        let Some(id) = self.container().sources.get(index.0 as usize) else {
            return Err(Error::new(ErrorKind::Bug, format!("no source {}", index.0)));
        };
        // A remote file may be named like a local one: only the same bytes will do.
        let here = FileOrigin::new().open(&id.locator);
        match here {
            Ok(source) if source.id().names_same_bytes(id) => {}
            Ok(source) if source.id().version.modified.is_some() && id.version.modified.is_some() => {
                return Err(Error::new(ErrorKind::Unavailable, "changed since it was described")
                    .hint("open it again"));
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a library reads it, and those open local files only",
                ));
            }
        }
        std::path::absolute(id.locator.to_path()).map_err(Error::from_io)
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
