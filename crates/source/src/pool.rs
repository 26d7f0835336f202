//! One descriptor per file and no more than a budget of them, closed and reopened behind the readers' backs.

use std::{
    collections::HashMap,
    fs::File,
    mem,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, Resource, getpid, getrlimit},
};

use crate::{
    Error, ErrorKind, Result,
    stamp::{Stamp, changed},
};

/// Enough to keep a data set of many files open; more only lengthens the process's descriptor table.
const MOST_DESCRIPTORS: u64 = 1024;

/// Half of what the process may open, so that the program around us keeps the other half.
pub(crate) fn default_budget() -> usize {
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(MOST_DESCRIPTORS);
    usize::try_from((allowed / 2).min(MOST_DESCRIPTORS)).unwrap_or(1)
}

/// A file that is open, or was and will be again.
#[derive(Debug)]
pub(crate) struct Pooled {
    path: PathBuf,
    stamp: Stamp,
    descriptor: ArcSwapOption<Descriptor>,
    /// Read since the clock hand last passed.
    used: AtomicBool,
}

#[derive(Debug)]
struct Descriptor {
    process: Pid,
    file: File,
}

impl Pooled {
    /// What the file was when it was first opened.
    pub(crate) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Opens the file anew and makes sure that it is still the same one.
    fn reopen(&self, pool: &Pool) -> Result<File> {
        let gone = |error: Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::Invalid => {
                changed("replaced since it was opened").because(error)
            }
            _ => error,
        };
        let (file, stamp) = pool.open_regular(&self.path).map_err(gone)?;
        if stamp == self.stamp { Ok(file) } else { Err(changed("changed since it was opened")) }
    }

    fn mark_used(&self) {
        // Readers of one file would otherwise take its cache line from each other on every call.
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }
}

/// The pool of whichever process asks.
///
/// A forked child finds the parent's pool as some thread of the parent left it, perhaps locked for ever. It
/// never touches it: pools and descriptors carry the process that made them, and the child makes its own.
#[derive(Debug)]
pub(crate) struct Pools {
    budget: usize,
    current: ArcSwap<Pool>,
}

impl Pools {
    /// Pools that keep at most `budget` descriptors open, besides those in use at this moment.
    pub(crate) fn new(budget: usize) -> Self {
        let budget = budget.max(1);
        Self { budget, current: ArcSwap::from_pointee(Pool::new(getpid(), budget)) }
    }

    /// The file at `path`, which shares its descriptor with whoever has it open unchanged.
    pub(crate) fn open(&self, path: PathBuf) -> Result<Arc<Pooled>> {
        // Looking before opening: opening a device may do things, such as rewinding a tape.
        let stamp = Stamp::at(&path)?;
        let pool = self.of(getpid());
        if let Some(known) = pool.lock().known(&path, &stamp) {
            return Ok(known);
        }
        let (file, stamp) = pool.open_regular(&path)?;
        let descriptor = ArcSwapOption::empty();
        let fresh = Arc::new(Pooled { path, stamp, descriptor, used: AtomicBool::new(true) });
        let pooled = pool.lock().remember(fresh);
        pool.admit(&pooled, file);
        Ok(pooled)
    }

    /// Runs `reads` on the open file, then makes sure that the file did not change meanwhile.
    pub(crate) fn read<T>(&self, pooled: &Arc<Pooled>, reads: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let process = getpid();
        let lent = pooled.descriptor.load();
        let reopened;
        let file = match &*lent {
            Some(descriptor) if descriptor.process == process => &descriptor.file,
            _ => {
                let pool = self.of(process);
                reopened = pool.admit(pooled, pooled.reopen(&pool)?);
                &reopened.file
            }
        };
        pooled.mark_used();
        let read = reads(file)?;
        pooled.stamp.verify(file)?;
        Ok(read)
    }

    fn of(&self, process: Pid) -> Arc<Pool> {
        let seen = self.current.load_full();
        if seen.process == process {
            return seen;
        }
        // Forked. The parent's pool may be half-changed, so even dropping it would be wrong: it is leaked.
        mem::forget(Arc::clone(&seen));
        self.current.compare_and_swap(&seen, Arc::new(Pool::new(process, self.budget)));
        self.current.load_full()
    }
}

/// The descriptors of one process.
#[derive(Debug)]
struct Pool {
    process: Pid,
    budget: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Files with a descriptor, in a circle.
    open: Vec<Weak<Pooled>>,
    /// Next in `open` to be looked at for closing.
    hand: usize,
    by_path: HashMap<PathBuf, Weak<Pooled>>,
    /// Length of `by_path` at which files that nobody holds are removed.
    sweep_at: usize,
}

impl Pool {
    fn new(process: Pid, budget: usize) -> Self {
        Self { process, budget, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of the state is whole or absent, whoever panicked elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a regular file and tells its state, without waiting for a writer if it is a pipe by now.
    fn open_regular(&self, path: &Path) -> Result<(File, Stamp)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = loop {
            match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(descriptor) => break File::from(descriptor),
                Err(Errno::INTR) => {}
                Err(errno @ (Errno::MFILE | Errno::NFILE)) => {
                    // The program around us took more than its half: give back what is not in use.
                    let closed = self.lock().close_one();
                    if closed.is_none() {
                        let error = Error::new(ErrorKind::Full, errno.to_string()).because(errno);
                        return Err(error.hint("raise the limit of open files (ulimit -n)"));
                    }
                }
                Err(errno) => return Err(Error::from_io(errno.into())),
            }
        };
        let stamp = Stamp::of(&file)?;
        Ok((file, stamp))
    }

    /// Gives `pooled` its descriptor, unless another thread just did, and closes what that pushes out.
    fn admit(&self, pooled: &Arc<Pooled>, file: File) -> Arc<Descriptor> {
        let mut state = self.lock();
        let there = pooled.descriptor.load_full();
        if let Some(there) = there.filter(|there| there.process == self.process) {
            return there;
        }
        let closed = (state.open.len() >= self.budget).then(|| state.close_one());
        let fresh = Arc::new(Descriptor { process: self.process, file });
        let inherited = pooled.descriptor.swap(Some(Arc::clone(&fresh)));
        state.open.push(Arc::downgrade(pooled));
        // Closing may take long on a network file system: not while others wait for the lock.
        drop(state);
        drop((closed, inherited));
        fresh
    }
}

impl State {
    fn known(&self, path: &Path, stamp: &Stamp) -> Option<Arc<Pooled>> {
        self.by_path.get(path)?.upgrade().filter(|known| known.stamp == *stamp)
    }

    /// The file as it is known by its path: `fresh`, or what another thread was quicker to open.
    fn remember(&mut self, fresh: Arc<Pooled>) -> Arc<Pooled> {
        if let Some(known) = self.known(&fresh.path, &fresh.stamp) {
            return known;
        }
        if self.by_path.len() >= self.sweep_at {
            self.by_path.retain(|_, known| known.strong_count() > 0);
            self.sweep_at = (2 * self.by_path.len()).max(64);
        }
        self.by_path.insert(fresh.path.clone(), Arc::downgrade(&fresh));
        fresh
    }

    /// Frees one place by second chance: the first file not read since the hand last passed.
    ///
    /// A file that nobody holds any more has closed its descriptor already and only leaves its place.
    fn close_one(&mut self) -> Option<Closed> {
        // Readers may mark files used as fast as the hand clears them: one round, then any will do.
        let mut chances = self.open.len();
        loop {
            if self.hand >= self.open.len() {
                self.hand = 0;
            }
            let pooled = self.open.get(self.hand)?.upgrade();
            if let Some(pooled) = &pooled
                && chances > 0
                && pooled.used.swap(false, Relaxed)
            {
                chances -= 1;
                self.hand += 1;
                continue;
            }
            self.open.swap_remove(self.hand);
            let descriptor = pooled.as_ref().and_then(|pooled| pooled.descriptor.swap(None));
            return Some(Closed { _descriptor: descriptor, _file: pooled });
        }
    }
}

/// What is closed once this is dropped and its last reader is done.
#[derive(Debug)]
struct Closed {
    _descriptor: Option<Arc<Descriptor>>,
    _file: Option<Arc<Pooled>>,
}
