//! A pool of descriptors: one per file, within a budget, closed by second chance and reopened when the file is read.

use std::{
    any::Any,
    collections::HashMap,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwapOption;
use forebay_process::{
    Error, ErrorKind, Owned, PerProcess, ProcessIdentity, Result, current_process,
    descriptors::{self, Budget, Holder},
    record_locks::{self, LockSafeFile},
};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{
    file::{
        fd_stat::is_open_on,
        file_stat::{FileStat, changed},
        file_system_kind::FileSystemKind,
        map::Mapped,
        mapping_mode::MappedCopy,
    },
    locator::Locator,
    prefetch::{LINE, prefetch_line},
    range::{ByteRange, Fill},
    source::{SourceId, Trust},
};

/// A number that no descriptor has.
const CLOSED: RawFd = -1;

/// A file that is open, or was and will be again.
#[derive(Debug)]
pub(crate) struct PooledFile {
    /// Where it is opened again; nothing for a descriptor that was adopted, which is kept as long as the file is.
    path: Option<PathBuf>,
    stamp: FileStat,
    /// The time of change (ctime) that is known to have left the bytes alone.
    changed_ns: AtomicI64,
    file_system: FileSystemKind,
    request_bytes: u64,
    descriptor: ArcSwapOption<Descriptor>,
    /// Of the descriptor, as a hint: by the time it is used it may mean another file.
    number: AtomicI32,
    mapped: Mapped,
    /// Read since the clock hand last passed.
    used: AtomicBool,
    /// False once its file system refused `RWF_NOWAIT`.
    tells_what_waits: AtomicBool,
}

#[derive(Debug)]
struct Descriptor {
    process: ProcessIdentity,
    file: LockSafeFile,
}

impl PooledFile {
    /// Which bytes these are, when opened as `locator`.
    pub(crate) fn id(&self, locator: Locator) -> SourceId {
        self.stamp.id(locator, self.file_system)
    }

    /// How many bytes one request ought to bring.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// Whether reads that do not wait (`RWF_NOWAIT`) are supported; the reader clears it when one is refused.
    pub(crate) fn tells_what_waits(&self) -> &AtomicBool {
        &self.tells_what_waits
    }

    /// The open file in `held`, if this process may read by it: one that has a path is opened anew in a forked child.
    #[inline]
    fn usable<'a>(&self, held: Option<&'a Descriptor>) -> Option<&'a File> {
        let held = held?;
        (held.process == current_process() || self.path.is_none()).then_some(&held.file)
    }

    fn path(&self) -> Result<&Path> {
        self.path.as_deref().ok_or_else(|| Error::new(ErrorKind::Bug, "an adopted descriptor was given up"))
    }

    /// Opens the file anew and makes sure that it is still the same one.
    fn reopen(&self, pool: &FilePool) -> Result<LockSafeFile> {
        let (file, stamp) = pool.open_regular(self.path()?).map_err(replaced)?;
        self.verify(&stamp)?;
        self.changed_ns.store(stamp.changed_ns(), Relaxed);
        Ok(file)
    }

    /// Refuses the file if what lies at its path is no longer the same.
    fn verify_by_path(&self) -> Result<()> {
        self.verify(&FileStat::at(self.path()?).map_err(replaced)?)
    }

    /// Refuses an open file whose bytes may no longer be those that were opened.
    fn verify_open(&self, file: &File) -> Result<()> {
        let (now, has_name) = FileStat::and_name(file)?;
        self.verify(&now)?;
        if now.changed_ns() != self.changed_ns.load(Relaxed) {
            self.check_name(has_name)?;
            self.changed_ns.store(now.changed_ns(), Relaxed);
        }
        Ok(())
    }

    fn verify(&self, now: &FileStat) -> Result<()> {
        if now.has_bytes_of(&self.stamp) { Ok(()) } else { Err(changed("changed since it was opened")) }
    }

    /// Refuses an open file that has no name any more, or whose name is another file's by now. One that was renamed, or
    /// whose folder cannot be looked into any more, is still what it was; one that was adopted needs no name.
    #[cold]
    fn check_name(&self, has_name: bool) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        match FileStat::at(path) {
            _ if !has_name => Err(changed("removed or replaced since it was opened")),
            Ok(there) if there.has_bytes_of(&self.stamp) => Ok(()),
            Err(error) if error.kind() != ErrorKind::Invalid => Ok(()),
            _ => Err(changed("replaced since it was opened")),
        }
    }

    /// Maps the file, or gives its mapping up, if it is time for that; `bytes` of it were just read.
    fn consider(&self, file: &File, bytes: u64) {
        if self.mapped.is_due(bytes) {
            self.mapped.decide(file);
        }
    }

    /// Prefetches the first bytes of `range`, or, where it is empty, the fields of this struct.
    #[inline]
    pub(crate) fn will_read(&self, range: ByteRange) {
        if range.is_empty() {
            self.prefetch();
        } else {
            self.mapped.will_read(range);
        }
    }

    /// Prefetches what is read after a copy: with hundreds of files none of it is in the processor's caches.
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

impl Holder for PooledFile {
    fn was_used(&self) -> bool {
        self.used.swap(false, Relaxed)
    }

    fn give_up(&self) -> Option<Box<dyn Any>> {
        self.number.store(CLOSED, Relaxed);
        Some(Box::new(self.descriptor.swap(None)))
    }
}

/// The error for a path that led to a file and now does not, for `error`.
fn replaced(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Invalid => changed("replaced since it was opened").because(error),
        _ => error,
    }
}

/// How an origin treats the files it opens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolOptions {
    /// A budget of descriptors of its own, besides those in use at this moment; else it draws on that of the process.
    pub(crate) own_budget: Option<usize>,
    /// Whether files may be copied from a mapping.
    pub(crate) maps: bool,
}

/// The pool of the process that asks; descriptors too carry the process that opened them.
#[derive(Debug)]
pub(crate) struct FilePools {
    options: PoolOptions,
    pools: PerProcess<FilePool>,
}

impl FilePools {
    /// Pools that open no file yet.
    pub(crate) fn new(options: PoolOptions) -> Self {
        Self { options, pools: PerProcess::empty() }
    }

    pub(crate) fn options(&self) -> PoolOptions {
        self.options
    }

    /// The file at `path`, which shares its descriptor with all that have it open unchanged.
    pub(crate) fn open(&self, path: PathBuf) -> Result<Arc<PooledFile>> {
        // Looking before opening: opening a device may do things, such as rewinding a tape.
        let stamp = FileStat::at(&path)?;
        let pool = self.of_process();
        if let Some(known) = pool.lock().known(&path, &stamp) {
            return Ok(known);
        }
        let (file, stamp) = pool.open_regular(&path)?;
        let pooled = self.pooled(&pool, Some(path.clone()), &*file, stamp);
        let pooled = pool.lock().remember(path, Arc::new(pooled));
        admit(&pool, &pooled, file);
        Ok(pooled)
    }

    /// The file at `path`, which the caller has open as `opened`: it is not asked for by its name before it is read.
    pub(crate) fn open_as(&self, path: PathBuf, opened: impl AsFd) -> Result<Arc<PooledFile>> {
        let (pool, stamp) = (self.of_process(), FileStat::of(&opened)?);
        if let Some(known) = pool.lock().known(&path, &stamp) {
            return Ok(known);
        }
        let pooled = self.pooled(&pool, Some(path.clone()), &opened, stamp);
        Ok(pool.lock().remember(path, Arc::new(pooled)))
    }

    /// The file that `descriptor` is open on. It is in no budget, as it cannot be closed and opened again.
    pub(crate) fn adopt(&self, descriptor: OwnedFd) -> Result<Arc<PooledFile>> {
        check_readable(&descriptor)?;
        let (pool, file) = (self.of_process(), LockSafeFile::new(descriptor));
        let stamp = FileStat::of(&*file)?;
        let pooled = self.pooled(&pool, None, &*file, stamp);
        pooled.number.store(file.as_raw_fd(), Relaxed);
        pooled.descriptor.store(Some(Arc::new(Descriptor { process: pool.process(), file })));
        Ok(Arc::new(pooled))
    }

    fn pooled(&self, pool: &FilePool, path: Option<PathBuf>, file: impl AsFd, stamp: FileStat) -> PooledFile {
        let file_system = pool.file_system(&stamp, || FileSystemKind::of(&file));
        let may_map = self.options.maps && !descriptors::is_unseen() && file_system != FileSystemKind::Far;
        PooledFile {
            path,
            stamp,
            changed_ns: AtomicI64::new(stamp.changed_ns()),
            file_system,
            request_bytes: file_system.request_bytes(block_bytes(file, file_system)),
            descriptor: ArcSwapOption::empty(),
            number: AtomicI32::new(CLOSED),
            mapped: if may_map { Mapped::new(stamp.len()) } else { Mapped::never(stamp.len()) },
            used: AtomicBool::new(true),
            tells_what_waits: AtomicBool::new(file_system != FileSystemKind::Far),
        }
    }

    /// The id of the file at `path` under the name `locator`, by `stat`, without opening it.
    pub(crate) fn survey(&self, path: &Path, locator: Locator) -> Result<SourceId> {
        let stamp = FileStat::at(path)?;
        let file_system = self.of_process().file_system(&stamp, || FileSystemKind::at(path));
        Ok(stamp.id(locator, file_system))
    }

    /// Runs `reads` on the open file, then verifies that the file did not change meanwhile.
    pub(crate) fn read<T>(
        &self,
        pooled: &Arc<PooledFile>,
        reads: impl FnOnce(&File) -> Result<T>,
    ) -> Result<T> {
        let lent = pooled.descriptor.load();
        let reopened;
        let file = match pooled.usable(lent.as_deref()) {
            Some(file) => file,
            None => {
                let pool = self.of_process();
                reopened = admit(&pool, pooled, pooled.reopen(&pool)?);
                &reopened.file
            }
        };
        pooled.mark_used();
        let read = reads(file)?;
        pooled.verify_open(file)?;
        Ok(read)
    }

    /// Fills memory from the file's mapping if it has one, which leaves the bytes unverified; else by `reads`, and verifies
    /// that the file did not change meanwhile.
    pub(crate) fn fill<'f, 'm>(
        &self,
        pooled: &Arc<PooledFile>,
        fills: &'f mut [Fill<'m>],
        reads: impl FnOnce(&File, &'f mut [Fill<'m>]) -> Result<()>,
    ) -> Result<Trust> {
        let bytes = fills.iter().map(|fill| fill.range.len()).sum();
        if let MappedCopy::Whole = pooled.mapped.copy(fills) {
            if pooled.mapped.is_due(bytes)
                && let Some(file) = pooled.usable(pooled.descriptor.load().as_deref())
            {
                pooled.mapped.decide(file);
            }
            return Ok(Trust::Unverified);
        }
        self.read(pooled, |file| {
            reads(file, fills)?;
            pooled.consider(file, bytes);
            Ok(Trust::Verified)
        })
    }

    /// Verifies that the file has not changed, after bytes were copied from its mapping.
    pub(crate) fn verify(&self, pooled: &Arc<PooledFile>) -> Result<()> {
        if let FileSystemKind::NearClearingFirst = pooled.file_system {
            return self.read(pooled, |file| {
                // Waits for a truncation that is under way, so that the length is the new one.
                let _waited = rustix::io::pread(file, &mut [0; 1], 0);
                Ok(())
            });
        }
        if is_open_on(pooled.number.load(Relaxed), &pooled.stamp, pooled.changed_ns.load(Relaxed)) {
            pooled.mark_used();
            return Ok(());
        }
        match pooled.usable(pooled.descriptor.load().as_deref()) {
            Some(file) => {
                pooled.mark_used();
                pooled.verify_open(file)
            }
            // A mapping needs no descriptor, so none is taken from the files that do.
            None => pooled.verify_by_path(),
        }
    }

    fn of_process(&self) -> Arc<Owned<FilePool>> {
        self.pools.get(|| FilePool {
            own_budget: self.options.own_budget.map(Budget::new),
            state: Mutex::default(),
        })
    }
}

/// Gives `pooled` its descriptor, unless another thread just did, and closes what that pushes out.
fn admit(pool: &Owned<FilePool>, pooled: &Arc<PooledFile>, file: LockSafeFile) -> Arc<Descriptor> {
    let state = pool.lock();
    let there = pooled.descriptor.load_full();
    if let Some(there) = there.filter(|there| there.process == pool.process()) {
        return there;
    }
    let fresh = Arc::new(Descriptor { process: pool.process(), file });
    pooled.number.store(fresh.file.as_raw_fd(), Relaxed);
    let inherited = pooled.descriptor.swap(Some(Arc::clone(&fresh)));
    drop(state);
    // Closing may take long on a network file system: not while others wait for a lock.
    drop(inherited);
    let holder: Weak<PooledFile> = Arc::downgrade(pooled);
    pool.budget(|budget| budget.admit(holder, 1));
    fresh
}

/// Refuses a descriptor that bytes cannot be read from at any place and length.
fn check_readable(descriptor: &OwnedFd) -> Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor).map_err(|errno| Error::from_io(errno.into()))?;
    #[cfg(target_os = "linux")]
    let odd =
        [(OFlags::PATH, "is not open for reading"), (OFlags::DIRECT, "reads aligned memory only (O_DIRECT)")];
    #[cfg(not(target_os = "linux"))]
    let odd: [(OFlags, &str); 0] = [];
    let what = match odd.into_iter().find(|(flag, _)| flags.contains(*flag)) {
        Some((_, what)) => what,
        None if flags & OFlags::RWMODE == OFlags::WRONLY => "is not open for reading",
        None => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid, what))
}

/// What the file system wishes one request to be; asked only where it matters.
fn block_bytes(file: impl AsFd, file_system: FileSystemKind) -> u64 {
    match file_system {
        FileSystemKind::Near | FileSystemKind::NearClearingFirst | FileSystemKind::Image => 0,
        FileSystemKind::Far => {
            rustix::fs::fstat(file).map_or(0, |stat| u64::try_from(stat.st_blksize).unwrap_or(0))
        }
    }
}

/// The files of one process.
#[derive(Debug)]
struct FilePool {
    own_budget: Option<Budget>,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    by_path: HashMap<PathBuf, Weak<PooledFile>>,
    /// By device, where it is no block device: asking may take a request to a server. A block device may be unmounted
    /// and carry an image next, and a device number that comes to mean another file system otherwise costs speed at worst.
    file_systems: HashMap<i128, FileSystemKind>,
    /// Length of `by_path` at which files that nobody holds are removed.
    sweep_at: usize,
}

impl FilePool {
    /// What `use_it` makes of the budget that this pool draws on.
    fn budget<R>(&self, use_it: impl FnOnce(&Budget) -> R) -> R {
        match &self.own_budget {
            Some(budget) => use_it(budget),
            None => use_it(&descriptors::shared()),
        }
    }

    /// Where a file lies whose state is `stamp`, by `ask` if that is not known of its device.
    fn file_system(&self, stamp: &FileStat, ask: impl FnOnce() -> FileSystemKind) -> FileSystemKind {
        if stamp.is_on_block_device() {
            return ask();
        }
        let known = self.lock().file_systems.get(&stamp.device()).copied();
        known.unwrap_or_else(|| {
            let file_system = ask();
            self.lock().file_systems.insert(stamp.device(), file_system);
            file_system
        })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Each change of the state is whole or absent, whichever thread panicked elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a regular file and tells its state, without waiting for a writer if it is a pipe by now.
    fn open_regular(&self, path: &Path) -> Result<(LockSafeFile, FileStat)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || loop {
            match rustix::fs::open(path, flags, Mode::empty()) {
                Err(Errno::INTR) => {}
                opened => return opened.map_err(io::Error::from),
            }
        };
        if record_locks::is_locked_at(path) {
            return Err(Error::new(ErrorKind::Denied, "the program has a record lock on it"));
        }
        let opened = self.budget(|budget| budget.retry(open));
        let file = LockSafeFile::new(opened.and_then(descriptors::with_high_number).map_err(Error::from_io)?);
        let stamp = FileStat::of(&*file)?;
        Ok((file, stamp))
    }
}

impl PoolState {
    fn known(&self, path: &Path, stamp: &FileStat) -> Option<Arc<PooledFile>> {
        self.by_path.get(path)?.upgrade().filter(|known| known.stamp == *stamp)
    }

    /// The file as it is known by its `path`: `fresh`, or what another thread was quicker to open.
    fn remember(&mut self, path: PathBuf, fresh: Arc<PooledFile>) -> Arc<PooledFile> {
        if let Some(known) = self.known(&path, &fresh.stamp) {
            return known;
        }
        if self.by_path.len() >= self.sweep_at {
            self.by_path.retain(|_, known| known.strong_count() > 0);
            self.sweep_at = (2 * self.by_path.len()).max(64);
        }
        self.by_path.insert(path, Arc::downgrade(&fresh));
        fresh
    }
}
