//! Variables by name, and their samples wherever they lie.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    allocate::{
        NewVariable, ShardRoom, allocate, check_names, check_replicas, joined, message, received,
        same_on_every_rank,
    },
    comm::{Comm, CommThreads, Window, gone},
    filling::{self, Filling, LensMessage, VariableSpec, agree},
    gather::{FieldGather, gather},
    groups::ReplicaGroups,
    partition::Partition,
    sample_lens::SampleLens,
    shard_memory::{ShardMemory, ShardPlace},
    stats::{Counters, StoreStats, Traffic},
    variable::StoredVariable,
    wait::Wait,
};

/// What is decided when a store is made; the same on every rank, except where shards live.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Ranks of a replica group; all of them where it is not given.
    pub width: Option<usize>,
    /// Where this rank keeps its shard.
    pub place: ShardPlace,
    /// Bytes that its shards may take; no limit where it is not given.
    pub limit: Option<u64>,
}

/// A data set in the memory of all ranks.
#[derive(Debug)]
pub struct Store {
    comm: Arc<dyn Comm>,
    groups: ReplicaGroups,
    options: StoreOptions,
    pub(crate) variables: RwLock<Vec<Shelf>>,
    pub(crate) shard_bytes: AtomicU64,
    is_sealed: AtomicBool,
    is_closed: AtomicBool,
    pub(crate) counters: Counters,
}

/// A variable and this rank's part of it.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) variable: Arc<StoredVariable>,
    pub(crate) shard: Arc<ShardMemory>,
}

/// How long a get waits for a rank that does not answer: less than the 10 s within which a dead rank has to be an error.
pub(crate) const GET_PATIENCE: Duration = Duration::from_secs(8);

impl Store {
    /// A store of nothing yet. Collective.
    pub fn new(comm: Arc<dyn Comm>, options: StoreOptions, wait: &Wait<'_>) -> Result<Self> {
        let groups = agree(&*comm, ReplicaGroups::new(comm.size(), options.width), wait)?;
        same_on_every_rank(&*comm, "width", &groups.count(), wait)?;
        Ok(Self {
            comm,
            groups,
            options,
            variables: RwLock::default(),
            shard_bytes: AtomicU64::new(0),
            is_sealed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    /// The communicator.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// How its ranks form replica groups.
    pub fn groups(&self) -> ReplicaGroups {
        self.groups
    }

    /// The place of this rank in its group, and how many the group has.
    pub fn member(&self) -> (usize, usize) {
        let members = self.groups.members(self.groups.group_of(self.comm.rank()));
        (self.comm.rank() - members.start, members.len())
    }

    /// Begins variables whose samples every rank knows: `lens` and `partition` are the same on every rank of a group. Collective.
    pub fn begin(
        &self,
        specs: &[(VariableSpec, SampleLens)],
        partition: &Partition,
        wait: &Wait<'_>,
    ) -> Result<Filling> {
        self.check_open()?;
        let counts: Vec<_> = specs.iter().map(|(spec, lens)| (spec, lens.count(), lens.total())).collect();
        same_on_every_rank(&*self.comm, "variables", &counts, wait)?;
        let new = |(spec, lens): &(VariableSpec, SampleLens)| NewVariable {
            spec: spec.clone(),
            lens: lens.clone(),
            partition: partition.clone(),
        };
        self.allocate(specs.iter().map(new).collect(), wait)
    }

    /// Begins variables of which every rank brings samples of its own: they follow those of lower ranks. Collective.
    pub fn begin_from_parts(&self, specs: &[(VariableSpec, SampleLens)], wait: &Wait<'_>) -> Result<Filling> {
        self.check_open()?;
        let mine: Vec<_> = specs.iter().map(|(spec, lens)| (spec, LensMessage::new(lens))).collect();
        let all = self.comm.all_gather(message(&mine)?, wait)?;
        let parts: Vec<Vec<(VariableSpec, LensMessage)>> =
            all.iter().map(|part| received(part)).collect::<Result<_>>()?;
        let groups = (0..self.groups.count()).map(|group| joined(&parts[self.groups.members(group)]));
        let groups = groups.collect::<Result<Vec<_>>>()?;
        check_replicas(&groups)?;
        let own = self.groups.group_of(self.comm.rank());
        self.allocate(groups.into_iter().nth(own).unwrap_or_default(), wait)
    }

    /// Publishes what every rank wrote; `written` says whether this one could. Collective.
    pub fn finish(&self, filling: Filling, written: Result<()>, wait: &Wait<'_>) -> Result<()> {
        let shard = Arc::clone(&filling.shard);
        let variables = filling.publish(written, wait)?;
        self.shard_bytes.fetch_add(shard.len(), SeqCst);
        let mut known = self.variables.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(
            variables
                .into_iter()
                .map(|variable| Shelf { variable: Arc::new(variable), shard: Arc::clone(&shard) }),
        );
        Ok(())
    }

    /// Writes samples of this rank anew, until the store is sealed. Others read them after the next collective call.
    pub fn update(&self, name: &str, first: u64, bytes: &[u8]) -> Result<()> {
        if self.is_sealed() {
            let what = format!("variable '{name}' is written after the store was sealed");
            return Err(Error::invalid(what).hint("update before the first epoch begins"));
        }
        let shelf = self.shelf(name)?;
        filling::write(&shelf.variable, &shelf.shard, self.comm.rank(), first, bytes)
    }

    /// Lets nothing be added or written from now on. Collective.
    pub fn seal(&self, wait: &Wait<'_>) -> Result<()> {
        self.check_open()?;
        let windows: Vec<_> = self.shelves().iter().map(|shelf| Arc::clone(&shelf.variable.window)).collect();
        for window in windows {
            window.publish(wait)?;
        }
        self.is_sealed.store(true, SeqCst);
        self.comm.barrier(wait)
    }

    /// True once nothing can be written any more.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed.load(SeqCst)
    }

    /// The variable called `name`.
    pub fn variable(&self, name: &str) -> Result<Arc<StoredVariable>> {
        Ok(self.shelf(name)?.variable)
    }

    /// All variables, in the order they were added.
    pub fn variables(&self) -> Vec<Arc<StoredVariable>> {
        self.shelves().into_iter().map(|shelf| shelf.variable).collect()
    }

    /// The bytes of one sample, into memory that is as long.
    pub fn get(&self, variable: &StoredVariable, sample: u64, into: &mut [u8]) -> Result<()> {
        let started = Instant::now();
        self.check_alive()?;
        let gathers = [FieldGather { variable, samples: &[Some(sample)], padding: 0, into }];
        first_error(self.gather(gathers)?)?;
        self.counters.gets.record(started.elapsed());
        Ok(())
    }

    /// The bytes of many samples of some variables, straight into the memory of a batch.
    pub fn get_batch<'a>(&self, gathers: impl IntoIterator<Item = FieldGather<'a>>) -> Result<()> {
        self.check_alive()?;
        first_error(self.get_batch_of_living(gathers)?)
    }

    /// The same, where ranks that are gone are no error: it gives those whose samples were not read, and why. What lies in
    /// memory of this host is read although its rank is gone.
    pub fn get_batch_of_living<'a>(
        &self,
        gathers: impl IntoIterator<Item = FieldGather<'a>>,
    ) -> Result<Vec<(usize, Error)>> {
        let started = Instant::now();
        let failed = self.gather(gathers)?;
        self.counters.batches.record(started.elapsed());
        Ok(failed)
    }

    /// An error that names a rank of this rank's group that is gone.
    pub fn check_alive(&self) -> Result<()> {
        let members = self.groups.members(self.groups.group_of(self.comm.rank()));
        match self.comm.first_gone(members) {
            None => Ok(()),
            Some(rank) => Err(gone(rank)),
        }
    }

    /// What was read so far.
    pub fn stats(&self) -> StoreStats {
        let shelves = self.shelves();
        let [own, same_host, remote] = self.counters.counts();
        StoreStats {
            rank: self.comm.rank(),
            ranks: self.comm.size(),
            width: self.member().1,
            transport: self.comm.transport(),
            threads: match self.comm.threads() {
                CommThreads::Any => "any",
                CommThreads::Caller => "caller",
            },
            variables: shelves.len(),
            shard_bytes: self.shard_bytes.load(SeqCst),
            registry_bytes: shelves.iter().map(|shelf| shelf.variable.registry_memory()).sum(),
            own,
            same_host,
            remote,
            get_latency: self.counters.gets.summary(),
            batch_latency: self.counters.batches.summary(),
            gone: (0..self.comm.size())
                .filter(|rank| self.comm.first_gone(*rank..*rank + 1).is_some())
                .collect(),
        }
    }

    /// Gives all memory back. Collective; a store that is dropped without it leaves nothing once its processes end.
    pub fn close(&self, wait: &Wait<'_>) -> Result<()> {
        if self.is_closed.swap(true, SeqCst) {
            return Ok(());
        }
        let shelves = std::mem::take(&mut *self.variables.write().unwrap_or_else(PoisonError::into_inner));
        let mut last: Option<Arc<dyn Window>> = None;
        for shelf in shelves {
            // Variables that were begun together have one window.
            if last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &shelf.variable.window)) {
                shelf.variable.window.close(wait)?;
                last = Some(Arc::clone(&shelf.variable.window));
            }
        }
        Ok(())
    }

    fn allocate(&self, variables: Vec<NewVariable>, wait: &Wait<'_>) -> Result<Filling> {
        let shelves = self.shelves();
        let known = shelves.iter().map(|shelf| shelf.variable.name());
        check_names(known.chain(variables.iter().map(|new| new.spec.name.as_str())))?;
        self.take_memory(variables, wait)
    }

    /// Takes the memory of variables whose names are in order. Collective.
    pub(crate) fn take_memory(&self, variables: Vec<NewVariable>, wait: &Wait<'_>) -> Result<Filling> {
        let left = self.options.limit.map(|limit| limit.saturating_sub(self.shard_bytes.load(SeqCst)));
        let members = self.groups.members(self.groups.group_of(self.comm.rank()));
        allocate(&self.comm, variables, &ShardRoom { members, place: &self.options.place, left }, wait)
    }

    fn gather<'a>(&self, gathers: impl IntoIterator<Item = FieldGather<'a>>) -> Result<Vec<(usize, Error)>> {
        let mut traffic = Traffic::default();
        let mut failed = Vec::new();
        for field in gathers {
            let window = &field.variable.window;
            let mut reads = gather(field, self.comm.rank(), &mut traffic)?;
            if reads.is_empty() {
                continue;
            }
            window.get(&mut reads, &Wait::at_most(GET_PATIENCE));
            failed.extend(reads.into_iter().filter_map(|read| Some((read.rank, read.outcome.err()?))));
        }
        self.counters.add(&traffic);
        Ok(failed)
    }

    pub(crate) fn shelves(&self) -> Vec<Shelf> {
        self.variables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn shelf(&self, name: &str) -> Result<Shelf> {
        let variables = self.variables.read().unwrap_or_else(PoisonError::into_inner);
        variables.iter().find(|shelf| shelf.variable.name == name).cloned().ok_or_else(|| {
            let names: Vec<_> = variables.iter().map(|shelf| shelf.variable.name.as_str()).collect();
            let error = Error::new(ErrorKind::NotFound, format!("the store has no variable '{name}'"));
            error.hint(format!(
                "it has {}",
                if names.is_empty() { "none yet".to_owned() } else { names.join(", ") }
            ))
        })
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        match (self.is_closed.load(SeqCst), self.is_sealed()) {
            (true, _) => Err(Error::invalid("the store is closed")),
            (_, true) => Err(Error::invalid("the store is sealed: nothing can be added any more")),
            _ => Ok(()),
        }
    }
}

/// The error of the first rank that failed.
fn first_error(failed: Vec<(usize, Error)>) -> Result<()> {
    failed.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}
