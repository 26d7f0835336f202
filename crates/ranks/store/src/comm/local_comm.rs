//! Ranks that are threads of one process: all logic of a store is tested with them, without a launcher.

use std::{
    ops::Range,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use forebay_process::{Error, Result};

use crate::{
    comm::{Comm, CommThreads, Window, WindowRead, gone},
    store::shard_memory::ShardMemory,
    wait::Wait,
};

/// One rank of a communicator whose ranks are threads.
///
/// Hosts are made up: ranks of different ones read each other's shards through [`Window::get`], as those of a cluster do.
#[derive(Debug)]
pub struct LocalComm {
    rank: usize,
    world: Arc<World>,
}

#[derive(Debug)]
struct World {
    hosts: Vec<usize>,
    gone: Vec<AtomicBool>,
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

/// A collective call: ranks come, and the last one lets all go.
#[derive(Debug)]
struct Meeting {
    number: u64,
    brought: Vec<Option<Offer>>,
    given: Arc<Vec<Offer>>,
    /// Why a rank gave up: what it missed is not made up for.
    broken: Option<Error>,
}

#[derive(Clone, Debug)]
enum Offer {
    Bytes(Vec<u8>),
    Shard(Arc<ShardMemory>),
}

impl LocalComm {
    /// One rank per entry of `hosts`, which says the host of each.
    pub fn on_hosts(hosts: &[usize]) -> Vec<Self> {
        let brought = vec![None; hosts.len()];
        let meeting = Meeting { number: 0, brought, given: Arc::default(), broken: None };
        let world = Arc::new(World {
            hosts: hosts.to_vec(),
            gone: hosts.iter().map(|_| AtomicBool::new(false)).collect(),
            meeting: Mutex::new(meeting),
            changed: Condvar::new(),
        });
        (0..hosts.len()).map(|rank| Self { rank, world: Arc::clone(&world) }).collect()
    }

    /// What `work` gives on every rank, each on a thread of its own.
    ///
    /// # Panics
    ///
    /// When `work` does: it is gone for the other ranks from then on.
    pub fn run<T: Send>(hosts: &[usize], work: impl Fn(Arc<dyn Comm>) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let work = &work;
            let ranks: Vec<_> = Self::on_hosts(hosts)
                .into_iter()
                .map(|comm| {
                    scope.spawn(move || {
                        let leaving = LeavesOnPanic { rank: comm.rank, world: Arc::clone(&comm.world) };
                        let given = work(Arc::new(comm));
                        drop(leaving);
                        given
                    })
                })
                .collect();
            ranks
                .into_iter()
                .map(|rank| rank.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    /// Is gone from now on, as a process that was killed.
    pub fn leave(&self) {
        self.world.leave(self.rank);
    }

    fn meet(&self, offer: Offer, wait: &Wait<'_>) -> Result<Arc<Vec<Offer>>> {
        let mut meeting = self.world.lock();
        let number = meeting.number;
        if meeting.brought[self.rank].is_some() {
            return Err(Error::invalid("two collective calls of one rank at once"));
        }
        self.check_whole(&meeting)?;
        meeting.brought[self.rank] = Some(offer);
        if meeting.brought.iter().all(Option::is_some) {
            meeting.given = Arc::new(meeting.brought.iter_mut().filter_map(Option::take).collect());
            meeting.number += 1;
            self.world.changed.notify_all();
        }
        while meeting.number == number {
            let waited = self.check_whole(&meeting).and_then(|()| {
                wait.go_on(|| {
                    let missing: Vec<_> =
                        (0..self.size()).filter(|rank| meeting.brought[*rank].is_none()).collect();
                    format!("ranks {missing:?} did not come to a collective call")
                })
            });
            if let Err(error) = waited {
                meeting.brought[self.rank] = None;
                meeting.broken.get_or_insert_with(|| error.clone());
                self.world.changed.notify_all();
                return Err(error);
            }
            let woken = self.world.changed.wait_timeout(meeting, wait.step());
            meeting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(Arc::clone(&meeting.given))
    }

    /// An error where a rank is gone, or has given up.
    fn check_whole(&self, meeting: &Meeting) -> Result<()> {
        match self.first_gone(0..self.size()) {
            Some(rank) => Err(gone(rank)),
            None => meeting.broken.clone().map_or(Ok(()), Err),
        }
    }
}

struct LeavesOnPanic {
    rank: usize,
    world: Arc<World>,
}

impl Drop for LeavesOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.world.leave(self.rank);
        }
    }
}

impl World {
    fn leave(&self, rank: usize) {
        self.gone[rank].store(true, SeqCst);
        // Under the lock: a rank that just looked and does not wait yet would miss it.
        let meeting = self.lock();
        self.changed.notify_all();
        drop(meeting);
    }

    fn lock(&self) -> MutexGuard<'_, Meeting> {
        // A panic elsewhere leaves a meeting as it is: whole offers, or none.
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Comm for LocalComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.hosts.len()
    }

    fn host_of(&self, rank: usize) -> usize {
        self.world.hosts[rank]
    }

    fn threads(&self) -> CommThreads {
        CommThreads::Any
    }

    fn first_gone(&self, mut ranks: Range<usize>) -> Option<usize> {
        ranks.find(|rank| self.world.gone[*rank].load(SeqCst))
    }

    fn transport(&self) -> String {
        "threads of one process".to_owned()
    }

    fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.meet(Offer::Bytes(Vec::new()), wait).map(drop)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let mine = if root == self.rank { bytes } else { Vec::new() };
        Ok(self.all_gather(mine, wait)?.swap_remove(root))
    }

    fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        let offers = self.meet(Offer::Bytes(mine), wait)?;
        let bytes = |offer: &Offer| match offer {
            Offer::Bytes(bytes) => Ok(bytes.clone()),
            Offer::Shard(_) => Err(mixed()),
        };
        offers.iter().map(bytes).collect()
    }

    fn window(&self, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Arc<dyn Window>> {
        let offers = self.meet(Offer::Shard(mine), wait)?;
        let shard = |offer: &Offer| match offer {
            Offer::Shard(shard) => Ok(Arc::clone(shard)),
            Offer::Bytes(_) => Err(mixed()),
        };
        let shards = offers.iter().map(shard).collect::<Result<_>>()?;
        let comm = Self { rank: self.rank, world: Arc::clone(&self.world) };
        Ok(Arc::new(LocalWindow { comm, shards }))
    }
}

fn mixed() -> Error {
    Error::invalid("ranks made different collective calls")
}

#[derive(Debug)]
struct LocalWindow {
    comm: LocalComm,
    shards: Vec<Arc<ShardMemory>>,
}

impl Window for LocalWindow {
    fn publish(&self, wait: &Wait<'_>) -> Result<()> {
        self.comm.barrier(wait)
    }

    fn shared(&self, rank: usize) -> Option<&ShardMemory> {
        (self.comm.host_of(rank) == self.comm.host_of(self.comm.rank)).then(|| &*self.shards[rank])
    }

    fn get(&self, reads: &mut [WindowRead<'_>], _: &Wait<'_>) {
        for read in reads {
            read.outcome = match self.comm.first_gone(read.rank..read.rank + 1) {
                Some(rank) => Err(gone(rank)),
                None => {
                    let shard = &self.shards[read.rank];
                    read.pieces.iter_mut().try_for_each(|piece| shard.copy_to(piece.offset, piece.into))
                }
            };
        }
    }

    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        self.comm.barrier(wait)
    }
}
