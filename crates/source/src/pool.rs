//! One descriptor per file and no more than a budget of them, closed and reopened behind the readers' backs.

use std::{
    collections::HashMap,
    fs::File,
    os::fd::{AsRawFd, RawFd},
    path::{Path, PathBuf},
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicI32, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwapOption;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, Resource, getrlimit},
};

use crate::{
    ByteRange, Error, ErrorKind, Fill, Result, Trust,
    map::{Copied, Mapped},
    peek::is_open_on,
    place::Place,
    prefetch::{LINE, prefetch_line},
    process::{Owned, PerProcess, current},
    stamp::{Stamp, changed},
};

/// Enough to keep a data set of many files open; more only lengthens the process's descriptor table.
const MOST_DESCRIPTORS: u64 = 1024;

/// Half of what the process may open, so that the program around us keeps the other half.
pub(crate) fn default_budget() -> usize {
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(MOST_DESCRIPTORS);
    usize::try_from((allowed / 2).min(MOST_DESCRIPTORS)).unwrap_or(1)
}

/// A number that no descriptor has.
const CLOSED: RawFd = -1;

/// A file that is open, or was and will be again.
#[derive(Debug)]
pub(crate) struct Pooled {
    path: PathBuf,
    stamp: Stamp,
    place: Place,
    request_bytes: u64,
    descriptor: ArcSwapOption<Descriptor>,
    /// Of the descriptor, as a hint: by the time it is used it may mean another file.
    number: AtomicI32,
    mapped: Mapped,
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

    /// How many bytes one request ought to bring.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// Opens the file anew and makes sure that it is still the same one.
    fn reopen(&self, pool: &Pool) -> Result<File> {
        let (file, stamp) = pool.open_regular(&self.path).map_err(replaced)?;
        if stamp == self.stamp { Ok(file) } else { Err(changed("changed since it was opened")) }
    }

    /// Refuses the file if what lies at its path is no longer the same.
    fn verify_by_path(&self) -> Result<()> {
        let stamp = Stamp::at(&self.path).map_err(replaced)?;
        if stamp == self.stamp { Ok(()) } else { Err(changed("changed since it was opened")) }
    }

    /// Maps the file, or gives its mapping up, if it is time for that; `bytes` of it were just read.
    fn consider(&self, file: &File, bytes: u64) {
        if self.place != Place::Far && self.mapped.is_due(bytes) {
            self.mapped.decide(file);
        }
    }

    /// Asks for the first bytes of `range`, or for what is looked at on the way to any.
    #[inline]
    pub(crate) fn expect(&self, range: ByteRange) {
        if range.is_empty() {
            self.prefetch();
        } else {
            self.mapped.expect(range);
        }
    }

    /// Asks for what is wanted after a copy: with hundreds of files none of it is in the processor's caches.
    #[inline]
    fn prefetch(&self) {
        let first = ptr::from_ref(self).cast::<u8>();
        for offset in (0..size_of::<Self>()).step_by(LINE) {
            prefetch_line(first.wrapping_add(offset));
        }
    }

    fn mark_used(&self) {
        // Readers of one file would otherwise take its cache line from each other on every call.
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }
}

/// The error for a path that led to a file and now does not, for `error`.
fn replaced(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Invalid => changed("replaced since it was opened").because(error),
        _ => error,
    }
}

/// The pool of whichever process asks; descriptors too carry the process that opened them.
#[derive(Debug)]
pub(crate) struct Pools {
    budget: usize,
    pools: PerProcess<Pool>,
}

impl Pools {
    /// Pools that keep at most `budget` descriptors open, besides those in use at this moment.
    pub(crate) fn new(budget: usize) -> Self {
        let budget = budget.max(1);
        Self { budget, pools: PerProcess::new(Pool::new(budget)) }
    }

    /// The file at `path`, which shares its descriptor with whoever has it open unchanged.
    pub(crate) fn open(&self, path: PathBuf) -> Result<Arc<Pooled>> {
        // Looking before opening: opening a device may do things, such as rewinding a tape.
        let stamp = Stamp::at(&path)?;
        let pool = self.of_process();
        if let Some(known) = pool.lock().known(&path, &stamp) {
            return Ok(known);
        }
        let (file, stamp) = pool.open_regular(&path)?;
        let place = pool.place(&stamp, &file);
        let fresh = Arc::new(Pooled {
            path,
            stamp,
            place,
            request_bytes: place.request_bytes(block_bytes(&file, place)),
            descriptor: ArcSwapOption::empty(),
            number: AtomicI32::new(CLOSED),
            mapped: Mapped::new(stamp.len()),
            used: AtomicBool::new(true),
        });
        let pooled = pool.lock().remember(fresh);
        admit(&pool, &pooled, file);
        Ok(pooled)
    }

    /// Runs `reads` on the open file, then makes sure that the file did not change meanwhile.
    pub(crate) fn read<T>(&self, pooled: &Arc<Pooled>, reads: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let lent = pooled.descriptor.load();
        let reopened;
        let file = match &*lent {
            Some(descriptor) if descriptor.process == current() => &descriptor.file,
            _ => {
                let pool = self.of_process();
                reopened = admit(&pool, pooled, pooled.reopen(&pool)?);
                &reopened.file
            }
        };
        pooled.mark_used();
        let read = reads(file)?;
        pooled.stamp.verify(file)?;
        Ok(read)
    }

    /// Fills memory from the file's mapping if it has one, and then it has to be vouched for; else by `reads`, and makes
    /// sure that the file did not change meanwhile.
    pub(crate) fn fill<'f, 'm>(
        &self,
        pooled: &Arc<Pooled>,
        fills: &'f mut [Fill<'m>],
        reads: impl FnOnce(&File, &'f mut [Fill<'m>]) -> Result<()>,
    ) -> Result<Trust> {
        let bytes = fills.iter().map(|fill| fill.range.len()).sum();
        if let Copied::Whole = pooled.mapped.copy(fills) {
            if pooled.mapped.is_due(bytes)
                && let Some(descriptor) = &*pooled.descriptor.load()
                && descriptor.process == current()
            {
                pooled.mapped.decide(&descriptor.file);
            }
            return Ok(Trust::OnceVouched);
        }
        self.read(pooled, |file| {
            reads(file, fills)?;
            pooled.consider(file, bytes);
            Ok(Trust::Full)
        })
    }

    /// Makes sure that the file did not change before what was copied from its mapping was copied.
    pub(crate) fn vouch(&self, pooled: &Arc<Pooled>) -> Result<()> {
        if let Place::NearClearingFirst = pooled.place {
            return self.read(pooled, |file| {
                // Waits until whoever cuts the file is done, so that its length tells.
                let _waited = rustix::io::pread(file, &mut [0; 1], 0);
                Ok(())
            });
        }
        if is_open_on(pooled.number.load(Relaxed), &pooled.stamp) {
            pooled.mark_used();
            return Ok(());
        }
        match &*pooled.descriptor.load() {
            Some(descriptor) if descriptor.process == current() => {
                pooled.mark_used();
                pooled.stamp.verify(&descriptor.file)
            }
            // A mapping needs no descriptor, so none is taken from those who do.
            _ => pooled.verify_by_path(),
        }
    }

    fn of_process(&self) -> Arc<Owned<Pool>> {
        self.pools.get(|| Pool::new(self.budget))
    }
}

/// Gives `pooled` its descriptor, unless another thread just did, and closes what that pushes out.
fn admit(pool: &Owned<Pool>, pooled: &Arc<Pooled>, file: File) -> Arc<Descriptor> {
    let mut state = pool.lock();
    let there = pooled.descriptor.load_full();
    if let Some(there) = there.filter(|there| there.process == pool.process) {
        return there;
    }
    let closed = (state.open.len() >= pool.budget).then(|| state.close_one());
    let fresh = Arc::new(Descriptor { process: pool.process, file });
    pooled.number.store(fresh.file.as_raw_fd(), Relaxed);
    let inherited = pooled.descriptor.swap(Some(Arc::clone(&fresh)));
    state.open.push(Arc::downgrade(pooled));
    // Closing may take long on a network file system: not while others wait for the lock.
    drop(state);
    drop((closed, inherited));
    fresh
}

/// What the file system wishes one request to be; asked only where it matters.
fn block_bytes(file: &File, place: Place) -> u64 {
    match place {
        Place::Near | Place::NearClearingFirst => 0,
        Place::Far => rustix::fs::fstat(file).map_or(0, |stat| u64::try_from(stat.st_blksize).unwrap_or(0)),
    }
}

/// The descriptors of one process.
#[derive(Debug)]
struct Pool {
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
    /// By device: asking may take a request to a server. A device number that comes to mean another file system
    /// while we run costs speed at worst.
    places: HashMap<i128, Place>,
    /// Length of `by_path` at which files that nobody holds are removed.
    sweep_at: usize,
}

impl Pool {
    fn new(budget: usize) -> Self {
        Self { budget, state: Mutex::default() }
    }

    /// Where `file` lies, whose state is `stamp`.
    fn place(&self, stamp: &Stamp, file: &File) -> Place {
        let known = self.lock().places.get(&stamp.device()).copied();
        known.unwrap_or_else(|| {
            let place = Place::of(file);
            self.lock().places.insert(stamp.device(), place);
            place
        })
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
            let descriptor = pooled.as_ref().and_then(|pooled| {
                pooled.number.store(CLOSED, Relaxed);
                pooled.descriptor.swap(None)
            });
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
