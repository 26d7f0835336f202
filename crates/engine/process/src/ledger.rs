//! Who in this process has taken how much of its memory, and how many threads it may use.
//!
//! ```text
//! budget of the node ─► / ranks ─► share of a process ─┬─► grants: tiers, look-ahead, loaders and sets with a size of their own
//!                                                      ├─► grants: loaders and sets without one, in equal parts
//!                                                      └─► one more part, left free ─► / workers ─► share of a forked worker
//! ```
//!
//! Loaders and sets whose memory the user does not set have equal parts, and one such part stays free; who can use less than
//! that has less. When one comes or goes, the parts of all are made anew and their holders hear of it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::process::{getpid, getppid};
use serde::Serialize;

use crate::{
    PerProcess,
    budget::budget_and_origin,
    current_process,
    process::ProcessIdentity,
    process_tree::{self, ProcessRow, row_of, taken_by_children},
    ranks::{cores_of_rank, ranks_on_node},
};

/// Who can live with more or less memory than it was granted at first.
pub trait Resize: Send + Sync {
    /// Has `bytes` from now on.
    fn resize(&self, bytes: u64);
}

/// The memory and the threads of one process, and who has taken how much.
#[derive(Clone, Debug)]
pub struct Ledger {
    inside: Arc<LedgerState>,
}

#[derive(Debug)]
struct LedgerState {
    /// What this process and its siblings may take: in a forked one, what its parent has not taken itself.
    bytes: u64,
    /// Bytes of them that processes have taken which the same parent forked for something else.
    elsewhere: AtomicU64,
    is_forked: bool,
    /// Workers of one pool, this process among them; 0 where it is none.
    workers: AtomicU64,
    process: ProcessIdentity,
    row: Option<&'static ProcessRow>,
    holders: Mutex<Vec<LedgerEntry>>,
    next: AtomicU64,
}

struct LedgerEntry {
    number: u64,
    what: &'static str,
    /// The least and the most bytes it may have.
    bounds: (u64, u64),
    bytes: Arc<AtomicU64>,
    client: Option<Weak<dyn Resize>>,
}

impl fmt::Debug for LedgerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.what, self.bytes.load(Relaxed))
    }
}

/// Threads of a loader unless the user says how many: more seldom gain, and each needs memory of its own.
const MOST_THREADS: usize = 16;

/// What a forked worker takes without asking: pages of the interpreter that it writes to, its heap, batches on their way to
/// the parent. Four workers of PyTorch over chunks of 16 MiB had 100 to 103 MiB each,
/// of which 73 to 78 MiB were granted.
const UNASKED_BYTES: u64 = 16 << 20;

/// What this process has not taken itself: a forked child finds here what its parent left.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The ledger of this process.
pub fn ledger() -> Ledger {
    static LEDGER: PerProcess<Ledger> = PerProcess::empty();
    LEDGER.with(Ledger::of_process, Ledger::clone)
}

impl Ledger {
    /// A ledger of `bytes`, apart from that of the process.
    pub fn new(bytes: u64) -> Self {
        Self::made(bytes, false, None)
    }

    fn of_process() -> Self {
        let left = LEFT.load(Relaxed);
        let is_forked = left != u64::MAX;
        let bytes = if is_forked { left } else { budget_and_origin().bytes / ranks_on_node() };
        let ledger = Self::made(bytes, is_forked, row_of(getpid(), getppid()));
        ledger.look_around();
        LEFT.store(ledger.share(), Relaxed);
        ledger
    }

    fn made(bytes: u64, is_forked: bool, row: Option<&'static ProcessRow>) -> Self {
        let inside = LedgerState {
            bytes,
            elsewhere: AtomicU64::new(0),
            is_forked,
            workers: AtomicU64::new(0),
            process: current_process(),
            row,
            holders: Mutex::default(),
            next: AtomicU64::new(0),
        };
        Self { inside: Arc::new(inside) }
    }

    /// Says that this process is one of `count` workers, which are called `pool` among those of the same parent.
    pub fn set_workers(&self, count: u64, pool: u64) {
        if let Some(row) = self.inside.row {
            row.join(pool);
        }
        self.look_around();
        self.inside.workers.store(count, Relaxed);
        self.change(|_| {});
    }

    fn look_around(&self) {
        let LedgerState { is_forked, row, elsewhere, .. } = &*self.inside;
        let others = row.filter(|_| *is_forked).map_or(0, ProcessRow::taken_by_others);
        elsewhere.store(others, Relaxed);
    }

    /// Workers of one pool, this process among them; 1 where it is none.
    pub fn workers(&self) -> u64 {
        self.inside.workers.load(Relaxed).max(1)
    }

    /// Bytes that this process may take in all.
    pub fn share(&self) -> u64 {
        let LedgerState { bytes, is_forked, ref workers, ref elsewhere, .. } = *self.inside;
        let bytes = bytes.saturating_sub(elsewhere.load(Relaxed));
        match workers.load(Relaxed) {
            0 => bytes,
            // What the parent of a worker that was not forked has taken is not known here: half is left to it.
            count if !is_forked => bytes / 2 / count,
            count => bytes / count - self.unasked(bytes / count),
        }
    }

    /// Bytes of `part` that this process takes without asking; what a process that was not forked takes so was there before.
    fn unasked(&self, part: u64) -> u64 {
        if self.inside.is_forked { UNASKED_BYTES.min(part / 4) } else { 0 }
    }

    /// Bytes of its share that neither this process nor one it forked has taken.
    pub fn free(&self) -> u64 {
        let taken = taken(&self.lock());
        self.pool().saturating_sub(taken)
    }

    /// True when this process has forked workers that read: they have a copy of whatever it holds at that moment.
    pub fn has_forked(&self) -> bool {
        process_tree::has_forked(getpid())
    }

    /// Threads that a loader of this process ought to use.
    pub fn threads(&self) -> usize {
        let workers = usize::try_from(self.workers()).unwrap_or(usize::MAX);
        (cores_of_rank() / workers).clamp(1, MOST_THREADS)
    }

    /// What one more holder of an equal part would get; more than that, where there is as much, if it works with `enough`
    /// and not with less.
    pub fn offer(&self, enough: u64) -> u64 {
        let holders = self.lock();
        let mut bounds: Vec<_> = holders.iter().map(|holder| holder.bounds).collect();
        let least = bounds.iter().fold(0, |sum, (least, _)| u64::saturating_add(sum, *least));
        bounds.push((0, u64::MAX));
        level(self.pool(), &bounds).max(enough.min(self.pool().saturating_sub(least)))
    }

    /// Grants `bytes`, whatever is left: the user wants it so.
    pub fn take(&self, what: &'static str, bytes: u64) -> Grant {
        self.grant(what, (bytes, bytes))
    }

    /// Grants an equal part, of at least `least` and at most `most` bytes.
    pub fn share_out(&self, what: &'static str, least: u64, most: u64) -> Grant {
        self.grant(what, (least.min(most), most))
    }

    fn grant(&self, what: &'static str, bounds: (u64, u64)) -> Grant {
        let number = self.inside.next.fetch_add(1, Relaxed);
        let bytes = Arc::new(AtomicU64::new(bounds.0));
        let holder = LedgerEntry { number, what, bounds, bytes: Arc::clone(&bytes), client: None };
        self.change(|holders| holders.push(holder));
        Grant { ledger: self.clone(), number, bytes }
    }

    /// What is taken, by whom, and out of what.
    pub fn report(&self) -> LedgerReport {
        let budget = budget_and_origin();
        let holders = self.lock();
        let children_bytes = self.children();
        LedgerReport {
            budget_bytes: budget.bytes,
            budget_by: budget.by,
            ranks: ranks_on_node(),
            workers: self.inside.workers.load(Relaxed),
            share_bytes: self.share(),
            free_bytes: self.share().saturating_sub(children_bytes).saturating_sub(taken(&holders)),
            forked_bytes: children_bytes,
            taken: holders
                .iter()
                .map(|holder| Holding { what: holder.what, bytes: holder.bytes.load(Relaxed) })
                .collect(),
        }
    }

    /// Makes a change, gives all their parts anew, and tells those whose part has changed.
    fn change(&self, make: impl FnOnce(&mut Vec<LedgerEntry>)) {
        let changed = {
            let mut holders = self.lock();
            make(&mut holders);
            let bounds: Vec<_> = holders.iter().map(|holder| holder.bounds).collect();
            let level = level(self.pool(), &bounds);
            let mut changed = Vec::new();
            for LedgerEntry { bounds: (least, most), bytes, client, .. } in holders.iter() {
                let part = level.clamp(*least, *most);
                if bytes.swap(part, Relaxed) != part {
                    changed.extend(client.clone().map(|client| (client, Arc::clone(bytes))));
                }
            }
            let taken = taken(&holders);
            if let Some(row) = self.inside.row {
                row.set(taken.saturating_add(self.unasked(taken)));
                LEFT.store(self.share().saturating_sub(taken), Relaxed);
            }
            changed
        };
        // Without the lock: a client may write to a disk, and may ask for memory itself.
        for (client, bytes) in changed {
            if let Some(client) = client.upgrade() {
                client.resize(bytes.load(Relaxed));
            }
        }
    }

    /// What the holders of this process divide.
    fn pool(&self) -> u64 {
        self.share().saturating_sub(self.children())
    }

    fn children(&self) -> u64 {
        self.inside.row.map_or(0, |_| taken_by_children(getpid()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LedgerEntry>> {
        // Holders come and go whole: a panic elsewhere cannot leave half of one.
        self.inside.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn taken(holders: &[LedgerEntry]) -> u64 {
    holders.iter().fold(0, |sum, holder| sum.saturating_add(holder.bytes.load(Relaxed)))
}

/// The part that each of those within `bounds` gets of `pool`, and that is left besides: each as much as its bounds allow.
fn level(pool: u64, bounds: &[(u64, u64)]) -> u64 {
    let fits = |level: u64| {
        let parts = bounds.iter().map(|(least, most)| level.clamp(*least, *most));
        parts.fold(level, u64::saturating_add) <= pool
    };
    // The largest that fits, between one that does and one that does not.
    let (mut low, mut high) = (0, pool.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// Bytes that an owner has taken; they go back when it is dropped.
#[derive(Debug)]
pub struct Grant {
    ledger: Ledger,
    number: u64,
    bytes: Arc<AtomicU64>,
}

impl Grant {
    /// How many bytes it is now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Lets `client` know when it becomes more or less, and says how much it is now.
    pub fn tell(&self, client: &Weak<dyn Resize>) {
        if let Some(holder) = self.ledger.lock().iter_mut().find(|holder| holder.number == self.number) {
            holder.client = Some(Weak::clone(client));
        }
        if let Some(client) = client.upgrade() {
            client.resize(self.bytes());
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // What a parent has taken is not its child's to give back.
        if self.ledger.inside.process == current_process() {
            self.ledger.change(|holders| holders.retain(|holder| holder.number != self.number));
        }
    }
}

/// What one holder has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// What it is: a loader, a data set, a tier.
    pub what: &'static str,
    /// How many bytes.
    pub bytes: u64,
}

/// What a process may take, and who in it has taken how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LedgerReport {
    /// Bytes for all processes of the job on this node.
    pub budget_bytes: u64,
    /// Who sets or limits them.
    pub budget_by: &'static str,
    /// Ranks that divide them.
    pub ranks: u64,
    /// Workers of a `DataLoader` of which this process is one; 0 where it is none.
    pub workers: u64,
    /// Bytes for this process, and those it forks.
    pub share_bytes: u64,
    /// Bytes of them that nobody has taken.
    pub free_bytes: u64,
    /// Bytes that living processes which this one forked have taken.
    pub forked_bytes: u64,
    /// Who in this process has taken how many.
    pub taken: Vec<Holding>,
}

impl fmt::Display for LedgerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this process may take {} bytes, {} are free", self.share_bytes, self.free_bytes)?;
        for Holding { what, bytes } in &self.taken {
            write!(f, ", a {what} has {bytes}")?;
        }
        if self.forked_bytes > 0 {
            write!(f, ", its workers have {}", self.forked_bytes)?;
        }
        Ok(())
    }
}
