//! The ranks of one communicator: collective calls that end in time, and who is gone.

use std::{
    ops::Range,
    sync::{
        Mutex, OnceLock, TryLockError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
};

use forebay_source::{Error, ErrorKind, Result};
use forebay_store::{CommThreads, NodeLink, Wait, gone};

use crate::{
    abi::MpiHandle,
    ffi::LoadedMpi,
    lifetime::{self, RankWatch},
    pending::PendingCall,
    polling::Polling,
    stall::{TO_START, watched},
};

/// A communicator of our own, and what its windows share with it.
pub(crate) struct Ranks {
    pub(crate) mpi: &'static LoadedMpi,
    pub(crate) comm: MpiHandle,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) threads: CommThreads,
    maker: ThreadId,
    /// Held during collective calls: those of two threads would be taken for each other.
    collective: Mutex<()>,
    /// Why collective calls work no more.
    broken: OnceLock<String>,
    /// The ranks of this host.
    link: OnceLock<NodeLink>,
    /// A rank that has not answered a get yet, though somebody waited long enough for it: its number and one.
    silent: AtomicUsize,
    /// Windows through which other hosts read from this rank.
    pub(crate) open_windows: AtomicUsize,
}

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
        let mut made = watched("Comm_idup", TO_START, |_| PendingCall::duplicate(mpi, parent))?;
        let mut polling = Polling::for_ranks();
        while !made.poll()? {
            if polling.rest() {
                wait.go_on(|| "not all ranks of the communicator came to duplicate it".to_owned())?;
            }
        }
        let comm = made.made().unwrap_or(mpi.constants.comm_null);
        mpi.return_errors(comm)?;
        Ok(Self {
            mpi,
            comm,
            rank: mpi.rank(comm)?,
            size: mpi.size(comm)?,
            threads: if level >= levels[3] { CommThreads::Any } else { CommThreads::Caller },
            maker: thread::current().id(),
            collective: Mutex::new(()),
            broken: OnceLock::new(),
            link: OnceLock::new(),
            silent: AtomicUsize::new(0),
            open_windows: AtomicUsize::new(0),
        })
    }

    /// Knows from now on which ranks of this host live.
    pub(crate) fn watch(&self, link: NodeLink) {
        // It is set once, when the communicator is made.
        let _ = self.link.set(link);
    }

    /// The ranks of this host, where they share memory.
    pub(crate) fn link(&self) -> Option<&NodeLink> {
        self.link.get()
    }

    /// The first of `ranks` that is known to run no more.
    pub(crate) fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        let rank = self.link.get()?.first_gone(ranks)?;
        // It is known beyond the life of this communicator, since MPI cannot be finalised any more.
        lifetime::lose_rank(gone(rank).to_string());
        Some(rank)
    }

    /// Remembers a rank that does not answer gets: MPI might try without end to send it more.
    pub(crate) fn set_silent(&self, rank: usize) {
        self.silent.store(rank + 1, SeqCst);
    }

    /// `rank` has answered what it was asked.
    pub(crate) fn set_heard(&self, rank: usize) {
        // Another one may be silent since.
        let _ = self.silent.compare_exchange(rank + 1, 0, SeqCst, SeqCst);
    }

    /// Whether this thread may call MPI.
    pub(crate) fn may_call(&self) -> bool {
        self.threads == CommThreads::Any || thread::current().id() == self.maker
    }

    /// An error where MPI cannot be called: it is over, or this is the wrong thread.
    pub(crate) fn check_callable(&self) -> Result<()> {
        lifetime::check_not_over()?;
        if self.may_call() {
            return Ok(());
        }
        let what =
            "MPI gave less than MPI_THREAD_MULTIPLE, and this is not the thread that made the communicator";
        Err(Error::invalid(what)
            .hint("call from that thread, or have MPI initialised by MPI_Init_thread(MPI_THREAD_MULTIPLE)"))
    }

    /// Returns when every rank has called it.
    pub(crate) fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.collectively(|| {
            let call = watched("Ibarrier", TO_START, |_| PendingCall::barrier(self.mpi, self.comm))?;
            self.complete(call, "a barrier", wait).map(drop)
        })
    }

    /// The bytes of `root`.
    pub(crate) fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        if root >= self.size {
            return Err(Error::invalid(format!("rank {root} of {}", self.size)));
        }
        self.collectively(|| {
            let len = self.send(root, (bytes.len() as u64).to_le_bytes().to_vec(), wait)?;
            let len = length(&len)?;
            if len <= MESSAGE_LEN {
                return self.send(root, if root == self.rank { bytes } else { vec![0; len] }, wait);
            }
            let mut whole = Vec::new();
            for start in (0..len).step_by(MESSAGE_LEN) {
                let part = start..len.min(start + MESSAGE_LEN);
                let part = if root == self.rank { bytes[part].to_vec() } else { vec![0; part.len()] };
                whole.extend(self.send(root, part, wait)?);
            }
            Ok(whole)
        })
    }

    /// The bytes of every rank.
    pub(crate) fn all_gather(&self, mine: &[u8], wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        self.collectively(|| {
            let own_len = (mine.len() as u64).to_le_bytes().to_vec();
            let lens = self.gather(own_len, &vec![8; self.size], wait)?;
            let lens: Vec<usize> = lens.chunks(8).map(length).collect::<Result<_>>()?;
            let mut whole: Vec<Vec<u8>> = lens.iter().map(|_| Vec::new()).collect();
            for parts in rounds(&lens, (MESSAGE_LEN / self.size).max(1)) {
                let part_lens: Vec<usize> = parts.iter().map(Range::len).collect();
                let received = self.gather(mine[parts[self.rank].clone()].to_vec(), &part_lens, wait)?;
                let mut rest = &received[..];
                for (whole, len) in whole.iter_mut().zip(part_lens) {
                    let (part, others) = rest.split_at(len);
                    whole.extend(part);
                    rest = others;
                }
            }
            Ok(whole)
        })
    }

    /// `made` where every rank made it, and an error that names the others where not. Collective.
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

    /// Remembers that collective calls work no more, and why.
    pub(crate) fn break_off(&self, error: &Error) {
        lifetime::lose_rank(error.to_string());
        // The first reason is the one that counts.
        let _ = self.broken.set(error.to_string());
    }

    fn collectively<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_callable()?;
        if let Some(rank) = self.first_gone(0..self.size) {
            return Err(gone(rank));
        }
        if let Some(reason) = self.broken.get() {
            let what = format!("ranks lost each other: {reason}");
            return Err(Error::new(ErrorKind::Unavailable, what).hint("end the job and start it again"));
        }
        if let Some(rank) = self.silent.load(SeqCst).checked_sub(1) {
            let what = format!("rank {rank} has not answered a get");
            return Err(Error::new(ErrorKind::Unavailable, what).hint("see whether that rank still runs"));
        }
        let _alone = match self.collective.try_lock() {
            Ok(alone) => alone,
            // What it guards is no data.
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::invalid("two collective calls of one rank at once"));
            }
        };
        work().inspect_err(|error| self.break_off(error))
    }

    fn send(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let call = watched("Ibcast", TO_START, |_| PendingCall::broadcast(self.mpi, self.comm, root, bytes))?;
        self.complete(call, &format!("a broadcast from rank {root}"), wait)
    }

    fn gather(&self, sent: Vec<u8>, lens: &[usize], wait: &Wait<'_>) -> Result<Vec<u8>> {
        let start = |_: &_| PendingCall::all_gather(self.mpi, self.comm, sent, lens);
        let call = watched("Iallgatherv", TO_START, start)?;
        self.complete(call, "an exchange of all ranks", wait)
    }

    fn complete(&self, mut call: PendingCall, what: &str, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let mut polling = match self.open_windows.load(SeqCst) {
            0 => Polling::for_ranks(),
            _ => Polling::for_ranks_that_read(),
        };
        while !call.poll()? {
            if !polling.rest() {
                continue;
            }
            if let Some(rank) = self.first_gone(0..self.size) {
                return Err(gone(rank));
            }
            wait.go_on(|| format!("not all ranks came to {what}"))?;
        }
        Ok(call.received())
    }
}

impl RankWatch for Ranks {
    fn lost_rank(&self) -> Option<String> {
        let gone = self.first_gone(0..self.size).map(|rank| gone(rank).to_string());
        gone.or_else(|| self.broken.get().cloned()).or_else(|| {
            Some(format!("rank {} has not answered a get", self.silent.load(SeqCst).checked_sub(1)?))
        })
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        match self.lost_rank() {
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
