//! Variables by name, and their samples wherever they lie.
//!
//! | file | idea |
//! |---|---|
//! | `sample_lens`, `partition` | how long every sample is; which member holds it, and where in its shard |
//! | `shard_memory` | the bytes of one rank: a memfd, or a mapped file on a local disk |
//! | `variable` | what is known of a variable on every rank |
//! | `filling` | variables that are being written, collectively |
//! | `allocate` | memory for them, decided alike on all ranks |
//! | `gather` | which bytes of which rank go where in a batch |
//! | `range` | consecutive samples, as one piece for each rank |
//! | `restripe` | samples divided anew among ranks |

pub(crate) mod allocate;
pub(crate) mod filling;
pub(crate) mod gather;
#[cfg(target_os = "linux")]
pub(crate) mod partition;
pub(crate) mod range;
pub(crate) mod restripe;
pub(crate) mod sample_lens;
pub(crate) mod shard_memory;
pub(crate) mod variable;

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Grant, Histogram, Result, ledger};
use serde::Serialize;

use crate::{
    comm::{Comm, CommThreads, Window, gone},
    groups::ReplicaGroups,
    stats::{Counters, StoreStats, Traffic, each_once},
    store::{
        allocate::{
            NewVariable, ShardRoom, allocate, check_names, check_replicas, differs, joined, message,
            received, same_on_every_rank,
        },
        filling::{Filling, LensMessage, VariableSpec, agree},
        gather::{FieldGather, PaddingRows, RemoteReads},
        partition::Partition,
        sample_lens::SampleLens,
        shard_memory::{ShardMemory, ShardPlace},
        variable::StoredVariable,
    },
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
    /// What the shard takes of this process's memory; goes back with the last variable of the shard.
    _memory: Arc<Grant>,
}

/// How long a get waits for a rank that sends nothing: less than the 10 s within which a dead rank has to be an error.
pub const GET_PATIENCE: Duration = Duration::from_secs(8);

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
        let mine: Vec<_> =
            specs.iter().map(|(spec, lens)| (spec, lens.count(), lens.fingerprint())).collect();
        same_on_every_rank(&*self.comm, "variables", &mine, wait)?;
        // Groups that differ in size divide the samples differently, ranks of one group never.
        self.same_in_group("division of samples", partition, wait)?;
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

    /// An error where ranks of one group do not say the same of `what`. Collective over all ranks.
    fn same_in_group(&self, what: &str, mine: &impl Serialize, wait: &Wait<'_>) -> Result<()> {
        let all = self.comm.all_gather(message(mine)?, wait)?;
        let members = self.groups.members(self.groups.group_of(self.comm.rank()));
        let own = &all[self.comm.rank()];
        match members.into_iter().find(|rank| all[*rank] != *own) {
            None => Ok(()),
            Some(rank) => Err(differs(what, rank, self.comm.rank())),
        }
    }

    /// Publishes what every rank wrote; `written` says whether this one could. Collective.
    pub fn finish(&self, filling: Filling, written: Result<()>, wait: &Wait<'_>) -> Result<()> {
        let shelves = self.published(filling, written, wait)?;
        self.variables.write().unwrap_or_else(PoisonError::into_inner).extend(shelves);
        Ok(())
    }

    /// The variables of `filling`, as all ranks read them from now on. Collective.
    pub(crate) fn published(
        &self,
        filling: Filling,
        written: Result<()>,
        wait: &Wait<'_>,
    ) -> Result<Vec<Shelf>> {
        let (shard, memory) = (Arc::clone(&filling.shard), Arc::clone(&filling.memory));
        let variables = filling.publish(written, wait)?;
        self.shard_bytes.fetch_add(shard.len(), SeqCst);
        let shelf = |variable| Shelf {
            variable: Arc::new(variable),
            shard: Arc::clone(&shard),
            _memory: Arc::clone(&memory),
        };
        Ok(variables.into_iter().map(shelf).collect())
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
        for window in windows_of(self.shelves()) {
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

    /// The variables at these places in the order they were added.
    pub fn variables_at(&self, places: impl IntoIterator<Item = usize>) -> Vec<Arc<StoredVariable>> {
        let variables = self.variables.read().unwrap_or_else(PoisonError::into_inner);
        let at = |place: usize| variables.get(place).map(|shelf| Arc::clone(&shelf.variable));
        places.into_iter().filter_map(at).collect()
    }

    /// All variables, in the order they were added.
    pub fn variables(&self) -> Vec<Arc<StoredVariable>> {
        self.shelves().into_iter().map(|shelf| shelf.variable).collect()
    }

    /// The bytes of one sample, into memory that is as long.
    pub fn get(&self, variable: &StoredVariable, sample: u64, into: &mut [u8]) -> Result<()> {
        self.get_batch([FieldGather {
            variable,
            samples: &[Some(sample)],
            padding: PaddingRows::Each(0),
            into,
        }])
    }

    /// The bytes of many samples of some variables, straight into the memory of a batch.
    pub fn get_batch<'a>(&self, gathers: impl IntoIterator<Item = FieldGather<'a>>) -> Result<()> {
        self.get_batch_within(gathers, &Wait::at_most(GET_PATIENCE))
    }

    /// The same, where no rank is silent for longer than `wait`.
    pub fn get_batch_within<'a>(
        &self,
        gathers: impl IntoIterator<Item = FieldGather<'a>>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        self.check_alive()?;
        first_error(self.get_batch_of_living(gathers, wait)?)
    }

    /// The same, where ranks that are gone are no error: it gives those whose samples were not read, and why. What lies in
    /// memory of this host is read although its rank is gone.
    pub fn get_batch_of_living<'a>(
        &self,
        gathers: impl IntoIterator<Item = FieldGather<'a>>,
        wait: &Wait<'_>,
    ) -> Result<Vec<(usize, Error)>> {
        let started = Instant::now();
        let (mut traffic, mut reads, mut most) = (Traffic::default(), RemoteReads::default(), 0);
        for field in gathers {
            most = most.max(field.samples.len());
            reads.gather(field, self.comm.rank(), &mut traffic)?;
        }
        let failed = reads.read(wait, &mut traffic);
        self.counters.add(&traffic);
        let latency = if most == 1 { &self.counters.gets } else { &self.counters.batches };
        latency.record(started.elapsed());
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

    /// What was read so far from this store and `others`, which hold other samples of the same variables: sums, the largest width,
    /// each transport once, and all ranks that are gone.
    pub fn stats_with<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> StoreStats {
        let (gets, batches) = (Histogram::new(), Histogram::new());
        let mut all = self.stats();
        let mut transports = vec![all.transport.clone()];
        gets.merge(&self.counters.gets);
        batches.merge(&self.counters.batches);
        for other in others {
            gets.merge(&other.counters.gets);
            batches.merge(&other.counters.batches);
            let stats = other.stats();
            transports.push(stats.transport.clone());
            all.add(stats);
        }
        let transport = each_once(transports);
        StoreStats { transport, get_latency: gets.summary(), batch_latency: batches.summary(), ..all }
    }

    /// Gives all memory back. Collective; a store that is dropped without it leaves nothing once its processes end.
    pub fn close(&self, wait: &Wait<'_>) -> Result<()> {
        if self.is_closed.swap(true, SeqCst) {
            return Ok(());
        }
        let shelves = std::mem::take(&mut *self.variables.write().unwrap_or_else(PoisonError::into_inner));
        windows_of(shelves).iter().try_for_each(|window| window.close(wait))
    }

    fn allocate(&self, variables: Vec<NewVariable>, wait: &Wait<'_>) -> Result<Filling> {
        let shelves = self.shelves();
        let known = shelves.iter().map(|shelf| shelf.variable.name());
        check_names(known.chain(variables.iter().map(|new| new.spec.name.as_str())))?;
        self.take_memory(variables, wait)
    }

    /// Takes the memory of variables whose names are in order. Collective.
    pub(crate) fn take_memory(&self, variables: Vec<NewVariable>, wait: &Wait<'_>) -> Result<Filling> {
        let allowed = self.options.limit.map(|limit| limit.saturating_sub(self.shard_bytes.load(SeqCst)));
        // What others of this process have taken, another store among them, is not there a second time.
        let left = match self.options.place {
            ShardPlace::Memory => Some(allowed.unwrap_or(u64::MAX).min(free_for_shards())),
            ShardPlace::Disk(_) => allowed,
        };
        let members = self.groups.members(self.groups.group_of(self.comm.rank()));
        allocate(&self.comm, variables, &ShardRoom { members, place: &self.options.place, left }, wait)
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

/// What shards may take of this process's memory: the loaders that fill and read the store need some.
fn free_for_shards() -> u64 {
    let free = ledger().free();
    free - free / 8
}

/// The windows of variables: those that were begun together have one.
fn windows_of(shelves: Vec<Shelf>) -> Vec<Arc<dyn Window>> {
    let mut windows: Vec<_> = shelves.into_iter().map(|shelf| Arc::clone(&shelf.variable.window)).collect();
    windows.dedup_by(|one, other| Arc::ptr_eq(one, other));
    windows
}

/// The error of the first rank that failed.
fn first_error(failed: Vec<(usize, Error)>) -> Result<()> {
    failed.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}
