//! Several stores, the samples of one after those of another.

use std::sync::Arc;

use forebay::{Error, Feed, Options, StoreConcat, batch::Backing, store::GET_PATIENCE, transform::FieldForm};
use pyo3::prelude::*;

use crate::{
    error::raised,
    raw_batch::RawBatch,
    samples::FieldRow,
    store::{RawStore, with_signals},
};

/// Several stores of the same variables, one after another.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawStoreConcat {
    stores: Vec<Py<RawStore>>,
}

impl RawStoreConcat {
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
    pub(crate) fn feed(
        &self,
        names: &[String],
        options: Options,
        backing: Option<Arc<dyn Backing>>,
    ) -> PyResult<Feed> {
        let first = self.first()?.get();
        let memory = options.memory.unwrap_or(first.memory);
        let options = first.within(memory, names, options)?;
        let maker = self.maker(names)?;
        let maker = match backing {
            Some(backing) => maker.over(memory, backing),
            None => maker,
        };
        Feed::of_maker(Arc::new(maker), options).map_err(raised)
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
        Self { stores }
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
        let maker = self.maker(&names)?;
        let slots: Vec<Option<u64>> = numbers.iter().map(|number| Some(*number)).collect();
        let fields = with_signals(py, GET_PATIENCE, |wait| maker.fields_of(&slots, wait))?;
        Ok(RawBatch::of_samples(fields, &numbers))
    }

    /// Which samples `rank` holds of the variable `name` of the first store.
    fn samples_of(&self, name: &str, rank: usize) -> PyResult<(u64, u64)> {
        self.first()?.get().samples_of(name, rank)
    }

    /// The place of this rank in its replica group of the first store, and how many ranks the group has.
    fn member(&self) -> PyResult<(usize, usize)> {
        self.first()?.get().member()
    }

    /// What was read so far from the first store, as JSON.
    fn stats(&self) -> PyResult<String> {
        self.first()?.get().stats()
    }
}
