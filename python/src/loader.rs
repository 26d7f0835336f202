//! Epochs of batches.

use std::{
    mem, process,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use forebay::{
    Error, ErrorKind, Loader, Options, TierObserver, TierReport,
    batch::{Backing, PlainBacking},
    forms_of,
    loader::{FollowedRun, Next},
    plan::{LoaderState, Resumed, StateCheck},
    process::Histogram,
    selected_fields, selected_names,
    transform::{FieldForm, TransformSpec, Transformed},
    transform_batches,
};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::{
    closable::{Closable, end},
    dataset::{
        sampler::{RawDraws, RawSubset, sampled},
        samples::{FieldRow, SampleReader, field_row, tier_value},
    },
    error::{misread, raised, show_warnings},
    interruptible::SIGNAL_INTERVAL,
    plain::{Plain, plain},
    store::{RawStore, concat::RawStoreConcat},
    tensors::{
        pinned::LoaderMemory,
        raw_batch::{NumberedSet, RawBatch},
    },
};

/// Gives the batches of a set of samples, epoch after epoch.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct BatchLoader {
    loader: Closable<Loader>,
    /// What samples are numbers of, where they come from files.
    set: Option<NumberedSet>,
    /// What is known of the fields of its batches.
    forms: Vec<FieldForm>,
    /// How long reads of the origin took, by whichever loader of the set; empty if samples do not come from files.
    origin_latency: Arc<Histogram>,
}

impl BatchLoader {
    /// Wraps `loader`, whose batches of fields `forms` are transformed as `spec` says.
    fn of(
        py: Python<'_>,
        mut loader: Loader,
        forms: Vec<FieldForm>,
        spec: &TransformSpec,
        backing: Option<Arc<dyn Backing>>,
    ) -> PyResult<Self> {
        transform_batches(&mut loader, &forms, spec, backing).map_err(raised)?;
        let forms =
            if spec.is_none() { forms } else { Transformed::forms_of(&forms, spec).map_err(raised)? };
        show_warnings(py)?;
        let (loader, origin_latency) = (Closable::new("loader", loader), Arc::default());
        Ok(Self { loader, set: None, forms, origin_latency })
    }
}

/// The transforms that Python gave, or none.
fn transform_spec(transforms: Option<Plain<TransformSpec>>) -> TransformSpec {
    transforms.map_or_else(TransformSpec::default, |Plain(spec)| spec)
}

#[pymethods]
impl BatchLoader {
    /// A loader of the samples of `reader`, or of a `subset` of them, which works as `options` say, with batches transformed
    /// as `transforms` say; they lie in `memory`, if that is given.
    #[new]
    #[pyo3(signature = (reader, options, subset=None, draws=None, memory=None, transforms=None))]
    fn new(
        py: Python<'_>,
        reader: &SampleReader,
        options: Plain<Options>,
        subset: Option<&RawSubset>,
        draws: Option<&RawDraws>,
        memory: Option<&LoaderMemory>,
        transforms: Option<Plain<TransformSpec>>,
    ) -> PyResult<Self> {
        let options = sampled(options.0, subset, draws);
        let (set, tiers, origin_latency) = reader.loader_parts()?;
        let numbered = NumberedSet { set: Arc::downgrade(&set), subset: subset.map(RawSubset::shared) };
        let spec = transform_spec(transforms);
        let set = py.detach(|| selected_fields(&set, &spec));
        let forms = forms_of(&set);
        let backing = memory.map(LoaderMemory::backing);
        let of_batches = backing.clone();
        let made = py.detach(|| {
            let of_batches = of_batches.unwrap_or_else(|| Arc::new(PlainBacking::default()));
            let mut loader = Loader::over(set, options, of_batches)?;
            if let Some(tiers) = tiers {
                loader.observe(Box::new(TierObserver::new(tiers)))?;
            }
            Ok(loader)
        });
        let of_files = Self::of(py, made.map_err(raised)?, forms, &spec, backing)?;
        Ok(Self { set: Some(numbered), origin_latency, ..of_files })
    }

    /// A loader of the variables `names` of `store`; samples of ranks that are gone are read by `files`, if it is given.
    #[staticmethod]
    #[pyo3(signature = (store, names, options, files=None, subset=None, draws=None, memory=None, transforms=None))]
    #[expect(clippy::too_many_arguments, reason = "each is an argument that Python names")]
    fn of_store(
        py: Python<'_>,
        store: &RawStore,
        names: Vec<String>,
        options: Plain<Options>,
        files: Option<&SampleReader>,
        subset: Option<&RawSubset>,
        draws: Option<&RawDraws>,
        memory: Option<&LoaderMemory>,
        transforms: Option<Plain<TransformSpec>>,
    ) -> PyResult<Self> {
        let options = sampled(options.0, subset, draws);
        let backing = memory.map(LoaderMemory::backing);
        let spec = transform_spec(transforms);
        // Files that stand in for ranks that are gone have all fields.
        let read = match files {
            Some(_) => names.clone(),
            None => selected_names(&names, &spec),
        };
        let loader = store.loader(&names, &read, options, files, backing.clone())?;
        Self::of(py, loader, store.forms(&read)?, &spec, backing)
    }

    /// A loader of the variables `names` of several stores, one after another.
    #[staticmethod]
    #[pyo3(signature = (stores, names, options, subset=None, draws=None, memory=None, transforms=None))]
    #[expect(clippy::too_many_arguments, reason = "each is an argument that Python names")]
    fn of_stores(
        py: Python<'_>,
        stores: &RawStoreConcat,
        names: Vec<String>,
        options: Plain<Options>,
        subset: Option<&RawSubset>,
        draws: Option<&RawDraws>,
        memory: Option<&LoaderMemory>,
        transforms: Option<Plain<TransformSpec>>,
    ) -> PyResult<Self> {
        let options = sampled(options.0, subset, draws);
        let backing = memory.map(LoaderMemory::backing);
        let loader = stores.loader(&names, options, backing.clone())?;
        Self::of(py, loader, stores.forms(&names)?, &transform_spec(transforms), backing)
    }

    /// Name, type and shape of one sample of each field of its batches; `None` along the axis whose length differs.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<FieldRow<'py>>> {
        let row = |form: &FieldForm| field_row(py, &form.name, &form.dtype, form.kind, &form.sample_shape);
        self.forms.iter().map(row).collect()
    }

    /// Begins an epoch. Where it `is_followed` by another, that is begun while the last batches of this one are taken.
    #[pyo3(signature = (is_followed=false))]
    fn start(&self, py: Python<'_>, is_followed: bool) -> PyResult<EpochRun> {
        let loader = self.loader.get()?;
        let run = py.detach(|| loader.start()).map_err(raised)?;
        Ok(EpochRun::new(UnderWay { loader, run: FollowedRun::new(run, is_followed) }, self.set.clone()))
    }

    /// Batches of a whole epoch.
    fn __len__(&self) -> PyResult<usize> {
        let count = self.loader.get()?.step_count().map_err(raised)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Batches that the consumer has yet to commit of its epoch, or else of the next.
    fn remaining(&self) -> PyResult<u64> {
        self.loader.get()?.remaining().map_err(raised)
    }

    /// Where the consumer is.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.loader.get()?.state())
    }

    /// The same without waiting, for a process that was forked; nothing where it cannot be known.
    fn state_at_once<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.loader.get()?.state_at_once())
    }

    /// Goes on from `state`; false when it was taken of files with other times of modification.
    fn load_state(&self, state: Plain<Value>, strict: bool) -> PyResult<bool> {
        let state = LoaderState::from_value(state.0).map_err(raised)?;
        let check = if strict { StateCheck::Strict } else { StateCheck::CountOnly };
        let resumed = self.loader.get()?.load_state(&state, check).map_err(raised)?;
        Ok(resumed == Resumed::SameFiles)
    }

    /// What the order of samples is made of, and where in it the next run begins: the same on every rank.
    fn order<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let loader = self.loader.get()?;
        let (state, options) = (loader.state(), loader.options());
        let (epoch, position) = loader.upcoming();
        let order = json!({
            "fingerprint": state.fingerprint,
            "samples": state.samples,
            "parts": state.parts,
            "order_version": state.order_version,
            "shuffle": state.shuffle,
            "group_len": state.group_len,
            "seed": state.seed,
            "batch_size": options.batch_size,
            "world": options.shard.world,
            "tail": options.tail,
            "epoch": epoch,
            "position": position,
        });
        plain(py, &order)
    }

    /// Makes `epoch` the next one that is begun.
    fn set_epoch(&self, epoch: u64) -> PyResult<()> {
        self.loader.get()?.set_epoch(epoch);
        Ok(())
    }

    /// The epoch that is begun next, and the position of its order where it begins.
    fn upcoming(&self) -> PyResult<(u64, u64)> {
        Ok(self.loader.get()?.upcoming())
    }

    /// What it did so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let loader = self.loader.get()?;
        let stats = loader.stats();
        // A tier that ranks its copies just now may be waiting for Python.
        let tiers = py.detach(|| TierReport::from_loader(&loader));
        let mut value = serde_json::to_value(stats).map_err(|error| misread(&error))?;
        value["verdict"] = serde_json::to_value(stats.bottleneck()).map_err(|error| misread(&error))?;
        value["tiers"] = tier_value(tiers)?;
        value["origin_latency"] =
            serde_json::to_value(self.origin_latency.summary()).map_err(|error| misread(&error))?;
        value["in_force"] = serde_json::to_value(loader.in_force()).map_err(|error| misread(&error))?;
        plain(py, &value)
    }

    /// What threads, memory and spill are in force.
    fn in_force<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.loader.get()?.in_force())
    }

    /// True when batches may be made on one thread alone, the one that asks for them.
    fn makes_on_caller(&self) -> PyResult<bool> {
        Ok(self.loader.get()?.makes_on_caller())
    }

    /// Gives memory that no batch lies in back to the system.
    fn release_memory(&self, py: Python<'_>) {
        if let Ok(loader) = self.loader.get() {
            py.detach(|| loader.release_memory());
        }
    }

    /// Leaves files and tiers. May be called more than once.
    fn close(&self) {
        self.loader.close();
    }
}

/// One epoch on its way to the consumer.
///
/// A forked child has none of its threads, and its locks are as those threads left them: there it is never locked nor dropped.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct EpochRun {
    under_way: Mutex<Option<UnderWay>>,
    /// Where batches are committed: a run that was closed keeps no files open.
    loader: Weak<Loader>,
    set: Option<NumberedSet>,
    process: u32,
}

/// A run, the one that follows it, and their loader.
struct UnderWay {
    loader: Arc<Loader>,
    run: FollowedRun,
}

impl UnderWay {
    fn next(&mut self, patience: Duration) -> forebay::Result<Next> {
        self.run.next(&self.loader, patience)
    }

    fn next_of_follower(&mut self) -> forebay::Result<Next> {
        self.run.next_of_follower(&self.loader)
    }
}

#[pymethods]
impl EpochRun {
    /// The next batch, not committed; `None` when the epoch is over. Where a signal came meanwhile whose handler raises, the batch is
    /// dropped, and the run is of no more use.
    fn next(&self, py: Python<'_>) -> PyResult<Option<RawBatch>> {
        self.check_process()?;
        loop {
            let next = py.detach(|| self.with_run(|under_way| under_way.next(SIGNAL_INTERVAL)));
            match next.unwrap_or(Ok(Next::End)).map_err(raised)? {
                Next::Batch(batch) => {
                    py.check_signals()?;
                    return Ok(Some(RawBatch::new(*batch).of_set(self.set.clone())));
                }
                Next::End => {
                    // Samples that were left out after the last batch are reported here: no batch follows them.
                    show_warnings(py)?;
                    return Ok(None);
                }
                Next::Waiting => py.check_signals()?,
            }
        }
    }

    /// Commits `batch`, also when this run was closed. Assigned rather than called: Python runs signal handlers after a call, and the
    /// consumer would not get a batch that was counted then.
    #[setter]
    fn set_received(&self, batch: &RawBatch) {
        if let (Some(loader), Some(receipt)) = (self.loader.upgrade(), batch.receipt) {
            loader.commit(receipt);
        }
    }

    /// The next batch if it is there, not committed; `None` where it is not yet, or the epoch is over.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<RawBatch>> {
        self.polled(py, |under_way| under_way.next(Duration::ZERO))
    }

    /// The next batch of the epoch after this one, if this one is over and that batch is there, not committed.
    fn poll_following(&self, py: Python<'_>) -> PyResult<Option<RawBatch>> {
        self.polled(py, UnderWay::next_of_follower)
    }

    /// The epoch after this one, if it was begun and no other was set since; this one is over then.
    fn follow(&self, py: Python<'_>, is_followed: bool) -> PyResult<Option<Self>> {
        self.check_process()?;
        Ok(py.detach(|| {
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            let before = under_way.as_mut()?;
            let run = before.run.follow(&before.loader, is_followed)?;
            Some(Self::new(UnderWay { loader: Arc::clone(&before.loader), run }, self.set.clone()))
        }))
    }

    /// Ends the threads. May be called more than once, and in a forked child, where there are none.
    fn close(&self, py: Python<'_>) {
        if self.is_forked() {
            return;
        }
        py.detach(|| {
            let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(under_way);
        });
    }
}

impl EpochRun {
    fn new(under_way: UnderWay, set: Option<NumberedSet>) -> Self {
        let loader = Arc::downgrade(&under_way.loader);
        Self { under_way: Mutex::new(Some(under_way)), loader, set, process: process::id() }
    }

    /// What `body` gives of the run; nothing once it is closed.
    fn with_run<R>(&self, body: impl FnOnce(&mut UnderWay) -> R) -> Option<R> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(body)
    }

    fn is_forked(&self) -> bool {
        self.process != process::id()
    }

    fn check_process(&self) -> PyResult<()> {
        if self.is_forked() {
            let what = "an epoch does not survive a fork; begin a new one in the child";
            return Err(raised(Error::new(ErrorKind::Invalid, what)));
        }
        Ok(())
    }

    /// What `poll` gives at once.
    fn polled(
        &self,
        py: Python<'_>,
        poll: impl FnOnce(&mut UnderWay) -> forebay::Result<Next> + Send,
    ) -> PyResult<Option<RawBatch>> {
        self.check_process()?;
        let next = py.detach(|| self.with_run(poll)).unwrap_or(Ok(Next::End));
        match next.map_err(raised)? {
            Next::Batch(batch) => Ok(Some(RawBatch::new(*batch).of_set(self.set.clone()))),
            Next::End | Next::Waiting => Ok(None),
        }
    }
}

impl Drop for EpochRun {
    fn drop(&mut self) {
        let is_forked = self.is_forked();
        let under_way = self.under_way.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if is_forked {
            mem::forget(under_way);
        } else {
            end(under_way);
        }
    }
}
