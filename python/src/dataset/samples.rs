//! A set of samples, by number.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    process,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use forebay::{
    Config, Error, ErrorKind, IndexCache, Locator, NameKind, Options, Origins, SampleSet, Samples, SetSpec,
    TierReport, ToldContainers,
    batch::FieldArray,
    container::{Dtype, Member, cf::ValueKind},
    loader::FieldFacts,
    process::Histogram,
    tier::{Policy, Tiered},
};
use pyo3::{prelude::*, types::PyBytes};
use serde_json::Value;

use crate::{
    closable::Closable,
    dataset::warming::{Progress, WarmingRun},
    error::{misread, raised, show_warnings},
    interruptible::interruptible,
    plain::{Plain, plain},
    tensors::{
        dtype,
        raw_batch::{NumberedSet, RawBatch},
    },
    tiers::ranking::PythonPolicy,
};

/// Name, type for NumPy, shape and stored type of a field.
pub(crate) type FieldRow<'py> = (String, Bound<'py, PyAny>, Vec<Option<u64>>, String);

/// A field and the integers that stand for names in it.
type FieldCategories = (String, Vec<(String, i64)>);

/// A set of samples, by number.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct SampleReader {
    opened: Closable<OpenedSet>,
    /// What it was opened from, with the files that patterns and folders stood for.
    spec: Arc<SetSpec>,
    /// Bytes of a sample, on average.
    mean_len: u64,
    /// Whether a request may wait for a server.
    is_remote: bool,
}

/// Samples, and the tiers they are read through.
struct OpenedSet {
    samples: Arc<Samples>,
    tiers: Option<OpenTiers>,
    /// How long reads of the origin took.
    origin_latency: Arc<Histogram>,
}

/// What a loader reads, through which tiers, and what measures the origin.
pub(crate) type LoaderParts = (Arc<SampleSet>, Option<Arc<Tiered>>, Arc<Histogram>);

/// Tiers, and what is being copied to them.
struct OpenTiers {
    tiered: Arc<Tiered>,
    threads: NonZeroUsize,
    process: u32,
    warmings: Mutex<Vec<Arc<Progress>>>,
}

/// Copies that were begun end after at most one more block.
const LAST_BLOCK: Duration = Duration::from_secs(5);

impl Drop for OpenTiers {
    fn drop(&mut self) {
        // In a forked child there is no such thread, and what it held is held for ever.
        if self.process != process::id() {
            return;
        }
        for warming in self.warmings.get_mut().unwrap_or_else(PoisonError::into_inner) {
            warming.cancel(LAST_BLOCK);
        }
        // The last data set or loader to use them ends them.
        if Arc::strong_count(&self.tiered) == 1 {
            self.tiered.close();
        }
    }
}

/// Requests below both are read on the caller's thread, unless they go to a server: they are over before anybody loses
/// patience.
const QUICK_COUNT: usize = 16;
const QUICK_BYTES: u64 = 1 << 20;

impl SampleReader {
    fn of(opened: OpenedSet, spec: Arc<SetSpec>) -> Self {
        let set = opened.samples.set();
        let mean_len = set.delivered_len() / set.len().max(1);
        let mut sources = set.files().into_iter().flat_map(|file| &file.container().sources);
        let is_remote = sources.any(|source| source.locator.is_url());
        Self { opened: Closable::new("data set", opened), spec, mean_len, is_remote }
    }

    /// What a loader needs.
    pub(crate) fn loader_parts(&self) -> PyResult<LoaderParts> {
        let opened = self.opened.get()?;
        let tiered = opened.tiers.as_ref().map(|tiers| Arc::clone(&tiers.tiered));
        Ok((Arc::clone(opened.samples.set()), tiered, Arc::clone(&opened.origin_latency)))
    }

    /// Its samples, by number.
    pub(crate) fn samples(&self) -> PyResult<Arc<Samples>> {
        Ok(Arc::clone(&self.opened.get()?.samples))
    }

    fn in_force_value(&self) -> PyResult<Value> {
        let in_force = self.opened.get()?.samples.in_force();
        serde_json::to_value(in_force).map_err(|error| misread(&error))
    }

    fn is_quick(&self, count: usize) -> bool {
        !self.is_remote && count < QUICK_COUNT && self.mean_len.saturating_mul(count as u64) < QUICK_BYTES
    }

    /// Reads on a thread of its own, so that Ctrl-C need not wait for it.
    fn get_interruptible(&self, py: Python<'_>, numbers: &[u64]) -> PyResult<Vec<FieldArray>> {
        let (reading, asked) = (self.opened.get()?, numbers.to_vec());
        interruptible(py, move || reading.samples.get(&asked))
    }
}

/// What Python is told of a field.
pub(crate) fn field_row<'py>(
    py: Python<'py>,
    name: &str,
    dtype: &Dtype,
    kind: ValueKind,
    sample_shape: &[Option<u64>],
) -> PyResult<FieldRow<'py>> {
    let mut shape = sample_shape.to_vec();
    if matches!(kind, ValueKind::Text | ValueKind::Texts) {
        // Of texts Python sees no axis of bytes.
        let stored = if kind == ValueKind::Text { "text" } else { "texts" };
        return Ok((name.to_owned(), "O".into_pyobject(py)?.into_any(), Vec::new(), stored.to_owned()));
    }
    if let Some((code, stored)) = dtype::kind_code(kind) {
        return Ok((name.to_owned(), code.into_pyobject(py)?.into_any(), shape, stored.to_owned()));
    }
    let (code, inner) = dtype::describe(py, dtype)?;
    shape.extend(inner.into_iter().map(Some));
    Ok((name.to_owned(), code, shape, dtype.to_string()))
}

#[pymethods]
impl SampleReader {
    /// Opens the files of `spec` (JSON), read as `options` say and through the tiers of `config`. `rank` is a policy in place of the one that is configured. With `is_expanded` the files are taken as they are named.
    #[new]
    #[pyo3(signature = (spec, options, config=None, rank=None, newcomers_compete=false, is_expanded=false, told=None))]
    #[expect(clippy::too_many_arguments, reason = "they are those of Python's constructor")]
    fn new(
        py: Python<'_>,
        spec: &str,
        options: Plain<Options>,
        config: Option<Plain<Config>>,
        rank: Option<Py<PyAny>>,
        newcomers_compete: bool,
        is_expanded: bool,
        told: Option<&[u8]>,
    ) -> PyResult<Self> {
        let told = told.map(ToldContainers::heard).transpose().map_err(raised)?.map(Arc::new);
        let spec: SetSpec = serde_json::from_str(spec).map_err(|error| misread(&error))?;
        let Plain(options) = options;
        let config = config.map_or_else(Config::default, |Plain(config)| config);
        let ranking = rank.map(|rank| Arc::new(PythonPolicy { rank, newcomers_compete }) as Arc<dyn Policy>);
        let names = if is_expanded { NameKind::Files } else { NameKind::Patterns };
        let opening = SetOpening { spec, names, config, ranking, told };
        let (opened, spec) = interruptible(py, move || opening.open(&options))?;
        show_warnings(py)?;
        Ok(Self::of(opened, Arc::new(spec)))
    }

    /// What it was opened from (JSON), with the files that patterns and folders stood for: programs in other languages open the same
    /// set of it, and sets that are kept or sent have it, as lists of places take five times the memory in Python.
    #[getter]
    fn spec(&self) -> PyResult<String> {
        serde_json::to_string(&*self.spec).map_err(|error| misread(&error))
    }

    /// The same as a dict.
    #[getter]
    fn spec_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &*self.spec)
    }

    /// What its files hold, for other ranks that open the same set.
    fn told<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let opened = self.opened.get()?;
        let message = py.detach(|| ToldContainers::message(opened.samples.set())).map_err(raised)?;
        Ok(PyBytes::new(py, &message))
    }

    /// The same files with nothing shared: for a process that was forked.
    fn reopened(&self, options: Plain<Options>) -> PyResult<Self> {
        let Plain(options) = options;
        let opened = self.opened.get()?;
        let set = Arc::clone(opened.samples.set());
        let tiers =
            opened.tiers.as_ref().map(|tiers| OpenTiers::new(Arc::clone(&tiers.tiered), tiers.threads));
        let origin_latency = Arc::clone(&opened.origin_latency);
        let opened = OpenedSet { samples: Arc::new(Samples::new(set, &options)), tiers, origin_latency };
        Ok(Self::of(opened, Arc::clone(&self.spec)))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.opened.get()?.samples.set().len()).unwrap_or(usize::MAX))
    }

    /// The samples `numbers`, side by side.
    fn get(&self, py: Python<'_>, numbers: Vec<u64>) -> PyResult<RawBatch> {
        let fields = if self.is_quick(numbers.len()) {
            let opened = self.opened.get()?;
            py.detach(|| opened.samples.get(&numbers)).map_err(raised)?
        } else {
            self.get_interruptible(py, &numbers)?
        };
        let set = Arc::downgrade(self.opened.get()?.samples.set());
        Ok(RawBatch::of_samples(fields, &numbers).of_set(Some(NumberedSet { set, subset: None })))
    }

    /// Differs when the files, or what a sample is, are not the same.
    #[getter]
    fn fingerprint(&self) -> PyResult<String> {
        Ok(self.opened.get()?.samples.set().fingerprint().to_owned())
    }

    /// Name, type and shape of one sample of each field; `None` along the axis whose length differs.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<FieldRow<'py>>> {
        let facts = self.opened.get()?.samples.set().fields();
        facts
            .iter()
            .map(|field| field_row(py, &field.name, &field.dtype, field.kind, &field.sample_shape))
            .collect()
    }

    /// By field whose values are days since 1970-01-01, the calendar they are of.
    fn calendars(&self) -> PyResult<Vec<(String, &'static str)>> {
        let facts = self.opened.get()?.samples.set().fields().into_iter();
        let named = |field: FieldFacts| match field.kind {
            ValueKind::Days(calendar) => Some((field.name, calendar.name())),
            _ => None,
        };
        Ok(facts.filter_map(named).collect())
    }

    /// By field whose integers stand for names, each name and its integer.
    fn categories(&self) -> PyResult<Vec<FieldCategories>> {
        let facts = self.opened.get()?.samples.set().fields().into_iter();
        let named = facts.filter_map(|field| Some((field.name, field.categories?)));
        let values = |members: Vec<Member>| members.into_iter().map(|one| (one.name, one.value)).collect();
        Ok(named.map(|(name, members)| (name, values(members))).collect())
    }

    /// The files, each once.
    fn files(&self) -> PyResult<Vec<String>> {
        let opened = self.opened.get()?;
        let files = opened.samples.set().files();
        let first =
            files.iter().filter_map(|file| Some(file.container().sources.first()?.locator.to_string()));
        Ok(first.collect())
    }

    /// Samples of each file of the field with the most bytes.
    fn part_lens(&self) -> PyResult<Vec<u64>> {
        Ok(forebay::loader::set_identity(self.opened.get()?.samples.set()).part_lens)
    }

    /// How long each sample of field `name` is along the axis that differs, as the bytes of unsigned 64-bit integers; nothing
    /// where all have one shape, and of texts, which only reading them shows.
    fn joined_lens<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let opened = self.opened.get()?;
        let set = opened.samples.set();
        let number = set.fields().iter().position(|field| field.name == name);
        let lens = py.detach(|| number.map_or(Ok(None), |number| set.joined_lens(number))).map_err(raised)?;
        let bytes = |lens: Vec<u64>| lens.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<u8>>();
        Ok(lens.map(|lens| PyBytes::new(py, &bytes(lens))))
    }

    /// By format, the first file of it and its name.
    fn formats(&self) -> PyResult<Vec<(String, String)>> {
        let opened = self.opened.get()?;
        let mut found: Vec<(String, String)> = Vec::new();
        for file in opened.samples.set().files() {
            let container = file.container();
            if !found.iter().any(|(_, format)| *format == container.format) {
                let first = container.sources.first().map(|source| source.locator.to_string());
                found.push((first.unwrap_or_default(), container.format.clone()));
            }
        }
        Ok(found)
    }

    /// Bytes of all samples as they are delivered.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.opened.get()?.samples.set().delivered_len())
    }

    /// The same, with every text and sequence as long as its reference says, which is read for it.
    fn most_nbytes(&self, py: Python<'_>) -> PyResult<u64> {
        let opened = self.opened.get()?;
        py.detach(|| opened.samples.set().most_delivered_len()).map_err(raised)
    }

    /// What was read so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened.get()?;
        let mut value = serde_json::to_value(opened.samples.stats()).map_err(|error| misread(&error))?;
        // A tier that ranks its copies just now may be waiting for Python.
        let total = py.detach(|| opened.tiers.as_ref().map(|tiers| tiers.tiered.stats()));
        let report = total.map(|total| TierReport { saved: total.saved(), total, epochs: Vec::new() });
        value["tiers"] = tier_value(report)?;
        value["origin_latency"] =
            serde_json::to_value(opened.origin_latency.summary()).map_err(|error| misread(&error))?;
        value["in_force"] = self.in_force_value()?;
        plain(py, &value)
    }

    /// What memory and which spill are in force; `None` before the first sample was asked for.
    fn in_force<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.in_force_value()?)
    }

    /// Begins to copy all files to the tiers, by `threads` threads.
    #[pyo3(signature = (threads=None))]
    fn warm(&self, threads: Option<NonZeroUsize>) -> PyResult<WarmingRun> {
        let opened = self.opened.get()?;
        let Some(tiers) = &opened.tiers else {
            let error = Error::new(ErrorKind::Invalid, "this data set has no tiers to copy its files to");
            let remedy = "give it some: forebay.open(..., tiers=[\"memory:4GiB\", \"/nvme/cache\"]), \
                          or [[tier]] in forebay.toml";
            return Err(raised(error.hint(remedy)));
        };
        let files = opened.samples.set().files();
        let named: BTreeSet<&str> = files
            .iter()
            .flat_map(|file| file.container().sources.iter().map(|source| source.locator.as_str()))
            .collect();
        let sources = named.into_iter().map(Locator::new).collect();
        let run = WarmingRun::start(Arc::clone(&tiers.tiered), sources, threads.unwrap_or(tiers.threads))?;
        let mut warmings = tiers.warmings.lock().unwrap_or_else(PoisonError::into_inner);
        warmings.retain(|warming| !warming.is_done());
        warmings.push(Arc::clone(run.progress()));
        Ok(run)
    }

    /// Leaves files and tiers. May be called more than once.
    fn close(&self) {
        self.opened.close();
    }
}

impl OpenTiers {
    fn new(tiered: Arc<Tiered>, threads: NonZeroUsize) -> Self {
        Self { tiered, threads, process: process::id(), warmings: Mutex::default() }
    }
}

/// A set that is to be opened.
struct SetOpening {
    spec: SetSpec,
    names: NameKind,
    config: Config,
    ranking: Option<Arc<dyn Policy>>,
    /// What another rank has described of it.
    told: Option<Arc<ToldContainers>>,
}

impl SetOpening {
    /// The set, and its spec with the files by name.
    fn open(&self, options: &Options) -> Result<(OpenedSet, SetSpec), Error> {
        let (origins, tiered) = Origins::new().through_tiers(&self.config, self.ranking.clone())?;
        let cache = self.told.clone().map_or_else(IndexCache::of_user, |told| Some(IndexCache::told(told)));
        let (set, spec) = forebay::open_named_set(&origins, self.spec.clone(), self.names, cache.as_ref())?;
        // Where a few samples are read for it, that is done here, where Ctrl-C need not wait.
        let _ = set.delivered_len();
        let threads = NonZeroUsize::new(self.config.placement.threads).unwrap_or(NonZeroUsize::MIN);
        let tiers = tiered.map(|tiered| OpenTiers::new(tiered, threads));
        let origin_latency = Arc::clone(origins.latency());
        Ok((
            OpenedSet { samples: Arc::new(Samples::new(Arc::new(set), options)), tiers, origin_latency },
            spec,
        ))
    }
}

/// What was read from where, with the part that came from tiers; nothing without tiers.
pub(crate) fn tier_value(report: Option<TierReport>) -> PyResult<Value> {
    let Some(report) = report else { return Ok(Value::Null) };
    let mut value = serde_json::to_value(&report).map_err(|error| misread(&error))?;
    value["hit_ratio"] = report.total.hit_ratio().into();
    Ok(value)
}
