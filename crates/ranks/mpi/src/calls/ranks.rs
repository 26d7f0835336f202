//! The ranks of one communicator: collective calls that end in time, and who is gone.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
    time::Duration,
};

use forebay_process::{Error, ErrorKind, ProcessIdentity, Result, current_process};
use forebay_store::{CommThreads, Wait, gone};

use crate::{
    calls::{
        lifetime,
        losses::RankLosses,
        pending::PendingCall,
        polling::Polling,
        slabs::GetSlabs,
        stall::{self, CallLimit, CallTarget, RankWatch},
    },
    library::{abi::MpiHandle, ffi::LoadedMpi},
};

/// A communicator of our own, and what its windows share with it.
pub(crate) struct Ranks {
    pub(crate) mpi: &'static LoadedMpi,
    pub(crate) comm: MpiHandle,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) threads: CommThreads,
    maker: ThreadId,
    process: ProcessIdentity,
    /// Held during collective calls: those of two threads would be taken for each other.
    collective: Mutex<()>,
    pub(crate) losses: Arc<RankLosses>,
    pub(crate) slabs: GetSlabs,
    /// Windows through which other hosts read from this rank.
    pub(crate) open_windows: AtomicUsize,
}

/// The collective calls of one thread, one after the other, between which no other thread's come.
pub(crate) struct CollectiveCalls<'a> {
    ranks: &'a Ranks,
    _alone: MutexGuard<'a, ()>,
}

/// How long a collective call waits for answers to gets that were given up.
const SILENCE_AT_MOST: Duration = Duration::from_secs(120);
/// The longest message of one call of MPI, which counts to 2^31.
const MESSAGE_LEN: usize = 1 << 30;

impl Ranks {
    /// The ranks of `parent`, with messages of their own. Collective.
    pub(crate) fn of(mpi: &'static LoadedMpi, parent: MpiHandle, wait: &Wait<'_>) -> Result<Self> {
        let level = mpi.thread_level()?;
        let levels = mpi.constants.thread_levels;
        if level < levels[2] && !mpi.is_thread_main()? {
            let what = "MPI was initialised for calls from one thread, and this is another";
            return Err(Error::invalid(what)
                .hint("make the store on the thread that initialised MPI, or use MPI_THREAD_MULTIPLE"));
        }
        if parent == mpi.constants.comm_null || mpi.is_inter(parent)? {
            return Err(Error::invalid("this is not a communicator of one group of ranks"));
        }
        let mut made = stall::watched("Comm_idup", CallLimit::TwoMinutes, None, |_| {
            PendingCall::duplicate(mpi, parent)
        })?;
        let mut polling = Polling::for_ranks();
        while !made.poll()? {
            if polling.rest() {
                wait.go_on(|| "not all ranks of the communicator came to duplicate it".to_owned())?;
            }
        }
        let comm = made.made().unwrap_or(mpi.constants.comm_null);
        mpi.return_errors(comm)?;
        let size = mpi.size(comm)?;
        let losses = Arc::new(RankLosses::new(size));
        let watch: Arc<dyn RankWatch> = Arc::<RankLosses>::clone(&losses);
        lifetime::add_watch(Arc::downgrade(&watch));
        Ok(Self {
            mpi,
            comm,
            rank: mpi.rank(comm)?,
            size,
            threads: if level >= levels[3] { CommThreads::Any } else { CommThreads::Caller },
            maker: thread::current().id(),
            process: current_process(),
            collective: Mutex::new(()),
            losses,
            slabs: GetSlabs::default(),
            open_windows: AtomicUsize::new(0),
        })
    }

    /// Whether this thread may call MPI.
    pub(crate) fn may_call(&self) -> bool {
        self.threads == CommThreads::Any || thread::current().id() == self.maker
    }

    /// An error where MPI cannot be called: it is over, or this is the wrong process or thread.
    pub(crate) fn check_callable(&self) -> Result<()> {
        lifetime::check_callable()?;
        if self.may_call() {
            return Ok(());
        }
        let what =
            "MPI gave less than MPI_THREAD_MULTIPLE, and this is not the thread that made the communicator";
        Err(Error::invalid(what)
            .hint("call from that thread, or have MPI initialised by MPI_Init_thread(MPI_THREAD_MULTIPLE)"))
    }

    /// What `work` gives, a call of MPI: if it does not return, the process ends.
    pub(crate) fn watched<T>(&self, name: &'static str, work: impl FnOnce(&CallTarget) -> T) -> T {
        let watch: Arc<dyn RankWatch> = Arc::<RankLosses>::clone(&self.losses);
        stall::watched(name, CallLimit::TwoMinutes, Some(watch), work)
    }

    /// Begins collective calls; an error where another thread has, or ranks are lost. Waits for answers to earlier gets: MPI might
    /// try without end to send more to a rank that does not answer.
    pub(crate) fn collectively(&self, wait: &Wait<'_>) -> Result<CollectiveCalls<'_>> {
        self.check_callable()?;
        self.losses.check_all()?;
        let alone = match self.collective.try_lock() {
            Ok(alone) => alone,
            // What it guards is no data.
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::invalid("two collective calls of one rank at once"));
            }
        };
        // The other ranks go on without this one.
        self.await_late(wait).inspect_err(|error| self.losses.break_off(error))?;
        Ok(CollectiveCalls { ranks: self, _alone: alone })
    }

    /// Waits until every get that was given up has ended.
    pub(crate) fn await_late(&self, wait: &Wait<'_>) -> Result<()> {
        // Nobody can know whether such a rank still runs: it is not waited for without end.
        let wait = wait.shortened(SILENCE_AT_MOST);
        let mut polling = Polling::for_ranks_that_read();
        while let Some(silent) = self.slabs.silent_ranks(self.mpi).first() {
            if polling.rest() {
                if let Some(rank) = self.losses.first_gone(0..self.size) {
                    return Err(gone(rank));
                }
                wait.go_on(|| format!("rank {silent} has not answered a get"))?;
            }
        }
        Ok(())
    }
}

impl CollectiveCalls<'_> {
    /// Returns when every rank has called it.
    pub(crate) fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        let start = |_: &_| PendingCall::barrier(self.ranks.mpi, self.ranks.comm);
        let call = self.ranks.watched("Ibarrier", start);
        self.in_step(call.and_then(|call| self.complete(call, "a barrier", wait))).map(drop)
    }

    /// The bytes of `root`.
    pub(crate) fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        if root >= self.ranks.size {
            return Err(Error::invalid(format!("rank {root} of {}", self.ranks.size)));
        }
        let is_root = root == self.ranks.rank;
        let len = self.send(root, (bytes.len() as u64).to_le_bytes().to_vec(), wait)?;
        let len = self.in_step(length(&len))?;
        if len <= MESSAGE_LEN {
            return self.send(root, if is_root { bytes } else { vec![0; len] }, wait);
        }
        let mut whole = Vec::new();
        for start in (0..len).step_by(MESSAGE_LEN) {
            let part = start..len.min(start + MESSAGE_LEN);
            let part = if is_root { bytes[part].to_vec() } else { vec![0; part.len()] };
            whole.extend(self.send(root, part, wait)?);
        }
        Ok(whole)
    }

    /// The bytes of every rank.
    pub(crate) fn all_gather(&self, mine: &[u8], wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        let (rank, size) = (self.ranks.rank, self.ranks.size);
        let own_len = (mine.len() as u64).to_le_bytes().to_vec();
        let lens = self.gather(own_len, &vec![8; size], wait)?;
        let lens: Vec<usize> = self.in_step(lens.chunks(8).map(length).collect::<Result<_>>())?;
        let mut whole: Vec<Vec<u8>> = lens.iter().map(|_| Vec::new()).collect();
        for parts in rounds(&lens, (MESSAGE_LEN / size).max(1)) {
            let part_lens: Vec<usize> = parts.iter().map(Range::len).collect();
            let received = self.gather(mine[parts[rank].clone()].to_vec(), &part_lens, wait)?;
            let mut rest = &received[..];
            for (whole, len) in whole.iter_mut().zip(part_lens) {
                let (part, others) = rest.split_at(len);
                whole.extend(part);
                rest = others;
            }
        }
        Ok(whole)
    }

    /// `made` where every rank made it, and an error that names the others where not.
    pub(crate) fn agree<T>(&self, made: Result<T>, wait: &Wait<'_>) -> Result<T> {
        let text = made.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let all = self.all_gather(text.as_bytes(), wait)?;
        let value = made?;
        match all.iter().position(|text| !text.is_empty()) {
            None => Ok(value),
            Some(rank) => {
                let what = format!("rank {rank}: {}", String::from_utf8_lossy(&all[rank]));
                Err(Error::new(ErrorKind::Unavailable, what))
            }
        }
    }

    /// Remembers that collective calls work no more where one of them failed: the others may have gone on.
    pub(crate) fn in_step<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| self.ranks.losses.break_off(error))
    }

    fn send(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let start = |_: &_| PendingCall::broadcast(self.ranks.mpi, self.ranks.comm, root, bytes);
        let call = self.ranks.watched("Ibcast", start);
        self.in_step(
            call.and_then(|call| self.complete(call, &format!("a broadcast from rank {root}"), wait)),
        )
    }

    fn gather(&self, sent: Vec<u8>, lens: &[usize], wait: &Wait<'_>) -> Result<Vec<u8>> {
        let start = |_: &_| PendingCall::all_gather(self.ranks.mpi, self.ranks.comm, sent, lens);
        let call = self.ranks.watched("Iallgatherv", start);
        self.in_step(call.and_then(|call| self.complete(call, "an exchange of all ranks", wait)))
    }

    fn complete(&self, mut call: PendingCall, what: &str, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let mut polling = match self.ranks.open_windows.load(SeqCst) {
            0 => Polling::for_ranks(),
            _ => Polling::for_ranks_that_read(),
        };
        while !call.poll()? {
            if !polling.rest() {
                continue;
            }
            if let Some(rank) = self.ranks.losses.first_gone(0..self.ranks.size) {
                return Err(gone(rank));
            }
            wait.go_on(|| format!("not all ranks came to {what}"))?;
        }
        Ok(call.received())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // A forked child has a copy of it, and nothing of MPI.
        if current_process() != self.process {
            return;
        }
        match self.losses.lost_rank() {
            None => lifetime::free_comm(self.mpi, self.comm, self.may_call()),
            Some(reason) => lifetime::lose_rank(reason),
        }
    }
}

fn length(bytes: &[u8]) -> Result<usize> {
    let bytes = bytes.try_into().map_err(|_| Error::new(ErrorKind::Bug, "a length of another width"))?;
    let len = u64::from_le_bytes(bytes);
    usize::try_from(len).map_err(|_| Error::new(ErrorKind::Full, format!("a message of {len} bytes")))
}

/// Parts of messages that long, at most `part_len` bytes of each at once.
fn rounds(lens: &[usize], part_len: usize) -> impl Iterator<Item = Vec<Range<usize>>> {
    let longest = lens.iter().copied().max().unwrap_or(0);
    (0..longest)
        .step_by(part_len)
        .map(move |start| lens.iter().map(|len| start.min(*len)..(start + part_len).min(*len)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_an_exchange_cover_every_message_once() {
        let lens = [0, 7, 3, 10];
        let rounds: Vec<_> = rounds(&lens, 4).collect();
        assert_eq!(rounds.len(), 3);
        for (rank, len) in lens.iter().enumerate() {
            let covered: Vec<usize> = rounds.iter().flat_map(|parts| parts[rank].clone()).collect();
            assert_eq!(covered, (0..*len).collect::<Vec<_>>());
        }
        assert_eq!(super::rounds(&[0, 0], 4).count(), 0);
    }
}
