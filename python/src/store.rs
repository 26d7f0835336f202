//! A data set in the memory of all ranks.

#![expect(
    unsafe_code,
    reason = "the handle of a communicator comes from mpi4py, and memory to read into from NumPy"
)]

pub(crate) mod concat;

use std::{
    cell::RefCell,
    collections::HashMap,
    env,
    path::PathBuf,
    ptr, slice,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use forebay::{
    DataPath, Error, ErrorKind, FillOptions, FillProgress, Launcher, Loader, MpiHandle, OnLost, Options,
    Rendezvous, StoreMaker, StoredField,
    batch::{Backing, BatchMaker},
    container::cf::ValueKind,
    fill_store,
    loader::set_identity,
    plan::SetIdentity,
    process::PerProcess,
    store::{Balance, Comm, Filling, GET_PATIENCE, SampleLens, ShardPlace, Store, StoreOptions, Wait},
    store_options_within,
    transform::FieldForm,
};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    closable::Closable,
    dataset::samples::{FieldRow, SampleReader, field_row},
    error::{raised, reported, show_warnings},
    plain::{Plain, plain},
    tensors::{numpy_type::NumpyType, raw_batch::RawBatch},
};

/// The ranks of a job, as one of them sees them.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawComm {
    comm: Arc<dyn Comm>,
}

#[pymethods]
impl RawComm {
    /// The ranks that a launcher started on one node or by MPI, or this process alone. Collective.
    #[staticmethod]
    fn of_job(py: Python<'_>, data: &str) -> PyResult<Self> {
        let data = DataPath::parse(data).map_err(raised)?;
        let comm = collective(py, |wait| forebay::job_comm(data, wait))?;
        show_warnings(py)?;
        Ok(Self { comm })
    }

    /// The ranks of a communicator of this process's MPI, by its handle. Collective over them.
    #[staticmethod]
    fn of_mpi(py: Python<'_>, handle: usize, data: &str) -> PyResult<Self> {
        let data = DataPath::parse(data).map_err(raised)?;
        // SAFETY: Python gives the handle of a communicator of the MPI that is loaded, as mpi4py has it.
        let handle = unsafe { MpiHandle::of_communicator(handle) };
        let comm = collective(py, |wait| forebay::mpi_comm(handle, data, wait))?;
        show_warnings(py)?;
        Ok(Self { comm })
    }

    /// The ranks that torchrun started, which find each other through `store`: an object with `set`, `get` and `delete_key`, such
    /// as torch's `TCPStore`. Collective.
    #[staticmethod]
    fn of_torch(py: Python<'_>, store: Py<PyAny>, data: &str) -> PyResult<Self> {
        let data = DataPath::parse(data).map_err(raised)?;
        let rendezvous = TorchStore(store);
        let comm = collective(py, |wait| forebay::torch_comm(&rendezvous, data, wait))?;
        Ok(Self { comm })
    }

    /// What started this process: `none`, `mpi`, `torch` on one node, `torch-nodes` on several, or `srun` alone.
    #[staticmethod]
    fn launcher() -> &'static str {
        match Launcher::of_process() {
            Launcher::None => "none",
            Launcher::Mpi => "mpi",
            Launcher::Torch { is_one_node: true, .. } => "torch",
            Launcher::Torch { .. } => "torch-nodes",
            Launcher::Srun { .. } => "srun",
        }
    }

    /// The number of this rank.
    #[getter]
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// How many ranks there are.
    #[getter]
    fn size(&self) -> usize {
        self.comm.size()
    }

    /// Ranks that hold a set of `set_bytes` between them, of which this one may keep `rank_bytes`. Collective.
    fn auto_width(&self, py: Python<'_>, set_bytes: u64, rank_bytes: u64) -> PyResult<usize> {
        collective(py, |wait| forebay::auto_width(&self.comm, set_bytes, rank_bytes, wait))
    }

    /// Returns when every rank has called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        collective(py, |wait| self.comm.barrier(wait))
    }

    /// The bytes of rank `root`, on every rank.
    fn broadcast<'py>(&self, py: Python<'py>, root: usize, bytes: Vec<u8>) -> PyResult<Bound<'py, PyBytes>> {
        let heard = collective(py, |wait| self.comm.broadcast(root, bytes.clone(), wait))?;
        Ok(PyBytes::new(py, &heard))
    }

    /// Has tiers of peers that this process opens lie in the memory of these ranks.
    fn join_job(&self) {
        forebay::join_job(Arc::clone(&self.comm));
    }

    /// The bytes of every rank. After work that takes some longer than others, `is_patient` waits as long as they live.
    #[pyo3(signature = (mine, is_patient=false))]
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        mine: Vec<u8>,
        is_patient: bool,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let heard = collective(py, |wait| {
            let is_patient = is_patient && self.comm.hears_of_ends();
            let wait = if is_patient { wait.without_deadline() } else { *wait };
            self.comm.all_gather(mine, &wait)
        })?;
        Ok(heard.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }
}

/// What makes batches, what is known of their fields, and the bytes of a sample.
pub(crate) type MeasuredMaker = (Arc<dyn BatchMaker>, Vec<FieldForm>, u64);

/// What makes samples of which fields.
type Makers = Mutex<HashMap<Vec<String>, Arc<StoreMaker>>>;

/// A data set in the memory of all ranks.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawStore {
    store: Closable<Store>,
    /// By the names of their fields. A forked process has none: those of its parent may be in use there.
    makers: PerProcess<Makers>,
    /// The sets of files it was filled from: their fields, and by what orders and states know their samples.
    filled: Mutex<Vec<(Vec<String>, SetIdentity)>>,
    /// Bytes that samples by number may take.
    pub(crate) memory: u64,
}

/// Counts the leading `lens` that sum to at most `most_bytes`; at least one, if there is one.
pub(crate) fn count_within(
    lens: &mut dyn Iterator<Item = forebay::Result<u64>>,
    most_bytes: u64,
) -> forebay::Result<usize> {
    let (mut count, mut bytes) = (0, 0u64);
    for len in lens {
        bytes = bytes.saturating_add(len?);
        if bytes > most_bytes && count > 0 {
            break;
        }
        count += 1;
    }
    Ok(count)
}

#[pymethods]
impl RawStore {
    /// A store of nothing yet, whose shards live in memory or in files of `folder`. Collective.
    #[new]
    #[pyo3(signature = (comm, width, folder, limit, memory))]
    fn new(
        py: Python<'_>,
        comm: &RawComm,
        width: Option<usize>,
        folder: Option<PathBuf>,
        limit: Option<u64>,
        memory: u64,
    ) -> PyResult<Self> {
        let place = folder.map_or(ShardPlace::Memory, ShardPlace::Disk);
        let options = StoreOptions { width, place, limit };
        let store = collective(py, |wait| Store::new(Arc::clone(&comm.comm), options.clone(), wait))?;
        let (makers, filled) = (PerProcess::new(Makers::default()), Mutex::default());
        Ok(Self { store: Closable::new("store", store), makers, filled, memory })
    }

    /// Begins a variable of which this rank has as many samples as `lens`, or `count` where all have one shape. Its bytes are those of
    /// a text, or of several `texts` with a NUL after each, where `kind` says so. Collective.
    #[pyo3(signature = (name, dtype, sample_shape, count, lens, kind=None))]
    #[expect(clippy::too_many_arguments, reason = "each is an argument that Python names")]
    fn begin(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: NumpyType,
        sample_shape: Vec<Option<u64>>,
        count: u64,
        lens: Option<Vec<u64>>,
        kind: Option<&str>,
    ) -> PyResult<RawFilling> {
        let store = self.store.get()?;
        let kind = match kind {
            None => ValueKind::Number,
            Some("text") => ValueKind::Text,
            Some("texts") => ValueKind::Texts,
            Some(other) => return Err(raised(Error::invalid(format!("'{other}' is no kind of values")))),
        };
        let field = StoredField { dtype: dtype.0, kind, sample_shape, categories: Vec::new() };
        let spec = field.spec(name).map_err(raised)?;
        let lens = lens.map_or_else(|| SampleLens::even(count, 1), |lens| SampleLens::ragged(&lens));
        let filling = collective(py, |wait| store.begin_from_parts(&[(spec.clone(), lens.clone())], wait))?;
        Ok(RawFilling { store, filling: Mutex::new(Some(filling)) })
    }

    /// Fills the store with the samples of `reader`, read as `options` say. Collective. `progress` is called with the
    /// samples and bytes that this rank has read, and the samples of its share.
    #[pyo3(signature = (reader, options, by_count, progress))]
    fn fill(
        &self,
        py: Python<'_>,
        reader: &SampleReader,
        options: Plain<Options>,
        by_count: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let store = self.store.get()?;
        let Plain(loader) = options;
        let balance = if by_count { Balance::Count } else { Balance::Bytes };
        let (set, _, _) = reader.loader_parts()?;
        let options = FillOptions { loader, balance };
        let raised_by_user = Mutex::new(None);
        let report = |done: FillProgress| {
            Python::attach(|py| {
                let told = py.check_signals().and_then(|()| match &progress {
                    Some(progress) => progress.call1(py, (done.samples, done.of, done.bytes)).map(drop),
                    None => Ok(()),
                });
                told.map_err(|error| {
                    *raised_by_user.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Error::new(ErrorKind::Unavailable, "interrupted by its user")
                })
            })
        };
        let filled = collective(py, |wait| fill_store(&store, &set, &options, &mut { report }, wait));
        if let Some(error) = raised_by_user.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        filled?;
        let names = set.fields().into_iter().map(|field| field.name).collect();
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        filled.push((names, set_identity(&set)));
        drop(filled);
        show_warnings(py)
    }

    /// Writes samples of this rank anew.
    fn update(&self, name: &str, first: u64, bytes: &[u8]) -> PyResult<()> {
        self.store.get()?.update(name, first, bytes).map_err(raised)
    }

    /// Divides samples anew among ranks, evenly by their count or else by their bytes. Collective.
    fn restripe(&self, py: Python<'_>, by_count: bool) -> PyResult<()> {
        let store = self.store.get()?;
        let balance = if by_count { Balance::Count } else { Balance::Bytes };
        collective(py, |wait| store.restripe(balance, wait))
    }

    /// Lets nothing be written from now on. Collective.
    fn seal(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store.get()?;
        collective(py, |wait| store.seal(wait))
    }

    /// Names of variables, in the order they were added, and how many samples each has.
    pub(crate) fn variables(&self) -> PyResult<Vec<(String, u64)>> {
        let variables = self.store.get()?.variables();
        Ok(variables.iter().map(|variable| (variable.name().to_owned(), variable.sample_count())).collect())
    }

    /// Name, type for NumPy, shape of a sample and stored type of each variable.
    pub(crate) fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<FieldRow<'py>>> {
        let variables = self.store.get()?.variables();
        variables
            .iter()
            .map(|variable| {
                let field = StoredField::described(variable).map_err(raised)?;
                field_row(py, variable.name(), &field.dtype, field.kind, &field.sample_shape)
            })
            .collect()
    }

    /// The samples `numbers` of the variables `names`, side by side.
    fn get(&self, py: Python<'_>, names: Vec<String>, numbers: Vec<u64>) -> PyResult<RawBatch> {
        let maker = self.maker(names)?;
        let slots: Vec<Option<u64>> = numbers.iter().map(|number| Some(*number)).collect();
        let fields = with_signals(py, GET_PATIENCE, |wait| maker.fields_of(&slots, wait))?;
        Ok(RawBatch::of_samples(fields, &numbers))
    }

    /// How many of the first of `numbers` come to at most `most_bytes` of the variable `name`; at least one, where there is one.
    pub(crate) fn count_within(&self, name: &str, numbers: Vec<u64>, most_bytes: u64) -> PyResult<usize> {
        let variable = self.store.get()?.variable(name).map_err(raised)?;
        let mut lens = numbers.into_iter().map(|number| variable.sample_len(number));
        count_within(&mut lens, most_bytes).map_err(raised)
    }

    /// Reads `count` consecutive samples of the variable `name`, from `first` on, into memory of an array: its address and its bytes.
    /// The caller holds the array, which may be written to, and nobody else uses it meanwhile.
    fn get_range(
        &self,
        py: Python<'_>,
        name: &str,
        first: u64,
        count: u64,
        into: (usize, usize),
    ) -> PyResult<()> {
        let store = self.store.get()?;
        let variable = store.variable(name).map_err(raised)?;
        let (address, len) = into;
        let into = match len {
            // Arrays of nothing may lie nowhere.
            0 => &mut [],
            // SAFETY: Python gives where the bytes of an array lie that it holds until this returns, and how many there are.
            _ => unsafe { slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(address), len) },
        };
        with_signals(py, GET_PATIENCE, |wait| {
            store.get_range(&variable, first..first.saturating_add(count), into, wait)
        })
    }

    /// Which samples `rank` holds of the variable `name`.
    pub(crate) fn samples_of(&self, name: &str, rank: usize) -> PyResult<(u64, u64)> {
        let samples = self.store.get()?.variable(name).map_err(raised)?.samples_of(rank);
        Ok((samples.start, samples.end))
    }

    /// The place of this rank in its replica group, and how many ranks the group has.
    pub(crate) fn member(&self) -> PyResult<(usize, usize)> {
        Ok(self.store.get()?.member())
    }

    /// What was read so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.store.get()?.stats())
    }

    /// Gives all memory back. Collective; may be called more than once.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Ok(store) = self.store.get() else { return Ok(()) };
        let closed = collective(py, |wait| store.close(wait));
        self.makers
            .with(Makers::default, |makers| makers.lock().unwrap_or_else(PoisonError::into_inner).clear());
        drop(store);
        self.store.close();
        closed
    }
}

impl RawStore {
    /// The store, unless it was closed.
    pub(crate) fn opened(&self) -> PyResult<Arc<Store>> {
        self.store.get()
    }

    /// A loader of the variables `names`, of which those are read that are among `read`.
    pub(crate) fn loader(
        &self,
        names: &[String],
        read: &[String],
        options: Options,
        files: Option<&SampleReader>,
        backing: Option<Arc<dyn Backing>>,
    ) -> PyResult<Loader> {
        let on_lost = files.map_or(Ok(OnLost::Raise), |files| files.samples().map(OnLost::ReadFiles))?;
        let memory = options.memory.unwrap_or(self.memory);
        let options = self.within(memory, read, options)?;
        let maker = StoreMaker::new(self.store.get()?, read, self.identity_of(names)?, memory, on_lost)
            .map_err(raised)?;
        let maker = match backing {
            Some(backing) => maker.over(memory, backing),
            None => maker,
        };
        Loader::of_maker(Arc::new(maker), options).map_err(raised)
    }

    /// What is known of the variables `names`.
    pub(crate) fn forms(&self, names: &[String]) -> PyResult<Vec<FieldForm>> {
        let form = |(name, field): (&String, StoredField)| {
            let StoredField { dtype, kind, sample_shape, .. } = field;
            FieldForm { name: name.clone(), dtype, kind, sample_shape }
        };
        Ok(names.iter().zip(self.described(names)?).map(form).collect())
    }

    /// What the values of the variables `names` are.
    pub(crate) fn described(&self, names: &[String]) -> PyResult<Vec<StoredField>> {
        let store = self.store.get()?;
        let described = names.iter().map(|name| StoredField::described(&*store.variable(name)?));
        described.collect::<Result<_, Error>>().map_err(raised)
    }

    /// What makes batches of the variables `names`, for statistics.
    pub(crate) fn measured(&self, names: &[String]) -> PyResult<MeasuredMaker> {
        let maker: Arc<dyn BatchMaker> = self.maker(names.to_vec())?;
        Ok((maker, self.forms(names)?, self.mean_sample_len(names)?))
    }

    /// Bytes of a sample of the variables `names`, on average.
    pub(crate) fn mean_sample_len(&self, names: &[String]) -> PyResult<u64> {
        let store = self.store.get()?;
        names.iter().try_fold(0u64, |sum, name| {
            let variable = store.variable(name).map_err(raised)?;
            let bytes = [variable.row_len(), variable.runs()]
                .into_iter()
                .fold(variable.lens().total(), u64::saturating_mul);
            Ok(sum.saturating_add(bytes / variable.sample_count().max(1)))
        })
    }

    /// As many threads and batches ahead as memory has room for, at least one.
    pub(crate) fn within(&self, memory: u64, names: &[String], options: Options) -> PyResult<Options> {
        let store = self.store.get()?;
        store_options_within(&store, names, memory, options).map_err(raised)
    }

    pub(crate) fn maker(&self, names: Vec<String>) -> PyResult<Arc<StoreMaker>> {
        self.makers.with(Makers::default, |makers| {
            let mut makers = makers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(maker) = makers.get(&names) {
                return Ok(Arc::clone(maker));
            }
            let identity = self.identity_of(&names)?;
            let made = StoreMaker::new(self.store.get()?, &names, identity, self.memory, OnLost::Raise)
                .map_err(raised)?;
            let made = Arc::new(made);
            makers.insert(names, Arc::clone(&made));
            Ok(made)
        })
    }

    /// By what orders and states know the samples: as those of the files they were filled from, if they were.
    fn identity_of(&self, names: &[String]) -> PyResult<SetIdentity> {
        let filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, identity)) =
            filled.iter().find(|(known, _)| names.iter().all(|name| known.contains(name)))
        {
            return Ok(identity.clone());
        }
        drop(filled);
        let store = self.store.get()?;
        let variables = names.iter().map(|name| store.variable(name)).collect::<forebay::Result<Vec<_>>>();
        Ok(forebay::added_identity(&variables.map_err(raised)?))
    }
}

/// A variable of which this rank writes its samples.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawFilling {
    store: Arc<Store>,
    filling: Mutex<Option<Filling>>,
}

#[pymethods]
impl RawFilling {
    /// The first sample of this rank, and one past the last.
    fn share(&self) -> PyResult<(u64, u64)> {
        self.with(|filling| {
            let share = filling.variables()[0].samples_of(self.store.comm().rank());
            Ok((share.start, share.end))
        })
    }

    /// Writes consecutive samples, from `first` on.
    fn write(&self, first: u64, bytes: &[u8]) -> PyResult<()> {
        self.with(|filling| filling.write(0, first, bytes))
    }

    /// Publishes what all ranks wrote, unless one of them gives an error. Collective.
    #[pyo3(signature = (error=None))]
    fn finish(&self, py: Python<'_>, error: Option<String>) -> PyResult<()> {
        let filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(filling) = filling else { return Err(raised(ended())) };
        let written = error.map_or(Ok(()), |error| Err(Error::new(ErrorKind::Unavailable, error)));
        let filling = Mutex::new(Some((filling, written)));
        collective(py, |wait| {
            let taken = filling.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (filling, written) = taken.ok_or_else(ended)?;
            // Writing takes some ranks longer than others.
            let wait = if self.store.comm().hears_of_ends() { wait.without_deadline() } else { *wait };
            self.store.finish(filling, written, &wait)
        })
    }
}

impl RawFilling {
    fn with<T>(&self, work: impl FnOnce(&Filling) -> forebay::Result<T>) -> PyResult<T> {
        let filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        filling.as_ref().ok_or_else(ended).and_then(work).map_err(raised)
    }
}

fn ended() -> Error {
    Error::invalid("this variable was finished")
}

/// How long ranks wait for each other in collective calls, as long as it is not known that one is gone: as long as torch does.
const COLLECTIVE_PATIENCE: Duration = Duration::from_secs(1800);

/// Seconds to wait instead.
const TIMEOUT: &str = "FOREBAY_STORE_TIMEOUT";

/// Runs a collective call without the interpreter's lock, and ends it when a signal such as Ctrl-C comes.
fn collective<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Wait<'_>) -> forebay::Result<T> + Send,
) -> PyResult<T> {
    let patience = match env::var(TIMEOUT) {
        Err(_) => COLLECTIVE_PATIENCE,
        Ok(text) => match text.trim().parse().ok().filter(|seconds| *seconds > 0.0) {
            Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
            None => {
                return Err(raised(Error::invalid(format!(
                    "{TIMEOUT}={text} is no number of seconds above 0"
                ))));
            }
        },
    };
    with_signals(py, patience, work)
}

/// Runs what may have to wait for other ranks without the interpreter's lock, and looks for signals meanwhile.
pub(crate) fn with_signals<T: Send>(
    py: Python<'_>,
    patience: Duration,
    work: impl FnOnce(&Wait<'_>) -> forebay::Result<T> + Send,
) -> PyResult<T> {
    let (done, signal) = py.detach(|| {
        let signal = RefCell::new(None);
        let check = || {
            Python::attach(|py| py.check_signals()).map_err(|error| {
                *signal.borrow_mut() = Some(error);
                Error::new(ErrorKind::Unavailable, "interrupted")
            })
        };
        let done = work(&Wait::at_most(patience).interrupted_by(&check));
        (done, signal.into_inner())
    });
    match signal {
        Some(signal) => Err(signal),
        None => done.map_err(raised),
    }
}

/// torch's key-value store, through which ranks find each other.
struct TorchStore(Py<PyAny>);

impl TorchStore {
    fn call<T>(&self, work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> forebay::Result<T> {
        Python::attach(|py| work(py, self.0.bind(py)).map_err(|error| reported(py, error)))
    }
}

impl Rendezvous for TorchStore {
    fn set(&self, key: &str, value: &[u8]) -> forebay::Result<()> {
        self.call(|py, store| store.call_method1("set", (key, PyBytes::new(py, value))).map(drop))
    }

    fn get(&self, key: &str, wait: &Wait<'_>) -> forebay::Result<Vec<u8>> {
        // Its own `get` waits for minutes, and hears no signal.
        while !self.call(|_, store| store.call_method1("check", (vec![key],))?.extract::<bool>())? {
            wait.go_on(|| "rank 0 did not tell where it is".to_owned())?;
            std::thread::sleep(wait.step());
        }
        self.call(|_, store| store.call_method1("get", (key,))?.extract())
    }

    fn delete(&self, key: &str) -> forebay::Result<()> {
        // Stores in files cannot delete: the secret of one that is not ours alone is of no use after the job anyway.
        self.call(|_, store| {
            drop(store.call_method1("delete_key", (key,)));
            Ok(())
        })
    }
}
