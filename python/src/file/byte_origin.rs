//! Bytes of files and objects by name, through tiers where those are configured.

use std::{sync::Arc, time::UNIX_EPOCH};

use forebay::{
    Config, Error, IndexCache, Opened, Origins, Result,
    source::{ByteRange, Fill, Source, SourceExt, SourceId},
    tier::{Policy, Tiered},
};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    closable::Closable,
    error::{raised, show_warnings},
    interruptible::interruptible,
    plain::{Plain, plain},
    tiers::ranking::PythonPolicy,
};

/// Long reads look for signals, such as that of Ctrl-C, after so many bytes.
const SIGNAL_BYTES: u64 = 8 << 20;

/// Name, length and time of modification (seconds since 1970) of a source.
type SourceRow = (String, u64, Option<f64>);

/// Where files and objects are read by name.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawOrigin {
    opened: Closable<OpenOrigin>,
}

/// Origins, and the tiers they are read through.
struct OpenOrigin {
    origins: Origins,
    tiered: Option<Arc<Tiered>>,
}

impl RawOrigin {
    /// What opens the file at `path`, through the tiers.
    pub(crate) fn file_opener(&self) -> PyResult<impl Fn(&str) -> Result<Opened> + use<>> {
        let opened = self.opened.get()?;
        Ok(move |path: &str| {
            let at = opened.origins.locate(path)?;
            forebay::open(Arc::clone(opened.origins.of(&at)), &at, IndexCache::of_user().as_ref())
        })
    }
}

impl RawOrigin {
    /// Warns of tiers that were left out, have no room, or are of no use to what was opened so far.
    pub(crate) fn warn_of_tiers(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.get()?.origins.warn_of_tiers();
        show_warnings(py)
    }
}

#[pymethods]
impl RawOrigin {
    /// Files of this machine and URLs, through the tiers of `config`. `rank` is a policy in place of the one that is configured.
    #[new]
    #[pyo3(signature = (config=None, rank=None, newcomers_compete=false))]
    fn new(
        py: Python<'_>,
        config: Option<Plain<Config>>,
        rank: Option<Py<PyAny>>,
        newcomers_compete: bool,
    ) -> PyResult<Self> {
        let config = config.map_or_else(Config::default, |Plain(config)| config);
        let policy = rank.map(|rank| Arc::new(PythonPolicy { rank, newcomers_compete }) as Arc<dyn Policy>);
        let open = move || {
            let (origins, tiered) = Origins::new().through_tiers(&config, policy.clone())?;
            Ok(OpenOrigin { origins, tiered })
        };
        let origin = Self { opened: Closable::new("origin", interruptible(py, open)?) };
        origin.warn_of_tiers(py)?;
        Ok(origin)
    }

    /// Opens the file or object called `name`.
    fn open(&self, py: Python<'_>, name: String) -> PyResult<RawSource> {
        let opened = self.opened.get()?;
        let open = move || {
            let at = opened.origins.locate(&name)?;
            opened.origins.of(&at).open(&at)
        };
        let source = interruptible(py, open)?;
        self.warn_of_tiers(py)?;
        Ok(RawSource { source })
    }

    /// All that lies under `name`, at any depth.
    fn survey(&self, py: Python<'_>, name: String) -> PyResult<Vec<SourceRow>> {
        let opened = self.opened.get()?;
        let survey = move || {
            let at = opened.origins.locate(&name)?;
            opened.origins.of(&at).survey(&at)
        };
        Ok(interruptible(py, survey)?.iter().map(source_row).collect())
    }

    /// What was read from where; nothing without tiers.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened.get()?;
        plain(py, &opened.tiered.as_ref().map(|tiered| tiered.stats()))
    }

    /// Ends the tiers; what is open reads on from where it lies. May be called more than once.
    fn close(&self, py: Python<'_>) {
        if let Ok(opened) = self.opened.get() {
            py.detach(|| opened.tiered.iter().for_each(|tiered| tiered.close()));
        }
        self.opened.close();
    }
}

/// A file or object that is open.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawSource {
    source: Arc<dyn Source>,
}

#[pymethods]
impl RawSource {
    /// Its name, its length, and when it was modified (seconds since 1970).
    fn facts(&self) -> SourceRow {
        source_row(self.source.id())
    }

    /// What tells one state of its bytes from the next.
    #[getter]
    fn version(&self) -> String {
        self.source.id().version.full_tag()
    }

    /// The request size that hides the latency of a request; 0 where small ones cost hardly more than large ones.
    #[getter]
    fn request_bytes(&self) -> u64 {
        self.source.request_bytes()
    }

    /// The bytes from `start` to `end`.
    fn read<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let range = ByteRange { start, end };
        if self.source.request_bytes() > 0 {
            // A server may take its time.
            let source = Arc::clone(&self.source);
            let bytes = interruptible(py, move || source.fetch_one(range))?;
            return Ok(PyBytes::new(py, &bytes));
        }
        let len = end.checked_sub(start).and_then(|len| usize::try_from(len).ok());
        let too_long =
            || raised(Error::invalid(format!("bytes {start}..{end}")).at(&self.source.id().locator));
        let len = len.filter(|_| end <= self.source.id().len).ok_or_else(too_long)?;
        // Straight into the memory of the new object, which nobody else knows yet.
        PyBytes::new_with(py, len, |into| {
            let mut at = start;
            for into in into.chunks_mut(usize::try_from(SIGNAL_BYTES).unwrap_or(usize::MAX)) {
                let range = ByteRange { start: at, end: at + into.len() as u64 };
                let source = &self.source;
                py.detach(|| source.fetch_into(&mut [Fill { range, into }])).map_err(raised)?;
                at = range.end;
                py.check_signals()?;
            }
            Ok(())
        })
    }

    /// The bytes of each of `ranges`, asked for together.
    fn read_many<'py>(&self, py: Python<'py>, ranges: Vec<(u64, u64)>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let ranges: Vec<_> = ranges.into_iter().map(|(start, end)| ByteRange { start, end }).collect();
        let source = Arc::clone(&self.source);
        let found = interruptible(py, move || source.fetch(&ranges))?;
        Ok(found.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }
}

fn source_row(id: &SourceId) -> SourceRow {
    let since = id.version.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    (id.locator.to_string(), id.len, since.map(|since| since.as_secs_f64()))
}
