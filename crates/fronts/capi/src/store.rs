//! A set in the memory of all ranks of a job.

use std::{ffi::c_char, sync::Arc, time::Duration};

use forebay::{
    DataPath, Error, FillOptions, Loader, OnLost, Options, Result, StoreMaker, fill_store, job_comm,
    loader::set_identity,
    plan::{SetIdentity, Shard},
    process::ledger,
    store::{Balance, GET_PATIENCE, ShardPlace, Store, StoreOptions, Wait},
    store_options_within,
};

use crate::{
    batch::BatchHandle,
    border::{OutArg, TextArg, handle, list, owned_text, place, versioned},
    dataset::DatasetHandle,
    loader::LoaderHandle,
    loader_arguments::LoaderArguments,
    status::{OK, give, guard},
};

/// `forebay_store`: a set in the memory of all ranks.
pub(crate) struct StoreHandle {
    store: Arc<Store>,
    names: Vec<String>,
    identity: SetIdentity,
    /// Samples by number.
    maker: StoreMaker,
}

/// How long ranks wait for each other in collective calls, as long as it is not known that one is gone: as long as torch does.
const COLLECTIVE_PATIENCE: Duration = Duration::from_secs(1800);

impl StoreHandle {
    /// Reads the share of this rank, with those of all others. Collective.
    fn fill(dataset: &DatasetHandle, width: u32, data: Option<&str>) -> Result<Self> {
        let wait = Wait::at_most(COLLECTIVE_PATIENCE);
        let comm = job_comm(data.map_or(Ok(DataPath::Auto), DataPath::parse)?, &wait)?;
        let width = usize::try_from(width).ok().filter(|width| *width > 0);
        let options = StoreOptions { width, place: ShardPlace::Memory, limit: None };
        let store = Arc::new(Store::new(comm, options, &wait.renewed())?);
        let how = FillOptions { loader: Options::default(), balance: Balance::Bytes };
        fill_store(&store, dataset.set(), &how, &mut |_| Ok(()), &wait.renewed())?;
        let names: Vec<String> = dataset.set().fields().into_iter().map(|field| field.name).collect();
        let identity = set_identity(dataset.set());
        let maker = StoreMaker::new(Arc::clone(&store), &names, identity.clone(), memory(), OnLost::Raise)?;
        Ok(Self { store, names, identity, maker })
    }

    /// A loader whose batches come from the memory of the ranks; those of the job where none are named.
    fn loader(&self, given: &LoaderArguments) -> Result<LoaderHandle> {
        let mut options = given.options()?;
        if given.world == 0 {
            let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let comm = self.store.comm();
            options.shard = Shard { rank: number(comm.rank()), world: number(comm.size()) };
        }
        let memory = options.memory.unwrap_or_else(memory);
        let options = store_options_within(&self.store, &self.names, memory, options)?;
        let store = Arc::clone(&self.store);
        let maker = StoreMaker::new(store, &self.names, self.identity.clone(), memory, OnLost::Raise)?;
        Ok(LoaderHandle::new(Loader::of_maker(Arc::new(maker), options)?, given))
    }
}

/// What batches from a store may take: half of what this process may, as a loader that is alone.
fn memory() -> u64 {
    ledger().share() / 2
}

/// Fills the memory of all ranks of the job with a set that each of them opened alike. Collective.
#[unsafe(no_mangle)]
extern "C" fn forebay_store_fill(
    dataset: Option<&DatasetHandle>,
    width: u32,
    data: TextArg,
    store: OutArg<'_, Option<Box<StoreHandle>>>,
) -> i32 {
    give(store, "store", || StoreHandle::fill(handle(dataset, "dataset")?, width, data.text("data")?))
}

/// The number of this rank, and how many there are.
#[unsafe(no_mangle)]
extern "C" fn forebay_store_rank(
    store: Option<&StoreHandle>,
    rank: OutArg<'_, usize>,
    size: OutArg<'_, usize>,
) -> i32 {
    guard(|| {
        let comm = handle(store, "store")?.store.comm();
        place(rank, "rank")?.write(comm.rank());
        place(size, "size")?.write(comm.size());
        Ok(OK)
    })
}

/// The samples of these numbers, side by side, from whichever ranks hold them.
#[unsafe(no_mangle)]
extern "C" fn forebay_store_get(
    store: Option<&StoreHandle>,
    numbers: *const u64,
    count: usize,
    batch: OutArg<'_, Option<Box<BatchHandle>>>,
) -> i32 {
    give(batch, "batch", || {
        let numbers = list(numbers, count, "numbers")?;
        let slots: Vec<Option<u64>> = numbers.iter().map(|number| Some(*number)).collect();
        let fields = handle(store, "store")?.maker.fields_of(&slots, &Wait::at_most(GET_PATIENCE))?;
        Ok(BatchHandle::of_samples(fields, numbers))
    })
}

/// A loader of the set, whose batches come from the memory of the ranks.
#[unsafe(no_mangle)]
extern "C" fn forebay_store_loader(
    store: Option<&StoreHandle>,
    options: *const LoaderArguments,
    loader: OutArg<'_, Option<Box<LoaderHandle>>>,
) -> i32 {
    give(loader, "loader", || {
        let options = versioned(options, "forebay_loader_options")?;
        handle(store, "store")?.loader(&options)
    })
}

/// What was read so far, as JSON.
#[unsafe(no_mangle)]
extern "C" fn forebay_store_stats(store: Option<&StoreHandle>, json: OutArg<'_, *mut c_char>) -> i32 {
    guard(|| {
        let text = serde_json::to_string(&handle(store, "store")?.store.stats());
        let text = text.map_err(|error| Error::invalid(error.to_string()))?;
        place(json, "json")?.write(owned_text(text));
        Ok(OK)
    })
}

/// Gives the memory of all ranks back, and frees the handle. Collective. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_store_close(store: Option<Box<StoreHandle>>) -> i32 {
    guard(|| {
        if let Some(store) = store {
            store.store.close(&Wait::at_most(COLLECTIVE_PATIENCE))?;
        }
        Ok(OK)
    })
}
