//! An existing file that is updated through a redo log.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, PerProcess, ProcessIdentity, Result, current_process};

use crate::{
    area::{
        engine::EngineCell,
        process_end::drain_at_end,
        settings::{CloseWhen, StageOptions},
        status::ItemState,
    },
    on_disk::facts_file::FactsFile,
    update::redo_state::RedoState,
};

/// How long a forked child waits for what its parent had accepted before.
const PARENT_LIMIT: Duration = Duration::from_secs(300);
const PARENT_PAUSE: Duration = Duration::from_millis(5);

/// An open file whose writes are accepted into a redo log and drained in place behind the caller.
///
/// # Contract
/// - A buffer may be used again when `write_at` returns.
/// - `read_at` sees every write that returned before it was called.
/// - Overlapping writes reach the destination in the order in which they were accepted.
/// - An error of the destination comes from `drain`, `stage` or `close`; what was accepted stays in the log.
/// - Where the area is full, a write goes straight to the destination, in order with the others.
/// - A forked child waits until its parent has drained what was accepted before the fork, and then has a log of its own.
#[derive(Debug)]
pub struct RedoFile {
    cell: Arc<EngineCell>,
    file: Arc<File>,
    destination: PathBuf,
    options: StageOptions,
    state: PerProcess<Result<Arc<RedoState>>>,
    facts: Arc<OnceLock<FactsFile>>,
    accepted: Arc<AtomicU64>,
    is_written: AtomicBool,
    opened_by: (ProcessIdentity, u32),
}

impl RedoFile {
    pub(crate) fn new(
        cell: Arc<EngineCell>,
        file: File,
        destination: PathBuf,
        options: StageOptions,
    ) -> Self {
        Self {
            cell,
            file: Arc::new(file),
            destination,
            options,
            state: PerProcess::empty(),
            facts: Arc::default(),
            accepted: Arc::default(),
            is_written: AtomicBool::new(false),
            opened_by: (current_process(), std::process::id()),
        }
    }

    /// The destination.
    pub fn destination(&self) -> &Path {
        &self.destination
    }

    /// The destination's open file, for its descriptor, locks and identity. What is written to it directly is not in order
    /// with `write_at`.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn state(&self) -> Result<Arc<RedoState>> {
        let state = self.state.get(|| self.make_state());
        (**state).clone()
    }

    fn make_state(&self) -> Result<Arc<RedoState>> {
        let (process, _) = self.opened_by;
        let shared = Arc::clone(&self.cell.get().shared);
        let is_parent = process == current_process();
        if !is_parent {
            self.wait_for_parent()?;
        }
        let published = if is_parent {
            (Arc::clone(&self.facts), Arc::clone(&self.accepted))
        } else {
            Default::default()
        };
        let (destination, file) = (self.destination.clone(), Arc::clone(&self.file));
        RedoState::new(shared, destination, file, self.options.clone(), published, is_parent)
    }

    /// Waits until all that the parent accepted before it forked this process is in the destination.
    fn wait_for_parent(&self) -> Result<()> {
        let accepted = self.accepted.load(SeqCst);
        let until = Instant::now() + PARENT_LIMIT;
        let Some(facts) = self.facts.get() else { return Ok(()) };
        while facts.read()?.is_some_and(|facts| facts.base < accepted) {
            let (_, pid) = self.opened_by;
            let parent = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap_or(0));
            let is_gone = parent.is_none_or(|parent| rustix::process::test_kill_process(parent).is_err());
            if is_gone || Instant::now() >= until {
                let error =
                    Error::new(ErrorKind::Unavailable, format!("process {pid} has not drained its writes"));
                return Err(error.hint("run 'forebay recover'").at(self.destination.display()));
            }
            thread::sleep(PARENT_PAUSE);
        }
        Ok(())
    }

    /// Accepts `bytes` for `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let state = self.state()?;
        self.is_written.store(true, SeqCst);
        state.write(offset, bytes)
    }

    /// Fills `into` from `offset` on: what was accepted and is not drained from the log, the rest by `beneath`, which may be
    /// called several times.
    pub fn read_at(
        &self,
        offset: u64,
        into: &mut [u8],
        beneath: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if !self.is_written() {
            return beneath(offset, into);
        }
        self.state()?.read(offset, into, beneath)
    }

    /// The end of the file as far as this handle knows: of the last accepted byte, or the length that `truncate` set since;
    /// `None` where nothing was accepted yet.
    pub fn accepted_end(&self) -> Option<u64> {
        if !self.is_written() {
            return None;
        }
        let state = self.state().ok()?;
        let inner = state.lock();
        inner.end
    }

    /// True where something was ever accepted: from then on other copies of the destination's bytes may be out of date.
    pub fn is_written(&self) -> bool {
        self.is_written.load(SeqCst)
    }

    /// True when all that was accepted is in the destination; nothing is waited for.
    pub fn is_drained(&self) -> bool {
        !self.is_written() || self.state().is_ok_and(|state| state.lock().is_drained())
    }

    /// Cuts or extends the file to `len` bytes, in order with the writes.
    pub fn truncate(&self, len: u64) -> Result<()> {
        let state = self.state()?;
        self.is_written.store(true, SeqCst);
        state.truncate(len)
    }

    /// Returns when all that was accepted is in the log, synced, behind a flush mark: `recover` replays at least so much.
    pub fn stage(&self) -> Result<()> {
        if self.is_written() { self.state()?.stage() } else { Ok(()) }
    }

    /// Returns when all that was accepted is in the destination, synced where the options ask for that.
    pub fn drain(&self) -> Result<()> {
        if self.is_written() { self.state()?.drain() } else { Ok(()) }
    }

    /// Ends the use of the file. After an error the item stays in the area, and is tried again when the area is drained.
    pub fn close(self, when: CloseWhen) -> Result<()> {
        let Some(state) = self.written_state() else { return Ok(()) };
        match when {
            CloseWhen::Drained => {
                let drained = state.drain().and_then(|()| state.close_error());
                let mut inner = state.lock();
                inner.is_closed = true;
                if drained.is_ok() {
                    state.remove(&mut inner);
                }
                drained
            }
            CloseWhen::Staged => {
                let staged = state.stage();
                self.hand_over(&state);
                staged
            }
        }
    }

    /// The state of this process, if something was written in it.
    fn written_state(&self) -> Option<Arc<RedoState>> {
        let state = self.state.peek()?;
        (**state).clone().ok()
    }

    /// Leaves the rest to the drainers.
    fn hand_over(&self, state: &Arc<RedoState>) {
        let mut inner = state.lock();
        inner.is_closed = true;
        if inner.is_drained() {
            state.remove(&mut inner);
            return;
        }
        state.tell_waiting(&mut inner);
        state.tell_state(&inner, ItemState::Draining);
        drop(inner);
        drain_at_end(&self.cell);
        state.shared.submit(Arc::clone(state) as _);
    }
}

impl Drop for RedoFile {
    fn drop(&mut self) {
        if let Some(state) = self.written_state()
            && !state.lock().is_closed
        {
            self.hand_over(&state);
        }
    }
}
