//! Several stores, the samples of one after those of another.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use forebay::{
    Error, Loader, Options, StoreConcat,
    batch::{Backing, BatchMaker},
    process::PerProcess,
    store::GET_PATIENCE,
    transform::FieldForm,
};
use pyo3::prelude::*;

use crate::{
    dataset::samples::FieldRow,
    error::raised,
    plain::plain,
    store::{MeasuredMaker, RawStore, count_within, with_signals},
    tensors::raw_batch::RawBatch,
};

/// Several stores of the same variables, one after another.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawStoreConcat {
    stores: Vec<Py<RawStore>>,
    /// By the names of their fields. A forked process has none: those of its parent may be in use there.
    makers: PerProcess<ConcatMakers>,
}

/// What makes samples of which fields.
type ConcatMakers = Mutex<HashMap<Vec<String>, Arc<StoreConcat>>>;

impl RawStoreConcat {
    /// What samples by number are made by.
    fn kept_maker(&self, names: &[String]) -> PyResult<Arc<StoreConcat>> {
        self.makers.with(ConcatMakers::default, |makers| {
            let mut makers = makers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(maker) = makers.get(names) {
                return Ok(Arc::clone(maker));
            }
            let made = Arc::new(self.maker(names)?);
            makers.insert(names.to_vec(), Arc::clone(&made));
            Ok(made)
        })
    }

    fn maker(&self, names: &[String]) -> PyResult<StoreConcat> {
        let first = self.first()?.get();
        let makers = self.stores.iter().map(|store| store.get().maker(names.to_vec()));
        let fields = names.iter().cloned().zip(first.described(names)?).collect();
        Ok(StoreConcat::new(makers.collect::<PyResult<_>>()?, fields, first.memory))
    }

    fn first(&self) -> PyResult<&Py<RawStore>> {
        self.stores.first().ok_or_else(|| raised(Error::invalid("no stores")))
    }

    /// A loader of the variables `names`.
    pub(crate) fn loader(
        &self,
        names: &[String],
        options: Options,
        backing: Option<Arc<dyn Backing>>,
    ) -> PyResult<Loader> {
        let first = self.first()?.get();
        let memory = options.memory.unwrap_or(first.memory);
        // Samples of one store may be longer than those of another.
        let mut stores = self.stores.iter();
        let options =
            stores.try_fold(options, |options, store| store.get().within(memory, names, options))?;
        let maker = self.maker(names)?;
        let maker = match backing {
            Some(backing) => maker.over(memory, backing),
            None => maker,
        };
        Loader::of_maker(Arc::new(maker), options).map_err(raised)
    }

    /// What makes batches of the variables `names`, for statistics.
    pub(crate) fn measured(&self, names: &[String]) -> PyResult<MeasuredMaker> {
        let lens = self.stores.iter().map(|store| store.get().mean_sample_len(names));
        let longest = lens.collect::<PyResult<Vec<_>>>()?.into_iter().max().unwrap_or(0);
        let maker: Arc<dyn BatchMaker> = self.kept_maker(names)?;
        Ok((maker, self.forms(names)?, longest))
    }

    /// What is known of the variables `names`.
    pub(crate) fn forms(&self, names: &[String]) -> PyResult<Vec<FieldForm>> {
        self.first()?.get().forms(names)
    }
}

#[pymethods]
impl RawStoreConcat {
    /// The stores, which have the same variables.
    #[new]
    fn new(stores: Vec<Py<RawStore>>) -> Self {
        Self { stores, makers: PerProcess::new(ConcatMakers::default()) }
    }

    /// Names of variables, and how many samples each has in all.
    fn variables(&self) -> PyResult<Vec<(String, u64)>> {
        let mut all: Vec<(String, u64)> = self.first()?.get().variables()?;
        for store in &self.stores[1..] {
            let own = store.get().variables()?;
            for (name, count) in &mut all {
                *count += own.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
            }
        }
        Ok(all)
    }

    /// Name, type for NumPy, shape of a sample and stored type of each variable.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<FieldRow<'py>>> {
        self.first()?.get().fields(py)
    }

    /// The samples `numbers` of the variables `names`, side by side.
    fn get(&self, py: Python<'_>, names: Vec<String>, numbers: Vec<u64>) -> PyResult<RawBatch> {
        let maker = self.kept_maker(&names)?;
        let slots: Vec<Option<u64>> = numbers.iter().map(|number| Some(*number)).collect();
        let fields = with_signals(py, GET_PATIENCE, |wait| maker.fields_of(&slots, wait))?;
        Ok(RawBatch::of_samples(fields, &numbers))
    }

    /// How many of the first of `numbers` come to at most `most_bytes` of the variable `name`; at least one, where there is one.
    fn count_within(&self, name: &str, numbers: Vec<u64>, most_bytes: u64) -> PyResult<usize> {
        let opened = self.stores.iter().map(|store| store.get().opened());
        let variables =
            opened.map(|store| store?.variable(name).map_err(raised)).collect::<PyResult<Vec<_>>>()?;
        let sample_len = |number: u64| {
            let mut left = number;
            for variable in &variables {
                match left.checked_sub(variable.sample_count()) {
                    Some(rest) => left = rest,
                    None => return variable.sample_len(left),
                }
            }
            Err(Error::invalid(format!("sample {number} is in none of the stores")))
        };
        count_within(&mut numbers.into_iter().map(sample_len), most_bytes).map_err(raised)
    }

    /// Which samples `rank` holds of the variable `name` of the first store.
    fn samples_of(&self, name: &str, rank: usize) -> PyResult<(u64, u64)> {
        self.first()?.get().samples_of(name, rank)
    }

    /// The place of this rank in the largest of its replica groups, and how many ranks that has.
    fn member(&self) -> PyResult<(usize, usize)> {
        let members = self.stores.iter().map(|store| store.get().member()).collect::<PyResult<Vec<_>>>()?;
        members.into_iter().max_by_key(|(_, ranks)| *ranks).ok_or_else(|| raised(Error::invalid("no stores")))
    }

    /// What was read so far from all stores.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stores = self.stores.iter().map(|store| store.get().opened()).collect::<PyResult<Vec<_>>>()?;
        let (first, others) = stores.split_first().ok_or_else(|| raised(Error::invalid("no stores")))?;
        let stats = first.stats_with(others.iter().map(|store| &**store));
        plain(py, &stats)
    }
}
